// SPDX-License-Identifier: Apache-2.0
// Element-wise combination of dense memory: what a reducing collective does with each message.
#pragma once

#include "kerf/Package/Package.h"
#include <cstddef>

namespace kerf::runtime {

/// 16-bit floats are combined in f32 and rounded once at the end; all other types in their own. Sum, max and min of
/// booleans are or, or, and. A NaN on either side gives NaN.
class Reducer {
public:
  Reducer() = default;
  Reducer(DType dtype, ReduceKind kind) : dtype(dtype), kind(kind) {}

  /// Bytes of an element of the accumulator, 0 when it is of the type itself.
  int64_t wideBytes() const { return dtype == DType::BF16 || dtype == DType::F16 ? int64_t(sizeof(float)) : 0; }
  void start(std::byte *accumulator, const std::byte *next, int64_t elements) const;
  void add(std::byte *accumulator, const std::byte *next, int64_t elements) const;
  void narrow(std::byte *out, const std::byte *accumulator, int64_t elements) const;

private:
  DType dtype = DType::F32;
  ReduceKind kind = ReduceKind::Sum;
};

} // namespace kerf::runtime
