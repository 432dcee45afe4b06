// SPDX-License-Identifier: Apache-2.0
// Terms, with which the rule of an optimizer is written as a formula, and the interface through which terms create the
// operations of a training step.
#pragma once

#include "kerf/Sharding/Sharding.h"

namespace kerf {

/// The number of a value that a TermEmitter has created. Values are scalars or tensors of floating-point numbers.
using TermValue = int;

/// The binary operations of terms.
enum class BinaryTerm { Add, Subtract, Multiply, Divide, Power, Maximum, Minimum };
/// The unary operations of terms.
enum class UnaryTerm { Sqrt, Sign, Floor };

/// The creator of the operations that a formula consists of, in whatever form a program is kept. Each function creates
/// operations and returns the number of their result. Binary and unary operations work element by element.
class TermEmitter {
public:
  virtual ~TermEmitter() = default;
  /// Returns the shape of a value; empty for a scalar.
  virtual Shape shape(TermValue value) const = 0;
  /// Returns the bits of one element of a value.
  virtual unsigned elementBits(TermValue value) const = 0;
  /// Returns a value with the shape and element type of `like` in which every element is `number`.
  virtual TermValue constant(double number, TermValue like) = 0;
  /// Returns `value` with the element type of `like`. A scalar is also broadcast to the shape of `like`.
  virtual TermValue convert(TermValue value, TermValue like) = 0;
  /// Returns the result of `operation` on two values of equal shapes and element types.
  virtual TermValue binary(BinaryTerm operation, TermValue x, TermValue y) = 0;
  /// Returns the result of `operation`.
  virtual TermValue unary(UnaryTerm operation, TermValue x) = 0;
  /// Returns x where `condition` is greater than 0, elsewhere y. All three have equal shapes and element types.
  virtual TermValue wherePositive(TermValue condition, TermValue x, TermValue y) = 0;
  /// Returns the sums of the tensor x over the dimensions `dims`, which are strictly increasing.
  virtual TermValue sum(TermValue x, const Shape &dims) = 0;
  /// Returns x broadcast to the shape of `like`. x has the dimensions of `like` without dimension `dim`.
  virtual TermValue along(TermValue x, TermValue like, int64_t dim) = 0;
  /// Returns the elements of x under `shape`.
  virtual TermValue reshape(TermValue x, const Shape &shape) = 0;
  /// Returns the product of two matrices, which sums over dimension `xDim` of x and dimension `yDim` of y.
  virtual TermValue product(TermValue x, int64_t xDim, TermValue y, int64_t yDim) = 0;
};

/// A term of a formula: a constant, a scalar that the step computes, or a tensor. Each operator creates the operation
/// that computes its result, element by element. The operands of an operator may be of different kinds. A constant
/// takes the type of the other operand. A scalar is converted to the element type of the tensor that it is combined
/// with, and broadcast. If both operands are scalars, the narrower one is widened. Two tensors have one type.
class Term {
public:
  Term(double constant) : constant(constant) {} // NOLINT: constants stand in formulas as they are
  Term(TermEmitter &emitter, TermValue value) : emitter(&emitter), value(value) {}

  /// Returns whether the term is a constant, for which no operation has been created.
  bool isConstant() const { return !emitter; }
  /// Returns the number of the constant. The term must be a constant.
  double number() const { return constant; }
  /// Returns the number of the value. The term must not be a constant.
  TermValue id() const { return value; }
  /// Returns the shape of the tensor; empty for constants and scalars.
  Shape shape() const { return isConstant() ? Shape{} : emitter->shape(value); }

  friend Term operator+(const Term &x, const Term &y);
  friend Term operator-(const Term &x, const Term &y);
  friend Term operator*(const Term &x, const Term &y);
  friend Term operator/(const Term &x, const Term &y);
  friend Term pow(const Term &x, const Term &y);
  friend Term max(const Term &x, const Term &y);
  friend Term min(const Term &x, const Term &y);
  friend Term sqrt(const Term &x);
  friend Term sign(const Term &x);
  /// Returns x rounded down to an integer.
  friend Term floor(const Term &x);
  /// Returns x where `condition` is greater than 0, elsewhere y.
  friend Term wherePositive(const Term &condition, const Term &x, const Term &y);

  // The functions below take tensors only.
  /// Returns the sums of x over the dimensions `dims`.
  friend Term sum(const Term &x, const Shape &dims);
  /// Returns the means of x over the dimensions `dims`; the mean of all elements where `dims` is empty.
  friend Term mean(const Term &x, const Shape &dims);
  /// Returns the square root of the sum of the squares of all elements, a scalar.
  friend Term norm(const Term &x);
  /// Returns x broadcast to the shape of `like`. x has the dimensions of `like` without dimension `dim`.
  friend Term along(const Term &x, const Term &like, int64_t dim);
  /// Returns the elements of x under another shape.
  friend Term reshape(const Term &x, const Shape &shape);
  /// Returns the product of two matrices, which sums over dimension `xDim` of x and dimension `yDim` of y.
  friend Term product(const Term &x, int64_t xDim, const Term &y, int64_t yDim);

private:
  /// Returns the term as a value with the shape and element type of `like`.
  TermValue as(TermValue like, TermEmitter &target) const;
  template <typename Constant>
  static Term binary(BinaryTerm operation, const Term &x, const Term &y, Constant constant);
  template <typename Constant> static Term unary(UnaryTerm operation, const Term &x, Constant constant);

  TermEmitter *emitter = nullptr;
  TermValue value = 0;
  double constant = 0;
};

} // namespace kerf
