// SPDX-License-Identifier: Apache-2.0
// An itemized list of the kernels and collectives of one pipeline stage's training step, for reports: how often each
// runs and how long all of its runs take. The seconds are those that the simulator uses (Simulator.h).
#pragma once

#include "kerf/CostModel/Simulator.h"

namespace kerf {

/// All runs of one kernel, in one training step, in one pass (such as the backward) over one segment of the model (such
/// as its layers).
struct KernelOfStep {
  std::string segment; // name of the segment: "layer", "head"
  std::string name;    // name of the kernel
  std::string cuts;    // which mesh axes cut which factor of the kernel: "model: n"; see KernelWork::cuts
  std::string pass;    // "forward", "recomputed", "backward" or "weight gradients"
  int64_t calls = 0;   // number of runs in one step
  double seconds = 0;  // seconds of all runs, each on an idle device
  KernelClass kernelClass = KernelClass::Pointwise;
};

/// All runs of one collective, in one training step, in one pass (such as the backward) over one segment of the model
/// (such as its layers), or for the gradients and parameters of one segment (such as their all-reduce).
struct CollectiveOfStep {
  std::string kind;   // communication pattern: "all_reduce"
  std::string axes;   // mesh axes of the process groups: "model"
  std::string cause;  // what is communicated: "all-reduce of h.*.mlp"
  std::string pass;   // "forward", "recomputed", "backward", "weight gradients" or "optimizer"
  int64_t calls = 0;  // number of runs in one step
  double bytes = 0;   // bytes of one run, counted as in CollectiveModel::seconds
  double seconds = 0; // seconds of all runs
};

/// The kernels and collectives of one pipeline stage in one step.
struct PartsOfStep {
  std::vector<KernelOfStep> kernels; // all kernels, in the order of segments and passes
  /// The collectives and messages. On the busiest stage their seconds, summed by axes, equal Breakdown::collectives;
  /// messages between stages, with the gathers of the receiver, count as "stage". The sum of the gradients of tied
  /// embeddings is listed here but is in no breakdown.
  std::vector<CollectiveOfStep> collectives;
};

/// Returns the kernels and collectives of pipeline stage `stage`. simulate() must succeed for this work and plan.
PartsOfStep partsOfStep(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline, int64_t stage);

/// Returns the seconds of all kernels of pipeline stage `stage` in one step by WorkKind: products, fused attention, and
/// kernels that are bound by memory, the optimizer's update included; 0 for the other kinds.
ByWorkKind kernelSecondsOf(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline, int64_t stage);

} // namespace kerf
