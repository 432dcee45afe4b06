// SPDX-License-Identifier: Apache-2.0
// Predicts the step time and the memory of a plan on a cluster, without a search: the library call behind `kerf
// simulate` (docs/cost-model.md).
#pragma once

#include "kerf/Compiler/Compiler.h"
#include "kerf/CostModel/Simulator.h"
#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf {

/// The options of a prediction.
struct SimulateOptions {
  StepOptions step;
  std::string dtype = "f32";              // type of activations and products: "f64", "f32", "bf16", "f16" or "f8"
  const Trainer *trainer = &ownTrainer(); // the training system that runs the plan
  std::optional<int64_t> ranks =
      {};                  // the first N ranks of the cluster; absent: as many as the mesh of the plan has, or all
  Trace trace = Trace::No; // Yes: the simulation has a timeline of the step
  /// Compression that is planned for the gradients that the plan does not decide; absent: only what the plan states.
  std::optional<CompressionRequest> compression = {};
};

/// The prediction of one plan, with the data from which it was computed.
struct SimulatedPlan {
  Simulation simulation;
  StepWork work;   // FLOP and bytes of the step
  Mesh mesh;       // the mesh of the completed plan
  Plan plan;       // the plan with its gaps filled in
  StepPlan step;   // the plan in the form that the simulator takes
  Cluster cluster; // the ranks that the plan uses
  std::vector<std::string> warnings;
};

/// Fills the gaps of `plan` by the defaults of docs/plan.md and predicts a training step under it. `planFile` names the
/// plan in messages. A plan that does not fit into memory is not an error (Simulation::fits is false). Fails when plan,
/// model and cluster contradict each other.
Result<SimulatedPlan> simulatePlan(mlir::MLIRContext &context, const ModelSource &model, const Plan &plan,
                                   const std::string &planFile, const Cluster &cluster, const SimulateOptions &options);

} // namespace kerf
