// SPDX-License-Identifier: Apache-2.0
// The record of an optimizer: its settings, its states and its rule. Everything else follows from the record: the
// options of the command line, the step's IR, how updates are cut, fused, checkpointed and priced.
#pragma once

#include "kerf/Sharding/Sharding.h"
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kerf {

enum class SettingKind { Real, Whole, Switch }; // a Switch is 0 or 1

/// A hyper-parameter: the command line's option --NAME.
struct OptimizerSetting {
  const char *name;                                                  // "weight-decay"
  const char *text;                                                  // one line of --help
  double usual;                                                      // where it is not given
  double least = 0, below = std::numeric_limits<double>::infinity(); // it lies in [least, below)
  SettingKind kind = SettingKind::Real;
};

/// A tensor that an optimizer keeps for one parameter. Its elements have the parameter's type and start as 0.
struct OptimizerState {
  const char *name; // "exp_avg": the state of parameter w is "exp_avg/w"
  Shape shape;
};

/// The settings of one parameter's update by name, all of the record's.
using SettingValues = std::map<std::string, double, std::less<>>;

class Update; // of one parameter (lib/Transforms/Update.h)

struct OptimizerRecord {
  const char *name; // "adamw", as --optimizer says it
  const char *text; // one line of --help, with the paper
  std::vector<OptimizerSetting> settings;
  /// The states of a parameter of this shape.
  std::vector<OptimizerState> (*states)(const SettingValues &settings, const Shape &shape);
  /// Emits the new parameter and the new states.
  void (*rule)(Update &update);
  /// The rule reads the number of the update.
  bool readsNumber = false;
  /// The rule tells dimensions apart: parameters have the shapes that they were exported with. Other rules see them as
  /// the program has them.
  bool readsShape = false;
  /// Which shapes the rule is for, and the optimizer that parameters of other shapes get; null: all shapes.
  bool (*takes)(const Shape &shape) = nullptr;
  const char *otherwise = nullptr;
};

/// All optimizers, in the order of --help.
const std::vector<OptimizerRecord> &optimizers();
/// The record, or null.
const OptimizerRecord *findOptimizer(std::string_view name);
/// One setting for each name that settings of optimizers have, in the order of the records.
std::vector<OptimizerSetting> allSettings();
/// "sgd, adam, adamw, ...".
std::string optimizerNames();
/// The optimizer that a parameter of this shape gets: the record, or the one that it names for other shapes.
const OptimizerRecord &optimizerOf(const OptimizerRecord &record, const Shape &shape);

} // namespace kerf
