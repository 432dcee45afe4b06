// SPDX-License-Identifier: Apache-2.0
// The parameters of the GPU's kernels: each kernel takes one of these structs by value. The host fills them
// (Calls*.cpp), and the kernels read them (*.cu). All addresses are in the device's memory, tensors are dense and
// row-major, and strides count elements.
#pragma once

#include "kerf/Package/Precision.h"
#include <cstdint>

namespace kerf::runtime::cuda {

/// Most dimensions of a tensor that a kernel walks over. The host merges dimensions, and refuses tensors with more.
inline constexpr int kMostDims = 8;

/// A fault that a kernel found in its input. The first fault since the host last looked is kept.
struct FaultRecord {
  int32_t set = 0;   // 1 once a kernel has written the record
  int32_t site = 0;  // number of the place that found it: FaultPlace::site
  int64_t value = 0; // the wrong value
  int64_t where = 0; // number of the wrong element in its tensor
};
/// Where a kernel writes its faults.
struct FaultPlace {
  FaultRecord *record = nullptr;
  int32_t site = 0;
};

/// Sizes of an iteration, with the strides of one tensor for each of them.
struct Walk {
  int32_t rank = 0;
  int64_t sizes[kMostDims] = {};
  int64_t strides[kMostDims] = {};
};

/// Functions of one element. Their order is that of kUnaryNames.
enum class UnaryOp : int32_t {
  Negate,
  Abs,
  Sign,
  Not,
  Exponential,
  Log,
  Sqrt,
  Rsqrt,
  Tanh,
  Logistic,
  Erf,
  Sine,
  Cosine,
  Atan,
  Floor,
  Ceil,
  RoundNearestEven,
  StopGradient,
  Gelu,
  GeluByTanh
};
/// y[i] = op(x[i]).
struct UnaryParameters {
  UnaryOp op;
  const void *x;
  void *y;
  int64_t n;
};

/// Functions of two elements. Their order is that of kBinaryNames; GeluSlope is the product of the second operand with
/// the derivative of GELU at the first.
enum class BinaryOp : int32_t {
  Add,
  Subtract,
  Multiply,
  Divide,
  Maximum,
  Minimum,
  Power,
  And,
  Or,
  GeluSlope,
  GeluSlopeByTanh
};
/// z[i] = op(x[i], y[i]).
struct BinaryParameters {
  BinaryOp op;
  const void *x, *y;
  void *z;
  int64_t n;
};

/// Comparisons, in the order of the choices of the attribute `direction`.
enum class Order : int32_t { Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual };
/// z[i] = x[i] ORDER y[i], as one byte.
struct CompareParameters {
  Order order;
  const void *x, *y;
  uint8_t *z;
  int64_t n;
};

/// z[i] = predicate[i] ? x[i] : y[i].
struct SelectParameters {
  const uint8_t *predicate;
  const void *x, *y;
  void *z;
  int64_t n;
};

/// y[i] = x[i] as an element of type `to`, a number of DType.
struct ConvertParameters {
  int32_t to;
  const void *x;
  void *y;
  int64_t n;
};

/// after[i] = before[i] + x[i], where x has the floating type `from`, a number of DType.
struct AccumulateParameters {
  int32_t from;
  const void *before, *x;
  void *after;
  int64_t n;
};

/// y[i] = x[i] rounded to the narrower format.
template <typename X> struct ReducePrecisionParameters {
  const void *x;
  void *y;
  int64_t n;
  Precision<X> precision;
};

/// y[i] = 1 where x[i] is NaN, else 0.
struct IsNanParameters {
  const void *x;
  uint8_t *y;
  int64_t n;
};

/// Copies elements of `bytes` bytes (1, 2, 4, 8 or 16): element i of the iteration, whose indices over `sizes` are
/// those of row-major order, is read at `fromStart` plus the indices' product with `from`, and written likewise.
struct CopyParameters {
  const void *from;
  void *to;
  int64_t fromStart, toStart, n;
  int32_t bytes, rank;
  int64_t sizes[kMostDims], fromStrides[kMostDims], toStrides[kMostDims];
  int32_t isSmall = 0; // whether all places in both tensors are below 2^31
  /// The dimension along which `from` is contiguous, for the kernel `transpose`; `to` is contiguous along the last one.
  int32_t fromDim = 0;
};
/// Sides of a tile of the kernel `transpose`, and its threads.
inline constexpr int kTransposeTile = 32, kTransposeThreads = 256;
/// Writes one element of `bytes` bytes, at address `value` or (if that is null) the low bytes of `bits`, n times.
struct FillParameters {
  const void *value;
  uint64_t bits;
  void *to;
  int64_t n;
  int32_t bytes;
};

/// y[(o, i, k)] = offset + i, for o < outer, i < size, k < inner. `offset` is null or has one element.
struct IotaParameters {
  const void *offset;
  void *y;
  int64_t n, size, inner;
};

enum class Reduction : int32_t { Sum, Max, Min };
/// y[r] = reduction of x over `reduced` for each index r over `kept`. One block computes one result.
struct ReduceParameters {
  Reduction kind;
  const void *x;
  void *y;
  int64_t results, count; // numbers of results, and of elements reduced into each
  Walk kept, reduced;     // strides of x
};

/// y[i] = combination of `count` arrays in their order, 16-bit numbers in float. Array number `own` is at `mine`, the
/// others lie `apart` bytes apart from `received` on.
struct OrderedReduceParameters {
  Reduction kind;
  int32_t count, own;
  const void *mine, *received;
  int64_t apart;
  void *y;
  int64_t n;
};

/// result[b, i, j] = sum over c of left[b, i, c] * right[b, j, c]. Each operand has a walk for its batch dimensions,
/// its free dimensions and its contracted dimensions.
struct ProductParameters {
  const void *left, *right;
  const void *sum; // to which the product is added, with the result's elements; null: nothing is added
  void *result;
  int64_t batches, m, n, k;
  Walk leftBatch, leftFree, leftContracted, rightBatch, rightFree, rightContracted;
};

} // namespace kerf::runtime::cuda
