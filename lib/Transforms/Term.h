// SPDX-License-Identifier: Apache-2.0
// Terms, with which the rule of an optimizer is written as a formula. Only the sources of optimizers include this file.
#pragma once

#include "kerf/Dialect/Kerf/Emit.h"

namespace kerf {

/// A term of a formula: a constant, a scalar that the step computes, or a tensor. Each operator emits the op that
/// computes its result, element by element. The operands of an operator may be of different kinds. A constant takes the
/// type of the other operand. A scalar is converted to the element type of the tensor that it is combined with, and
/// broadcast. If both operands are scalars, the narrower one is widened. Two tensors have one type.
class Term {
public:
  Term(double constant) : constant(constant) {} // NOLINT: constants stand in formulas as they are
  Term(ir::Emitter &emit, mlir::Value value) : emit(&emit), value(value) {}

  /// Returns whether the term is a constant, for which no op has been emitted.
  bool isConstant() const { return !value; }
  /// Returns the term as an IR value of type `like`.
  mlir::Value as(mlir::Type like, ir::Emitter &emit) const;
  /// Returns the shape of the tensor; empty for constants and scalars.
  Shape shape() const { return isConstant() ? Shape{} : ir::shapeOf(value); }

  friend Term operator+(const Term &x, const Term &y);
  friend Term operator-(const Term &x, const Term &y);
  friend Term operator*(const Term &x, const Term &y);
  friend Term operator/(const Term &x, const Term &y);
  friend Term pow(const Term &x, const Term &y);
  friend Term max(const Term &x, const Term &y);
  friend Term min(const Term &x, const Term &y);
  friend Term sqrt(const Term &x);
  friend Term sign(const Term &x);
  /// Returns x where `condition` is greater than 0, elsewhere y.
  friend Term wherePositive(const Term &condition, const Term &x, const Term &y);

  // The functions below take tensors only.
  /// Returns the sums of x over the dimensions `dims`.
  friend Term sum(const Term &x, mlir::ArrayRef<int64_t> dims);
  /// Returns the means of x over the dimensions `dims`; the mean of all elements where `dims` is empty.
  friend Term mean(const Term &x, mlir::ArrayRef<int64_t> dims);
  /// Returns the square root of the sum of the squares of all elements, a scalar.
  friend Term norm(const Term &x);
  /// Returns x broadcast to the shape of `like`. x has the dimensions of `like` without dimension `dim`.
  friend Term along(const Term &x, const Term &like, int64_t dim);
  /// Returns the elements of x under another shape.
  friend Term reshape(const Term &x, mlir::ArrayRef<int64_t> shape);
  /// Returns the product of two matrices, which sums over dimension `ofX` of x and dimension `ofY` of y.
  friend Term product(const Term &x, int64_t ofX, const Term &y, int64_t ofY);

private:
  struct Pair {
    mlir::Value x, y;
  };
  static Pair unified(const Term &x, const Term &y);
  template <typename Op, typename Constant> static Term binary(const Term &x, const Term &y, Constant constant);
  template <typename Op, typename Constant> static Term unary(const Term &x, Constant constant);

  ir::Emitter *emit = nullptr;
  mlir::Value value;
  double constant = 0;
};

} // namespace kerf
