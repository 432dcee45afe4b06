// SPDX-License-Identifier: Apache-2.0
#include "Common/Metrics.h"

#include "kerf/Dialect/Kerf/Emit.h"
#include <fmt/format.h>

namespace kerf::frontend {

/// Converts `value` to the type `element`. For a sum of integers, the summands are converted before the sum.
static mlir::Value converted(ir::Emitter &emit, mlir::Value value, mlir::Type element) {
  if (ir::tensorType(value).getElementType() == element)
    return value;
  if (auto reshape = value.getDefiningOp<ir::ReshapeOp>())
    return emit.reshape(converted(emit, reshape.getOperand(), element), ir::shapeOf(value));
  auto reduce = value.getDefiningOp<ir::ReduceOp>();
  if (reduce && reduce.getKind() == ir::ReduceKindIR::sum)
    return emit.sum(converted(emit, reduce.getOperand(), element), reduce.getDimensions());
  if (auto convert = value.getDefiningOp<ir::ConvertOp>();
      convert && ir::tensorType(convert.getOperand()).getElementType().isInteger() &&
      ir::tensorType(value).getElementType().isInteger() &&
      ir::tensorType(convert.getOperand()).getElementType().getIntOrFloatBitWidth() <=
          ir::tensorType(value).getElementType().getIntOrFloatBitWidth())
    return converted(emit, convert.getOperand(), element);
  return emit.convert(value, element);
}

Result<mlir::Value> metricOf(TermBuilder &b, const std::string &name, const Term &value, DType type) {
  if (elementsOf(value.shape) != 1)
    return Error{fmt::format("the metric '{}' has the shape {}, but one number is needed; return its mean or sum", name,
                             shapeText(value.shape))};
  KERF_TRY(scalar, b.reshape(value, {}));
  mlir::Value number = b.emit(scalar);
  ir::Emitter emit{b.builder, b.loc};
  return converted(emit, number, b.type(type, {}).getElementType());
}

} // namespace kerf::frontend
