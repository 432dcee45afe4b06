// SPDX-License-Identifier: Apache-2.0
// A plan that says how a step is executed (stages, microbatches, what is sharded and made again) -> what the passes
// take: strategies of ops on the mesh of the device program, and which layer belongs to which part of the pipeline.
#pragma once

#include "kerf/Compiler/Compiler.h"
#include "kerf/PlanSearch/CompletePlan.h"
#include <set>

namespace kerf {

/// The layout of the stages that have one mesh.
struct LoweredLayout {
  Plan plan;                        // as these stages have it
  Plan passes;                      // ops and arguments on the mesh of the device program, which all layouts share
  std::vector<std::string> sharded; // axes of that mesh over which `optimizer_sharding` cuts
};

struct PlanLowering {
  CompletedPlan completed;
  std::vector<LoweredLayout> layouts; // the first stage's first
  std::vector<int> layoutOfStage;
  std::vector<int64_t> partOfLayer; // of the layers' forward calls, in order
};

/// `where` names the plan in messages.
Result<PlanLowering> lowerPlan(const TrainingStep &step, const Plan &plan, const std::string &where,
                               const Cluster &cluster);

/// `stages` that cut at ops, told by the calls of the step that was cut so.
Plan withLayers(mlir::ModuleOp module, Plan plan);

/// Stages whose forward pass uses the parameter: the first one for what stands before all layers, that of the last part
/// for what stands behind them.
std::set<int64_t> stagesOf(mlir::Value parameter, const PlanLowering &lowering);

/// Cuts optimizer states, gradients and parameters as the plan's `optimizer_sharding` says.
Status shardOptimizer(mlir::ModuleOp module, const PlanLowering &lowering);

/// Marks attention that gets keys and values round its ranks instead of gathered ones: with `context_style` ring, where
/// the sequence is cut evenly.
void markRings(mlir::ModuleOp module, const Plan &plan);

/// Writes the strategies and the mesh: of one layout, or of all, each on the ops of its stages. The calls of layers say
/// their parts.
Status applyLayouts(mlir::ModuleOp module, const PlanLowering &lowering);

/// Writes all that the plan decides into the module: the parts and the kinds of recomputation on the calls of layers,
/// the layouts, and who holds the optimizer's states.
Status applyExecution(mlir::ModuleOp module, const PlanLowering &lowering);

} // namespace kerf
