// SPDX-License-Identifier: Apache-2.0
// Translates an execution plan (stages, microbatches, recomputation, optimizer sharding) into the input of the passes:
// the strategies of operators on the mesh of the device program, and the part of the pipeline for each layer.
#pragma once

#include "kerf/Compiler/Compiler.h"
#include "kerf/PlanSearch/CompletePlan.h"
#include <set>

namespace kerf {

/// The layout of all pipeline stages that have the same mesh.
struct LoweredLayout {
  Plan plan;   // the plan as it applies to these stages
  Plan passes; // strategies of operators and arguments on the mesh of the device program, which all layouts share
  std::vector<std::string> sharded; // axes of that mesh over which optimizer states are sharded
};

/// An execution plan translated for the passes.
struct PlanLowering {
  CompletedPlan completed;
  std::vector<LoweredLayout> layouts; // one for each different mesh, in the order of stages
  std::vector<int> layoutOfStage;     // index into `layouts` for each stage
  std::vector<int64_t>
      partOfLayer; // part of the pipeline (chunk * stages + stage) for each layer's forward call, in order
};

/// Completes `plan` and translates it for `step`. `where` names the plan in messages. Fails when plan, model and
/// cluster do not belong together.
Result<PlanLowering> lowerPlan(const TrainingStep &step, const Plan &plan, const std::string &where,
                               const Cluster &cluster);

/// Returns the plan with pipeline stages that end at operators rewritten as ranges of layers. The layer calls of
/// `module` have attributes that name their parts.
Plan withLayers(mlir::ModuleOp module, Plan plan);

/// Returns the pipeline stages whose forward pass uses the parameter. Operators before all layers count to the first
/// stage, operators after all layers to the last part.
std::set<int64_t> stagesOf(mlir::Value parameter, const PlanLowering &lowering);

/// Shards optimizer states, gradients and parameters over data-parallel ranks, according to the plan's
/// `optimizer_sharding` (levels 1 to 3). Fails when level 3 applies to some stages only.
Status shardOptimizer(mlir::ModuleOp module, const PlanLowering &lowering);

/// Marks the attention operators that run as ring attention: keys and values go round the ranks of "context" instead of
/// being gathered. This applies with `context_style` "ring" where the ranks divide the sequence evenly.
void markRingAttention(mlir::ModuleOp module, const Plan &plan);

/// Writes the mesh and the strategies of all layouts into the module, each on the operators of its stages. The layer
/// calls must have their parts (kPartAttr).
Status applyLayouts(mlir::ModuleOp module, const PlanLowering &lowering);

/// Writes all decisions of the plan into the module: parts and recomputation modes on layer calls, the layouts, and the
/// sharding of optimizer states. Fails when a pattern of the plan matches no layer.
Status applyExecution(mlir::ModuleOp module, const PlanLowering &lowering);

/// A step under a plan, with a strategy on each operator and reshards between them.
struct PlacedStep {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<PlanLowering> execution; // absent for a plan of single operators
  Mesh mesh;
  std::string pipeline; // the passes that placed the operators, as `pipelineText` writes them
};

/// Applies the plan to a copy of the step, and inserts the reshards. Fails when the plan does not belong to the step or
/// the cluster.
Result<PlacedStep> placeStep(const TrainingStep &step, const Plan &plan, const std::string &planFile,
                             const Cluster &cluster);

} // namespace kerf
