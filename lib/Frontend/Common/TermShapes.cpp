// SPDX-License-Identifier: Apache-2.0
// Operations on terms that move, join or reduce elements.
#include "Common/TermBuilder.h"

#include <fmt/format.h>

namespace kerf::frontend {

Result<Term> TermBuilder::broadcast(const Term &x, const Shape &shape) {
  if (x.shape == shape)
    return x;
  if (x.isConstant())
    return fromResult(broadcastLiteral(*x.literal, shape));
  KERF_TRY(common, broadcastShapes(x.shape, shape));
  if (common != shape)
    return Error{fmt::format("shape {} does not broadcast to {}", shapeText(x.shape), shapeText(shape))};
  return fromValue(emitAs(x, shape));
}

Result<Term> TermBuilder::reshape(const Term &x, const Shape &shape) {
  if (x.shape == shape)
    return x;
  if (elementsOf(x.shape) != elementsOf(shape))
    return Error{fmt::format("shape {} of {} elements cannot become {} of {}", shapeText(x.shape), elementsOf(x.shape),
                             shapeText(shape), elementsOf(shape))};
  if (x.isConstant())
    return fromResult(foldReshape(*x.literal, shape));
  return fromValue(ir::ReshapeOp::create(builder, loc, type(x.dtype, shape), x.value));
}

Result<Term> TermBuilder::transpose(const Term &x, const std::vector<int64_t> &permutation) {
  std::vector<int64_t> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  bool identity = permutation == sorted;
  for (size_t d = 0; d < sorted.size(); ++d)
    if (sorted[d] != int64_t(d) || sorted.size() != x.shape.size())
      return Error{fmt::format("{} does not permute the dimensions of {}", shapeText(permutation), shapeText(x.shape))};
  if (identity)
    return x;
  if (x.isConstant())
    return fromResult(foldTranspose(*x.literal, permutation));
  Shape shape;
  for (int64_t d : permutation)
    shape.push_back(x.shape[d]);
  return fromValue(
      ir::TransposeOp::create(builder, loc, type(x.dtype, shape), x.value, builder.getDenseI64ArrayAttr(permutation)));
}

Result<Term> TermBuilder::slice(const Term &x, const Shape &start, const Shape &limit, const Shape &strides) {
  Shape shape;
  for (int64_t d = 0; d < x.rank(); ++d)
    shape.push_back((limit[d] - start[d] + strides[d] - 1) / strides[d]);
  if (shape == x.shape)
    return x;
  if (x.isConstant())
    return fromResult(foldSlice(*x.literal, start, shape, strides));
  return fromValue(ir::SliceOp::create(builder, loc, type(x.dtype, shape), x.value, builder.getDenseI64ArrayAttr(start),
                                       builder.getDenseI64ArrayAttr(limit), builder.getDenseI64ArrayAttr(strides)));
}

Result<Term> TermBuilder::slice(const Term &x, int64_t dim, int64_t from, int64_t to) {
  Shape start(x.rank(), 0), limit = x.shape;
  start[dim] = from;
  limit[dim] = to;
  return slice(x, start, limit, Shape(x.rank(), 1));
}

Result<Term> TermBuilder::concatenate(const std::vector<Term> &inputs, int64_t dim) {
  std::vector<Term> parts;
  const Term &first = inputs.front();
  Shape shape = first.shape;
  shape[dim] = 0;
  for (const Term &input : inputs) {
    Shape others = input.shape;
    if (input.rank() == first.rank())
      others[dim] = first.shape[dim];
    if (others != first.shape || input.dtype != first.dtype)
      return Error{fmt::format("{} {} and {} {} cannot be concatenated along dimension {}", toString(first.dtype),
                               shapeText(first.shape), toString(input.dtype), shapeText(input.shape), dim)};
    shape[dim] += input.shape[dim];
    if (input.shape[dim] > 0)
      parts.push_back(input);
  }
  if (parts.empty())
    return first;
  if (parts.size() == 1)
    return parts.front();
  if (std::all_of(parts.begin(), parts.end(), [](const Term &part) { return part.isConstant(); })) {
    std::vector<Literal> literals;
    for (const Term &part : parts)
      literals.push_back(*part.literal);
    return fromResult(foldConcatenate(literals, dim));
  }
  llvm::SmallVector<mlir::Value> values;
  for (const Term &part : parts)
    values.push_back(emit(part));
  return fromValue(
      ir::ConcatenateOp::create(builder, loc, type(first.dtype, shape), values, builder.getI64IntegerAttr(dim)));
}

Result<Term> TermBuilder::pad(const Term &x, const Term &value, const Shape &low, const Shape &high) {
  if (value.dtype != x.dtype || elementsOf(value.shape) != 1)
    return Error{fmt::format("the padding value for {} is {} {}, but a scalar of the same type is needed",
                             toString(x.dtype), toString(value.dtype), shapeText(value.shape))};
  Shape shape = x.shape;
  for (int64_t d = 0; d < x.rank(); ++d)
    shape[d] += low[d] + high[d];
  if (shape == x.shape)
    return x;
  KERF_TRY(one, reshape(value, {}));
  if (x.isConstant() && one.isConstant())
    return fromResult(foldPad(*x.literal, *one.literal, low, high));
  mlir::Value operand = emit(x), border = emit(one);
  return fromValue(ir::PadOp::create(builder, loc, type(x.dtype, shape), operand, border,
                                     builder.getDenseI64ArrayAttr(low), builder.getDenseI64ArrayAttr(high),
                                     builder.getDenseI64ArrayAttr(Shape(x.rank(), 0))));
}

Result<Term> TermBuilder::reduce(Reduction op, const Term &x, const std::vector<int64_t> &dims) {
  if (dims.empty())
    return x;
  if (x.isConstant())
    return fromResult(foldReduce(op, *x.literal, dims));
  Shape shape;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end())
      shape.push_back(x.shape[d]);
  constexpr ir::ReduceKindIR kinds[] = {ir::ReduceKindIR::sum, ir::ReduceKindIR::max, ir::ReduceKindIR::min};
  return fromValue(ir::ReduceOp::create(builder, loc, type(x.dtype, shape), x.value, kinds[int(op)],
                                        builder.getDenseI64ArrayAttr(dims)));
}

} // namespace kerf::frontend
