// SPDX-License-Identifier: Apache-2.0
// A training step and its placement -> what one rank does, as the simulator's plain data (kerf/CostModel/StepWork.h):
// kernels at local sizes, collectives, saved tensors. A repeated layer is told once (docs/cost-model.md, "From a model
// to its work").
#pragma once

#include "kerf/CostModel/StepWork.h"
#include "kerf/Transforms/Placement.h"

namespace kerf {

struct WorkOptions {
  /// Of floating tensors: "f64", "f32", "bf16", "f16", or "f8" (products only; the rest is bf16). Sums and the loss are
  /// f32 at least.
  std::string dtype = "f32";
  bool fusedAttention = true; // else products, softmax and dropout of their own
  /// Axis of the placement's mesh -> the axis of the cluster's mesh that it is; nothing: the axis stands for
  /// microbatches.
  std::vector<std::optional<AxisRef>> axes;
};

/// A segment of the chain through the model, in forward order: before the layers, a run of layers, (between, a run,)
/// after.
struct ChainLink {
  Segment segment;    // repeat 1
  int64_t layers = 0; // of a run; 0: what stands before, between or after
};

struct ModelWork {
  std::vector<ChainLink> chain;
  /// Parameters that a later link uses too (tied embeddings): a copy where another stage holds that link.
  std::vector<std::pair<size_t, ParameterGroup>> tied;
  double tokens = 0, modelFlops = 0;            // of the whole module's batch
  double streamBytes = 0, streamLocalBytes = 0; // what layers hand on: whole, and what one rank holds of it
  int64_t layers() const;
};

Result<ModelWork> modelWork(mlir::ModuleOp module, const Placement &placement, const std::vector<int> &choice,
                            const CollectiveModel &collectives, const WorkOptions &options);

} // namespace kerf
