// SPDX-License-Identifier: Apache-2.0
// What a plan would take on a cluster, predicted without a search and without lowering: `kerf simulate` as a call
// (docs/cost-model.md).
#pragma once

#include "kerf/Compiler/Compiler.h"
#include "kerf/CostModel/Simulator.h"

namespace kerf {

struct SimulateOptions {
  StepOptions step;
  std::string dtype = "f32"; // "f64", "f32", "bf16", "f16", "f8": of activations and products (mixed precision)
  const Trainer *trainer = &ownTrainer(); // that runs the plan
  std::optional<int64_t> ranks = {};      // the first of the cluster; absent: as many as the plan's mesh has, or all
  Trace trace = Trace::No;
};

struct Simulated {
  Simulation simulation;
  StepWork work;
  Mesh mesh;
  Plan plan;       // with everything filled in that was free
  StepPlan step;   // what the simulator made of it
  Cluster cluster; // the ranks that are used
  std::vector<std::string> warnings;
};

/// Completes a partial plan as docs/plan.md says and predicts its step. A plan that does not fit is no error
/// (Simulation::fits). `planFile` names the plan in messages.
Result<Simulated> simulatePlan(mlir::MLIRContext &context, const ModelSource &model, const Plan &plan,
                               const std::string &planFile, const Cluster &cluster, const SimulateOptions &options);

} // namespace kerf
