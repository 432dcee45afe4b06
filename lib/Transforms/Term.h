// SPDX-License-Identifier: Apache-2.0
// Numbers of an optimizer's rule, so that the rule reads like its formula: a Term is a constant, a scalar that the step
// computes, or a tensor, and each operator emits the op that computes it. Private to optimizers.
#pragma once

#include "kerf/Dialect/Kerf/Emit.h"

namespace kerf {

/// Operands may differ in kind. A constant takes the type of the other operand. A scalar is converted to the element
/// type of a tensor beside it and broadcast. Of two scalars, the narrower one is widened. Two tensors have one type.
class Term {
public:
  Term(double constant) : constant(constant) {} // NOLINT: constants stand in formulas as they are
  Term(ir::Emitter &emit, mlir::Value value) : emit(&emit), value(value) {}

  bool isConstant() const { return !value; }
  /// Returns the value, as a scalar or tensor of `like`'s type.
  mlir::Value as(mlir::Type like, ir::Emitter &emit) const;
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

  // These take tensors only.
  /// Returns the sums over the dimensions.
  friend Term sum(const Term &x, mlir::ArrayRef<int64_t> dims);
  /// Returns the mean over the dimensions; over all of them where none is given.
  friend Term mean(const Term &x, mlir::ArrayRef<int64_t> dims);
  /// Returns the root of the sum of all elements' squares, a scalar.
  friend Term norm(const Term &x);
  /// Returns `x`, which lacks dimension `dim` of `like`, repeated along it.
  friend Term along(const Term &x, const Term &like, int64_t dim);
  friend Term reshape(const Term &x, mlir::ArrayRef<int64_t> shape);
  /// Returns the product of two matrices that sums over dimension `ofX` of x and `ofY` of y.
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
