// SPDX-License-Identifier: Apache-2.0
// A plan and its model at the smallest size that keeps every feature of the plan's structure, for a run on a few CPU
// ranks.
#pragma once

#include "kerf/Compiler/Compiler.h"
#include "kerf/Frontend/SmallModel.h"
#include "kerf/PlanSearch/CompletePlan.h"

namespace kerf {

struct Shrunk {
  Plan plan;
  SmallSizes sizes;               // of a configuration's model
  std::vector<std::string> notes; // what became of what: "mesh.data 64 -> 2"
};

/// The model of a plan that is shrunk.
enum class ShrunkModel {
  Configured, // a config.json: its sizes and its batch become small
  Exported,   // it keeps its layers, its sizes and its batch
};

/// Every axis of more than one rank has two, or four where `optimizer_sharding_ranks` cuts it in part; stages that have
/// meshes of their own keep two of them; a pipeline of more than two stages has three, one of several chunks two;
/// microbatches stay more than the stages where they were. `layers`: of the model, encoder and decoder together.
Shrunk shrink(const CompletedPlan &completed, int64_t layers, ShrunkModel model);

/// The training step of a configuration's model with small sizes, made in memory. `options` have the full sizes. Adds
/// to `notes` what became of each size.
Result<TrainingStep> importSmallStep(mlir::MLIRContext &context, const ModelSource &config, const StepOptions &options,
                                     const SmallSizes &sizes, std::vector<std::string> &notes);

} // namespace kerf
