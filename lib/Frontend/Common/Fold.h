// SPDX-License-Identifier: Apache-2.0
// Constant folding: computes the dialect's operators on constant tensors, with NumPy's semantics, instead of emitting
// them. The caller, TermBuilder, has checked the shapes. An operation without a result, such as an integer division by
// zero, is an error.
#pragma once

#include "Common/Literal.h"

namespace kerf::frontend {

/// An elementwise operation on one tensor.
enum class Unary {
  Negate,
  Abs,
  Sign,
  Exponential,
  Log,
  Sqrt,
  Tanh,
  Logistic,
  Erf,
  Sine,
  Cosine,
  Atan,
  Floor,
  Ceil,
  Round,        // to the nearest integer, ties to even
  StopGradient, // the identity, through which no gradient flows
  Not
};
/// An elementwise operation on two tensors. Remainder has the sign of the divisor for integers (Python's %) and of the
/// dividend for floating-point numbers (C's fmod).
enum class Binary { Add, Subtract, Multiply, Divide, Remainder, Power, Maximum, Minimum, And, Or };
/// A comparison of two elements.
enum class Order { Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual };
/// An operation that reduces dimensions of a tensor.
enum class Reduction { Sum, Maximum, Minimum };

/// Applies `op` to each element of `x`. Fails for an element type that `op` does not support.
Result<Literal> foldUnary(Unary op, const Literal &x);
/// Applies `op` to the elements of `x` and `y`, which are broadcast to one shape. The element types must be equal.
Result<Literal> foldBinary(Binary op, const Literal &x, const Literal &y);
/// Compares the elements of `x` and `y`, broadcast to one shape; the result is boolean.
Result<Literal> foldCompare(Order order, const Literal &x, const Literal &y);
/// Returns the elements of `x` where `predicate` is true and those of `y` elsewhere; all three are broadcast to one
/// shape.
Result<Literal> foldSelect(const Literal &predicate, const Literal &x, const Literal &y);
/// Converts each element to `dtype`.
Result<Literal> foldConvert(const Literal &x, DType dtype);
/// Rounds the elements of a floating-point literal to a format with fewer bits (Precision.h).
Result<Literal> foldReducePrecision(const Literal &x, int64_t mantissaBits, int64_t minExponent);
/// Returns for each element whether it is NaN.
Result<Literal> foldIsNan(const Literal &x);

/// Returns `x` with another shape of the same number of elements.
Result<Literal> foldReshape(const Literal &x, const Shape &shape);
/// Permutes the dimensions: dimension i of the result is dimension permutation[i] of `x`.
Result<Literal> foldTranspose(const Literal &x, const std::vector<int64_t> &permutation);
/// Returns `count` elements of each dimension, from `start` on with steps of `strides`, which may be negative. All
/// elements must lie inside `x`.
Result<Literal> foldSlice(const Literal &x, const std::vector<int64_t> &start, const Shape &count,
                          const std::vector<int64_t> &strides);
/// Concatenates the inputs along dimension `dim`; their other dimensions must be equal.
Result<Literal> foldConcatenate(const std::vector<Literal> &inputs, int64_t dim);
/// Adds `low` and `high` elements of `value` before and after each dimension of `x`.
Result<Literal> foldPad(const Literal &x, const Literal &value, const std::vector<int64_t> &low,
                        const std::vector<int64_t> &high);
/// Returns the slices of dimension `axis` at `indices` (I64), as ONNX's Gather does. Negative indices count from the
/// end. Fails for an index out of range.
Result<Literal> foldGather(const Literal &x, const Literal &indices, int64_t axis);
/// Returns the slices at the index tuples in the last dimension of `indices`, as ONNX's GatherND does.
Result<Literal> foldGatherNd(const Literal &x, const Literal &indices, int64_t batchDims);
/// Reduces the dimensions `dims`, which the result does not have.
Result<Literal> foldReduce(Reduction op, const Literal &x, const std::vector<int64_t> &dims);
/// Whether a cumulative sum includes the element at its own position.
enum class CumulativeSumKind { Inclusive, Exclusive };
/// The direction of a cumulative sum.
enum class Direction { Forward, Backward };
/// Computes the cumulative sum of `x` along `axis`.
Result<Literal> foldCumulativeSum(const Literal &x, int64_t axis, CumulativeSumKind sumOf, Direction direction);
/// Returns start, start + delta, ... below `limit` (above it for a negative `delta`). Fails for a zero `delta`.
Result<Literal> foldRange(const Literal &start, const Literal &limit, const Literal &delta);
/// The triangle of a matrix that is kept.
enum class Triangle { Lower, Upper };
/// Keeps one triangle of the matrices in the last two dimensions, including the diagonal number `diagonal` (0: the main
/// one), and sets the other elements to 0.
Result<Literal> foldTriangle(const Literal &x, int64_t diagonal, Triangle kept);

} // namespace kerf::frontend
