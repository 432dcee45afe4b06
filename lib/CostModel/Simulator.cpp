// SPDX-License-Identifier: Apache-2.0
// The timeline of a step: the tasks in the schedule's order, then reductions, optimizer and gathers.
#include "kerf/CostModel/Simulator.h"
#include "TaskCost.h"
#include "kerf/CostModel/Compute.h"
#include "kerf/CostModel/StepMemory.h"
#include "kerf/Support/Units.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <fmt/format.h>
#include <limits>
#include <numeric>

using namespace kerf;
using namespace kerf::cost;

namespace {

constexpr double kLessRounding = 1 - 1e-12; // covers the rounding error of sums in a different order

double total(const std::map<std::string, double> &byAxes) {
  return std::accumulate(byAxes.begin(), byAxes.end(), 0.0,
                         [](double sum, const auto &entry) { return sum + entry.second; });
}

/// Checks that each part of the plan has a choice for each of its gradients.
Status checkCompression(const StepWork &work, const StepPlan &plan) {
  if (plan.compressionOfPart.empty())
    return ok();
  int64_t stages = plan.schedule.stages, parts = stages * plan.schedule.chunks;
  if (static_cast<int64_t>(plan.compressionOfPart.size()) != parts)
    return Error{fmt::format("compression is given for {} parts, but the plan has {}; give one entry for each part",
                             plan.compressionOfPart.size(), parts)};
  for (int64_t p = 0; p < parts; ++p)
    if (size_t gradients = gradientsOf(work.parts[work.part[p % stages][p / stages]]).size();
        plan.compressionOfPart[p].size() != gradients)
      return Error{fmt::format("compression is given for {} gradients of part {}, but it has {}; give one entry for "
                               "each gradient",
                               plan.compressionOfPart[p].size(), p, gradients)};
  return ok();
}

Status checkFits(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline) {
  auto stages = static_cast<int64_t>(work.part.size());
  if (stages != plan.schedule.stages)
    return Error{fmt::format("the plan has {} stages, but the model is cut into {}; give the plan {}",
                             plan.schedule.stages, stages, countText(stages, "stage"))};
  for (int64_t s = 0; s < stages; ++s) {
    if (static_cast<int64_t>(work.part[s].size()) != plan.schedule.chunks)
      return Error{fmt::format("the plan has {} chunks per stage, but stage {} of the model has {}; give all stages {}",
                               plan.schedule.chunks, s, work.part[s].size(), countText(plan.schedule.chunks, "chunk"))};
    for (int part : work.part[s])
      if (part < 0 || part >= static_cast<int>(work.parts.size()))
        return Error{fmt::format("stage {} has part {}, but the model has only {}; number the parts from 0", s, part,
                                 countText(static_cast<int64_t>(work.parts.size()), "part"))};
  }
  if (int64_t parts = stages * plan.schedule.chunks;
      !plan.recomputeOfPart.empty() && static_cast<int64_t>(plan.recomputeOfPart.size()) != parts)
    return Error{fmt::format("recomputation is given for {} parts, but the plan has {}; give one entry for each part",
                             plan.recomputeOfPart.size(), parts)};
  if (!plan.optimizerShardingOfStage.empty() && static_cast<int64_t>(plan.optimizerShardingOfStage.size()) != stages)
    return Error{fmt::format("optimizer sharding is given for {}, but the plan has {}; give one value for each stage",
                             countText(static_cast<int64_t>(plan.optimizerShardingOfStage.size()), "stage"), stages)};
  if (Status status = checkCompression(work, plan); !status)
    return status;
  for (int64_t s = 0; s < stages; ++s)
    if (int sharding = plan.optimizerShardingAt(s); sharding < 0 || sharding > 3)
      return Error{fmt::format("optimizer sharding is {}; give 0 to 3", sharding)};
  for (int64_t s = 0; s < stages; ++s)
    for (int64_t c = 0; c < plan.schedule.chunks; ++c)
      if (const DeviceSpec &device = pipeline.device(s);
          offloadsActivations(plan.recomputeAt(s, c)) && hostBandwidth(device) == 0)
        return Error{
            fmt::format("recompute is offload, but the bandwidth between {} and the host's memory is not known; give "
                        "device.host_bandwidth, in bytes/s, in the cluster file (docs/clusters.md)",
                        device.name.empty() ? "the device" : device.name)};
  for (int64_t s = 0; s < stages; ++s)
    if (const DeviceSpec &device = pipeline.device(s); plan.bytes.hostStates > 0 && hostBandwidth(device) == 0)
      return Error{
          fmt::format("optimizer_states is host, but the bandwidth between {} and the host's memory is not known; give "
                      "device.host_bandwidth, in bytes/s, in the cluster file (docs/clusters.md)",
                      device.name.empty() ? "the device" : device.name)};
  if (pipeline.stages() && *pipeline.stages() != stages)
    return Error{fmt::format("the mesh has {} stages, but the model is cut into {}; give the mesh {}",
                             *pipeline.stages(), stages, countText(stages, "stage"))};
  return ok();
}

/// Prices every distinct task of the step once. Stages with the same device, mesh and optimizer sharding share the
/// costs of tasks; backwards share them only if they also recompute the same layers.
class Timeline {
public:
  Timeline(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline)
      : work(work), plan(plan), pipeline(pipeline) {
    for (int64_t s = 0; s < plan.schedule.stages; ++s) {
      StageKind kind{pipeline.groupOf(s), plan.optimizerShardingAt(s)};
      auto [it, isNew] = kinds.try_emplace(kind, static_cast<int>(pricers.size()));
      if (isNew) {
        plans.push_back(plan);
        plans.back().optimizerSharding = kind.optimizerSharding;
        plans.back().shardingAxes = plan.shardingAxesAt(s);
        pricers.emplace_back(work, plans.back(), pipeline.collectives(s));
      }
      kindOfStage.push_back(it->second);
    }
    numberTasks();
    int64_t stages = plan.schedule.stages, parts = stages * plan.schedule.chunks;
    auto seconds = [&](int64_t from, int64_t to) {
      return messageSeconds(pipeline, from % stages, to % stages, work.messageBetween(from, to));
    };
    for (int64_t p = 0; p < parts; ++p) {
      toNext.push_back(p + 1 < parts ? seconds(p, p + 1) : 0);
      toPrevious.push_back(p > 0 ? seconds(p, p - 1) : 0);
    }
    // Messages that overlap with compute are sent in groups for both directions, and a group ends with its slowest.
    if (plan.overlap.stage && pipeline.messagesDiffer())
      for (std::vector<double> *messages : {&toNext, &toPrevious}) {
        double slowest = *std::max_element(messages->begin(), messages->end());
        for (double &one : *messages)
          one = one > 0 ? slowest : 0;
      }
  }

  const TaskPricer &pricer(int64_t stage) const { return pricers[kindOfStage[stage]]; }

  const TaskCost &cost(int64_t stage, const Task &task) {
    bool last = task.microbatch == plan.schedule.microbatches - 1;
    bool restores = task.kind == TaskKind::Backward || task.kind == TaskKind::InputGradient;
    const Numbers &numbers = numbersOf[stage * plan.schedule.chunks + task.chunk];
    std::optional<TaskCost> &cost =
        costs[restores ? numbers.restoring : numbers.plain][2 * static_cast<size_t>(task.kind) + last];
    if (!cost) {
      LayerModes modes = plan.recomputeAt(stage, task.chunk);
      cost = pricer(stage).task(work.part[stage][task.chunk], task.kind,
                                restores || offloadsActivations(modes) ? modes : LayerModes(), last,
                                plan.compressionAt(stage, task.chunk));
    }
    return *cost;
  }

  /// Returns the seconds of the message that a task sends. If messages do not overlap with compute, the sender's task
  /// is extended by these seconds.
  double sendSeconds(int64_t stage, const Task &task) const {
    int64_t part = task.chunk * plan.schedule.stages + stage;
    return task.kind == TaskKind::Forward ? toNext[part] : toPrevious[part];
  }
  bool leaves(const Schedule &schedule, int64_t stage, const Task &task) const {
    if (task.kind == TaskKind::WeightGradient)
      return false;
    StageChunk part{stage, task.chunk};
    std::optional<StageChunk> to =
        task.kind == TaskKind::Forward ? partAfter(schedule, part) : partBefore(schedule, part);
    return to && to->stage != stage;
  }

  /// Returns the durations of the passes on each stage, for schedules whose order is searched.
  std::vector<PassDurations> durations() {
    double send = 0;
    if (plan.overlap.stage) // the slowest message; the last stage sends nothing on
      send = *std::max_element(toNext.begin(), toNext.end());
    std::vector<PassDurations> list;
    for (int64_t s = 0; s < plan.schedule.stages; ++s)
      list.push_back({std::max(cost(s, {TaskKind::Forward, 0, 0}).seconds, 1e-9),
                      std::max(cost(s, {TaskKind::InputGradient, 0, 0}).seconds, 1e-9),
                      cost(s, {TaskKind::WeightGradient, 0, 0}).seconds, send});
    return list;
  }

  /// Returns by how many seconds a stage can at most be faster, from its first to its last task, than with `durations`:
  /// each stage begins at the same time as with them, and nothing takes less, except for the last weight gradient,
  /// which is the last task of its stage. Returns nothing where more than that is different.
  std::optional<double> mostBelow(const std::vector<PassDurations> &durations) {
    const int64_t stages = plan.schedule.stages, last = plan.schedule.microbatches - 1;
    if (!plan.overlap.stage || last == 0)
      return std::nullopt;
    double most = 0;
    for (int64_t s = 0; s < stages; ++s) {
      const PassDurations &d = durations[s];
      auto seconds = [&](TaskKind kind, int64_t microbatch) { return cost(s, {kind, microbatch, 0}).seconds; };
      if (seconds(TaskKind::Forward, 0) != d.forward || seconds(TaskKind::Forward, last) < d.forward ||
          seconds(TaskKind::InputGradient, 0) < d.inputGradient ||
          seconds(TaskKind::InputGradient, last) < d.inputGradient || (s + 1 < stages && toNext[s] != d.send) ||
          (s > 0 && toPrevious[s] < d.send))
        return std::nullopt;
      most = std::max(most, d.weightGradient - seconds(TaskKind::WeightGradient, last));
    }
    return most;
  }

  /// Assigns the index of a cost to each stage and chunk; tasks with the same index cost the same. Called again after
  /// the plan's recomputation has changed, it keeps the costs of all tasks known so far.
  void numberTasks() {
    auto number = [&](int kind, int part, LayerModes modes, const GradientChoices *choices) {
      return known.try_emplace({kind, part, std::move(modes), choices}, known.size()).first->second;
    };
    numbersOf.clear();
    for (int64_t s = 0; s < plan.schedule.stages; ++s)
      for (int64_t c = 0; c < plan.schedule.chunks; ++c) {
        int part = work.part[s][c];
        LayerModes modes = plan.recomputeAt(s, c);
        const GradientChoices *choices = plan.compressionAt(s, c);
        numbersOf.push_back({number(kindOfStage[s], part, offloadsActivations(modes) ? modes : LayerModes(), choices),
                             number(kindOfStage[s], part, modes, choices)});
      }
    costs.resize(known.size());
  }

  const StepWork &work;
  const StepPlan &plan;
  const PipelineModel &pipeline;

private:
  struct StageKind {
    int group;
    int optimizerSharding;
    auto operator<=>(const StageKind &) const = default;
  };
  static constexpr size_t kTasks = 2 * (static_cast<size_t>(TaskKind::WeightGradient) + 1);
  struct Numbers { // indices into `costs`
    size_t plain, restoring;
  };

  std::map<StageKind, int> kinds;
  std::deque<StepPlan> plans; // a deque, because the pricers refer to its elements
  std::vector<TaskPricer> pricers;
  std::vector<int> kindOfStage;
  std::vector<double> toNext, toPrevious;                                            // message seconds, by part
  std::map<std::tuple<int, int, LayerModes, const GradientChoices *>, size_t> known; // indices into `costs`
  std::vector<Numbers> numbersOf;
  std::deque<std::array<std::optional<TaskCost>, kTasks>> costs;
};

/// The work that follows a stage's last task, in seconds.
struct Ending {
  std::map<std::string, double> reduction; // exposed seconds, by mesh axes
  std::map<std::string, double> gather;    // exposed seconds, by mesh axes
  std::map<std::string, double> collectives;
  double tied = 0;
  double optimizer = 0;
};

Ending endingOf(Timeline &timeline, int64_t stage) {
  const StepWork &work = timeline.work;
  const StepPlan &plan = timeline.plan;
  Ending ending;
  for (int64_t c = 0; c < plan.schedule.chunks; ++c) {
    int part = work.part[stage][c];
    for (const auto &[axes, seconds] : timeline.pricer(stage).reduction(part)) {
      ending.reduction[axes] += seconds;
      ending.collectives[axes] += seconds;
    }
    for (const auto &[axes, seconds] : timeline.pricer(stage).gatherAfterStep(part)) {
      ending.collectives[axes] += seconds;
      if (!plan.overlap.parameters) // otherwise the gathers overlap with the next step's first forward
        ending.gather[axes] += seconds;
    }
    ending.optimizer += timeline.pricer(stage).optimizer(part);
  }
  if (work.tiedElements > 0 && plan.schedule.stages > 1 && (stage == 0 || stage == plan.schedule.stages - 1))
    // The all-reduce of two ranks: each sends its gradients to the other.
    ending.tied = timeline.pipeline.sendSeconds(0, plan.schedule.stages - 1, work.message.axes,
                                                work.tiedElements * plan.bytes.gradient);
  return ending;
}

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

namespace {

/// Bytes per parameter element of one way of keeping the optimizer's states (megatron/core/optimizer of Megatron Core
/// 0.16.1: distrib_optimizer.py, cpu_offloading/hybrid_optimizer.py).
struct StatesRecord {
  double master, moment;         // bytes on the device: of the master weight, and of each moment
  double hostMaster, hostMoment; // the same in the host's memory
};
/// Indexed by OptimizerStates.
constexpr StatesRecord kStatesRecords[] = {{4, 4, 0, 0}, {2, 4, 0, 0}, {2, 2, 0, 0}, {0, 0, 4, 4}};
static_assert(std::size(kStatesRecords) == PlanWords<OptimizerStates>::words.size());

/// Bytes/s at which a device's share of the host reads and writes memory during an update. Estimate: the host of a DGX
/// A100 has 409.6 GB/s for 8 devices, of which an update reaches 0.45 (Ren et al. 2021, ZeRO-Offload, table 4: CPU-Adam
/// updates 10^10 parameters, 30 bytes each, in 2.57 s on the host of a DGX-2, with 256 GB/s).
constexpr double kHostUpdateBandwidth = 23e9;

} // namespace

double kerf::hostUpdateSeconds(const DeviceSpec &device, double elements, const StateBytes &bytes) {
  if (bytes.hostStates == 0 || elements == 0)
    return 0;
  constexpr double wide = 4; // gradients and weights are f32 in the host's memory
  double copies = (wide + bytes.weight) / hostBandwidth(device);
  // The update reads and writes states and reads the gradient; the copies write the gradient, and read and write
  // weights.
  double update = (2 * bytes.hostStates + 2 * wide + wide + bytes.weight) / kHostUpdateBandwidth;
  return elements * std::max(copies, update);
}

double kerf::updateSeconds(const DeviceSpec &device, double elements, const StateBytes &bytes,
                           const UpdateKernel &update) {
  // The trainer determines the accesses to the gradient. States are read and written. 16-bit weights are written after
  // the f32 master weights are read, or read and written together with the states.
  bool mixed = bytes.weight < 4, narrow = bytes.gradient < 4;
  bool widens = narrow && update.widensGradients && !bytes.readsWeights;
  double width = narrow && !widens ? bytes.gradient : std::max(4.0, bytes.gradient);
  double copied = widens ? bytes.gradient + width : 0;
  double accesses = update.gradientAccesses + (mixed ? update.scaleAccesses : 0);
  Work kernel;
  kernel.kernelClass = KernelClass::Pointwise;
  kernel.bytes = elements * (copied + accesses * width + 2 * bytes.states + bytes.weight +
                             (mixed && !bytes.readsWeights ? 4 : bytes.weight));
  return (kernel.bytes > 0 ? computeSeconds(device, kernel) : 0) + hostUpdateSeconds(device, elements, bytes);
}

StateBytes kerf::stateBytes(std::string_view dtype, std::string_view gradientDtype, double moments,
                            OptimizerStates states) {
  if (dtype == "f64")
    return {8, 8, 8 * moments};
  if (dtype == "f32")
    return {4, 4, 4 * moments};
  double weight = 2; // f8 training multiplies 8-bit copies of 16-bit weights
  const StatesRecord &kept = kStatesRecords[static_cast<size_t>(states)];
  return {weight, gradientDtype == "f32" ? 4.0 : 2.0, kept.master + kept.moment * moments,
          kept.hostMaster + kept.hostMoment * moments, states != OptimizerStates::Device};
}

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
    slowestUpdate = std::max(slowestUpdate, ending.optimizer + total(ending.gather));
    leastAfter = std::min(leastAfter, total(ending.reduction) + ending.tied);
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
    double reduced = times.tasks[s].back().end - start + tail + total(ending.reduction) + ending.tied;
    allReduced = std::max(allReduced, reduced);
    reducedAt.push_back(start + reduced);
    double busy = total(ending.reduction) + ending.optimizer;
    for (const TaskTime &time : times.tasks[s])
      busy += time.end - time.start;
    if (busy > busiestSeconds) {
      busiestSeconds = busy;
      busiest = s;
    }
    if (trace == Trace::Yes) {
      double at = times.tasks[s].back().end;
      for (const auto &[axes, seconds] : ending.reduction) {
        result.trace.push_back({s, true, "reduce gradients over " + axes, at, seconds});
        at += seconds;
      }
      if (tail > 0)
        result.trace.push_back({s, true, "last reductions of gradients", at, tail});
    }
  }
  result.stepSeconds = allReduced + slowestUpdate;

  Breakdown &breakdown = result.breakdown;
  for (const Task &task : schedule->order[busiest]) {
    const TaskCost &cost = timeline.cost(busiest, task);
    breakdown.forward += cost.forward;
    breakdown.backward += cost.backward;
    breakdown.recompute += cost.recompute;
    for (const auto &[axes, seconds] : cost.collectives)
      breakdown.collectives[axes] += seconds;
    for (const auto &[axes, seconds] : cost.exposed)
      breakdown.exposed[axes] += seconds;
    if (timeline.leaves(*schedule, busiest, task)) {
      breakdown.collectives["stage"] += timeline.sendSeconds(busiest, task);
      breakdown.exposed["stage"] += held(busiest, task);
    }
  }
  const Ending &ending = endings[busiest];
  for (const auto &[axes, seconds] : ending.collectives)
    breakdown.collectives[axes] += seconds;
  for (const auto *some : {&ending.reduction, &ending.gather})
    for (const auto &[axes, seconds] : *some)
      breakdown.exposed[axes] += seconds;
  breakdown.optimizer = ending.optimizer;
  breakdown.bubble = std::max(0.0, result.stepSeconds - breakdown.forward - breakdown.backward - breakdown.recompute -
                                       breakdown.optimizer - total(breakdown.exposed));

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
  const auto limit = static_cast<double>(searchedLimit(all)), microbatches = static_cast<double>(all.microbatches);
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

StageSeconds::Holding kerf::holdingOfSchedule(const ScheduleOptions &schedule, int64_t stage, double waitingShare,
                                              double weightGradient) {
  constexpr double more = 1 + 1e-9; // covers rounding
  const auto limit = static_cast<double>(searchedLimit(schedule));
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
    update = std::max(update, ending.optimizer + total(ending.gather));
    its.after = total(ending.reduction) + ending.tied;
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

double kerf::maxDeviceBytes(const Simulation &simulation) {
  double most = 0;
  for (const StageMemory &stage : simulation.memory)
    most = std::max(most, stage.deviceBytes);
  return most;
}
