// SPDX-License-Identifier: Apache-2.0
// Lower bounds of a step's seconds, which need no order of tasks (docs/search.md).
#include "Timeline.h"
#include "kerf/CostModel/StepMemory.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace kerf;
using namespace kerf::cost;

constexpr double kLessRounding = 1 - 1e-12; // covers the rounding error of sums in a different order

StageSeconds::Holding kerf::holdingOfSchedule(const ScheduleOptions &schedule, int64_t stage, double waitingShare,
                                              double weightGradient) {
  constexpr double more = 1 + 1e-9; // covers rounding
  const double limit = searchedLimit(schedule);
  const double size = schedule.activations.empty() ? 1 : schedule.activations[stage];
  if (size <= 0)
    return {};
  // Handwritten orders hold up to `limit` microbatches, whatever their size is.
  return {std::max({1.0, limit, limit / size}) * more, std::min(1.0, waitingShare) * weightGradient};
}

double kerf::pipelineSecondsLowerBound(const std::vector<StageSeconds> &all, const ScheduleOptions &schedule,
                                       bool sendsOverlap) {
  auto stages = static_cast<int64_t>(all.size());
  // Seconds in which the first microbatch goes from each stage to the last one and back, until its backward can begin.
  std::vector<double> roundTrip(stages);
  for (int64_t s = stages - 1; s >= 0; --s) {
    roundTrip[s] = all[s].forward + all[s].sendForward;
    if (s + 1 < stages)
      roundTrip[s] += roundTrip[s + 1] + all[s + 1].backward + all[s + 1].sendBackward;
  }
  // During the round trip the stage can only do the forwards that the schedule runs before its first backward. Each
  // microbatch is in flight on the stage for a round trip and its backward, and only so many are at once. The
  // weight gradient then keeps its inputs in memory.
  auto busy = [&](int64_t s) {
    const double flight = roundTrip[s] + all[s].backward;
    auto each = [&](const StageSeconds::Holding &its) { return (flight + its.waiting) / its.most; };
    return std::max(all[s].busy + std::max(0.0, roundTrip[s] - all[s].warmup),
                    static_cast<double>(schedule.microbatches) *
                        std::max({flight / all[s].inFlight, each(all[s].ofMemory), each(all[s].ofSchedule)}));
  };
  double least = 0;
  if (recordOf(schedule.kind).splitsBackward) { // a stage's step begins with its own first task
    for (int64_t s = 0; s < stages; ++s)
      least = std::max(least, busy(s) + all[s].after);
    return least * kLessRounding;
  }
  double there = 0; // seconds until the first microbatch reaches stage s
  for (int64_t s = 0; s < stages; ++s) {
    // After stage s, the previous stages still run the backward of the last microbatch.
    double end = there + busy(s);
    least = std::max(least, end + all[s].after);
    for (int64_t i = s - 1; i >= 0; --i) {
      end += all[i].backward + (sendsOverlap ? all[i + 1].sendBackward : 0);
      least = std::max(least, end + all[i].after);
    }
    there += all[s].forward + all[s].sendForward;
  }
  return least * kLessRounding;
}

struct kerf::StepBounds::State {
  const StepWork &work;
  const StepPlan &plan;
  const PipelineModel &pipeline;
  std::optional<Timeline> timeline; // once the plan fits the work
  std::vector<Ending> endings;      // by stage
};

kerf::StepBounds::StepBounds(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline)
    : state(std::make_unique<State>(State{work, plan, pipeline, std::nullopt, {}})) {}
kerf::StepBounds::~StepBounds() = default;

double kerf::StepBounds::seconds(std::span<const double> memoryLimits) {
  const auto &[work, plan, pipeline, known, endings] = *state;
  if (!checkFits(work, plan, pipeline))
    return 0;
  if (known) {
    state->timeline->numberTasks();
  } else {
    state->timeline.emplace(work, plan, pipeline);
    for (int64_t s = 0; s < plan.schedule.stages; ++s)
      state->endings.push_back(endingOf(*state->timeline, s));
  }
  Timeline &timeline = *state->timeline;
  ScheduleOptions schedule = plan.schedule;
  bool split = recordOf(schedule.kind).splitsBackward;
  if (split)
    describeActivations(work, plan, schedule);
  int64_t stages = schedule.stages, count = schedule.microbatches;
  std::vector<StageSeconds> all(stages);
  double update = 0;
  for (int64_t s = 0; s < stages; ++s) {
    StageSeconds &its = all[s];
    auto one = [&](TaskKind kind, int64_t microbatch, int64_t chunk) {
      return timeline.cost(s, {kind, microbatch, chunk}).seconds;
    };
    auto first = [&](TaskKind kind, double number, int64_t chunk) { // seconds of the first `number` microbatches
      bool withLast = number >= static_cast<double>(count);
      double others = std::min(number, static_cast<double>(count - 1));
      return (withLast ? one(kind, count - 1, chunk) : 0) + (others > 0 ? others * one(kind, 0, chunk) : 0);
    };
    auto quickest = [&](TaskKind kind) { return std::min(one(kind, 0, 0), one(kind, count - 1, 0)); };
    auto whole = static_cast<double>(count);
    for (int64_t c = 0; c < schedule.chunks; ++c)
      its.busy += first(TaskKind::Forward, whole, c) +
                  (split ? first(TaskKind::InputGradient, whole, c) + first(TaskKind::WeightGradient, whole, c)
                         : first(TaskKind::Backward, whole, c));
    its.forward = quickest(TaskKind::Forward);
    its.backward = quickest(split ? TaskKind::InputGradient : TaskKind::Backward);
    its.sendForward = s + 1 < stages ? timeline.sendSeconds(s, {TaskKind::Forward, 0, 0}) : 0;
    its.sendBackward = s > 0 ? timeline.sendSeconds(s, {TaskKind::Backward, 0, 0}) : 0;
    double inFlight = maxInFlight(schedule, s);
    const double share = split ? schedule.weightGradientShare[s] : 0,
                 weightGradient = split ? quickest(TaskKind::WeightGradient) : 0;
    if (recordOf(schedule.kind).searched)
      its.ofSchedule = holdingOfSchedule(schedule, s, share, weightGradient);
    if (!memoryLimits.empty() && schedule.chunks == 1) {
      its.ofMemory = {roomForActivations(work, plan, pipeline.device(s), s, memoryLimits[s], WhileInFlight::Forward),
                      share * weightGradient};
      inFlight = std::min(inFlight, maxInFlightThatFit(work, plan, pipeline.device(s), s, memoryLimits[s]));
    }
    if (schedule.chunks == 1)
      its.inFlight = inFlight;
    its.warmup = schedule.chunks > 1 || inFlight > 1e18 ? inFlight : first(TaskKind::Forward, inFlight, 0);
    if (!plan.overlap.stage && schedule.chunks == 1) { // messages extend the tasks of the stage
      its.busy += whole * (its.sendForward + its.sendBackward);
      its.warmup += std::min(inFlight, whole) * its.sendForward;
    }
    const Ending &ending = endings[s];
    update = std::max(update, ending.optimizer + ending.gather.total());
    its.after = ending.reduction.total() + ending.tied;
    // Reductions follow the last task, and all reductions start at the earliest with the last microbatch's first task.
    TaskKind reducing = split ? TaskKind::WeightGradient : TaskKind::Backward;
    double beside = 0, following = 0;
    for (int64_t c = 0; c < schedule.chunks; ++c) {
      double alike = c + 1 < schedule.chunks ? static_cast<double>(std::min(count, stages)) : 1;
      beside += timeline.cost(s, {reducing, count - 1, c}).besideSeconds;
      following += (alike - 1) * one(reducing, 0, c) + one(reducing, count - 1, c);
    }
    its.after += std::max(timeline.cost(s, {reducing, count - 1, 0}).tail, beside - following);
  }
  return pipelineSecondsLowerBound(all, schedule, plan.overlap.stage) + update * kLessRounding;
}
