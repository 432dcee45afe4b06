// SPDX-License-Identifier: Apache-2.0
// An emitter of ops that infers result types from operands.
#include "kerf/Dialect/Kerf/Emit.h"

#include "llvm/ADT/STLExtras.h"
#include <numeric>

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

static RankedTensorType withShape(Value value, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, tensorType(value).getElementType());
}

Shape kerf::ir::withoutDim(ArrayRef<int64_t> shape, int64_t dim) {
  Shape rest(shape.begin(), shape.end());
  rest.erase(rest.begin() + dim);
  return rest;
}

Shape kerf::ir::firstDims(int64_t count) {
  Shape dims(count);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

static Value splatOf(Emitter &emit, Attribute scalar, Value like) {
  auto type = RankedTensorType::get({}, tensorType(like).getElementType());
  Value constant = ConstantOp::create(emit.builder, emit.loc, type, DenseElementsAttr::get(type, scalar));
  return tensorType(like).getRank() == 0 ? constant : emit.broadcast(constant, tensorType(like).getShape(), {});
}

Value Emitter::splat(double value, Value like) {
  return splatOf(*this, builder.getFloatAttr(tensorType(like).getElementType(), value), like);
}

Value Emitter::splat(int64_t value, Value like) {
  return splatOf(*this, builder.getIntegerAttr(tensorType(like).getElementType(), value), like);
}

Value Emitter::broadcast(Value x, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  return BroadcastInDimOp::create(builder, loc, withShape(x, shape), x, dims);
}

Value Emitter::broadcastAlong(Value x, Value like, int64_t dim) {
  auto shape = tensorType(like).getShape();
  Shape dims = withoutDim(firstDims(static_cast<int64_t>(shape.size())), dim);
  return broadcast(x, shape, dims);
}

Value Emitter::broadcastLast(Value x, Value like) {
  auto shape = tensorType(like).getShape();
  return broadcast(x, shape, {static_cast<int64_t>(shape.size()) - 1});
}

Value Emitter::reduce(Value x, ReduceKindIR kind, ArrayRef<int64_t> dims) {
  if (dims.empty())
    return x;
  SmallVector<int64_t> shape;
  for (auto [dim, size] : llvm::enumerate(tensorType(x).getShape()))
    if (!llvm::is_contained(dims, static_cast<int64_t>(dim)))
      shape.push_back(size);
  return ReduceOp::create(builder, loc, withShape(x, shape), x, kind, dims);
}

Value Emitter::transpose(Value x, ArrayRef<int64_t> permutation) {
  if (llvm::is_sorted(permutation))
    return x;
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(tensorType(x).getDimSize(dim));
  return TransposeOp::create(builder, loc, withShape(x, shape), x, permutation);
}

Value Emitter::reshape(Value x, ArrayRef<int64_t> shape) {
  if (tensorType(x).getShape() == shape)
    return x;
  return ReshapeOp::create(builder, loc, withShape(x, shape), x);
}

Value Emitter::dot(Value x, Value y, ArrayRef<int64_t> xBatching, ArrayRef<int64_t> yBatching,
                   ArrayRef<int64_t> xContracting, ArrayRef<int64_t> yContracting, Type element,
                   ValueRange magnitudes) {
  SmallVector<int64_t> shape;
  for (int64_t dim : xBatching)
    shape.push_back(tensorType(x).getDimSize(dim));
  auto appendFree = [&](Value operand, ArrayRef<int64_t> batching, ArrayRef<int64_t> contracting) {
    for (auto [dim, size] : llvm::enumerate(tensorType(operand).getShape()))
      if (!llvm::is_contained(batching, static_cast<int64_t>(dim)) &&
          !llvm::is_contained(contracting, static_cast<int64_t>(dim)))
        shape.push_back(size);
  };
  appendFree(x, xBatching, xContracting);
  appendFree(y, yBatching, yContracting);
  auto type = RankedTensorType::get(shape, element ? element : tensorType(x).getElementType());
  return DotGeneralOp::create(builder, loc, type, x, y, magnitudes, xBatching, yBatching, xContracting, yContracting);
}

Value Emitter::iota(ArrayRef<int64_t> shape, Type elementType, int64_t dim) {
  return IotaOp::create(builder, loc, RankedTensorType::get(shape, elementType), Value(),
                        builder.getI64IntegerAttr(dim));
}

Value Emitter::compare(Value x, Value y, Comparison direction) {
  auto type = RankedTensorType::get(tensorType(x).getShape(), builder.getI1Type());
  return CompareOp::create(builder, loc, type, x, y, direction);
}

Value Emitter::convert(Value x, Type elementType) {
  if (tensorType(x).getElementType() == elementType)
    return x;
  return ConvertOp::create(builder, loc, RankedTensorType::get(tensorType(x).getShape(), elementType), x);
}
