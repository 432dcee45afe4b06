// SPDX-License-Identifier: Apache-2.0
// An all-reduce is cut in the order of its elements. A reduce-scatter is cut so that each rank gets a part of its shard
// from each piece: the dimension that is scattered is divided by ranks first, and then within each rank's part.
#include "GradientPieces.h"
#include "GradientBlocks.h"
#include "kerf/Transforms/DeviceAxes.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

int64_t dividedUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Returns the elements from `begin` to `end` of `x` along its dimension `dim`.
Value partOf(ir::Emitter &emit, Value x, size_t dim, int64_t begin, int64_t end) {
  Shape shape = shapeOf(x), start(shape.size(), 0), limit = shape;
  start[dim] = begin;
  limit[dim] = end;
  shape[dim] = end - begin;
  auto list = [&](const Shape &numbers) { return emit.builder.getDenseI64ArrayAttr(numbers); };
  return SliceOp::create(emit.builder, emit.loc, RankedTensorType::get(shape, tensorType(x).getElementType()), x,
                         list(start), list(limit), list(Shape(shape.size(), 1)));
}

/// Creates a collective like `start` whose operand is `piece` and whose result has the type `result`.
Operation *likeStart(OpBuilder &builder, Operation *start, Value piece, RankedTensorType result, int64_t dim) {
  OperationState state(start->getLoc(), start->getName(), {piece}, {PendingType::get(builder.getContext(), result)},
                       start->getAttrs());
  if (isa<ReduceScatterOp>(start))
    state.attributes.set("dim", builder.getI64IntegerAttr(dim));
  return builder.create(state);
}

/// A gradient as a tensor that is cut along dimension `dim`: [elements] for an all-reduce, and [before, ranks, elements
/// of a rank's part, after] for a reduce-scatter.
struct CutGradient {
  Value whole;
  size_t dim = 0;
  int64_t length = 0;   // of `dim`
  int64_t smallest = 0; // least length of a piece that holds a block for each rank
};

CutGradient cutOf(ir::Emitter &emit, Operation *start, int64_t ranks, int64_t block) {
  Value gradient = start->getOperand(0);
  Shape shape = shapeOf(gradient);
  if (!isa<ReduceScatterOp>(start)) {
    int64_t count = tensorType(gradient).getNumElements();
    return {emit.reshape(gradient, {count}), 0, count, ranks * block};
  }
  auto dim = size_t(cast<ReduceScatterOp>(start).getDim());
  int64_t before = 1, after = 1, chunk = dividedUp(shape[dim], ranks);
  for (size_t d = 0; d < shape.size(); ++d)
    (d < dim ? before : after) *= d == dim ? 1 : shape[d];
  Value padded3 = padded(emit, emit.reshape(gradient, {before, shape[dim], after}), 1, ranks * chunk);
  return {emit.reshape(padded3, {before, ranks, chunk, after}), 2, chunk, dividedUp(block, before * after)};
}

} // namespace

SmallVector<Operation *> cutIntoPieces(Operation *start, int64_t pieces, int64_t block) {
  if (pieces <= 1)
    return {start};
  int64_t ranks = 1;
  for (const AxisRef &axis : axesFromFlat(start->getAttrOfType<DenseI64ArrayAttr>("axes").asArrayRef()))
    ranks *= axis.size;
  OpBuilder builder(start);
  ir::Emitter emit{builder, start->getLoc()};
  const bool scatters = isa<ReduceScatterOp>(start);
  const int64_t count = tensorType(start->getOperand(0)).getNumElements();
  if (count < 2 * ranks * block)
    return {start};
  CutGradient cut = cutOf(emit, start, ranks, block);
  const int64_t length = dividedUp(dividedUp(cut.length, pieces), cut.smallest) * cut.smallest;
  if (length >= cut.length)
    return {start};
  SmallVector<Operation *> made;
  for (int64_t begin = 0; begin < cut.length; begin += length) {
    Value piece = partOf(emit, cut.whole, cut.dim, begin, std::min(begin + length, cut.length));
    Shape shape = shapeOf(piece), result = shape;
    if (scatters) {
      shape = {shape[0], shape[1] * shape[2], shape[3]};
      result = {shape[0], shape[1] / ranks, shape[2]};
    }
    made.push_back(likeStart(builder, start, emit.reshape(piece, shape),
                             RankedTensorType::get(result, tensorType(piece).getElementType()), 1));
  }
  auto wait = cast<WaitOp>(*start->user_begin());
  builder.setInsertionPoint(firstUserOf(wait));
  SmallVector<Value> sums;
  for (Operation *piece : made) {
    auto type = cast<PendingType>(piece->getResult(0).getType()).getTensor();
    sums.push_back(WaitOp::create(builder, emit.loc, type, piece->getResult(0)));
  }
  const int64_t along = scatters ? 1 : 0;
  Shape shape = shapeOf(sums[0]);
  shape[size_t(along)] = cut.length;
  auto type = RankedTensorType::get(shape, tensorType(sums[0]).getElementType());
  Value whole = ConcatenateOp::create(builder, emit.loc, type, sums, builder.getI64IntegerAttr(along));
  wait.getResult().replaceAllUsesWith(emit.reshape(whole, tensorType(wait.getResult()).getShape()));
  wait->erase();
  start->erase();
  return made;
}

} // namespace kerf
