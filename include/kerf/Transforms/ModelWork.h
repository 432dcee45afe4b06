// SPDX-License-Identifier: Apache-2.0
// Converts a training step and its placement to the work of one rank, as plain data (kerf/CostModel/ModelWork.h):
// kernels at local sizes, collectives and saved tensors. The work of repeated layers is listed once
// (docs/cost-model.md, "From a model to its work").
#pragma once

#include "kerf/CostModel/ModelWork.h"
#include "kerf/Transforms/Placement.h"

namespace kerf {

/// The settings of a plan that determine the work of a step besides its placement.
struct WorkOptions {
  /// The type of floating-point tensors: "f64", "f32", "bf16", "f16", or "f8" (products only; the rest is bf16). Sums
  /// and the loss are in f32 or wider.
  std::string dtype = "f32";
  bool fusedAttention = true; // false: attention is separate kernels for its products, softmax and dropout
  /// For each axis of the placement's mesh, the axis of the plan (kPlanAxes) or sub-axis that it stands for; nothing
  /// for the axis that counts microbatches.
  std::vector<std::optional<AxisRef>> axes;
  /// The number of pipeline parts, where the step is cut at named ops (kerf-cut-stages). With more than 1,
  /// ModelWork::receivedBytes lists what each part receives.
  int64_t parts = 1;
  /// Whether a product, its bias and GELU are one kernel, and so are a product and the gradient of GELU, and a weight's
  /// gradient and that of a bias.
  bool joinsProducts = false;
  /// Whether a reduction is part of the pointwise kernel that computes its operand, which is then not stored for it.
  bool fusesReductions = false;
  /// Whether the cross entropy reads a classifier's scores once and in their own type, and its gradient is written over
  /// them, as in Kerf's own programs. Otherwise a trainer converts the scores to f32, keeps them so until their
  /// gradient is complete, and passes over them several times.
  bool fusedLoss = false;
  /// Bytes per score of a classifier that a trainer needs beside the scores in f32 and their gradient while it computes
  /// this gradient (TrainerMemory::lossBytes).
  double lossBytes = 0;
  RingMemory ring = {}; // what ring attention holds (TrainerMemory::ring)
};

/// Returns the work of one rank for one microbatch of the step, with strategy `choice[i]` for node i of `placement`.
Result<ModelWork> modelWork(mlir::ModuleOp module, const Placement &placement, const std::vector<int> &choice,
                            const CollectiveModel &collectives, const WorkOptions &options);

} // namespace kerf
