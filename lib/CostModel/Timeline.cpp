// SPDX-License-Identifier: Apache-2.0
#include "Timeline.h"
#include "kerf/CostModel/Compute.h"
#include "kerf/Support/Units.h"
#include <algorithm>
#include <fmt/format.h>

namespace kerf::cost {

namespace {

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

} // namespace

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

Timeline::Timeline(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline)
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

const TaskCost &Timeline::cost(int64_t stage, const Task &task) {
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

bool Timeline::leaves(const Schedule &schedule, int64_t stage, const Task &task) const {
  if (task.kind == TaskKind::WeightGradient)
    return false;
  StageChunk part{stage, task.chunk};
  std::optional<StageChunk> to =
      task.kind == TaskKind::Forward ? partAfter(schedule, part) : partBefore(schedule, part);
  return to && to->stage != stage;
}

std::vector<PassDurations> Timeline::durations() {
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

std::optional<double> Timeline::mostBelow(const std::vector<PassDurations> &durations) {
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

void Timeline::numberTasks() {
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

Ending endingOf(Timeline &timeline, int64_t stage) {
  const StepWork &work = timeline.work;
  const StepPlan &plan = timeline.plan;
  Ending ending;
  for (int64_t c = 0; c < plan.schedule.chunks; ++c) {
    int part = work.part[stage][c];
    const SecondsByAxes reduction = timeline.pricer(stage).reduction(part),
                        gather = timeline.pricer(stage).gatherAfterStep(part);
    ending.reduction.add(reduction);
    ending.collectives.add(reduction);
    ending.collectives.add(gather);
    if (!plan.overlap.parameters) // otherwise the gathers overlap with the next step's first forward
      ending.gather.add(gather);
    ending.optimizer += timeline.pricer(stage).optimizer(part);
  }
  if (work.tiedElements > 0 && plan.schedule.stages > 1 && (stage == 0 || stage == plan.schedule.stages - 1))
    // The all-reduce of two ranks: each sends its gradients to the other.
    ending.tied = timeline.pipeline.sendSeconds(0, plan.schedule.stages - 1, work.message.axes,
                                                work.tiedElements * plan.bytes.gradient);
  return ending;
}

} // namespace kerf::cost
