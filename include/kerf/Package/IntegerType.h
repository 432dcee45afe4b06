// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kerf/Package/Package.h"
#include <cstdint>

namespace kerf {

/// f(T{}) with the C++ type of an integer element; Bool is one byte.
template <typename F> auto forInteger(DType dtype, F f) {
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
