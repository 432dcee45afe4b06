// SPDX-License-Identifier: Apache-2.0
// The emission of an optimizer's update as IR.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Optimizer/Record.h"

namespace kerf {

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

/// Emits the parameter as a rank has it after local steps: less what it loses by `moves`, the rank's sum of learning
/// rate times mean (CodedMean::change). The request needs no gradient and no rate.
mlir::Value emitMoved(mlir::OpBuilder &builder, const UpdateRequest &request, mlir::Value moves);

} // namespace kerf
