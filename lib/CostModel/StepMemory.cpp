// SPDX-License-Identifier: Apache-2.0
// Korthikanti et al. 2022 count activations; Rajbhandari et al. 2020 (ZeRO) parameters, gradients and states.
#include "kerf/CostModel/StepMemory.h"
#include <algorithm>
#include <fmt/format.h>

using namespace kerf;

namespace {

// What a caching allocator reserves above what is allocated, as a share: blocks of other sizes than are asked for
// (docs/cost-model.md). Kerf's own arenas on CPUs are planned ahead and have none.
constexpr double kFragmentation = 0.06;
constexpr size_t kLargest = 8;

Recompute modeOf(const Segment &segment, Recompute recompute) {
  return segment.recomputable ? recompute : Recompute::None;
}

/// There is such a tensor: on the device, in the host's memory, or made again.
bool isMade(const SavedTensor &tensor, Recompute mode) {
  return tensor.from <= (mode == Recompute::Offload ? Recompute::None : mode);
}
bool isKept(const SavedTensor &tensor, Recompute mode) {
  return isMade(tensor, mode) && mode != Recompute::Offload && !runsAgain(tensor.again, mode);
}

HeldBytes heldBy(const Part &part, const LayerModes &modes) {
  HeldBytes held;
  for (const SegmentRun &run : segmentRuns(part, modes)) {
    HeldBytes one = heldBytes(*run.segment, run.mode);
    auto repeat = static_cast<double>(run.repeat);
    held.all += repeat * one.all;
    held.forWeights += repeat * one.forWeights;
    held.recomputing = std::max(held.recomputing, one.recomputing);
    held.workspace = std::max(held.workspace, one.workspace);
  }
  return held;
}

/// By name, of one microbatch.
std::map<std::string, double> tensorsOf(const Part &part, const LayerModes &modes) {
  std::map<std::string, double> tensors;
  for (const SegmentRun &run : segmentRuns(part, modes)) {
    const Segment &segment = *run.segment;
    auto repeat = static_cast<double>(run.repeat);
    for (const SavedTensor &tensor : segment.saved)
      if (isKept(tensor, run.mode))
        tensors[segment.name + "/" + tensor.name] += repeat * tensor.bytes;
    if (run.mode == Recompute::Full)
      tensors[segment.name + "/input"] += repeat * segment.inputBytes;
  }
  return tensors;
}

struct Fixed {
  double weights = 0, gradients = 0, states = 0;
  double gathered = 0; // two layers' parameters, one used and one fetched (ZeRO-3), and their gradients
};

Fixed fixedBytes(const StepWork &work, const StepPlan &plan, int64_t stage) {
  Fixed bytes;
  int sharding = plan.optimizerShardingAt(stage);
  for (int part : work.part[stage])
    for (const Segment &segment : work.parts[part].segments) {
      double layer = 0;
      for (const ParameterGroup &group : segment.parameters) {
        double elements = group.elements * static_cast<double>(segment.repeat);
        auto shards = static_cast<double>(
            std::max<int64_t>(1, ways(shardAxes(group.reduceAxes, plan.shardingAxesAt(stage)).cut)));
        bytes.weights += elements * plan.bytes.weight / (sharding >= 3 ? shards : 1);
        bytes.gradients += elements * plan.bytes.gradient / (sharding >= 2 ? shards : 1);
        bytes.states += elements * plan.bytes.states / (sharding >= 1 ? shards : 1);
        layer += group.elements;
      }
      // One layer in use, its gradient, and the layer fetched ahead.
      if (sharding >= 3)
        bytes.gathered = std::max(bytes.gathered, layer * plan.bytes.weight * (plan.overlap.parameters ? 3 : 2));
      else if (sharding == 2)
        bytes.gathered = std::max(bytes.gathered, layer * plan.bytes.weight);
    }
  return bytes;
}

} // namespace

HeldBytes kerf::heldBytes(const Segment &segment, Recompute recompute) {
  Recompute mode = modeOf(segment, recompute);
  HeldBytes held;
  double again = 0;
  for (const SavedTensor &tensor : segment.saved)
    if (isKept(tensor, mode)) {
      held.all += tensor.bytes;
      held.forWeights += tensor.forWeights ? tensor.bytes : 0;
    } else if (isMade(tensor, mode)) {
      again += tensor.bytes;
    }
  held.forWeights += segment.pendingBytes;
  if (mode == Recompute::Full) {
    held.all += segment.inputBytes;
    held.forWeights += segment.inputBytes;
  }
  held.recomputing = again + segment.workspaceBytes;
  held.workspace = segment.workspaceBytes;
  if (mode == Recompute::Offload) { // of this layer and of the one whose copies are on their way
    held.recomputing += again;
    held.workspace += 2 * again;
  }
  return held;
}

double kerf::deviceBytes(double allocated, const Device &device) {
  return allocated * (device.kind == "cpu" ? 1 : 1 + kFragmentation) + device.curves.contextBytes;
}

void kerf::describeActivations(const StepWork &work, const StepPlan &plan, ScheduleOptions &options) {
  double most = 0, mean = 0;
  options.activations.clear();
  for (size_t s = 0; s < work.part.size(); ++s) {
    double all = 0, kept = 0;
    for (size_t c = 0; c < work.part[s].size(); ++c) {
      HeldBytes held =
          heldBy(work.parts[work.part[s][c]], plan.recomputeAt(static_cast<int64_t>(s), static_cast<int64_t>(c)));
      all += held.all;
      kept += held.forWeights;
    }
    most = std::max(most, all > 0 ? kept / all : 0);
    options.activations.push_back(all);
    mean += all / static_cast<double>(work.part.size());
  }
  options.keptForWeights = std::min(1.0, most);
  for (double &bytes : options.activations)
    bytes = mean > 0 ? bytes / mean : 1;
}

namespace {

/// The numbers; at the peak, the task that runs and how many microbatches each chunk holds.
struct Peak {
  StageMemory memory;
  const Task *moment = nullptr;
  std::vector<int64_t> inFlight;
};

/// Follows what the stage's microbatches in flight hold: `visit(task, held, extra, after)` with what is held while the
/// task runs, what it needs beside that, and what is held when it is done. A backward holds its microbatch until its
/// end.
template <typename Visit>
void walkHeld(const StepWork &work, const StepPlan &plan, const Schedule &schedule, int64_t stage, Visit visit) {
  std::vector<HeldBytes> held;
  for (size_t c = 0; c < work.part[stage].size(); ++c)
    held.push_back(heldBy(work.parts[work.part[stage][c]], plan.recomputeAt(stage, static_cast<int64_t>(c))));
  double now = 0;
  for (const Task &task : schedule.order[stage]) {
    const HeldBytes &part = held[task.chunk];
    bool forward = task.kind == TaskKind::Forward;
    if (forward)
      now += part.all;
    double during = now;
    if (task.kind == TaskKind::Backward)
      now -= part.all;
    if (task.kind == TaskKind::InputGradient)
      now -= part.all - part.forWeights;
    if (task.kind == TaskKind::WeightGradient)
      now -= part.forWeights;
    visit(task, during, forward || task.kind == TaskKind::WeightGradient ? part.workspace : part.recomputing, now);
  }
}

Peak peakOf(const StepWork &work, const StepPlan &plan, const Schedule &schedule, const Device &device, int64_t stage) {
  Peak found;
  StageMemory &memory = found.memory;
  Fixed fixed = fixedBytes(work, plan, stage);
  memory.weights = fixed.weights;
  memory.gradients = fixed.gradients;
  memory.states = fixed.states;

  double peak = -1, peakHeld = 0, peakExtra = 0;
  std::vector<int64_t> inFlight(schedule.chunks, 0);
  found.inFlight = inFlight;
  walkHeld(work, plan, schedule, stage, [&](const Task &task, double now, double extra, double) {
    inFlight[task.chunk] += task.kind == TaskKind::Forward;
    if (now + extra > peak) {
      peak = now + extra;
      peakHeld = now;
      peakExtra = extra;
      found.inFlight = inFlight;
      found.moment = &task;
    }
    inFlight[task.chunk] -= task.kind == TaskKind::Backward || task.kind == TaskKind::WeightGradient;
  });
  memory.activations = peakHeld;
  memory.workspace = peakExtra + fixed.gathered;
  memory.peakBytes = memory.weights + memory.gradients + memory.states + memory.activations + memory.workspace;
  memory.deviceBytes = deviceBytes(memory.peakBytes, device);
  memory.reservedBytes = memory.deviceBytes - device.curves.contextBytes;
  memory.limitBytes = static_cast<double>(device.memoryBytes);

  return found;
}

} // namespace

std::vector<TaskBytes> kerf::deviceBytesByTask(const StepWork &work, const StepPlan &plan, const Schedule &schedule,
                                               const Device &device, int64_t stage) {
  Fixed fixed = fixedBytes(work, plan, stage);
  double always = fixed.weights + fixed.gradients + fixed.states;
  std::vector<TaskBytes> bytes;
  walkHeld(work, plan, schedule, stage, [&](const Task &, double held, double extra, double after) {
    bytes.push_back({deviceBytes(always + held + extra + fixed.gathered, device), deviceBytes(always + after, device)});
  });
  return bytes;
}

double kerf::deviceBytesOf(const StepWork &work, const StepPlan &plan, const Schedule &schedule, const Device &device,
                           int64_t stage) {
  return peakOf(work, plan, schedule, device, stage).memory.deviceBytes;
}

std::vector<HeldMoment> kerf::heldMoments(const Schedule &schedule, int64_t stage) {
  auto covers = [](const HeldMoment &one, const HeldMoment &other) {
    for (size_t c = 0; c < one.whole.size(); ++c)
      if (one.whole[c] < other.whole[c] || one.forWeights[c] < other.forWeights[c])
        return false;
    return one.chunk == other.chunk && one.restores == other.restores;
  };
  std::vector<HeldMoment> moments;
  HeldMoment now;
  now.whole.assign(schedule.chunks, 0);
  now.forWeights.assign(schedule.chunks, 0);
  for (const Task &task : schedule.order[stage]) {
    now.chunk = task.chunk;
    now.restores = task.kind == TaskKind::Backward || task.kind == TaskKind::InputGradient;
    now.whole[task.chunk] += task.kind == TaskKind::Forward;
    if (std::none_of(moments.begin(), moments.end(), [&](const HeldMoment &known) { return covers(known, now); })) {
      std::erase_if(moments, [&](const HeldMoment &known) { return covers(now, known); });
      moments.push_back(now);
    }
    now.whole[task.chunk] -= now.restores;
    now.forWeights[task.chunk] += task.kind == TaskKind::InputGradient;
    now.forWeights[task.chunk] -= task.kind == TaskKind::WeightGradient;
  }
  return moments;
}

double kerf::deviceBytesAt(const std::vector<HeldMoment> &moments, const StepWork &work, const StepPlan &plan,
                           const std::vector<LayerModes> &modes, const Device &device, int64_t stage) {
  Fixed fixed = fixedBytes(work, plan, stage);
  std::vector<HeldBytes> held;
  for (size_t c = 0; c < modes.size(); ++c)
    held.push_back(heldBy(work.parts[work.part[stage][c]], modes[c]));
  double most = 0;
  for (const HeldMoment &moment : moments) {
    double bytes = moment.restores ? held[moment.chunk].recomputing : held[moment.chunk].workspace;
    for (size_t c = 0; c < held.size(); ++c)
      bytes += static_cast<double>(moment.whole[c]) * held[c].all +
               static_cast<double>(moment.forWeights[c]) * held[c].forWeights;
    most = std::max(most, bytes);
  }
  return deviceBytes(fixed.weights + fixed.gradients + fixed.states + fixed.gathered + most, device);
}

StageMemory kerf::memoryOf(const StepWork &work, const StepPlan &plan, const Schedule &schedule, const Device &device,
                           int64_t stage) {
  Peak peak = peakOf(work, plan, schedule, device, stage);
  StageMemory &memory = peak.memory;
  if (const Task *moment = peak.moment) {
    memory.moment = fmt::format("{} of microbatch {}", toString(moment->kind), moment->microbatch);
    if (schedule.chunks > 1)
      memory.moment += fmt::format(" on chunk {}", moment->chunk);
  }
  std::map<std::string, double> tensors;
  for (int64_t c = 0; c < schedule.chunks; ++c)
    for (const auto &[name, bytes] : tensorsOf(work.parts[work.part[stage][c]], plan.recomputeAt(stage, c)))
      tensors[name] += bytes * static_cast<double>(peak.inFlight[c]);
  tensors["weights"] = memory.weights;
  tensors["gradients"] = memory.gradients;
  tensors["optimizer states"] = memory.states;
  tensors["workspace"] = memory.workspace;
  for (const auto &[name, bytes] : tensors)
    if (bytes > 0)
      memory.largest.emplace_back(name, bytes);
  std::stable_sort(memory.largest.begin(), memory.largest.end(),
                   [](const auto &a, const auto &b) { return a.second > b.second; });
  memory.largest.resize(std::min(memory.largest.size(), kLargest));
  return memory;
}
