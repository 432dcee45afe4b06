// SPDX-License-Identifier: Apache-2.0
// The dialect's ops on constants, with NumPy's semantics: what the importer computes instead of emitting. Shapes have
// been checked by the caller where it says so (TermBuilder); values that have no result (an integer division by zero)
// are errors.
#pragma once

#include "Common/Literal.h"

namespace kerf::frontend {

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
  Round,
  StopGradient, // the value as a constant of differentiation
  Not
};
/// Round: to the nearest integer, the even one of two.
/// Remainder has the divisor's sign for integers (Python's %), the dividend's for floats (C's fmod).
enum class Binary { Add, Subtract, Multiply, Divide, Remainder, Power, Maximum, Minimum, And, Or };
enum class Order { Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual };
enum class Reduction { Sum, Maximum, Minimum };

Result<Literal> foldUnary(Unary op, const Literal &x);
/// Element types agree.
Result<Literal> foldBinary(Binary op, const Literal &x, const Literal &y);
Result<Literal> foldCompare(Order order, const Literal &x, const Literal &y);
Result<Literal> foldSelect(const Literal &predicate, const Literal &x, const Literal &y);
Result<Literal> foldConvert(const Literal &x, DType dtype);
/// Of a floating literal: see Precision.h.
Result<Literal> foldReducePrecision(const Literal &x, int64_t mantissaBits, int64_t minExponent);
Result<Literal> foldIsNan(const Literal &x);

/// As many elements.
Result<Literal> foldReshape(const Literal &x, const Shape &shape);
/// A permutation.
Result<Literal> foldTranspose(const Literal &x, const std::vector<int64_t> &permutation);
/// Inside the shape; strides may be negative: count elements from start on.
Result<Literal> foldSlice(const Literal &x, const std::vector<int64_t> &start, const Shape &count,
                          const std::vector<int64_t> &strides);
/// Of shapes that fit.
Result<Literal> foldConcatenate(const std::vector<Literal> &inputs, int64_t dim);
Result<Literal> foldPad(const Literal &x, const Literal &value, const std::vector<int64_t> &low,
                        const std::vector<int64_t> &high);
/// Indices of I64; negative ones count from the end.
Result<Literal> foldGather(const Literal &x, const Literal &indices, int64_t axis);
Result<Literal> foldGatherNd(const Literal &x, const Literal &indices, int64_t batchDims);
/// The dimensions are gone from the result.
Result<Literal> foldReduce(Reduction op, const Literal &x, const std::vector<int64_t> &dims);
enum class SumOf { UpToHere, BeforeHere };
enum class Direction { Forward, Backward };
Result<Literal> foldCumulativeSum(const Literal &x, int64_t axis, SumOf sumOf, Direction direction);
Result<Literal> foldRange(const Literal &start, const Literal &limit, const Literal &delta);
enum class Triangle { Lower, Upper };
Result<Literal> foldTriangle(const Literal &x, int64_t diagonal, Triangle kept);

} // namespace kerf::frontend
