// SPDX-License-Identifier: Apache-2.0
// Predicts step time and memory of a plan for CPUs from its compiled program: the kernels and collectives of the
// program give the seconds, and the runtime's memory plan gives the bytes. Every command that prints seconds or bytes
// of such a plan gets them here.
#pragma once

#include "kerf/Compiler/Compiler.h"

#include <map>
#include <tuple>

namespace kerf {

/// Predicts plans of one model from their compiled programs. Imported steps are cached between plans.
class LoweredFigures {
public:
  /// Prepares predictions for `model`. `dtype` is the type of activations and products ("f64", "f32", "bf16" or "f16").
  /// `step.precision` sets the mixed precision; absent, it is defaultPrecision(dtype).
  LoweredFigures(mlir::MLIRContext &context, ModelSource model, StepOptions step, std::string dtype);

  /// Compiles `plan` and replaces the seconds, their parts and the memory in `simulation`, the simulator's prediction
  /// of the same plan, by those of the compiled program. `where` names the plan in messages. Fails when the plan cannot
  /// be compiled.
  Status apply(const Plan &plan, const std::string &where, const Cluster &cluster, Simulation &simulation);
  /// Returns, for each pipeline stage, the report on the instruction list of the last plan for which `apply` succeeded.
  const std::vector<Report::StageSteps> &lastSteps() const { return stepsOfLast; }

private:
  /// Returns the training step of the model, imported for the plan: with the plan's batch size, with its cuts (the
  /// operators at which pipeline stages end) and with its pinned operators. Imports the model unless such a step is
  /// cached; this object owns the step. `where` names the plan in messages.
  Result<TrainingStep *> imported(const Plan &plan, const std::string &where);

  mlir::MLIRContext &context;
  ModelSource model;
  std::string dtype;
  StepOptions step;
  std::vector<Report::StageSteps> stepsOfLast;
  /// The cached steps. The key is the batch, then `cuts`, `patterns` and `patternsOfAllOps` of StepOptions.
  std::map<std::tuple<int64_t, std::vector<std::string>, std::vector<std::string>, bool>, TrainingStep> steps;
};

/// Returns the default mixed precision for --dtype `dtype`: "bf16" has no loss scale and "f16" has a dynamic loss
/// scale. Returns nothing for "f32" and "f64".
std::optional<PrecisionOptions> defaultPrecision(std::string_view dtype);

/// Replaces the step time, its parts, the memory and the derived rates in `simulation` by those of the compiled
/// program, `lowered`. Keeps what only the simulator knows: the share of recomputation and the largest tensors.
void copyFigures(const Simulation &lowered, Simulation &simulation);

} // namespace kerf
