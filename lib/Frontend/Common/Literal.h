// SPDX-License-Identifier: Apache-2.0
// Constant tensors with which the importer computes. Equal slices along a dimension are stored once. Folding a mask of
// shape 8 x 1 x 2048 x 2048 that is equal for all samples therefore touches 2048 x 2048 elements.
//
//   shape [8, 1, 4, 4], stored [1, 1, 4, 4]: element (b, 0, i, j) is stored element (0, 0, i, j) for every b.
#pragma once

#include "kerf/Package/IntegerType.h"
#include "kerf/Package/TensorFile.h"

namespace kerf::frontend {

/// A constant tensor. Dimensions along which all slices are equal may be stored with size 1.
struct Literal {
  Tensor stored; // elements of F64, F32, I64, I32, I8, U8 or Bool (a byte of 0 or 1), aligned to their size
  Shape shape;   // the full shape; stored.shape[d] is shape[d] or 1

  DType dtype() const { return stored.dtype; }
  /// Returns the stored elements as an array of the C++ type T, which must match `dtype()`.
  template <typename T> const T *as() const { return reinterpret_cast<const T *>(stored.data); }
  /// Returns the number of stored elements.
  int64_t storedElements() const { return elementsOf(stored.shape); }
  /// Returns whether a single element is stored, so that all elements are equal.
  bool isSplat() const { return storedElements() == 1; }
};

/// A new literal whose elements can still be written.
struct FreshLiteral {
  Literal literal;
  std::byte *bytes = nullptr; // the memory of the elements, initially zero
  template <typename T> T *as() const { return reinterpret_cast<T *>(bytes); }
};
/// Allocates a literal of zeros. Fails above 8 GiB.
Result<FreshLiteral> allocateLiteral(DType dtype, const Shape &shape);

/// Returns `tensor` as a literal without copying it. A floating-point tensor is converted to `floatType`.
Result<Literal> literalFromTensor(const Tensor &tensor, DType floatType);
/// Returns a scalar of type `dtype`.
Literal scalarLiteral(DType dtype, double value);
/// Returns a scalar of the integer type `dtype`.
Literal scalarLiteral(DType dtype, int64_t value);
/// Returns a one-dimensional literal of type I64.
Literal indexLiteral(const std::vector<int64_t> &values);

/// Returns the literal with all elements stored (stored.shape equals shape). Fails above 8 GiB.
Result<Literal> materialize(const Literal &literal);
/// Returns the same tensor, with equal slices along a dimension stored once.
Literal compress(const Literal &literal);
/// Broadcasts the literal to `shape` by NumPy's rule, without copying elements. Fails when the shapes do not fit.
Result<Literal> broadcastLiteral(const Literal &literal, const Shape &shape);
/// Returns the elements of an integer or boolean literal in row-major order. Fails for floating-point elements.
Result<std::vector<int64_t>> integersOf(const Literal &literal);
/// Returns the value of a literal with one element. Fails for another number of elements.
Result<double> numberOf(const Literal &literal);
/// Returns whether every element equals `value`.
bool allElementsEqual(const Literal &literal, double value);
/// Returns whether two literals have the same type, shape and elements.
bool sameValue(const Literal &a, const Literal &b);

/// Fails when a size is negative or the number of elements exceeds 64 bits.
Status checkShape(const Shape &shape);
/// Returns the common shape of `a` and `b` by NumPy's broadcasting rule: aligned at the last dimension, sizes are equal
/// or 1. Fails when the shapes do not fit.
Result<Shape> broadcastShapes(const Shape &a, const Shape &b);
/// Returns whether `dtype` is a floating-point type.
bool isFloat(DType dtype);
/// Returns `axis`, with a negative value counted from the end. Fails when the result is outside of [0, rank).
Result<int64_t> normalizeAxis(int64_t axis, int64_t rank);

/// Calls f(T{}) with the C++ type T of the elements of `dtype`; Bool and U8 are uint8_t.
template <typename F> auto dispatch(DType dtype, F f) {
  if (dtype == DType::F64)
    return f(double{});
  return dtype == DType::F32 ? f(float{}) : withIntegerType(dtype, f);
}

} // namespace kerf::frontend
