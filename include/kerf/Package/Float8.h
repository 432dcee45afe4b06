// SPDX-License-Identifier: Apache-2.0
// The 8-bit floating-point formats e4m3fn and e5m2, held as bits, and their scales. CPUs and GPUs compute with these
// functions, so that both round to the same bits. The formats are those of OCP's "8-bit Floating Point Specification".
#pragma once

#include <bit>
#include <cstdint>

namespace kerf {

/// An 8-bit format with a sign, `7 - mantissaBits` bits of exponent and `mantissaBits` bits of mantissa.
struct Float8Format {
  int mantissaBits;
  int minExponent;     // exponent of the smallest normal number
  uint8_t largestCode; // bits of the largest finite number
  float largest;       // the largest finite number
  bool hasInfinities;  // whether the codes with the highest exponent are infinity and NaN; else only 0x7f is NaN
};
/// f8E4M3FN: 4 bits of exponent, 3 of mantissa, no infinities.
inline constexpr Float8Format kE4M3FN{3, -6, 0x7e, 448, false};
/// f8E5M2: 5 bits of exponent, 2 of mantissa.
inline constexpr Float8Format kE5M2{2, -14, 0x7b, 57344, true};

/// Rounds a float to the nearest number of the format, ties to even, and returns its bits. Numbers beyond the largest
/// one, and infinities, become the largest one with their sign. NaN becomes 0x7f or 0xff.
constexpr uint8_t float8FromFloat(float value, const Float8Format &format) {
  uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffff;
  uint8_t sign = uint8_t(bits >> 24 & 0x80);
  if (magnitude > 0x7f800000)
    return uint8_t(sign | 0x7f);
  const int shift = 23 - format.mantissaBits, lowest = 127 + format.minExponent; // `lowest` as an exponent of a float
  uint32_t code = 0;
  if (magnitude < uint32_t(lowest) << 23) {
    // The last bit of `shifter` has the value of the smallest subnormal number, so the sum is rounded to a multiple.
    float shifter = std::bit_cast<float>(uint32_t(lowest + shift) << 23);
    code = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + shifter) - std::bit_cast<uint32_t>(shifter);
  } else {
    uint32_t rounded = magnitude + (uint32_t(1) << (shift - 1)) - 1 + (magnitude >> shift & 1);
    code = (rounded >> shift) - (uint32_t(lowest - 1) << format.mantissaBits);
  }
  return uint8_t(sign | (code < format.largestCode ? code : format.largestCode));
}

/// Returns the value of a number of the format; exact.
constexpr float floatFromFloat8(uint8_t code, const Float8Format &format) {
  const int shift = 23 - format.mantissaBits, lowest = 127 + format.minExponent;
  uint32_t sign = uint32_t(code & 0x80) << 24, magnitude = code & 0x7f;
  if (magnitude > format.largestCode)
    return std::bit_cast<float>(sign | (format.hasInfinities && magnitude == 0x7c ? 0x7f800000 : 0x7fc00000));
  if (magnitude >> format.mantissaBits)
    return std::bit_cast<float>(sign | ((magnitude << shift) + (uint32_t(lowest - 1) << 23)));
  float step = std::bit_cast<float>(uint32_t(lowest - format.mantissaBits) << 23); // the smallest subnormal number
  float small = float(magnitude) * step;
  return sign ? -small : small;
}

/// Returns the magnitude that the scale of a tensor is computed from: the tensor's own magnitude, but at least 2^-100,
/// so that neither the scale nor its inverse is infinite or subnormal. NaN stays NaN.
constexpr float usedMagnitude(float magnitude) { return magnitude < 0x1p-100f ? 0x1p-100f : magnitude; }
/// Returns the number by which elements are multiplied before they are rounded to the format.
constexpr float quantizingScale(float magnitude, const Float8Format &format) {
  return format.largest / usedMagnitude(magnitude);
}
/// Returns the number by which elements of the format are multiplied to give the elements before.
constexpr float restoringScale(float magnitude, const Float8Format &format) {
  return usedMagnitude(magnitude) / format.largest;
}

} // namespace kerf
