// SPDX-License-Identifier: Apache-2.0
// Questions about a given plan, the baseline: for each of several decisions, which is the best plan that decides it
// differently? Tells a search which of its choices can still answer which question.
#pragma once

#include "Space.h"

namespace kerf::plansearch {

/// A set of questions: bit q stands for the q-th decision that is asked about.
using QuestionSet = uint16_t;

/// Compares choices of the search with the decisions of a baseline plan. A choice decides a key differently when:
///
///   mesh.*, microbatch, schedule, optimizer_sharding   its value differs
///   order                                              the mesh is the same, but its axes are in another order
///   stages                                             stages and chunks are as many, but hold other numbers of layers
///   recompute                                          all layers have one mode, which is not the baseline's
///   sequence_parallel, layout                          the axis "model" is larger than 1, and its value differs
///   context_style                                      the axis "context" is larger than 1, and its value differs
class DecisionQuestions {
public:
  /// Asks about each of `keys`, which are keys of kDecisions and at most as many as a QuestionSet has bits.
  DecisionQuestions(const Plan &baseline, std::vector<std::string> keys);

  /// Returns the keys that are asked about, in the order of the bits.
  const std::vector<std::string> &keys() const { return theKeys; }
  /// Returns the set of all questions.
  QuestionSet all() const { return static_cast<QuestionSet>((1U << theKeys.size()) - 1); }
  /// Returns those of `choice.questions` that plans below the choice can still answer: what the choice's level decides
  /// differs from the baseline, or a deeper level can still make a difference.
  QuestionSet answerable(const Choice &choice, const Space &space) const;
  /// Returns the set with only the question about "recompute"; empty when it is not asked.
  QuestionSet recomputeQuestion() const { return bit("recompute"); }
  /// Returns the recomputation mode of all layers of the baseline; nothing when layers differ.
  std::optional<Recompute> uniformRecompute() const { return uniform; }

private:
  QuestionSet bit(std::string_view key) const;
  bool sameOrder(const Choice &choice) const;
  bool sameSchedule(const Choice &choice) const;

  std::vector<std::string> theKeys;
  // The baseline's decisions.
  AxisSizes sizes;
  int64_t microbatch = 0, chunks = 1;
  bool sequenceParallel = false, solved = false, ulysses = false;
  std::vector<std::string> order; // axes of more than one rank, outermost first
  SchedulePlan schedule;
  int64_t optimizerSharding = 0;
  std::vector<int64_t> layersOfParts;
  std::optional<Recompute> uniform;
};

/// Returns pins that make a search find `other` as the best plan that decides `key` differently: `other` has the pins,
/// and every plan that has them decides `key` differently from `baseline`.
Plan pinsOfAlternative(const std::string &key, const Plan &other, const Plan &baseline);

/// Returns the recomputation mode that all layers of a plan share; nothing when layers differ.
std::optional<Recompute> uniformRecomputeOf(const Plan &plan);

} // namespace kerf::plansearch
