// SPDX-License-Identifier: Apache-2.0
#include "Term.h"

#include <cmath>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// Returns the scalar or tensor converted to `like`'s element type. A scalar is broadcast to a tensor's shape.
Value converted(Emitter &emit, Value value, RankedTensorType like) {
  value = emit.convert(value, like.getElementType());
  return value.getType() == like ? value : emit.broadcast(value, like.getShape(), {});
}

double signOf(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

} // namespace

Value Term::as(Type like, Emitter &emitter) const {
  auto type = cast<RankedTensorType>(like);
  if (value)
    return converted(emitter, value, type);
  auto scalar = RankedTensorType::get({}, type.getElementType());
  auto number = DenseElementsAttr::get(scalar, emitter.builder.getFloatAttr(type.getElementType(), constant));
  return converted(emitter, ConstantOp::create(emitter.builder, emitter.loc, scalar, number), type);
}

Term::Pair Term::unified(const Term &x, const Term &y) {
  if (x.isConstant())
    return {x.as(y.value.getType(), *y.emit), y.value};
  if (y.isConstant())
    return {x.value, y.as(x.value.getType(), *x.emit)};
  RankedTensorType ofX = tensorType(x.value), ofY = tensorType(y.value);
  bool takesX = ofX.getRank() != ofY.getRank() ? ofX.getRank() > ofY.getRank()
                                               : ofX.getElementTypeBitWidth() >= ofY.getElementTypeBitWidth();
  RankedTensorType type = takesX ? ofX : ofY;
  return {converted(*x.emit, x.value, type), converted(*x.emit, y.value, type)};
}

template <typename Op, typename Constant> Term Term::binary(const Term &x, const Term &y, Constant constant) {
  if (x.isConstant() && y.isConstant())
    return constant(x.constant, y.constant);
  Emitter &emit = x.isConstant() ? *y.emit : *x.emit;
  auto [left, right] = unified(x, y);
  return {emit, Op::create(emit.builder, emit.loc, left.getType(), left, right).getResult()};
}

template <typename Op, typename Constant> Term Term::unary(const Term &x, Constant constant) {
  if (x.isConstant())
    return constant(x.constant);
  return {*x.emit, Op::create(x.emit->builder, x.emit->loc, x.value.getType(), x.value).getResult()};
}

Term operator+(const Term &x, const Term &y) { return Term::binary<AddOp>(x, y, std::plus<double>()); }
Term operator-(const Term &x, const Term &y) { return Term::binary<SubtractOp>(x, y, std::minus<double>()); }
Term operator*(const Term &x, const Term &y) { return Term::binary<MultiplyOp>(x, y, std::multiplies<double>()); }
Term operator/(const Term &x, const Term &y) { return Term::binary<DivideOp>(x, y, std::divides<double>()); }
Term pow(const Term &x, const Term &y) {
  return Term::binary<PowerOp>(x, y, [](double base, double exponent) { return std::pow(base, exponent); });
}
Term max(const Term &x, const Term &y) {
  return Term::binary<MaximumOp>(x, y, [](double a, double b) { return std::max(a, b); });
}
Term min(const Term &x, const Term &y) {
  return Term::binary<MinimumOp>(x, y, [](double a, double b) { return std::min(a, b); });
}
Term sqrt(const Term &x) {
  return Term::unary<SqrtOp>(x, [](double number) { return std::sqrt(number); });
}
Term sign(const Term &x) { return Term::unary<SignOp>(x, signOf); }

Term wherePositive(const Term &condition, const Term &x, const Term &y) {
  if (condition.isConstant())
    return condition.constant > 0 ? x : y;
  Emitter &emit = *condition.emit;
  Type type = condition.value.getType();
  Value positive = emit.compare(condition.value, Term(0.0).as(type, emit), Comparison::GT);
  return {emit, emit.select(positive, x.as(type, emit), y.as(type, emit))};
}

Term sum(const Term &x, ArrayRef<int64_t> dims) { return {*x.emit, x.emit->sum(x.value, dims)}; }

Term mean(const Term &x, ArrayRef<int64_t> dims) {
  Shape all = firstDims(static_cast<int64_t>(x.shape().size()));
  ArrayRef<int64_t> over = dims.empty() ? ArrayRef<int64_t>(all) : dims;
  double count = 1;
  for (int64_t dim : over)
    count *= static_cast<double>(x.shape()[static_cast<size_t>(dim)]);
  return sum(x, over) / count;
}

Term norm(const Term &x) { return sqrt(sum(x * x, firstDims(static_cast<int64_t>(x.shape().size())))); }

Term along(const Term &x, const Term &like, int64_t dim) {
  return {*x.emit, x.emit->broadcastAlong(x.value, like.value, dim)};
}

Term reshape(const Term &x, ArrayRef<int64_t> shape) { return {*x.emit, x.emit->reshape(x.value, shape)}; }

Term product(const Term &x, int64_t ofX, const Term &y, int64_t ofY) {
  return {*x.emit, x.emit->dot(x.value, y.value, {}, {}, {ofX}, {ofY})};
}

} // namespace kerf
