// SPDX-License-Identifier: Apache-2.0
// Plans on their way to be simulated: made of a choice, and what they recompute decided so that they fit.
#pragma once

#include "Bounds.h"
#include "Ways.h"
#include "kerf/CostModel/StepMemory.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <memory>

namespace kerf::plansearch {

struct Candidate {
  CompletedPlan completed;
  const ModelWork *model = nullptr;
  StepWork work;
  StepPlan step;
  std::unique_ptr<CollectiveModel> collectives; // none on a mixed cluster
  std::unique_ptr<PipelineModel> pipeline;
};

/// The schedule's order is searched for the seconds of its tasks.
bool isSearched(const ScheduleOptions &schedule);

class Candidates {
public:
  /// All of it must outlive the candidates.
  Candidates(const Cluster &cluster, const TrainingJob &job, const PlanSearchOptions &options, Bounds &bounds,
             MemoryLimit memoryLimit)
      : cluster(cluster), job(job), options(options), bounds(bounds), memoryLimit(memoryLimit) {}

  /// What the plan says of recomputation counts, if it says something. Nothing: a plan that cannot be (a number of
  /// microbatches that the stages do not divide).
  Result<std::optional<Candidate>> make(Plan plan, const Recomputation &recomputation);
  /// Decides it in the plan, and in the step that is made of it.
  Status recompute(Candidate &one, const Recomputation &recomputation);
  /// Decides it in the step alone.
  void recomputeStep(Candidate &one, const Recomputation &recomputation);
  /// What may be the best for the candidate, one at least of it; nothing where none fits.
  std::vector<Recomputation> recomputations(Candidate &one);
  /// All layers alike: None, Selective or Full. Nothing where the candidate has no layers, or would not fit.
  std::optional<Recomputation> uniform(Candidate &one, Recompute mode);
  /// With a single microbatch, which any schedule holds at least.
  bool mayFit(const Candidate &one) const;

  /// Why the first plan that cannot be cannot, where none could.
  std::optional<Error> refusal() const { return anyMade ? std::nullopt : firstRefusal; }
  void forgetRefusal() {
    firstRefusal.reset();
    anyMade = false;
  }

private:
  const Schedule *scheduleOf(const ScheduleOptions &options);
  const std::vector<HeldMoment> &momentsOf(int64_t stage);
  bool fits(const Candidate &one);
  std::optional<Recomputation> fitting(Candidate &one, Way way);
  /// Returns the recomputations of a trainer whose stages all recompute alike.
  std::vector<Recomputation> alike(Candidate &one);

  const Cluster &cluster;
  const TrainingJob &job;
  const PlanSearchOptions &options;
  Bounds &bounds;
  MemoryLimit memoryLimit;
  std::optional<Error> firstRefusal;
  bool anyMade = false;
  std::optional<Schedule> lastSchedule; // cuts of one execution share it
  std::tuple<ScheduleKind, int64_t, int64_t, int64_t> lastKey;
  std::map<int64_t, std::vector<HeldMoment>> lastMoments; // of its stages
};

} // namespace kerf::plansearch
