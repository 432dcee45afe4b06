// SPDX-License-Identifier: Apache-2.0
// The optimizer of a training step, as the command line and kerf-add-optimizer both say it.
#pragma once

#include "kerf/Support/Result.h"
#include "kerf/Transforms/OptimizerRecord.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// Parameters with settings of their own.
struct OptimizerGroup {
  std::string glob;                   // of names; a parameter is of the first group whose glob matches
  std::optional<double> learningRate; // instead of the step's; the schedule multiplies it likewise
  std::optional<double> weightDecay;
  std::string optimizer = {}; // instead of the step's; "": the step's
};

/// The learning rate is not here: it is an input of the step.
struct OptimizerOptions {
  std::string optimizer = "sgd";         // a record's name (OptimizerRecord.h)
  SettingValues settings = {};           // that are given, for all optimizers that have them; records have the others
  std::vector<std::string> noDecayGlobs; // parameters (by name) without weight decay
  double clipNorm = 0.0;                 // largest global norm of the gradients; 0: no clipping
  bool gradientNorms = false;            // also return each gradient's squared norm, before clipping
  std::string reduceType;                // "bf16" or "f16": in which gradients are summed over ranks; "": their own
  std::vector<OptimizerGroup> groups;
  int64_t accumulate = 1;         // batches of one step, whose gradients are averaged; >= 1
  int64_t lossScaleWindow = 2000; // good steps after which a dynamic loss scale doubles; >= 1
};

/// The optimizer of one parameter, with a value for each of its settings.
struct ParameterOptimizer {
  const OptimizerRecord *record = nullptr;
  SettingValues settings;
  std::vector<OptimizerState> states(const Shape &shape) const { return record->states(settings, shape); }
};
/// `shape`: the parameter's, as it was exported. The optimizers of `options` exist (checkSettings).
ParameterOptimizer parameterOptimizer(const OptimizerOptions &options, std::string_view name, const Shape &shape);

/// The optimizers that parameters may get: of the step, of groups, and for shapes that one of these does not take.
std::vector<const OptimizerRecord *> optimizersOf(const OptimizerOptions &options);

/// Refuses optimizers that do not exist, and settings that none of the optimizers has or that are out of range.
Status checkSettings(const OptimizerOptions &options);

/// "momentum=0.9" as a name and a number.
Result<std::pair<std::string, double>> settingFrom(const std::string &text);

/// Attribute of a module whose step takes several batches: how many.
inline constexpr const char *kAccumulateAttr = "kerf.accumulate";

/// Makes @main, which returns the loss and gradients, the training step (Passes.td says how it looks). Reports options
/// out of range.
mlir::LogicalResult addOptimizer(mlir::ModuleOp module, const OptimizerOptions &options);

/// kerf-add-optimizer with these options.
std::unique_ptr<mlir::Pass> createAddOptimizer(const OptimizerOptions &options);

} // namespace kerf
