// SPDX-License-Identifier: Apache-2.0
// What ops that look up by number share when they become local.
#pragma once

#include "CompositeRules.h"

namespace kerf::ir {

/// Returns `operands`, the local operands of `op`, with zeros in the padding of operand `index` (indices or labels).
llvm::SmallVector<mlir::Value> withZeroedPadding(mlir::OpBuilder &builder, mlir::Operation *op,
                                                 mlir::ValueRange operands, int index, const LocalizeContext &context);
/// Returns the first index that a rank holds of a dimension that lies as `dimension`, a scalar i64; null where the
/// dimension is not cut.
mlir::Value pieceOffset(Emitter &emit, const DimSharding &dimension);
/// Checks that the offset, where there is one, is a scalar i64.
mlir::LogicalResult checkOffset(mlir::Operation *op, mlir::Value offset);

} // namespace kerf::ir
