// SPDX-License-Identifier: Apache-2.0
// Moving splits up: a value whose dimensions are to be split is computed with split dimensions from the start, where
// possible. The split moves up through the ops that compute the value, until it cancels with a merge, is absorbed by a
// broadcast, or reaches a parameter that may have another shape than the exported one.
#pragma once

#include "Matching.h"
#include "ReshapeAlgebra.h"
#include <map>

namespace kerf {

/// Returns whether the op treats all elements alike, so that a dimension may be split or permuted in all its operands
/// and results at once.
bool isElementwise(mlir::Operation *op);

/// The users of a value that is to be split: a single op, or several ops all of which the caller changes to read the
/// split value.
enum class Users { One, Served };
/// Returns whether `value` can be computed with `parts` without leaving a new split behind, except on parameters.
bool canSplit(mlir::Value value, const Parts &parts, Users users);

/// A rewriter that computes values with split dimensions, each value and split at most once. New ops are inserted where
/// the ops that they replace stand.
class Splitter {
public:
  /// Returns `value` with its dimensions split into `parts`. canSplit is true for both.
  mlir::Value split(mlir::Value value, const Parts &parts);

private:
  mlir::Value make(mlir::Value value, const Parts &parts);
  mlir::Value splitBroadcast(ir::BroadcastInDimOp op, const Parts &parts);
  mlir::Value splitTranspose(ir::TransposeOp op, const Parts &parts);
  mlir::Value splitSlice(ir::SliceOp op, const Parts &parts);
  std::map<std::pair<void *, Shape>, mlir::Value> made; // by the value and the shape after the split
};

/// Creates an op with the name, attributes and location of `op` on operands and results of other shapes.
mlir::Operation *cloneWithShapes(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands,
                                 mlir::ArrayRef<Shape> resultShapes);
/// Emits a reshape of `value` to `shape` at `loc`.
mlir::Value reshapeAt(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, mlir::ArrayRef<int64_t> shape);

/// Sets `lhs` and `rhs` to the splits of a product's operands that give the result the split `parts`. Contracting
/// dimensions are not split.
void productParts(ir::DotGeneralOp op, const Parts &parts, Parts &lhs, Parts &rhs);
/// Emits the product `op` on operands that are split into `lhsParts` and `rhsParts`, and returns its result, which is
/// split accordingly.
mlir::Value splitProduct(ir::DotGeneralOp op, mlir::Value lhs, const Parts &lhsParts, mlir::Value rhs,
                         const Parts &rhsParts);

/// Returns whether the argument is of a kind ("parameter", "buffer", "constant") that the program may see under another
/// shape than the exported one.
bool isViewable(mlir::BlockArgument argument);

} // namespace kerf
