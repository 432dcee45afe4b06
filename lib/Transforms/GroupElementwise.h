// SPDX-License-Identifier: Apache-2.0
// Ops that work on each element apart become few kerf.maps.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"

namespace kerf {

/// Puts the elementwise ops among `ops` into kerf.maps: one for all ops of a shape between two ops that mix elements
/// (reductions, products). `ops` stand in one block in this order, nothing else of the block reads them but the op
/// behind the last of them, and `results` are the values of theirs that are still wanted: they become what replaces
/// them. Scalars that are broadcast, and constants, go into the maps. Returns the maps and the ops that stay, in their
/// new order.
mlir::SmallVector<mlir::Operation *> groupElementwise(mlir::OpBuilder &builder, mlir::ArrayRef<mlir::Operation *> ops,
                                                      mlir::MutableArrayRef<mlir::Value> results);

} // namespace kerf
