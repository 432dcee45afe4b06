// SPDX-License-Identifier: Apache-2.0
// A value with dimensions split into parts, computed that way from the start where possible: a split that would rise
// through the ops that make the value until it meets a merge, a broadcast, or a parameter that can be viewed.
#pragma once

#include "Matching.h"
#include "ReshapeAlgebra.h"
#include <map>

namespace kerf {

/// Ops that treat each element alike: any of their operands' dimensions may be split or permuted, in all operands and
/// results at once.
bool isElementwise(mlir::Operation *op);

/// Users of a value that is to be split: one op, or several that the caller all serves.
enum class Users { One, Served };
/// True when `value` can be made with `parts` without leaving a new split behind, but on parameters.
bool canSplit(mlir::Value value, const Parts &parts, Users users);

/// Makes values with parts, each once, at the place of the op that is remade.
class Splitter {
public:
  mlir::Value split(mlir::Value value, const Parts &parts);

private:
  mlir::Value make(mlir::Value value, const Parts &parts);
  mlir::Value splitBroadcast(ir::BroadcastInDimOp op, const Parts &parts);
  mlir::Value splitTranspose(ir::TransposeOp op, const Parts &parts);
  mlir::Value splitSlice(ir::SliceOp op, const Parts &parts);
  std::map<std::pair<void *, Shape>, mlir::Value> made;
};

/// The same op on operands of other shapes: name, attributes and location stay.
mlir::Operation *remade(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands,
                        mlir::ArrayRef<Shape> resultShapes);
mlir::Value reshapeAt(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, mlir::ArrayRef<int64_t> shape);

/// The parts of a product's operands when its result has `parts`; contracting dimensions stay whole.
void productParts(ir::DotGeneralOp op, const Parts &parts, Parts &lhs, Parts &rhs);
/// The product on operands split as said, whose result is split accordingly.
mlir::Value splitProduct(ir::DotGeneralOp op, mlir::Value lhs, const Parts &lhsParts, mlir::Value rhs,
                         const Parts &rhsParts);

/// "parameter", "buffer", "constant": arguments that a program may see under another shape of the same elements.
bool isViewable(mlir::BlockArgument argument);

} // namespace kerf
