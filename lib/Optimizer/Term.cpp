// SPDX-License-Identifier: Apache-2.0
#include "kerf/Optimizer/Term.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace kerf {

namespace {

double signOf(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

Shape allDims(const Term &x) {
  Shape dims(x.shape().size());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

/// Returns the operand whose type both operands of an operator take: the tensor, or else the wider scalar.
TermValue commonType(const TermEmitter &emitter, TermValue x, TermValue y) {
  size_t xRank = emitter.shape(x).size(), yRank = emitter.shape(y).size();
  bool takesX = xRank != yRank ? xRank > yRank : emitter.elementBits(x) >= emitter.elementBits(y);
  return takesX ? x : y;
}

} // namespace

TermValue Term::as(TermValue like, TermEmitter &target) const {
  return isConstant() ? target.constant(constant, like) : target.convert(value, like);
}

template <typename Constant> Term Term::binary(BinaryTerm operation, const Term &x, const Term &y, Constant constant) {
  if (x.isConstant() && y.isConstant())
    return constant(x.constant, y.constant);
  TermEmitter &emitter = x.isConstant() ? *y.emitter : *x.emitter;
  TermValue like = x.isConstant() ? y.value : y.isConstant() ? x.value : commonType(emitter, x.value, y.value);
  TermValue left = x.as(like, emitter), right = y.as(like, emitter);
  return {emitter, emitter.binary(operation, left, right)};
}

template <typename Constant> Term Term::unary(UnaryTerm operation, const Term &x, Constant constant) {
  if (x.isConstant())
    return constant(x.constant);
  return {*x.emitter, x.emitter->unary(operation, x.value)};
}

Term operator+(const Term &x, const Term &y) { return Term::binary(BinaryTerm::Add, x, y, std::plus<double>()); }
Term operator-(const Term &x, const Term &y) { return Term::binary(BinaryTerm::Subtract, x, y, std::minus<double>()); }
Term operator*(const Term &x, const Term &y) {
  return Term::binary(BinaryTerm::Multiply, x, y, std::multiplies<double>());
}
Term operator/(const Term &x, const Term &y) { return Term::binary(BinaryTerm::Divide, x, y, std::divides<double>()); }
Term pow(const Term &x, const Term &y) {
  return Term::binary(BinaryTerm::Power, x, y, [](double base, double exponent) { return std::pow(base, exponent); });
}
Term max(const Term &x, const Term &y) {
  return Term::binary(BinaryTerm::Maximum, x, y, [](double a, double b) { return std::max(a, b); });
}
Term min(const Term &x, const Term &y) {
  return Term::binary(BinaryTerm::Minimum, x, y, [](double a, double b) { return std::min(a, b); });
}
Term sqrt(const Term &x) {
  return Term::unary(UnaryTerm::Sqrt, x, [](double number) { return std::sqrt(number); });
}
Term sign(const Term &x) { return Term::unary(UnaryTerm::Sign, x, signOf); }
Term floor(const Term &x) {
  return Term::unary(UnaryTerm::Floor, x, [](double number) { return std::floor(number); });
}

Term wherePositive(const Term &condition, const Term &x, const Term &y) {
  if (condition.isConstant())
    return condition.constant > 0 ? x : y;
  TermEmitter &emitter = *condition.emitter;
  TermValue like = condition.value;
  TermValue left = x.as(like, emitter), right = y.as(like, emitter);
  return {emitter, emitter.wherePositive(like, left, right)};
}

Term sum(const Term &x, const Shape &dims) { return {*x.emitter, x.emitter->sum(x.value, dims)}; }

Term mean(const Term &x, const Shape &dims) {
  const Shape over = dims.empty() ? allDims(x) : dims, shape = x.shape();
  double count = 1;
  for (int64_t dim : over)
    count *= static_cast<double>(shape[static_cast<size_t>(dim)]);
  return sum(x, over) / count;
}

Term norm(const Term &x) { return sqrt(sum(x * x, allDims(x))); }

Term along(const Term &x, const Term &like, int64_t dim) {
  return {*x.emitter, x.emitter->along(x.value, like.value, dim)};
}

Term reshape(const Term &x, const Shape &shape) { return {*x.emitter, x.emitter->reshape(x.value, shape)}; }

Term product(const Term &x, int64_t xDim, const Term &y, int64_t yDim) {
  return {*x.emitter, x.emitter->product(x.value, xDim, y.value, yDim)};
}

} // namespace kerf
