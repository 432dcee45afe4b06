// SPDX-License-Identifier: Apache-2.0
// Best-first branch and bound over the tree of plans (Space.h). The open choice with the least lower bound is expanded
// until no open choice has a bound below the best simulated plan.
#pragma once

#include "Candidates.h"
#include "DecisionQuestions.h"
#include "Tuning.h"

#include <chrono>
#include <limits>
#include <queue>

namespace kerf::plansearch {

/// A choice that is not yet expanded, with its lower bound.
struct OpenChoice {
  double bound = 0;   // seconds of the step
  int64_t number = 0; // position in the order of creation, which breaks ties
  Choice choice;
  /// How the bound was computed. Meshes, layouts and executions get the cheaper bounds first.
  enum class Bounded : int8_t { Cheaply, WithCommunication, FromWholeSequence, AtLevel };
  Bounded bounded = Bounded::AtLevel;
  /// Returns whether `other` is expanded first: the least bound, then the deepest level, then the earliest created.
  bool operator<(const OpenChoice &other) const {
    return std::tuple(-bound, choice.level, -number) < std::tuple(-other.bound, other.choice.level, -other.number);
  }
};

/// The open choices. The next one to expand is on top, and `layouts` lists those of Level::Layout.
class OpenChoices : public std::priority_queue<OpenChoice> {
public:
  using Layouts = std::map<std::pair<double, int64_t>, std::pair<Choice, OpenChoice::Bounded>>;
  void push(OpenChoice open) {
    if (open.choice.level == Choice::Level::Layout)
      openLayouts.emplace(std::pair(open.bound, open.number), std::pair(open.choice, open.bounded));
    priority_queue::push(std::move(open));
  }
  void pop() {
    if (top().choice.level == Choice::Level::Layout)
      openLayouts.erase({top().bound, top().number});
    priority_queue::pop();
  }
  /// Returns the open choices of Level::Layout by their bounds and numbers.
  const Layouts &layouts() const { return openLayouts; }

private:
  Layouts openLayouts;
};

/// One search for the best plan, or for the best plan under each of several questions (DecisionQuestions.h). An object
/// serves one call of `run` or `findAlternatives`.
class TreeSearch {
public:
  /// The end of a search: the best plan is proven, or any plan that fits into memory is found.
  enum class Goal { BestPlan, AnyFittingPlan };
  /// The references must outlive the search.
  TreeSearch(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
             const PlanSearchOptions &options, MemoryLimit memoryLimit, Goal goal = Goal::BestPlan)
      : cluster(cluster), job(job), layouts(layouts), options(options), memoryLimit(memoryLimit), goal(goal) {}

  /// Searches for the best plans. Fails with ExitStatus::Infeasible when no plan fits into memory.
  Result<FoundPlans> run();
  /// Finds the best plan for each question, in one search.
  Result<std::vector<AlternativePlan>> findAlternatives(const DecisionQuestions &questions);
  /// Returns the plan that needs the least memory among those that were found not to fit by a search without result;
  /// nothing when there is none.
  std::optional<FoundPlan> smallest();
  /// Returns whether the whole tree was searched.
  bool exhausted() const { return queue.empty(); }
  /// Returns whether the search failed because of its constraints or memory limit, not because of the model.
  bool contradicted() const { return contradiction; }

private:
  /// The best plans found for one question, fastest first.
  struct Answer {
    std::vector<FoundPlan> plans;
    double lowerBound = std::numeric_limits<double>::infinity(); // least bound of the choices left open, in seconds
  };

  /// Checks the constraints, sets up bounds and candidates, and returns the meshes.
  Result<std::vector<Choice>> prepare();
  /// Expands open choices until the goal is reached or the budget ends.
  Status explore();
  /// Opens the meshes, simulates first plans, and explores.
  Status search(std::vector<Choice> meshes);
  /// Bounds a choice of the queue by the next bound in the order of OpenChoice::Bounded. Returns whether the bound
  /// stays the same; otherwise the choice is back in the queue with its higher bound, or dropped.
  Result<bool> boundCloser(OpenChoice &top);
  /// Returns this next bound.
  Result<double> closerBound(OpenChoice &open);
  /// Replaces an open choice by choices of the next level, or simulates its plan on the last level.
  Status expand(const OpenChoice &top);
  /// Sets each answer's lower bound from the choices that are left open.
  void boundAnswers();
  /// Removes questions that plans below the choice cannot answer. Returns whether any question is left.
  bool narrowQuestions(Choice &choice) const;
  /// Bounds choices and adds those to the queue that may improve an answer. `atLeast` is a known lower bound of all.
  Status addChoices(std::vector<Choice> choices, double atLeast);
  Result<std::optional<Candidate>> makeCandidate(const Choice &choice) {
    return candidates->make(space->plan(choice),
                            choice.recomputation < 0 ? Recomputation() : recomputations[choice.recomputation]);
  }
  /// Returns the choices of the last level below a cut, with their bounds; empty when its plan cannot be made or fit.
  Result<std::vector<OpenChoice>> decideRecomputation(const Choice &choice, double atLeast);
  /// Returns the choices that may improve an answer, by ascending bound.
  Result<std::vector<Choice>> sortedByBound(std::vector<Choice> choices);
  /// Says through PlanSearchOptions::expectLayouts that the layouts of `choices` will probably be asked for next.
  void expectLayouts(std::span<const Choice> choices) const;
  /// Says the same of the layouts of open choices with the least bounds.
  void expectOpenLayouts() const;
  /// Returns the layouts at which the next dives of simulateFirstPlans probably start; `meshes` are still to come.
  std::vector<Choice> nextFirstLayouts(std::span<const Choice> meshes, int64_t leastContext) const;
  /// Returns the bound of a mesh or a layout that is found without computing the layout.
  Result<double> closestBound(const Choice &choice);
  /// Simulates a few promising plans of a layout, to lower the threshold early.
  Status dive(const Choice &layout, int moreDives = kMoreDives);
  /// Simulates the most promising plan of a cut. Returns whether its time was among the best so far.
  Result<bool> simulateCut(const Choice &cut);
  /// Simulates the plans that a simple rule would try, so that no search ends with a slower plan. The meshes are in
  /// descending order of their ranks.
  Status simulateRulePlans(std::vector<Choice> meshes);
  Status simulateRulePlan(const Choice &layout);
  /// Dives at layouts that are drawn at random, each size of "model", "context" and "expert" as often as any other:
  /// the bounds of some layouts are so loose that the search comes to better ones too late.
  Status simulateRandomLayouts(const std::vector<Choice> &meshes);
  /// Simulates plans of each mesh that uses most of the ranks, before the search explores the tree.
  Status simulateFirstPlans(std::vector<Choice> meshes);
  /// Dives once for each mesh of about `mostRanks` ranks and `leastContext` ranks of "context", until the search has
  /// spent one part in `budgetShare` of its work budget. `moreDives` is passed to dive.
  Status simulateFirstPlans(const std::vector<Choice> &meshes, int64_t mostRanks, int64_t leastContext, int moreDives,
                            int64_t budgetShare);
  /// Dives once for meshes that have more ranks of "context" than the first plans, the most promising first: where a
  /// batch has fewer samples than there are ranks, the fast plans cut the sequence.
  Status simulateContextPlans(const std::vector<Choice> &meshes);
  /// Dives at the layouts of the most promising choices that remain when the budget ends before the proof.
  Status diveFromOpenChoices();
  Status simulateChoice(const Choice &choice) { return simulateChoice(makeCandidate(choice), choice.questions); }
  /// Simulates a candidate and adds its plan to the answers of `questions` that it improves.
  Status simulateChoice(Result<std::optional<Candidate>> made, QuestionSet questions);
  /// Returns whether the time budget is used up or the caller asked to stop.
  bool mustStop() const;
  /// Inserts a plan into the best plans, which hold one plan of each kind.
  void insertPlan(std::vector<FoundPlan> &plans, FoundPlan result);
  /// Returns the seconds that a plan has to stay below to improve the answer of at least one of the questions.
  double threshold(QuestionSet questions) const {
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
  /// Returns those of `questions` whose answer a plan of at least `bound` seconds could still improve.
  QuestionSet improvable(QuestionSet questions, double bound) const {
    for (size_t q = 0; q < answers.size(); ++q)
      if (questions >> q & 1 && bound >= threshold(answers[q]))
        questions &= static_cast<QuestionSet>(~(1U << q));
    return questions;
  }
  bool anyFound() const {
    return std::any_of(answers.begin(), answers.end(), [](const Answer &one) { return !one.plans.empty(); });
  }

  const Cluster &cluster;
  const TrainingJob &job;
  const LayoutSource &layouts;
  const PlanSearchOptions &options;
  std::optional<Bounds> bounds;
  const Space *space = nullptr; // belongs to `bounds`
  std::optional<Candidates> candidates;
  MemoryLimit memoryLimit;
  Goal goal;
  bool contradiction = false;
  const DecisionQuestions *asked = nullptr;             // null: the search is for the best plan
  std::vector<Answer> answers = std::vector<Answer>(1); // indexed by question
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  int64_t work = 0;    // done so far, in the unit of PlanSearchOptions::workBudget
  int64_t numbers = 0; // next OpenChoice::number
  int64_t kept = 0;    // plans that were among the best when they were found
  int64_t layoutsOpened = 0, nextDive = 1;
  OpenChoices queue;
  std::vector<Recomputation> recomputations; // that Choice::recomputation refers to
  std::map<Recomputation, int> indexOf;      // index in `recomputations`
  FoundPlans found;
};

} // namespace kerf::plansearch
