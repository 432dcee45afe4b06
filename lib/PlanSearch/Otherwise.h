// SPDX-License-Identifier: Apache-2.0
// Which choices of a search decide something otherwise than a given plan does, and which pins ask for the same.
#pragma once

#include "Space.h"

namespace kerf::plansearch {

/// One bit for each decision that a search asks about.
using Questions = uint16_t;

/// The decisions of one plan, against which choices are compared. What "otherwise" means, by key:
///
///   mesh.*, microbatch, schedule, optimizer_sharding   another value
///   order                                              the same mesh, its axes in another order
///   stages                                             as many stages and chunks, other numbers of layers in them
///   recompute                                          all layers alike, another of "none", "selective" and "full"
///   sequence_parallel, layout                          "model" cuts something, and does it otherwise
///   context_style                                      "context" cuts something, and does it otherwise
class Otherwise {
public:
  /// `keys`: of kDecisions, at most as many as `Questions` has bits.
  Otherwise(const Plan &than, std::vector<std::string> keys);

  const std::vector<std::string> &keys() const { return asked; }
  Questions all() const { return static_cast<Questions>((1U << asked.size()) - 1); }
  /// Returns those of `choice.questions` that the plans below the choice can answer: its own level, and what every
  /// deeper level needs of it, decide otherwise or nothing yet.
  Questions answered(const Choice &choice, const Space &space) const;
  /// Returns the bit of "recompute"; 0 where it is not asked.
  Questions recompute() const { return bit("recompute"); }
  /// Returns what every layer of the plan recomputes; nothing where they differ.
  std::optional<Recompute> uniformRecompute() const { return uniform; }

private:
  Questions bit(std::string_view key) const;
  bool sameOrder(const Choice &choice) const;
  bool sameSchedule(const Choice &choice) const;

  std::vector<std::string> asked;
  Frame frame;
  int64_t microbatch = 0, chunks = 1;
  bool sequenceParallel = false, solved = false, ulysses = false;
  std::vector<std::string> order; // axes of more than one rank
  SchedulePlan schedule;
  int64_t optimizerSharding = 0;
  std::vector<int64_t> layersOfParts;
  std::optional<Recompute> uniform;
};

/// The pins with which a search looks for `other`'s value of the decision: every plan that has them decides it
/// otherwise than `than`, and `other` has them.
Plan pinsOfAlternative(const std::string &key, const Plan &other, const Plan &than);

/// Returns the recomputation that all layers of the plan have; nothing where they differ.
std::optional<Recompute> uniformRecomputeOf(const Plan &plan);

} // namespace kerf::plansearch
