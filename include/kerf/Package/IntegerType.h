// SPDX-License-Identifier: Apache-2.0
// Dispatch from an integer element type to its C++ type.
#pragma once

#include "kerf/Package/Package.h"
#include <cstdint>

namespace kerf {

/// Calls f(T{}) with the C++ type T that stores an integer element of `dtype`, and returns what `f` returns. Bool is
/// stored as uint8_t; floating types must not be passed.
template <typename F> auto withIntegerType(DType dtype, F f) {
  switch (dtype) {
  case DType::I64:
    return f(int64_t{});
  case DType::I32:
    return f(int32_t{});
  case DType::I16:
    return f(int16_t{});
  case DType::I8:
    return f(int8_t{});
  case DType::U64:
    return f(uint64_t{});
  case DType::U32:
    return f(uint32_t{});
  case DType::U16:
    return f(uint16_t{});
  default:
    return f(uint8_t{});
  }
}

} // namespace kerf
