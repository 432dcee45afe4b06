// SPDX-License-Identifier: Apache-2.0
// Element-wise combination of dense arrays in host memory: how a reducing collective combines the ranks' messages.
#pragma once

#include "kerf/Package/Package.h"
#include <cstddef>

namespace kerf::runtime {

/// Combines arrays of one element type by sum, maximum or minimum. 16-bit floats are combined in float32 and rounded
/// once at the end; every other type is combined in its own type. For booleans, sum and maximum are "or", and minimum
/// is "and". If either operand of a maximum or minimum is NaN, so is the result.
class Reducer {
public:
  Reducer() = default;
  Reducer(DType dtype, ReduceKind kind) : dtype(dtype), combines(kind) {}
  /// Returns how the arrays are combined.
  ReduceKind kind() const { return combines; }

  /// Returns the bytes of an accumulator's element if it is wider than the element type (16-bit floats: 4), and 0 if
  /// the accumulator has the element type itself.
  int64_t wideBytes() const { return dtype == DType::BF16 || dtype == DType::F16 ? int64_t(sizeof(float)) : 0; }
  /// Sets the accumulator to the first array, `next`.
  void start(std::byte *accumulator, const std::byte *next, int64_t elements) const;
  /// Combines the array `next` into the accumulator.
  void add(std::byte *accumulator, const std::byte *next, int64_t elements) const;
  /// Rounds a float32 accumulator to the 16-bit element type. To be called only if wideBytes() is not 0.
  void narrow(std::byte *out, const std::byte *accumulator, int64_t elements) const;

private:
  DType dtype = DType::F32;
  ReduceKind combines = ReduceKind::Sum;
};

} // namespace kerf::runtime
