// SPDX-License-Identifier: Apache-2.0
// Rounding of a float or double to a floating format with fewer bits, as the op reduce_precision does to each element.
//
// A normal number (|x| >= 2^minExponent) keeps `mantissaBits` mantissa bits: half of the last kept bit is added to the
// bits, then the dropped bits are cleared; a carry into the exponent is correct. Smaller numbers of the format are
// multiples of 2^(minExponent - mantissaBits): adding and then subtracting a number whose last mantissa bit has that
// value rounds to such a multiple, because the subtraction is exact.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace kerf {

/// Largest number of mantissa bits, without the leading one, of a format whose numbers T can represent.
template <typename T> inline constexpr int64_t kMostMantissaBits = std::numeric_limits<T>::digits - 1;
/// Smallest exponent of a normal number of a format whose numbers T can represent.
template <typename T> inline constexpr int64_t kLowestExponent = std::numeric_limits<T>::min_exponent - 1;

/// Function object that rounds a T (float or double) to the nearest number of a narrower format, ties to even. The
/// exponent has no upper limit but T's; infinities and NaN stay as they are.
template <typename T> struct Precision {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static constexpr Bits kSign = Bits(1) << (8 * sizeof(T) - 1);

  Bits half; // number added before bits are cleared: half of the last kept bit minus 1, or that half if no bit is kept
  Bits odd;  // 1 if ties go to the number whose last kept bit is 0; 0 where every tie rounds up, or no bit is dropped
  Bits kept; // mask of the sign, the exponent and the mantissa bits that stay
  int dropped; // number of lowest mantissa bits of a T that the format lacks; they are 0 after rounding
  T lowest;    // smallest normal number of the format, 2^minExponent
  T shifter;   // number whose addition and subtraction rounds subnormal numbers of the format

  /// Prepares rounding to `mantissaBits` bits, 0 to kMostMantissaBits, and to a smallest normal exponent of
  /// `minExponent`, kLowestExponent to 0.
  Precision(int64_t mantissaBits, int64_t minExponent)
      : odd(mantissaBits < kMostMantissaBits<T>), dropped(int(kMostMantissaBits<T> - mantissaBits)) {
    kept = ~((Bits(1) << dropped) - 1);
    half = dropped > 0 ? (Bits(1) << (dropped - 1)) - 1 : 0;
    if (mantissaBits == 0) { // the last kept bit is the leading one, which is always odd: ties round up
      ++half;
      odd = 0;
    }
    lowest = std::ldexp(T(1), int(minExponent));
    shifter = std::ldexp(T(1), int(minExponent) + dropped);
  }

  /// Returns `x` rounded to the format.
  T operator()(T x) const {
    Bits bits = std::bit_cast<Bits>(x), magnitude = bits & ~kSign;
    T size = std::bit_cast<T>(magnitude);
    T normal = std::bit_cast<T>(Bits((magnitude + half + ((magnitude >> dropped) & odd)) & kept));
    T small = (size + shifter) - shifter;
    T rounded = size < lowest ? small : normal;
    T result = size <= std::numeric_limits<T>::max() ? rounded : size; // infinities and NaN
    return std::bit_cast<T>(Bits(std::bit_cast<Bits>(result) | (bits & kSign)));
  }
};

} // namespace kerf
