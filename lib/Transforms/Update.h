// SPDX-License-Identifier: Apache-2.0
// The update of one parameter, as the rule of an optimizer sees it.
#pragma once

#include "Term.h"
#include "kerf/Transforms/OptimizerRecord.h"
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

/// The IR values and settings from which the update of one parameter is emitted.
struct UpdateRequest {
  mlir::Location loc;
  llvm::StringRef name; // of the parameter
  mlir::Value parameter, gradient;
  mlir::SmallVector<mlir::Value> states; // in the record's order
  mlir::Value rate;                      // the learning rate, a scalar
  mlir::Value number;                    // the number of the update, a scalar, from 0; null if the record ignores it
  mlir::Value skip;                      // i1 scalar: true keeps all old values; null: the update is never skipped
  const OptimizerRecord &record;
  SettingValues settings;
  Shape shape; // the parameter's shape as the rule sees it
};

/// Emits the update at the builder's insertion point, as kerf.maps and the ops between them, all with the attribute
/// `kerf.update`. Returns the new parameter, followed by the new states.
mlir::SmallVector<mlir::Value> emitUpdate(mlir::OpBuilder &builder, const UpdateRequest &request);

} // namespace kerf
