// SPDX-License-Identifier: Apache-2.0
// Recognition of a softmax that is written out as exp(x - max(x)) / sum(exp(x - max(x))), which JAX does.
#include "Recognize.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

Value kerf::rowsAlong(Value value, ArrayRef<int64_t> full, int64_t dim) {
  Shape gone = withoutDim(full, dim), unit(full.begin(), full.end());
  unit[dim] = 1;
  auto isRow = [&](Value candidate) {
    auto shape = tensorType(candidate).getShape();
    return shape == ArrayRef<int64_t>(gone) || shape == ArrayRef<int64_t>(unit);
  };
  SmallVector<int64_t> others;
  for (int64_t d = 0; d < static_cast<int64_t>(full.size()); ++d)
    if (d != dim)
      others.push_back(d);
  if (auto broadcast = value.getDefiningOp<BroadcastInDimOp>()) {
    auto dims = broadcast.getBroadcastDimensions();
    bool kept = llvm::equal(dims, firstDims(static_cast<int64_t>(full.size()))) || llvm::equal(dims, others);
    if (!kept || !isRow(broadcast.getOperand()))
      return {};
    value = broadcast.getOperand();
  }
  while (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    if (!isRow(value) || !isRow(reshape.getOperand()))
      break;
    value = reshape.getOperand();
  }
  return isRow(value) ? value : Value();
}

Value kerf::reducedOperand(Value rows, ReduceKindIR kind, int64_t dim) {
  auto reduce = rows ? rows.getDefiningOp<ReduceOp>() : ReduceOp();
  bool matches = reduce && reduce.getKind() == kind && llvm::equal(reduce.getDimensions(), ArrayRef<int64_t>{dim});
  return matches ? reduce.getOperand() : Value();
}

/// Returns x where the value is max(-inf, x), otherwise the value itself.
static Value skipLowest(Value value) {
  auto maximum = value ? value.getDefiningOp<MaximumOp>() : MaximumOp();
  if (!maximum)
    return value;
  for (auto [constant, other] : {std::pair{maximum.getLhs(), maximum.getRhs()}, {maximum.getRhs(), maximum.getLhs()}})
    if (auto number = scalarOf(constant); number && std::isinf(*number) && *number < 0)
      return other;
  return value;
}

bool kerf::recognizeSoftmax(Operation *op) {
  auto divide = dyn_cast<DivideOp>(op);
  auto exponential = divide ? divide.getLhs().getDefiningOp<ExponentialOp>() : ExponentialOp();
  auto shifted = exponential ? exponential.getOperand().getDefiningOp<SubtractOp>() : SubtractOp();
  if (!shifted)
    return false;
  Value x = shifted.getLhs();
  auto shape = tensorType(x).getShape();
  for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()); ++dim) {
    Value sum = rowsAlong(divide.getRhs(), shape, dim), most = rowsAlong(shifted.getRhs(), shape, dim);
    if (!sum || !most || reducedOperand(sum, ReduceKindIR::sum, dim) != exponential.getResult())
      continue;
    most = rowsAlong(skipLowest(most), shape, dim);
    if (reducedOperand(most, ReduceKindIR::max, dim) != x)
      continue;
    OpBuilder builder(op);
    op->getResult(0).replaceAllUsesWith(
        SoftmaxOp::create(builder, op->getLoc(), x.getType(), x, builder.getI64IntegerAttr(dim)));
    return true;
  }
  return false;
}
