// SPDX-License-Identifier: Apache-2.0
// The optimizer options of a training step, which the command line and the pass kerf-add-optimizer share.
#pragma once

#include "kerf/Optimizer/Record.h"
#include "kerf/Support/Compression.h"
#include "kerf/Support/Result.h"
#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// A group of parameters with optimizer options of their own.
struct OptimizerGroup {
  std::string glob;                   // pattern of parameter names; a parameter belongs to the first group that matches
  std::optional<double> learningRate; // base rate in place of the step's; the same schedule multiplies it
  std::optional<double> weightDecay;  // weight decay of the group; absent: the step's weight decay
  std::string optimizer = {};         // name of an optimizer record; "": the step's optimizer
};

/// The optimizer of a training step. The learning rate is no option, because it is an input of the step.
struct OptimizerOptions {
  std::string optimizer = "sgd"; // name of a record (Record.h)
  SettingValues settings = {};   // the settings given, used by all optimizers that have them; others keep their default
  std::vector<std::string> noDecayGlobs; // patterns of the names of parameters without weight decay
  double clipNorm = 0.0;                 // largest allowed global norm of the gradients; 0: no clipping
  bool gradientNorms = false;            // whether the step returns each gradient's squared norm, before clipping
  std::string reduceType; // type in which gradients are summed over ranks: "bf16" or "f16"; "": each gradient's type
  std::vector<OptimizerGroup> groups;
  int64_t accumulate = 1;              // gradient accumulation: batches of a step, whose gradients are averaged; >= 1
  CompressionOptions compression = {}; // gradients that are compressed when they are summed over ranks
  int64_t lossScaleWindow = 2000;      // steps in a row without overflow after which a dynamic loss scale doubles; >= 1
};

/// The optimizer of one parameter, with a value for each of the optimizer's settings.
struct ParameterOptimizer {
  const OptimizerRecord *record = nullptr;
  SettingValues settings;
  /// Returns the names and shapes of the states that this optimizer keeps for a parameter of `shape`.
  std::vector<OptimizerState> states(const Shape &shape) const { return record->states(settings, shape); }
};
/// Returns the optimizer of the parameter called `name`, whose shape in the exported model is `shape`. The options have
/// passed checkSettings.
ParameterOptimizer parameterOptimizer(const OptimizerOptions &options, std::string_view name, const Shape &shape);

/// Returns the optimizers that the options may assign to a parameter: the step's, those of groups, and the fallbacks of
/// these for shapes that they do not accept.
std::vector<const OptimizerRecord *> optimizersOf(const OptimizerOptions &options);

/// Checks the options. Fails where an optimizer does not exist, and where a setting is out of range or belongs to none
/// of the optimizers.
Status checkSettings(const OptimizerOptions &options);

/// Parses a setting such as "momentum=0.9" into its name and value. Fails where `text` has another form.
Result<std::pair<std::string, double>> settingFrom(const std::string &text);

} // namespace kerf
