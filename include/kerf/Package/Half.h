// SPDX-License-Identifier: Apache-2.0
// The 16-bit floating types as storage: conversion to and from float, rounding to nearest even. NaN stays NaN, overflow
// becomes infinity.
#pragma once

#include <bit>
#include <cstdint>

namespace kerf {

inline float floatFromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

inline uint16_t bf16FromFloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return uint16_t((bits >> 16) | 0x40); // a NaN keeps its sign and stays a NaN when its low bits go
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float floatFromF16(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = (bits >> 10) & 31, mantissa = bits & 0x3ff;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0) { // zero or subnormal: mantissa * 2^-24 is exact in float
    float magnitude = float(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

inline uint16_t f16FromFloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = uint16_t((bits >> 16) & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return sign | 0x7e00;
  if (magnitude >= 0x477ff000) // 65520, halfway between the largest f16 and the next power of two
    return sign | 0x7c00;
  if (magnitude <
      0x38800000) { // below 2^-14: adding 0.5 leaves the value, rounded to multiples of 2^-24, in the low bits
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | uint16_t(std::bit_cast<uint32_t>(shifted) - 0x3f000000);
  }
  magnitude += 0xfff + ((magnitude >> 13) & 1) - (uint32_t(112) << 23);
  return sign | uint16_t(magnitude >> 13);
}

} // namespace kerf
