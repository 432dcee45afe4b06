// SPDX-License-Identifier: Apache-2.0
// What the step of one stage consists of: every kernel and every collective, how often it runs and what all its runs
// take, as the simulator prices them (Simulator.h). For reports; nothing here is faster or slower than the timeline.
#pragma once

#include "kerf/CostModel/Simulator.h"

namespace kerf {

/// All runs of a kernel in one pass over one segment.
struct KernelOfStep {
  std::string segment;          // "layer", "head"
  std::string name, cuts, pass; // pass: "forward", "recomputed", "backward", "weight gradients"
  int64_t calls = 0;
  double seconds = 0; // of all calls, each on an idle device
};

/// All runs of a collective in one pass over one segment, or of the parameters of one.
struct CollectiveOfStep {
  std::string kind, axes, cause, pass; // "all-reduce", "model", "all-reduce of h.*.mlp", "forward"
  int64_t calls = 0;
  double bytes = 0;   // of one call, as CollectiveModel::seconds counts them
  double seconds = 0; // of all calls
};

struct PartsOfStep {
  std::vector<KernelOfStep> kernels;
  /// Their seconds by axes are the breakdown's collectives, where `stage` is the busiest one; messages between stages
  /// with what the receiver gathers are the breakdown's "stage". The sum of tied embeddings is in no breakdown.
  std::vector<CollectiveOfStep> collectives;
};

/// The plan and the work must be such that `simulate` takes them.
PartsOfStep partsOfStep(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline, int64_t stage);

} // namespace kerf
