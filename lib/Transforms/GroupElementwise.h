// SPDX-License-Identifier: Apache-2.0
// Grouping of elementwise ops into a few kerf.maps.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"

namespace kerf {

/// Replaces the elementwise ops among `ops` by kerf.maps: one for all ops of one shape that stand between two ops that
/// combine elements (reductions, products). Broadcast scalars and constants move into the maps. Returns the maps and
/// the remaining ops in their new order.
///
/// `ops` are the ops of one block in program order, and no other op of the block reads their results, except for
/// an op after the last of them. `results` are the values that are still needed; they are updated to the values
/// that replace them.
mlir::SmallVector<mlir::Operation *> groupElementwise(mlir::OpBuilder &builder, mlir::ArrayRef<mlir::Operation *> ops,
                                                      mlir::MutableArrayRef<mlir::Value> results);

} // namespace kerf
