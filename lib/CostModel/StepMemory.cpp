// SPDX-License-Identifier: Apache-2.0
// Memory of a step. Sources: Korthikanti et al. 2022 for activations; Rajbhandari et al. 2020 (ZeRO) for parameters,
// gradients and states.
#include "kerf/CostModel/StepMemory.h"
#include "kerf/CostModel/CompressedGradients.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <random>
#include <set>
#include <tuple>

using namespace kerf;

namespace {

// Share of memory that a caching allocator reserves in excess of what is allocated, because its blocks have other sizes
// than the requests (docs/cost-model.md). On CPUs Kerf's arenas are planned in advance and lose nothing.
constexpr double kFragmentation = 0.06;
constexpr size_t kLargest = 8;

Recompute modeOf(const Segment &segment, Recompute recompute) {
  return segment.recomputable ? recompute : Recompute::None;
}

/// Returns whether the tensor stays in device memory until the backward.
bool isKept(const SavedTensor &tensor, Recompute mode) {
  return contains(tensor.existsUnder, mode) && mode != Recompute::Offload && !contains(tensor.recomputedBy, mode);
}

LayerActivationBytes activationsOf(const Part &part, const LayerModes &modes, const StepPlan &plan) {
  LayerActivationBytes held;
  for (const SegmentRun &run : segmentRuns(part, modes)) {
    LayerActivationBytes one = layerActivationBytes(*run.segment, run.mode);
    auto repeat = static_cast<double>(run.repeat);
    held.untilInputGradient += repeat * one.untilInputGradient;
    held.untilWeightGradient += repeat * one.untilWeightGradient;
    held.duringBackward = std::max(held.duringBackward, one.duringBackward);
    held.workspace = std::max(held.workspace, one.workspace);
  }
  if (plan.trainer.memory.keepsStageOutputs && plan.schedule.stages > 1 && !part.segments.empty())
    held.untilInputGradient += part.segments.back().inputBytes; // the result is as large as a layer's input
  if (plan.trainer.memory.keepsAllForWeightGradient)
    held.untilWeightGradient = std::max(held.untilWeightGradient, held.untilInputGradient);
  return held;
}

/// Returns the bytes of one microbatch's saved tensors, by name.
std::map<std::string, double> tensorsOf(const Part &part, const LayerModes &modes) {
  std::map<std::string, double> tensors;
  for (const SegmentRun &run : segmentRuns(part, modes)) {
    const Segment &segment = *run.segment;
    auto repeat = static_cast<double>(run.repeat);
    for (const SavedTensor &tensor : segment.saved)
      if (isKept(tensor, run.mode))
        tensors[segment.name + "/" + tensor.name] += repeat * tensor.bytes;
    if (keepsInput(run.mode))
      tensors[segment.name + "/input"] += repeat * segment.inputBytes;
  }
  return tensors;
}

/// Returns the bytes of the microbatch whose forward runs beside a backward, where exchanges of tokens overlap.
double pairedBytes(const std::vector<LayerActivationBytes> &held, const StepPlan &plan) {
  double most = 0;
  for (const LayerActivationBytes &part : held)
    most = std::max(most, part.untilInputGradient);
  return plan.overlap.experts && plan.schedule.microbatches > 1 ? most : 0;
}

struct Fixed {
  double weights = 0, gradients = 0, states = 0;
  // Parameters of two layers (one in use, one fetched ahead) and their gradients under ZeRO stage 3, and buffers.
  double gathered = 0;
};

Fixed fixedBytes(const StepWork &work, const StepPlan &plan, int64_t stage) {
  Fixed bytes;
  int sharding = plan.optimizerShardingAt(stage);
  for (size_t c = 0; c < work.part[stage].size(); ++c)
    if (const GradientChoices *choices = plan.compressionAt(stage, static_cast<int64_t>(c))) {
      std::vector<GradientOfPart> gradients = gradientsOf(work.parts[work.part[stage][c]]);
      for (size_t g = 0; g < gradients.size(); ++g)
        bytes.states += compressionStateBytes((*choices)[g], *gradients[g].group);
    }
  const TrainerMemory &more = plan.trainer.memory;
  double gradient = plan.bytes.gradient + (plan.bytes.gradient > plan.bytes.weight ? more.wideGradientBytes : 0);
  double states = plan.bytes.states + more.updateBytes;
  for (int part : work.part[stage])
    for (const Segment &segment : work.parts[part].segments) {
      double layer = 0;
      for (const ParameterGroup &group : segment.parameters) {
        double elements = group.elements * static_cast<double>(segment.repeat);
        auto shards = static_cast<double>(
            std::max<int64_t>(1, shardCount(shardAxes(group.reduceAxes, plan.shardingAxesAt(stage)).cut)));
        bytes.weights += elements * plan.bytes.weight / (sharding >= 3 ? shards : 1);
        bytes.gradients += elements * gradient / (sharding >= 2 ? shards : 1);
        bytes.states += elements * states / (sharding >= 1 ? shards : 1);
        layer += group.elements;
      }
      // The parameters of the layer in use, its gradient, and the parameters of the layer fetched ahead.
      if (sharding >= 3)
        bytes.gathered = std::max(bytes.gathered, layer * plan.bytes.weight * (plan.overlap.parameters ? 3 : 2));
      else if (sharding == 2)
        bytes.gathered = std::max(bytes.gathered, layer * plan.bytes.weight);
    }
  bytes.gathered += more.bufferBytes;
  return bytes;
}

} // namespace

LayerActivationBytes kerf::layerActivationBytes(const Segment &segment, Recompute recompute) {
  Recompute mode = modeOf(segment, recompute);
  LayerActivationBytes held;
  double recomputed = 0;
  for (const SavedTensor &tensor : segment.saved) {
    if (!contains(tensor.existsUnder, mode))
      continue;
    (isKept(tensor, mode) ? held.untilInputGradient : recomputed) += tensor.bytes;
    // The weight gradient reads tensors that the input gradient has computed again; it fetches offloaded ones once more.
    if (tensor.neededForWeightGradient && mode != Recompute::Offload)
      held.untilWeightGradient += tensor.bytes;
  }
  held.untilWeightGradient += segment.pendingBytes;
  if (keepsInput(mode)) {
    held.untilInputGradient += segment.inputBytes;
    held.untilWeightGradient += segment.inputBytes;
  }
  held.duringBackward = recomputed + segment.workspaceBytes;
  held.workspace = segment.workspaceBytes;
  if (mode == Recompute::Offload) { // activations of this layer, and of the layer whose copies are in progress
    held.duringBackward += recomputed;
    held.workspace += 2 * recomputed;
  }
  return held;
}

double kerf::deviceBytes(double allocatedBytes, const DeviceSpec &device) {
  return allocatedBytes * (device.kind == "cpu" ? 1 : 1 + kFragmentation) + device.curves.contextBytes;
}

void kerf::describeActivations(const StepWork &work, const StepPlan &plan, ScheduleOptions &options) {
  double mean = 0;
  options.activations.clear();
  options.weightGradientShare.clear();
  for (size_t s = 0; s < work.part.size(); ++s) {
    double all = 0, kept = 0;
    for (size_t c = 0; c < work.part[s].size(); ++c) {
      LayerActivationBytes held = activationsOf(
          work.parts[work.part[s][c]], plan.recomputeAt(static_cast<int64_t>(s), static_cast<int64_t>(c)), plan);
      all += held.untilInputGradient;
      kept += held.untilWeightGradient;
    }
    options.weightGradientShare.push_back(all > 0 ? kept / all : 1);
    options.activations.push_back(all);
    mean += all / static_cast<double>(work.part.size());
  }
  for (double &bytes : options.activations)
    bytes = mean > 0 ? bytes / mean : 1;
}

namespace {

/// The peak of a stage's memory, the task that runs at the peak, and the number of microbatches in flight
/// on each chunk.
struct Peak {
  StageMemory memory;
  const Task *moment = nullptr;
  std::vector<int64_t> inFlight;
};

/// Follows the activations of the stage's microbatches through the schedule and calls `visit(task, held, extra, after)`
/// for each task: bytes of activations while the task runs, additional bytes that the task needs, and bytes of
/// activations when the task has ended. A backward frees the activations of its microbatch at its end.
template <typename Visit>
void walkHeld(const StepWork &work, const StepPlan &plan, const Schedule &schedule, int64_t stage, Visit visit) {
  std::vector<LayerActivationBytes> held;
  for (size_t c = 0; c < work.part[stage].size(); ++c)
    held.push_back(
        activationsOf(work.parts[work.part[stage][c]], plan.recomputeAt(stage, static_cast<int64_t>(c)), plan));
  const double paired = pairedBytes(held, plan);
  double now = 0;
  for (const Task &task : schedule.order[stage]) {
    const LayerActivationBytes &part = held[task.chunk];
    bool forward = task.kind == TaskKind::Forward;
    if (forward)
      now += part.untilInputGradient;
    double during = now + paired;
    if (task.kind == TaskKind::Backward)
      now -= part.untilInputGradient;
    if (task.kind == TaskKind::InputGradient)
      now -= part.untilInputGradient - part.untilWeightGradient;
    if (task.kind == TaskKind::WeightGradient)
      now -= part.untilWeightGradient;
    visit(task, during, forward || task.kind == TaskKind::WeightGradient ? part.workspace : part.duringBackward, now);
  }
}

Peak peakOf(const StepWork &work, const StepPlan &plan, const Schedule &schedule, const DeviceSpec &device,
            int64_t stage) {
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
                                               const DeviceSpec &device, int64_t stage) {
  Fixed fixed = fixedBytes(work, plan, stage);
  double always = fixed.weights + fixed.gradients + fixed.states;
  std::vector<TaskBytes> bytes;
  walkHeld(work, plan, schedule, stage, [&](const Task &, double held, double extra, double after) {
    bytes.push_back({deviceBytes(always + held + extra + fixed.gathered, device), deviceBytes(always + after, device)});
  });
  return bytes;
}

double kerf::peakDeviceBytes(const StepWork &work, const StepPlan &plan, const Schedule &schedule,
                             const DeviceSpec &device, int64_t stage) {
  return peakOf(work, plan, schedule, device, stage).memory.deviceBytes;
}

std::vector<PeakCandidate> kerf::peakCandidates(const Schedule &schedule, int64_t stage) {
  auto covers = [](const PeakCandidate &one, const PeakCandidate &other) {
    for (size_t c = 0; c < one.beforeInputGradient.size(); ++c)
      if (one.beforeInputGradient[c] < other.beforeInputGradient[c] ||
          one.beforeWeightGradient[c] < other.beforeWeightGradient[c])
        return false;
    return one.chunk == other.chunk && one.inBackward == other.inBackward;
  };
  std::vector<PeakCandidate> candidates;
  PeakCandidate now;
  now.beforeInputGradient.assign(schedule.chunks, 0);
  now.beforeWeightGradient.assign(schedule.chunks, 0);
  // The steady part of a schedule repeats the same situations. A sum of the numbers of microbatches with random weights
  // of 64 bits tells situations apart, as a hash does.
  std::mt19937_64 random; // with its default seed
  std::vector<std::array<uint64_t, 2>> weights(schedule.chunks);
  for (auto &[input, weight] : weights)
    input = random(), weight = random();
  uint64_t sum = 0;
  auto change = [&](std::vector<int64_t> &numbers, int64_t chunk, int64_t by) {
    numbers[chunk] += by;
    sum += weights[chunk][&numbers == &now.beforeWeightGradient] * static_cast<uint64_t>(by);
  };
  std::set<std::tuple<uint64_t, int64_t, bool>> seen;
  for (const Task &task : schedule.order[stage]) {
    now.chunk = task.chunk;
    now.inBackward = task.kind == TaskKind::Backward || task.kind == TaskKind::InputGradient;
    change(now.beforeInputGradient, task.chunk, task.kind == TaskKind::Forward);
    if (seen.emplace(sum, now.chunk, now.inBackward).second &&
        std::none_of(candidates.begin(), candidates.end(),
                     [&](const PeakCandidate &known) { return covers(known, now); })) {
      std::erase_if(candidates, [&](const PeakCandidate &known) { return covers(now, known); });
      candidates.push_back(now);
    }
    change(now.beforeInputGradient, task.chunk, -static_cast<int64_t>(now.inBackward));
    change(now.beforeWeightGradient, task.chunk,
           static_cast<int64_t>(task.kind == TaskKind::InputGradient) - (task.kind == TaskKind::WeightGradient));
  }
  return candidates;
}

double kerf::peakDeviceBytes(const std::vector<PeakCandidate> &candidates, const StepWork &work, const StepPlan &plan,
                             const std::vector<LayerModes> &modes, const DeviceSpec &device, int64_t stage) {
  Fixed fixed = fixedBytes(work, plan, stage);
  std::vector<LayerActivationBytes> held;
  for (size_t c = 0; c < modes.size(); ++c)
    held.push_back(activationsOf(work.parts[work.part[stage][c]], modes[c], plan));
  double most = 0;
  for (const PeakCandidate &candidate : candidates) {
    double bytes = candidate.inBackward ? held[candidate.chunk].duringBackward : held[candidate.chunk].workspace;
    for (size_t c = 0; c < held.size(); ++c)
      bytes += static_cast<double>(candidate.beforeInputGradient[c]) * held[c].untilInputGradient +
               static_cast<double>(candidate.beforeWeightGradient[c]) * held[c].untilWeightGradient;
    most = std::max(most, bytes);
  }
  most += pairedBytes(held, plan);
  return deviceBytes(fixed.weights + fixed.gradients + fixed.states + fixed.gathered + most, device);
}

double kerf::roomForActivations(const StepWork &work, const StepPlan &plan, const DeviceSpec &device, int64_t stage,
                                double limitBytes, WhileInFlight task) {
  const Fixed fixed = fixedBytes(work, plan, stage);
  const LayerActivationBytes held =
      activationsOf(work.parts[work.part[stage].front()], plan.recomputeAt(stage, 0), plan);
  const double workspace =
      task == WhileInFlight::AnyTask ? std::max(held.workspace, held.duringBackward) : held.workspace;
  const double each = deviceBytes(held.untilInputGradient, device) - deviceBytes(0, device),
               others = deviceBytes(fixed.weights + fixed.gradients + fixed.states + fixed.gathered + workspace +
                                        pairedBytes({held}, plan),
                                    device);
  constexpr double more = 1 + 1e-9; // keeps rounding from pushing a quotient below an integer
  return each > 0 ? std::max(0.0, limitBytes - others) / each * more : std::numeric_limits<double>::infinity();
}

double kerf::maxInFlightThatFit(const StepWork &work, const StepPlan &plan, const DeviceSpec &device, int64_t stage,
                                double limitBytes, WhileInFlight task) {
  return std::floor(roomForActivations(work, plan, device, stage, limitBytes, task));
}

StageMemory kerf::stageMemory(const StepWork &work, const StepPlan &plan, const Schedule &schedule,
                              const DeviceSpec &device, int64_t stage) {
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
