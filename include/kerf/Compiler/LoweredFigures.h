// SPDX-License-Identifier: Apache-2.0
// The figures of a plan whose program runs on CPUs: the plan is lowered, the program priced, and its memory planned as
// the runtime will allocate it. Every command that prints seconds or bytes of such a plan asks here.
#pragma once

#include "kerf/Compiler/Compiler.h"

#include <map>
#include <tuple>

namespace kerf {

class LoweredFigures {
public:
  /// `dtype` as SimulateOptions has it; `step.precision` says how a step computes in bf16 and f16, and has
  /// defaultPrecision(dtype) where it is absent.
  LoweredFigures(mlir::MLIRContext &context, ModelSource model, StepOptions step, std::string dtype);

  /// Puts the seconds, their parts and the memory of the plan's program into `simulation`, which is the simulator's of
  /// the same plan. Refuses plans that cannot be lowered. `where` names the plan in messages.
  Status apply(const Plan &plan, const std::string &where, const Cluster &cluster, Simulation &simulation);
  /// Returns the figures of the lists of steps of the last plan that `apply` succeeded with, stage by stage.
  const std::vector<Report::StageSteps> &lastSteps() const { return stepsOfLast; }

private:
  Result<TrainingStep *> imported(const Plan &plan, const std::string &where);

  mlir::MLIRContext &context;
  ModelSource model;
  std::string dtype;
  StepOptions step;
  std::vector<Report::StageSteps> stepsOfLast;
  /// The imported steps. The key is the batch, then `cuts`, `patterns` and `patternsOfAllOps` of StepOptions.
  std::map<std::tuple<int64_t, std::vector<std::string>, std::vector<std::string>, bool>, TrainingStep> steps;
};

/// How a step in `dtype` computes where nobody says otherwise: bf16 without a loss scale, f16 with a dynamic one.
/// Nothing for f32 and f64.
std::optional<PrecisionOptions> defaultPrecision(std::string_view dtype);

/// The first figures over the second: what a search's estimate of the same plan is off by is not told twice.
void putFigures(const Simulation &lowered, Simulation &simulation);

} // namespace kerf
