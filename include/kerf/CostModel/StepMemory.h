// SPDX-License-Identifier: Apache-2.0
// The memory of a pipeline stage during a training step: parameters and optimizer states, the activations of all
// microbatches in flight, and the temporary tensors of the running pass.
#pragma once

#include "kerf/CostModel/Simulator.h"

namespace kerf {

/// Bytes of activations that one microbatch occupies on one rank, for one layer of a segment.
struct LayerActivationBytes {
  double untilInputGradient = 0; // bytes that stay in memory from the layer's forward to the end of its input gradient
  /// Bytes that stay in memory from the end of the input gradient to the end of the weight gradient.
  double untilWeightGradient = 0;
  double duringBackward = 0; // additional bytes while the layer's backward runs, recomputed activations included
  double workspace = 0;      // additional bytes while the layer's forward or its weight gradient runs
};
/// Returns the activation bytes of one layer of `segment` under the recomputation mode `recompute`.
LayerActivationBytes layerActivationBytes(const Segment &segment, Recompute recompute);

/// Returns the bytes of device memory that `allocatedBytes` of tensors occupy, including fragmentation, driver context
/// and libraries.
double deviceBytes(double allocatedBytes, const DeviceSpec &device);

/// Fills in the fields of `options` that a search for a schedule within a memory limit needs: `activations` of each
/// stage, and `weightGradientShare`.
void describeActivations(const StepWork &work, const StepPlan &plan, ScheduleOptions &options);

/// Returns the peak memory of pipeline stage `stage` on `device`. The function follows the stage's tasks in the order
/// of `schedule`. A microbatch's activations are freed at the end of its backward; where the backward is split, those
/// that the weight gradient needs are freed at the end of the weight gradient.
StageMemory stageMemory(const StepWork &work, const StepPlan &plan, const Schedule &schedule, const DeviceSpec &device,
                        int64_t stage);
/// The device memory, in bytes, that a pipeline stage needs while and after one of its tasks runs.
struct TaskBytes {
  double during = 0; // largest number of bytes while the task runs
  double after = 0;  // bytes when the task has ended
};
/// Returns the bytes that the device must have at each task of pipeline stage `stage`, in the order of the schedule.
/// The largest of them equals peakDeviceBytes.
std::vector<TaskBytes> deviceBytesByTask(const StepWork &work, const StepPlan &plan, const Schedule &schedule,
                                         const DeviceSpec &device, int64_t stage);
/// Returns the peak of the bytes that the device must have for pipeline stage `stage`: StageMemory::deviceBytes of
/// stageMemory(), computed without the other fields.
double peakDeviceBytes(const StepWork &work, const StepPlan &plan, const Schedule &schedule, const DeviceSpec &device,
                       int64_t stage);

/// The task that runs while a stage holds the most microbatches.
enum class WhileInFlight { Forward, AnyTask };
/// Returns how many times the activations of one microbatch, until its input gradient, pipeline stage `stage`, of one
/// chunk, has room for within `limitBytes` of device memory while it runs `task`; infinity where they take none.
double roomForActivations(const StepWork &work, const StepPlan &plan, const DeviceSpec &device, int64_t stage,
                          double limitBytes, WhileInFlight task);
/// Returns the largest number of microbatches whose activations pipeline stage `stage`, of one chunk, can hold until
/// their input gradients within `limitBytes` of device memory while it runs `task`; infinity where they take none.
double maxInFlightThatFit(const StepWork &work, const StepPlan &plan, const DeviceSpec &device, int64_t stage,
                          double limitBytes, WhileInFlight task = WhileInFlight::Forward);

/// A situation of a pipeline stage in which its memory may peak: a running task, and the number of microbatches whose
/// activations are in memory.
struct PeakCandidate {
  int64_t chunk = 0;                         // chunk on which the task runs
  bool inBackward = false;                   // whether the task is a backward or an input gradient
  std::vector<int64_t> beforeInputGradient;  // by chunk: microbatches whose forward began, input gradient not done
  std::vector<int64_t> beforeWeightGradient; // by chunk: microbatches whose input gradient is done, weight gradient not
};
/// Returns the situations of pipeline stage `stage` in which its memory may peak, whatever the layers of its chunks
/// need. Situations that need no more than another one are left out.
std::vector<PeakCandidate> peakCandidates(const Schedule &schedule, int64_t stage);
/// Returns the peak of the bytes that the device must have for pipeline stage `stage` if its chunks have the
/// recomputation modes `modes`, one entry for each chunk. `candidates` are the stage's peakCandidates; computing them
/// once makes many choices of `modes` cheap to evaluate. The result may differ from the other peakDeviceBytes in
/// rounding only.
double peakDeviceBytes(const std::vector<PeakCandidate> &candidates, const StepWork &work, const StepPlan &plan,
                       const std::vector<LayerModes> &modes, const DeviceSpec &device, int64_t stage);

} // namespace kerf
