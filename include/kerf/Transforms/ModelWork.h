// SPDX-License-Identifier: Apache-2.0
// A training step and its placement -> what one rank does, as plain data (kerf/CostModel/ModelWork.h):
// kernels at local sizes, collectives, saved tensors. A repeated layer is told once (docs/cost-model.md, "From a model
// to its work").
#pragma once

#include "kerf/CostModel/ModelWork.h"
#include "kerf/Transforms/Placement.h"

namespace kerf {

struct WorkOptions {
  /// Of floating tensors: "f64", "f32", "bf16", "f16", or "f8" (products only; the rest is bf16). Sums and the loss are
  /// f32 at least.
  std::string dtype = "f32";
  bool fusedAttention = true; // else products, softmax and dropout of their own
  /// Axis of the placement's mesh -> the plan's axis that it is (kPlanAxes); nothing: the axis stands for
  /// microbatches.
  std::vector<std::optional<AxisRef>> axes;
  /// Of the pipeline, where the step is cut at ops (kerf-cut-stages): what each gets is told.
  int64_t parts = 1;
};

Result<ModelWork> modelWork(mlir::ModuleOp module, const Placement &placement, const std::vector<int> &choice,
                            const CollectiveModel &collectives, const WorkOptions &options);

} // namespace kerf
