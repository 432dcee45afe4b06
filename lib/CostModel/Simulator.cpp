// SPDX-License-Identifier: Apache-2.0
// The timeline of a step: the tasks in the schedule's order, then reductions, optimizer and gathers.
#include "kerf/CostModel/Simulator.h"
#include "Timeline.h"
#include "kerf/CostModel/StepMemory.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace kerf;
using namespace kerf::cost;

namespace {

void addEvents(Simulation &result, const Schedule &schedule, const ScheduleTimes &times, Timeline &timeline) {
  for (int64_t s = 0; s < schedule.stages; ++s) {
    std::vector<TaskBytes> bytes =
        deviceBytesByTask(timeline.work, timeline.plan, schedule, timeline.pipeline.device(s), s);
    for (size_t i = 0; i < schedule.order[s].size(); ++i) {
      const Task &task = schedule.order[s][i];
      const TaskTime &time = times.tasks[s][i];
      const TaskCost &cost = timeline.cost(s, task);
      double seconds = time.end - time.start;
      result.trace.push_back({s, false, toString(task, schedule.chunks), time.start, seconds, task, cost.recompute,
                              std::max(0.0, seconds - cost.compute()), bytes[i].during, bytes[i].after});
      if (timeline.plan.overlap.stage && timeline.leaves(schedule, s, task))
        result.trace.push_back(
            {s, true, "send " + toString(task, schedule.chunks), time.end, timeline.sendSeconds(s, task)});
    }
  }
}

} // namespace

Result<Simulation> kerf::simulate(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline,
                                  Trace trace, double below) {
  if (Status fits = checkFits(work, plan, pipeline); !fits)
    return fits.error();
  Timeline timeline(work, plan, pipeline);
  ScheduleOptions options = plan.schedule;
  std::vector<Ending> endings;
  double slowestUpdate = 0, leastAfter = std::numeric_limits<double>::infinity();
  for (int64_t s = 0; s < options.stages; ++s) {
    const Ending &ending = endings.emplace_back(endingOf(timeline, s));
    slowestUpdate = std::max(slowestUpdate, ending.optimizer + ending.gather.total());
    leastAfter = std::min(leastAfter, ending.reduction.total() + ending.tied);
  }
  if (recordOf(options.kind).splitsBackward) {
    options.durations = timeline.durations();
    describeActivations(work, plan, options);
    const bool limited = recordOf(options.kind).searched && below < std::numeric_limits<double>::infinity();
    if (auto less = limited ? timeline.mostBelow(options.durations) : std::nullopt)
      options.shorterThan = below - slowestUpdate - leastAfter + *less;
  }
  Result<Schedule> schedule = plan.order ? Result<Schedule>(*plan.order) : makeSchedule(options);
  if (!schedule)
    return schedule.error();

  // Seconds by which a message that does not overlap extends the task.
  auto held = [&](int64_t stage, const Task &task) {
    return !plan.overlap.stage && timeline.leaves(*schedule, stage, task) ? timeline.sendSeconds(stage, task) : 0.0;
  };
  ScheduleTimes times = runSchedule(
      *schedule,
      [&](int64_t stage, const Task &task) { return timeline.cost(stage, task).seconds + held(stage, task); },
      [&](StageChunk from, const Task &task) {
        return plan.overlap.stage ? timeline.sendSeconds(from.stage, task) : 0.0;
      });

  Simulation result;
  // Whether a stage begins its next step without waiting for the others.
  const bool alone = schedule->splitBackward && !plan.trainer.update.waitsForAllStages;
  double firstStart = 0, allReduced = 0;
  std::vector<double> reducedAt; // time at which the stage's optimizer has all gradients
  int64_t busiest = 0;
  double busiestSeconds = -1;
  for (int64_t s = 0; s < schedule->stages; ++s) {
    const Ending &ending = endings[s];
    double streamEnds = 0; // reductions of different chunks run one after the other
    for (size_t i = 0; i < schedule->order[s].size(); ++i) {
      const TaskCost &cost = timeline.cost(s, schedule->order[s][i]);
      const TaskTime &time = times.tasks[s][i];
      if (cost.besideSeconds > 0)
        streamEnds = std::max(time.end + cost.tail, std::max(time.start, streamEnds) + cost.besideSeconds);
    }
    double tail = std::max(0.0, streamEnds - times.tasks[s].back().end);
    double start = alone ? times.tasks[s].front().start : firstStart;
    double reduced = times.tasks[s].back().end - start + tail + ending.reduction.total() + ending.tied;
    allReduced = std::max(allReduced, reduced);
    reducedAt.push_back(start + reduced);
    double busy = ending.reduction.total() + ending.optimizer;
    for (const TaskTime &time : times.tasks[s])
      busy += time.end - time.start;
    if (busy > busiestSeconds) {
      busiestSeconds = busy;
      busiest = s;
    }
    if (trace == Trace::Yes) {
      double at = times.tasks[s].back().end;
      for (const auto &[axes, seconds] : ending.reduction.named(pipeline.collectives(s).mesh())) {
        result.trace.push_back({s, true, "reduce gradients over " + axes, at, seconds});
        at += seconds;
      }
      if (tail > 0)
        result.trace.push_back({s, true, "last reductions of gradients", at, tail});
    }
  }
  result.stepSeconds = allReduced + slowestUpdate;

  Breakdown &breakdown = result.breakdown;
  SecondsByAxes collectives, exposed;
  double sent = 0, exposedSends = 0; // seconds of messages to other stages
  for (const Task &task : schedule->order[busiest]) {
    const TaskCost &cost = timeline.cost(busiest, task);
    breakdown.forward += cost.forward;
    breakdown.backward += cost.backward;
    breakdown.recompute += cost.recompute;
    collectives.add(cost.collectives);
    exposed.add(cost.exposed);
    if (timeline.leaves(*schedule, busiest, task)) {
      sent += timeline.sendSeconds(busiest, task);
      exposedSends += held(busiest, task);
    }
  }
  const Ending &ending = endings[busiest];
  collectives.add(ending.collectives);
  exposed.add(ending.reduction);
  exposed.add(ending.gather);
  const Mesh &mesh = pipeline.collectives(busiest).mesh();
  breakdown.collectives = collectives.named(mesh);
  breakdown.exposed = exposed.named(mesh);
  if (schedule->stages > 1) {
    breakdown.collectives["stage"] += sent;
    breakdown.exposed["stage"] += exposedSends;
  }
  breakdown.optimizer = ending.optimizer;
  breakdown.bubble = std::max(0.0, result.stepSeconds - breakdown.forward - breakdown.backward - breakdown.recompute -
                                       breakdown.optimizer - exposed.total() - exposedSends);

  for (int64_t s = 0; s < schedule->stages; ++s) {
    result.memory.push_back(stageMemory(work, plan, *schedule, pipeline.device(s), s));
    result.fits &= result.memory.back().deviceBytes <= result.memory.back().limitBytes;
  }
  if (trace == Trace::Yes) {
    addEvents(result, *schedule, times, timeline);
    for (int64_t s = 0; s < schedule->stages; ++s)
      result.trace.push_back({s, false, "optimizer", alone ? reducedAt[s] : allReduced, endings[s].optimizer});
  }
  result.tokensPerSecond = work.tokens / result.stepSeconds;
  result.modelFlopsUtilization = work.modelFlops / result.stepSeconds / pipeline.peakFlopsOfAll(work.dtype);
  result.schedule = std::move(*schedule);
  return result;
}

std::vector<int64_t> kerf::inFlightThatFits(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline,
                                            std::span<const double> memoryLimits) {
  ScheduleOptions all = plan.schedule;
  describeActivations(work, plan, all);
  const double limit = searchedLimit(all), microbatches = static_cast<double>(all.microbatches);
  bool allFit = true;
  std::vector<int64_t> inFlight;
  for (int64_t s = 0; s < all.stages; ++s) {
    const double size = all.activations[s],
                 held = size > 0 ? std::min(std::max(limit, limit / size), microbatches) : microbatches,
                 most = std::ceil(held * std::max(1.0, all.weightGradientShare[s])),
                 fit = maxInFlightThatFit(work, plan, pipeline.device(s), s, memoryLimits[s], WhileInFlight::AnyTask);
    allFit &= fit >= most;
    const double promised = static_cast<double>(minInFlight(all, s, 0)) + std::max(0.0, all.weightGradientShare[s] - 1);
    inFlight.push_back(static_cast<int64_t>(std::max(std::ceil(promised), std::min(fit, most))));
  }
  return allFit ? std::vector<int64_t>() : inFlight;
}

double kerf::messageSeconds(const PipelineModel &pipeline, int64_t from, int64_t to, const StageMessage &message) {
  double seconds = 0;
  for (const PassCollective &collective : message.afterReceive)
    seconds += pipeline.collectives(to).seconds(collective.kind, collective.axes, collective.bytes);
  return pipeline.sendSeconds(from, to, message.axes, message.bytes) + seconds;
}

double kerf::maxDeviceBytes(const Simulation &simulation) {
  double most = 0;
  for (const StageMemory &stage : simulation.memory)
    most = std::max(most, stage.deviceBytes);
  return most;
}
