// SPDX-License-Identifier: Apache-2.0
// The record of an optimizer: its settings, its states and its update rule. All else is derived from the record: the
// options of the command line, the IR of the step, and how updates are sharded, fused, checkpointed and priced.
#pragma once

#include "kerf/Sharding/Sharding.h"
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kerf {

/// The kind of number that a setting holds. A Switch is 0 (off) or 1 (on).
enum class SettingKind { Real, Integer, Switch };

/// A hyper-parameter of an optimizer, which the command line has as the option --NAME.
struct OptimizerSetting {
  const char *name;     // name of the setting, e.g. "weight-decay"
  const char *helpText; // one line of --help
  double defaultValue;
  /// The setting's value is at least `minimum` and less than `upperLimit`.
  double minimum = 0, upperLimit = std::numeric_limits<double>::infinity();
  SettingKind kind = SettingKind::Real;
};

/// A tensor that an optimizer keeps for one parameter from step to step. It has the parameter's element type and starts
/// as zeros.
struct OptimizerState {
  const char *name; // name of the kind of state: with "exp_avg", the state of parameter w is called "exp_avg/w"
  Shape shape;      // global shape of the state
};

/// A value for each setting of an optimizer record, by the setting's name.
using SettingValues = std::map<std::string, double, std::less<>>;

class Update;     // the update of one parameter (kerf/Optimizer/Update.h)
struct CodedMean; // a mean that ranks may sum in place of gradients (kerf/Optimizer/CodedMean.h)

/// An optimizer, as a row of the table that `optimizers` returns.
struct OptimizerRecord {
  const char *name;     // "adamw", the word for --optimizer
  const char *helpText; // one line of --help, with the paper
  std::vector<OptimizerSetting> settings;
  /// Returns the states that the optimizer keeps for a parameter of `shape`.
  std::vector<OptimizerState> (*states)(const SettingValues &settings, const Shape &shape);
  /// Emits the ops that compute the new parameter and the new states.
  void (*rule)(Update &update);
  /// Whether the rule reads the number of the update.
  bool readsUpdateNumber = false;
  /// Whether the rule treats the dimensions of a parameter differently (rows and columns). Such a rule sees the shape
  /// in the exported model; all other rules see the shape that the program uses.
  bool readsParameterShape = false;
  /// Whether the rule divides by a mean of squared gradients. Error feedback of compressed gradients would distort it.
  bool dividesBySquares = false;
  /// The setting of a momentum that may as well be added to each rank's gradient before these are summed, because the
  /// rest of the rule is linear in it; null where there is none. Its state has the same name.
  const char *earlyMomentum = nullptr;
  /// The mean of gradients that ranks sum where gradients are compressed; null: they sum the gradients themselves.
  const CodedMean *codedMean = nullptr;
  /// Returns whether the rule applies to parameters of `shape`; null: it applies to all shapes.
  bool (*acceptsShape)(const Shape &shape) = nullptr;
  /// The name of the optimizer for parameters whose shape the rule does not accept; null where it accepts all shapes.
  const char *fallback = nullptr;
};

/// Returns all optimizers, in the order of --help.
const std::vector<OptimizerRecord> &optimizers();
/// Returns the record of the optimizer called `name`, or null where there is none.
const OptimizerRecord *findOptimizer(std::string_view name);
/// Returns the settings of all optimizers, one for each name, in the order of the records.
std::vector<OptimizerSetting> allSettings();
/// Returns the names of all optimizers as a text: "sgd, adam, adamw, ...".
std::string optimizerNames();
/// Returns the optimizer of a parameter of `shape` for which `record` was chosen: `record` itself, or its fallback
/// where it does not accept the shape.
const OptimizerRecord &optimizerOf(const OptimizerRecord &record, const Shape &shape);

} // namespace kerf
