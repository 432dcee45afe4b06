// SPDX-License-Identifier: Apache-2.0
// Constant tensors that the importer computes with. Masks of big models are copies of one slice along the batch: copies
// are not stored, so that folding a mask of 8 x 1 x 2048 x 2048 touches 2048 x 2048 elements.
//
//   shape [8, 1, 4, 4], stored [1, 1, 4, 4]: element (b, 0, i, j) is stored element (0, 0, i, j) for every b.
#pragma once

#include "kerf/Package/IntegerType.h"
#include "kerf/Package/TensorFile.h"

namespace kerf::frontend {

struct Literal {
  Tensor stored; // F64, F32, I64, I32, I8, U8 or Bool, each bool one byte of 0 or 1; aligned to its element
  Shape shape;   // of stored's rank; stored.shape[d] is shape[d] or 1

  DType dtype() const { return stored.dtype; }
  template <typename T> const T *as() const { return reinterpret_cast<const T *>(stored.data); }
  int64_t storedElements() const { return elementsOf(stored.shape); }
  bool isSplat() const { return storedElements() == 1; }
};

/// A zeroed literal to fill: `data<T>()` may be written until the literal is handed on. An error above 8 GiB.
struct FreshLiteral {
  Literal literal;
  std::byte *bytes = nullptr;
  template <typename T> T *as() const { return reinterpret_cast<T *>(bytes); }
};
Result<FreshLiteral> allocateLiteral(DType dtype, const Shape &shape);

/// Takes a view of `tensor`, converted to `floatType` where it is floating.
Result<Literal> literalFromTensor(const Tensor &tensor, DType floatType);
Literal scalarLiteral(DType dtype, double value);
Literal scalarLiteral(DType dtype, int64_t value);
/// A vector of I64.
Literal indexLiteral(const std::vector<int64_t> &values);

/// Every element stored.
Result<Literal> materialize(const Literal &literal);
/// The same value, with dimensions along which all slices are equal stored once.
Literal compress(const Literal &literal);
/// The literal broadcast to `shape` (NumPy's rule), nothing copied.
Result<Literal> broadcastLiteral(const Literal &literal, const Shape &shape);
/// The values of an integer (or boolean) literal, in row-major order.
Result<std::vector<int64_t>> integersOf(const Literal &literal);
/// The value of a literal of one element.
Result<double> numberOf(const Literal &literal);
/// Every element equals `value`.
bool isAll(const Literal &literal, double value);
bool sameValue(const Literal &a, const Literal &b);

/// Sizes are not negative, and so many elements can be counted.
Status checkShape(const Shape &shape);
/// NumPy's rule: aligned at the last dimension, equal or 1.
Result<Shape> broadcastShapes(const Shape &a, const Shape &b);
bool isFloat(DType dtype);
/// `axis` counted from the end where negative; an error outside of [0, rank).
Result<int64_t> normalizeAxis(int64_t axis, int64_t rank);

/// f(T{}) with the C++ type that holds an element; Bool and U8 are uint8_t.
template <typename F> auto dispatch(DType dtype, F f) {
  if (dtype == DType::F64)
    return f(double{});
  return dtype == DType::F32 ? f(float{}) : forInteger(dtype, f);
}

} // namespace kerf::frontend
