// SPDX-License-Identifier: Apache-2.0
// One search of the tree that Space.h spans. Best first: the choice of the least bound is decided further, until no
// bound is below the best plan simulated.
#pragma once

#include "Candidates.h"
#include "Otherwise.h"

#include <chrono>
#include <limits>
#include <queue>

namespace kerf::plansearch {

/// A choice whose bound is known.
struct Open {
  double bound = 0;
  int64_t number = 0; // of its making: ties go to the first
  Choice choice;
  /// The least bound comes first, then what is decided the furthest.
  bool operator<(const Open &other) const {
    return std::tuple(-bound, choice.level, -number) < std::tuple(-other.bound, other.choice.level, -other.number);
  }
};

class Searching {
public:
  enum class Until { Best, AnyFits };
  Searching(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
            const PlanSearchOptions &options, MemoryLimit memoryLimit, Until until = Until::Best)
      : all(cluster), job(job), layouts(layouts), options(options), memoryLimit(memoryLimit), until(until) {}

  Result<FoundPlans> run();
  /// Answers all of these questions in one tree.
  Result<std::vector<OtherwisePlan>> runOtherwise(const Otherwise &asked);
  /// Nothing was left to try.
  bool exhausted() const { return queue.empty(); }
  /// The search failed because of what it was asked for, not because of the model.
  bool contradicted() const { return contradiction; }

private:
  /// The best plans found for one question, the best first.
  struct Answer {
    std::vector<FoundPlan> plans;
    double lowerBound = std::numeric_limits<double>::infinity(); // of what was left open
  };

  Result<std::vector<Choice>> begin();
  Status explore();
  /// Opens the meshes, simulates first plans, and explores what is left.
  Status search(std::vector<Choice> meshes);
  Status expand(const Open &top);
  void boundAnswers();
  bool narrow(Choice &choice) const;
  Status open(std::vector<Choice> choices, double atLeast);
  Result<std::optional<Candidate>> candidate(const Choice &choice) {
    return candidates->make(space->plan(choice),
                            choice.recompute < 0 ? Recomputation() : recomputationOf[choice.recompute]);
  }
  Result<std::vector<Open>> ready(const Choice &choice, double atLeast);
  Result<std::vector<Choice>> byBound(std::vector<Choice> choices);
  Status dive(const Choice &layout);
  Status sow(std::vector<Choice> meshes);
  Status judge(const Choice &choice) { return judge(candidate(choice), choice.questions); }
  Status judge(Result<std::optional<Candidate>> made, Questions questions);
  bool mustStop() const;
  std::string limitText() const;
  void keep(std::vector<FoundPlan> &plans, FoundPlan result);
  /// Seconds that a plan has to stay below to be of use for one of the questions.
  double threshold(Questions questions) const {
    double most = 0;
    for (size_t q = 0; q < answers.size(); ++q)
      if (questions >> q & 1)
        most = std::max(most, threshold(answers[q]));
    return most;
  }
  double threshold(const Answer &answer) const {
    return static_cast<int>(answer.plans.size()) < options.top ? std::numeric_limits<double>::infinity()
                                                               : answer.plans.back().simulation.stepSeconds;
  }
  /// The questions for which plans of at least `bound` seconds are still of use.
  Questions useful(Questions questions, double bound) const {
    for (size_t q = 0; q < answers.size(); ++q)
      if (questions >> q & 1 && bound >= threshold(answers[q]))
        questions &= static_cast<Questions>(~(1U << q));
    return questions;
  }
  bool anyFound() const {
    return std::any_of(answers.begin(), answers.end(), [](const Answer &one) { return !one.plans.empty(); });
  }

  const Cluster &all;
  const TrainingJob &job;
  const LayoutSource &layouts;
  const PlanSearchOptions &options;
  std::optional<Bounds> bounds;
  const Space *space = nullptr; // the bounds'
  std::optional<Candidates> candidates;
  MemoryLimit memoryLimit;
  Until until;
  bool contradiction = false;
  const Otherwise *otherwise = nullptr; // what is asked; none: the best plan
  std::vector<Answer> answers = std::vector<Answer>(1);
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  int64_t work = 0; // done, as PlanSearchOptions::workBudget counts it
  int64_t numbers = 0;
  int64_t kept = 0; // plans that were among the best when they were found
  int64_t layoutsOpened = 0, nextDive = 1;
  std::priority_queue<Open> queue;
  std::vector<Recomputation> recomputationOf; // that choices name by number
  std::map<Recomputation, int> numberOf;
  FoundPlans found;
};

} // namespace kerf::plansearch
