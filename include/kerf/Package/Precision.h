// SPDX-License-Identifier: Apache-2.0
// Rounding to the numbers of a narrower floating format, in place: what reduce_precision does to an element.
//
// |x| with the exponent e keeps `mantissaBits` bits behind its leading one where e >= minExponent: half of what goes is
// added to its bits, and a carry raises the exponent. Below 2^minExponent all numbers of the format are multiples of
// 2^(minExponent - mantissaBits): adding a number whose own last bit counts that much rounds, taking it away is exact.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace kerf {

/// What a format may have to be one within T: so many bits behind the leading one, and this smallest normal exponent.
template <typename T> inline constexpr int64_t kMostMantissaBits = std::numeric_limits<T>::digits - 1;
template <typename T> inline constexpr int64_t kLowestExponent = std::numeric_limits<T>::min_exponent - 1;

template <typename T> struct Precision {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static constexpr Bits kSign = Bits(1) << (8 * sizeof(T) - 1);

  Bits half, odd, kept; // almost half of the bits that go, the last that stays as a number, those that stay
  int dropped;
  T lowest, shifter; // the smallest normal number; what rounds below it

  /// 0 to kMostMantissaBits bits, an exponent of kLowestExponent to 0.
  Precision(int64_t mantissaBits, int64_t minExponent)
      : odd(mantissaBits < kMostMantissaBits<T>), dropped(int(kMostMantissaBits<T> - mantissaBits)) {
    kept = ~((Bits(1) << dropped) - 1);
    half = dropped > 0 ? (Bits(1) << (dropped - 1)) - 1 : 0;
    if (mantissaBits == 0) { // what stays is the leading one, which is odd, and no bit of its own
      ++half;
      odd = 0;
    }
    lowest = std::ldexp(T(1), int(minExponent));
    shifter = std::ldexp(T(1), int(minExponent) + dropped);
  }

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
