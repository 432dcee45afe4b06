// SPDX-License-Identifier: Apache-2.0
// Helpers for lowering ops that look up elements by index (embedding, take_along, cross_entropy) to one rank's shards.
#pragma once

#include "CompositeRules.h"

namespace kerf::ir {

/// Returns `operands`, the local operands of `op`, in which operand `index` (the indices or labels) has zeros in its
/// padding, because an invalid index would end the run.
llvm::SmallVector<mlir::Value> withZeroedPadding(mlir::OpBuilder &builder, mlir::Operation *op,
                                                 mlir::ValueRange operands, int index, const LocalizeContext &context);
/// Returns the global index of the first element of the rank's shard along a dimension with sharding `dimension`, as a
/// scalar i64. Returns null where the dimension is not sharded.
mlir::Value shardOffset(Emitter &emit, const DimSharding &dimension);
/// Checks that the offset is a scalar i64 where it is present, and reports an error on `op` where it is not.
mlir::LogicalResult checkOffset(mlir::Operation *op, mlir::Value offset);

} // namespace kerf::ir
