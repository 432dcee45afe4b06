// SPDX-License-Identifier: Apache-2.0
// Conversion of the 16-bit floating types bf16 (bfloat16) and f16 (IEEE half), held as bits, to and from float.
// Rounding is to nearest even, NaN stays NaN, and values out of range become infinities.
#pragma once

#include <bit>
#include <cstdint>

namespace kerf {

/// Returns the value of a bf16 number; exact.
inline float floatFromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

/// Rounds a float to bf16 and returns the bits.
inline uint16_t bf16FromFloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return uint16_t((bits >> 16) | 0x40); // dropping the low bits must not turn a NaN into an infinity
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// Returns the value of an f16 number, subnormals included; exact.
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

/// Rounds a float to f16, subnormals included, and returns the bits.
inline uint16_t f16FromFloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = uint16_t((bits >> 16) & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return sign | 0x7e00;
  if (magnitude >= 0x477ff000) // 65520, halfway between the largest f16 and the next power of two
    return sign | 0x7c00;
  if (magnitude < 0x38800000) {
    // Below 2^-14, the smallest normal f16: adding 0.5 rounds to multiples of 2^-24 and leaves them in the low bits.
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | uint16_t(std::bit_cast<uint32_t>(shifted) - 0x3f000000);
  }
  magnitude += 0xfff + ((magnitude >> 13) & 1) - (uint32_t(112) << 23);
  return sign | uint16_t(magnitude >> 13);
}

} // namespace kerf
