// SPDX-License-Identifier: Apache-2.0
// The update of one parameter, as an optimizer's rule sees it.
#pragma once

#include "Term.h"
#include "kerf/Transforms/OptimizerRecord.h"
#include <algorithm>
#include <optional>

namespace kerf {

/// Parameter and gradient have one shape, states those of their record. All are of the type that the update computes
/// in: the parameter's, or f32 for 16-bit ones.
class Update {
public:
  Term parameter, gradient;
  Term rate;                  // the learning rate
  std::optional<Term> number; // of this update, from 1; of records that read it
  SettingValues settings;
  std::vector<std::pair<std::string_view, Term>> states;

  /// The setting's value.
  double operator[](std::string_view setting) const { return settings.find(setting)->second; }
  /// The state, to be read and set.
  Term &state(std::string_view name) {
    return std::find_if(states.begin(), states.end(), [&](const auto &one) { return one.first == name; })->second;
  }
  Shape shape() const { return parameter.shape(); }
  double elements() const {
    double count = 1;
    for (int64_t size : shape())
      count *= static_cast<double>(size);
    return count;
  }
};

/// The inputs of the update of one parameter.
struct UpdateRequest {
  mlir::Location loc;
  llvm::StringRef name; // of the parameter
  mlir::Value parameter, gradient;
  mlir::SmallVector<mlir::Value> states; // in the record's order
  mlir::Value rate;                      // the learning rate, a scalar
  mlir::Value number;                    // of the update, from 0, a scalar; null where the record does not read it
  mlir::Value skip;                      // i1: where it is true, nothing changes; may be null
  const OptimizerRecord &record;
  SettingValues settings;
  Shape shape; // that the rule sees
};

/// Emits the update where the builder stands: kerf.maps, and the ops between them, with `kerf.update`. Returns the new
/// parameter, then the new states.
mlir::SmallVector<mlir::Value> emitUpdate(mlir::OpBuilder &builder, const UpdateRequest &request);

} // namespace kerf
