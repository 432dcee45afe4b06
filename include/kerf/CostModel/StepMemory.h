// SPDX-License-Identifier: Apache-2.0
// Bytes of one stage over the step: what stays, what each microbatch in flight holds, and what a running pass needs.
#pragma once

#include "kerf/CostModel/Simulator.h"

namespace kerf {

/// Bytes that one microbatch leaves on one layer of a segment.
struct HeldBytes {
  double all = 0;         // from its forward to its input gradient
  double forWeights = 0;  // from there to its weight gradient
  double recomputing = 0; // held beside that while its backward runs, what is computed again included
  double workspace = 0;   // while its forward or its weight gradient runs
};
HeldBytes heldBytes(const Segment &segment, Recompute recompute);

/// What a device must have for so many allocated bytes: fragmentation, driver and libraries included.
double deviceBytes(double allocated, const Device &device);

/// What a search for a schedule within a memory limit must know: ScheduleOptions' keptForWeights (the largest of any
/// stage) and activations.
void describeActivations(const StepWork &work, const StepPlan &plan, ScheduleOptions &options);

/// Walks the stage's order; a backward holds its microbatch until its end.
StageMemory memoryOf(const StepWork &work, const StepPlan &plan, const Schedule &schedule, const Device &device,
                     int64_t stage);
/// What the device must have while each task of the stage's order runs, and when it is done. The most is deviceBytesOf.
struct TaskBytes {
  double during = 0, after = 0;
};
std::vector<TaskBytes> deviceBytesByTask(const StepWork &work, const StepPlan &plan, const Schedule &schedule,
                                         const Device &device, int64_t stage);
/// Its deviceBytes alone.
double deviceBytesOf(const StepWork &work, const StepPlan &plan, const Schedule &schedule, const Device &device,
                     int64_t stage);

/// The most microbatches that each chunk of a stage holds while tasks of one kind run on one chunk.
struct HeldMoment {
  int64_t chunk = 0;
  bool restores = false;                  // a backward or an input gradient
  std::vector<int64_t> whole, forWeights; // up to the input gradient, and from there to the weight gradient
};
/// Those of the stage's order that can be its fullest, whatever its parts hold.
std::vector<HeldMoment> heldMoments(const Schedule &schedule, int64_t stage);
/// deviceBytesOf, but for the last digits, with these moments and other recomputation, by chunk.
double deviceBytesAt(const std::vector<HeldMoment> &moments, const StepWork &work, const StepPlan &plan,
                     const std::vector<LayerModes> &modes, const Device &device, int64_t stage);

} // namespace kerf
