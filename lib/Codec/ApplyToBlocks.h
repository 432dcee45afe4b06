// SPDX-License-Identifier: Apache-2.0
// A function of one block, applied to many blocks at once.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf {

/// A value of a block's function in the function of many blocks: `each` has the blocks as its first dimension; without
/// `each`, all blocks have the same value.
struct BlockValue {
  mlir::Value value;
  bool each = false;
};

/// Returns whether applyToBlocks supports the op, which is in the function of one block.
bool appliesToBlocks(mlir::Operation *op);

/// Emits the ops of `function`, which is about one block, for `blocks` blocks, and returns its results, each with the
/// blocks as its first dimension. With `sameRandom`, blocks have the same random numbers; otherwise each has its own.
/// Where the argument that is the key has no value, the random numbers are one half.
mlir::SmallVector<mlir::Value> applyToBlocks(mlir::OpBuilder &builder, mlir::Location loc, mlir::func::FuncOp function,
                                             llvm::ArrayRef<BlockValue> arguments, int64_t blocks, bool sameRandom);

} // namespace kerf
