// SPDX-License-Identifier: Apache-2.0
// Candidates: plans that are made from choices of the search tree, with recomputation decided so that they fit, ready
// to be simulated.
#pragma once

#include "Bounds.h"
#include "RecomputationLadder.h"
#include "kerf/CostModel/StepMemory.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <memory>

namespace kerf::plansearch {

/// A complete plan with the inputs of its simulation.
struct Candidate {
  CompletedPlan completed;
  const ModelWork *model = nullptr;             // the model under the plan's layout
  StepWork work;                                // the model cut into pipeline parts
  StepPlan step;                                // the plan in the simulator's form
  std::unique_ptr<CollectiveModel> collectives; // times of collectives; null on a mixed cluster
  std::unique_ptr<PipelineModel> pipeline;      // times of all communication
};

/// Returns whether the order of a schedule's tasks is itself searched, given their durations (zero-bubble schedules).
bool hasSearchedOrder(const ScheduleOptions &schedule);

/// Makes candidates and decides what they recompute.
class Candidates {
public:
  /// All arguments must outlive the candidates.
  Candidates(const Cluster &cluster, const TrainingJob &job, const PlanSearchOptions &options, Bounds &bounds,
             MemoryLimit memoryLimit)
      : cluster(cluster), job(job), options(options), bounds(bounds), memoryLimit(memoryLimit) {}

  /// Makes a candidate. `recomputation` applies unless the plan decides recomputation itself. Returns nothing for a
  /// plan that contradicts itself (for example a number of microbatches that the schedule does not allow).
  Result<std::optional<Candidate>> make(Plan plan, const Recomputation &recomputation);
  /// Sets the recomputation of the candidate's plan and of its step.
  Status applyRecomputation(Candidate &one, const Recomputation &recomputation);
  /// Sets the recomputation of the candidate's step only; its plan stays as it is.
  void applyToStep(Candidate &one, const Recomputation &recomputation);
  /// Returns recomputations among which is the best one for the candidate; empty when none fits into memory.
  std::vector<Recomputation> candidateRecomputations(Candidate &one);
  /// Returns the recomputation under which all layers have `mode` (any but Offload). Returns nothing for a
  /// candidate without layers, or when the candidate would not fit into memory.
  std::optional<Recomputation> uniformRecomputation(Candidate &one, Recompute mode);
  /// Returns whether the candidate fits with a single microbatch in flight, which every schedule holds at least.
  bool mayFit(const Candidate &one) const;
  /// Returns the memory limit of each stage, in bytes.
  std::vector<double> memoryLimits(const Candidate &one) const;
  /// Lets each stage of a schedule whose order is searched hold only as many microbatches as fit into memory, but at
  /// least those that the schedule promises (minInFlight). Does nothing where the plan says how many, and where all
  /// that the schedule may hold fit.
  void holdWhatFits(Candidate &one) const;

  /// Returns the reason why the first plan that could not be made was refused; nothing when any plan could be made.
  std::optional<Error> refusal() const { return anyMade ? std::nullopt : firstRefusal; }
  /// Forgets all plans made so far, for `refusal`.
  void forgetRefusal() {
    firstRefusal.reset();
    anyMade = false;
  }

  /// Keeps, of the candidates that fit under no recomputation, the one that needs the fewest bytes.
  /// The search asks for it as long as it has found no plan, for its message.
  void keepSmallest(bool keep) { keepsSmallest = keep; }
  /// Returns the plan of the candidate that was kept; nothing when there is none.
  const std::optional<Plan> &smallest() const { return smallestPlan; }

private:
  /// Keeps the candidate, with its step as it is, if none before needs fewer bytes.
  void noteTooLarge(const Candidate &one, const Schedule &schedule);
  const Schedule *scheduleOf(const ScheduleOptions &options);
  const std::vector<PeakCandidate> &peakCandidatesOf(int64_t stage);
  bool fits(const Candidate &one);
  std::optional<Recomputation> firstFittingRungs(Candidate &one, RecomputationLadder ladder);
  /// Returns the recomputations of a trainer that cannot recompute differently in each stage.
  std::vector<Recomputation> trainerRecomputations(Candidate &one);

  const Cluster &cluster;
  const TrainingJob &job;
  const PlanSearchOptions &options;
  Bounds &bounds;
  MemoryLimit memoryLimit;
  std::optional<Error> firstRefusal;
  bool anyMade = false;
  bool keepsSmallest = false;
  std::optional<Plan> smallestPlan;
  double smallestBytes = std::numeric_limits<double>::infinity(); // on the fullest device of smallestPlan
  /// A schedule whose order does not depend on the durations of tasks; absent where there is none.
  struct KnownSchedule {
    std::optional<Schedule> schedule;
    std::map<int64_t, std::vector<PeakCandidate>> peakCandidates; // by stage
  };
  using ScheduleKey = std::tuple<ScheduleKind, int64_t, int64_t, int64_t>; // kind, stages, microbatches, chunks
  std::map<ScheduleKey, KnownSchedule> knownSchedules;                     // at most kMostKnownTasks tasks
  int64_t knownTasks = 0;
  KnownSchedule *lastSchedule = nullptr; // that scheduleOf returned
};

} // namespace kerf::plansearch
