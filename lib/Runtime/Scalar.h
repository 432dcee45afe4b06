// SPDX-License-Identifier: Apache-2.0
// Reads and writes scalars of any element type in host memory.
#pragma once

#include "kerf/Package/Half.h"
#include "kerf/Package/Package.h"
#include <cstring>

namespace kerf::runtime {

/// Returns the scalar of type `dtype` at address `bytes`, which need not be aligned, converted to double.
inline double readScalar(DType dtype, const void *bytes) {
  auto get = [&](auto value) {
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  };
  switch (dtype) {
  case DType::F64:
    return get(double());
  case DType::F32:
    return double(get(float()));
  case DType::BF16:
    return double(floatFromBf16(get(uint16_t())));
  case DType::F16:
    return double(floatFromF16(get(uint16_t())));
  case DType::I64:
    return double(get(int64_t()));
  case DType::I32:
    return double(get(int32_t()));
  default:
    return double(get(uint8_t()));
  }
}

/// Writes `value`, converted to type `dtype`, to address `bytes`, which need not be aligned.
inline void writeScalar(DType dtype, double value, void *bytes) {
  auto put = [&](auto typed) { std::memcpy(bytes, &typed, sizeof(typed)); };
  switch (dtype) {
  case DType::F64:
    return put(value);
  case DType::F32:
    return put(float(value));
  case DType::BF16:
    return put(bf16FromFloat(float(value)));
  case DType::F16:
    return put(f16FromFloat(float(value)));
  case DType::I64:
    return put(int64_t(value));
  case DType::I32:
    return put(int32_t(value));
  default:
    return put(int8_t(value));
  }
}

} // namespace kerf::runtime
