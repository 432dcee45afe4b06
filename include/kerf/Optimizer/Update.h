// SPDX-License-Identifier: Apache-2.0
// The update of one parameter, as the rule of an optimizer sees it.
#pragma once

#include "kerf/Optimizer/Record.h"
#include "kerf/Optimizer/Term.h"
#include <algorithm>
#include <optional>

namespace kerf {

/// The inputs and outputs of an optimizer's rule for one parameter. The rule assigns the new values to `parameter` and
/// to the states. Parameter and gradient have one shape; states have the shapes of their record. All have the element
/// type in which the update is computed: the parameter's, or f32 for a 16-bit parameter.
class Update {
public:
  Term parameter, gradient;
  Term rate;                  // the learning rate
  std::optional<Term> number; // the number of this update, from 1; present if the record reads it
  SettingValues settings;
  std::vector<std::pair<std::string_view, Term>> states; // by name, in the record's order

  /// Returns the value of a setting.
  double operator[](std::string_view setting) const { return settings.find(setting)->second; }
  /// Returns the state with this name, which the rule reads and assigns.
  Term &state(std::string_view name) {
    return std::find_if(states.begin(), states.end(), [&](const auto &one) { return one.first == name; })->second;
  }
  /// Returns the shape of the parameter.
  Shape shape() const { return parameter.shape(); }
  /// Returns the number of elements of the parameter.
  double elements() const {
    double count = 1;
    for (int64_t size : shape())
      count *= static_cast<double>(size);
    return count;
  }
};

} // namespace kerf
