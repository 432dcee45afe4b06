// SPDX-License-Identifier: Apache-2.0
// Reduces a plan and its model to the smallest size that keeps every feature of the plan, for a trial run on a few CPU
// ranks.
#pragma once

#include "kerf/Compiler/Compiler.h"
#include "kerf/Frontend/SmallModel.h"
#include "kerf/PlanSearch/CompletePlan.h"

namespace kerf {

/// A plan of reduced size.
struct ShrunkPlan {
  Plan plan;
  SmallSizes sizes;               // sizes for the model of a config.json
  std::vector<std::string> notes; // one text for each reduced size: "mesh.data 64 -> 2"
};

/// The kind of model whose plan is reduced.
enum class ShrunkModel {
  Configured, // a config.json, whose sizes and batch are reduced too
  Exported,   // an export, which keeps its layers, sizes and batch
};

/// Reduces a plan to few ranks. Every mesh axis with several ranks keeps two ranks, or four where
/// `optimizer_sharding_ranks` divides the axis. A pipeline keeps at most three stages and at most two chunks per stage.
/// Two different meshes remain where stages have meshes of their own. More microbatches than stages remain where the
/// plan had more. `layers` is the number of layers of the model, encoder and decoder together.
ShrunkPlan shrink(const CompletedPlan &completed, int64_t layers, ShrunkModel model);

/// Imports the model of a config.json with reduced sizes as a training step, without files or weights. `options` has
/// the full sizes, and `sizes` says which sizes the reduced model must have. Appends one text for each reduced size to
/// `notes`.
Result<TrainingStep> importSmallStep(mlir::MLIRContext &context, const ModelSource &config, const StepOptions &options,
                                     const SmallSizes &sizes, std::vector<std::string> &notes);

} // namespace kerf
