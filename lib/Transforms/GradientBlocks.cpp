// SPDX-License-Identifier: Apache-2.0
#include "GradientBlocks.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {
int64_t quotientUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
} // namespace

Value padded(Emitter &emit, Value x, int64_t dim, int64_t size) {
  Shape shape = shapeOf(x);
  if (shape[size_t(dim)] == size)
    return x;
  Shape none(shape.size(), 0), high = none;
  high[size_t(dim)] = size - shape[size_t(dim)];
  shape[size_t(dim)] = size;
  Type element = tensorType(x).getElementType();
  auto scalar = RankedTensorType::get({}, element);
  Value zero = ConstantOp::create(emit.builder, emit.loc, scalar,
                                  DenseElementsAttr::get(scalar, emit.builder.getZeroAttr(element)));
  auto list = [&](const Shape &numbers) { return emit.builder.getDenseI64ArrayAttr(numbers); };
  return PadOp::create(emit.builder, emit.loc, RankedTensorType::get(shape, element), x, zero, list(none), list(high),
                       list(none));
}

namespace {
Value sliceOf(Emitter &emit, Value x, size_t dim, int64_t begin, int64_t end) {
  Shape limit = shapeOf(x), start(limit.size(), 0), shape = limit;
  if (begin == 0 && end == limit[dim])
    return x;
  start[dim] = begin;
  limit[dim] = end;
  shape[dim] = end - begin;
  auto list = [&](const Shape &numbers) { return emit.builder.getDenseI64ArrayAttr(numbers); };
  return SliceOp::create(emit.builder, emit.loc, RankedTensorType::get(shape, tensorType(x).getElementType()), x,
                         list(start), list(limit), list(Shape(shape.size(), 1)));
}
} // namespace

Value rowsOf(Emitter &emit, Value x, int64_t begin, int64_t end) { return sliceOf(emit, x, 0, begin, end); }

Value firstOf(Emitter &emit, Value x, int64_t dim, int64_t size) { return sliceOf(emit, x, size_t(dim), 0, size); }

Operation *firstUserOf(WaitOp wait) {
  Operation *first = wait->getBlock()->getTerminator();
  for (Operation *user : wait->getUsers())
    if (user->getBlock() == wait->getBlock() && user->isBeforeInBlock(first))
      first = user;
  return first;
}

GradientBlocks::GradientBlocks(RankedTensorType gradient, int64_t parts, std::optional<int64_t> dim, int64_t block)
    : parts(parts), block(block), gradient(gradient), dim(dim) {
  if (dim) {
    for (int64_t d = 0; d < gradient.getRank(); ++d)
      (d < *dim ? before : after) *= d == *dim ? 1 : gradient.getDimSize(d);
    chunk = quotientUp(gradient.getDimSize(*dim), parts);
    elementsOfPart = before * chunk * after;
  } else {
    elementsOfPart = quotientUp(gradient.getNumElements(), parts * block) * block;
  }
  blocksOfPart = quotientUp(elementsOfPart, block);
}

Value GradientBlocks::toBlocks(Emitter &emit, Value value) const {
  value = emit.convert(value, emit.builder.getF32Type());
  if (dim) { // [before, parts, chunk * after] becomes [parts, before * chunk * after]
    value = emit.reshape(value, {before, gradient.getDimSize(*dim), after});
    value = padded(emit, value, 1, parts * chunk);
    value = emit.transpose(emit.reshape(value, {before, parts, chunk * after}), {1, 0, 2});
    value = padded(emit, emit.reshape(value, {parts, elementsOfPart}), 1, blocksOfPart * block);
  } else {
    value = padded(emit, emit.reshape(value, {gradient.getNumElements()}), 0, parts * blocksOfPart * block);
  }
  return emit.reshape(value, {parts * blocksOfPart, block});
}

Value GradientBlocks::fromBlocks(Emitter &emit, Value blocks) const {
  Value flat = rowsOf(emit, emit.reshape(blocks, {parts * blocksOfPart * block}), 0, gradient.getNumElements());
  return emit.convert(emit.reshape(flat, gradient.getShape()), gradient.getElementType());
}

Value GradientBlocks::partToBlocks(Emitter &emit, Value part) const {
  part = emit.reshape(emit.convert(part, emit.builder.getF32Type()), {elementsOfPart});
  return emit.reshape(padded(emit, part, 0, blocksOfPart * block), {blocksOfPart, block});
}

Value GradientBlocks::wholeFromBlocks(Emitter &emit, Value blocks) const {
  Value rows = firstOf(emit, emit.reshape(blocks, {parts, blocksOfPart * block}), 1, elementsOfPart);
  rows = emit.reshape(rows, {parts, before, chunk * after});
  if (before > 1)
    rows = emit.transpose(rows, {1, 0, 2});
  Value whole = firstOf(emit, emit.reshape(rows, {before, parts * chunk, after}), 1, gradient.getDimSize(*dim));
  return emit.convert(emit.reshape(whole, gradient.getShape()), gradient.getElementType());
}

Value GradientBlocks::partFromBlocks(Emitter &emit, Value blocks, RankedTensorType type) const {
  Value flat = rowsOf(emit, emit.reshape(blocks, {blocksOfPart * block}), 0, type.getNumElements());
  return emit.convert(emit.reshape(flat, type.getShape()), type.getElementType());
}

} // namespace kerf
