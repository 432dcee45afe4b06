// SPDX-License-Identifier: Apache-2.0
#include "kerf/Codec/LowRank.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {
/// The number that the norm of a row gets before the row is divided by it (as in PyTorch's hook).
constexpr double kOrthogonalEps = 1e-8;
/// Most terms of an element of P Q' that are added as elementwise ops. They are part of the kernel that reads the
/// matrix, so that the product is not written to memory and read again.
constexpr int64_t kMostTerms = 4;

/// Emits row number `row` of a factor as a vector.
Value rowOf(Emitter &emit, Value factor, int64_t row) {
  const int64_t size = shapeOf(factor)[1];
  auto numbers = [&](int64_t first, int64_t second) { return emit.builder.getDenseI64ArrayAttr({first, second}); };
  auto type = RankedTensorType::get({1, size}, cast<RankedTensorType>(factor.getType()).getElementType());
  Value slice =
      SliceOp::create(emit.builder, emit.loc, type, factor, numbers(row, 0), numbers(row + 1, size), numbers(1, 1));
  return emit.reshape(slice, {size});
}
} // namespace

Value lowRankLeft(Emitter &emit, Value right, Value matrix) { return emit.dot(right, matrix, {}, {}, {1}, {1}); }

Value lowRankRight(Emitter &emit, Value left, Value matrix) { return emit.dot(left, matrix, {}, {}, {1}, {0}); }

Value lowRankMatrix(Emitter &emit, Value left, Value right) {
  const int64_t rank = shapeOf(left)[0], rows = shapeOf(left)[1], columns = shapeOf(right)[1];
  if (rank > kMostTerms)
    return emit.dot(left, right, {}, {}, {0}, {0});
  Value sum;
  for (int64_t term = 0; term < rank; ++term) {
    Value ofRows = emit.broadcast(rowOf(emit, left, term), {rows, columns}, {0}),
          ofColumns = emit.broadcast(rowOf(emit, right, term), {rows, columns}, {1});
    Value product = emit.multiply(ofRows, ofColumns);
    sum = sum ? emit.add(sum, product) : product;
  }
  return sum;
}

Value orthogonalRows(Emitter &emit, Value factor) {
  const int64_t rank = shapeOf(factor)[0], size = shapeOf(factor)[1];
  SmallVector<Value> made;
  for (int64_t row = 0; row < rank; ++row) {
    Value x = rowOf(emit, factor, row);
    for (Value other : made) {
      Value share = emit.sum(emit.multiply(x, other), {0});
      x = emit.subtract(x, emit.multiply(other, emit.broadcast(share, {size}, {})));
    }
    Value squared = emit.sum(emit.multiply(x, x), {0});
    Value norm = SqrtOp::create(emit.builder, emit.loc, squared.getType(), squared);
    norm = emit.add(norm, emit.splat(kOrthogonalEps, norm));
    made.push_back(emit.divide(x, emit.broadcast(norm, {size}, {})));
  }
  SmallVector<Value> parts;
  for (Value x : made)
    parts.push_back(emit.reshape(x, {1, size}));
  return ConcatenateOp::create(emit.builder, emit.loc, factor.getType(), parts, emit.builder.getI64IntegerAttr(0));
}

} // namespace kerf
