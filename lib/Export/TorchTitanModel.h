// SPDX-License-Identifier: Apache-2.0
// Models of TorchTitan: the flavors that it registers, and models of other sizes written in Python.
#pragma once

#include "View.h"

namespace kerf::exporting {

/// A model that TorchTitan registers under a name.
struct TitanFlavor {
  const char *module, *name; // "llama3", "8B"
  int64_t hidden, layers, heads, groups, headSize, inner, vocabulary;
  double epsilon, rotaryBase;
  bool tied;
  int64_t experts, expertsPerToken, expertWidth;
};

/// Returns the flavor that equals the model in every size and form, or null.
const TitanFlavor *titanFlavorOf(const ModelSizes &model);

/// Returns TorchTitan's name of the plan's schedule, or of the one that has the same parts.
const char *titanSchedule(const View &view);
/// Returns whether TorchTitan 0.3 has to read the plan's schedule from a file, because none of its own has this order.
bool titanReadsOrder(const View &view);
/// Writes the key "overlap". `sends`: whether sends between stages overlap with compute under the schedule that runs.
void writeTitanOverlap(const View &view, Draft &out, bool sends);

/// Returns what TorchTitan 0.3 has no module for in this model, for example "ALiBi positions"; empty: it can build the
/// model.
std::string titanLacks(const ModelSizes &model);

/// Returns the Python text of imports and of a function `model_spec` that returns the model for TorchTitan 0.3.
/// `converters` is the Python text of a list of converters, or empty. titanLacks(model) must be empty.
std::string titanModelText(const ModelSizes &model, const std::string &converters);

} // namespace kerf::exporting
