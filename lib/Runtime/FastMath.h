// SPDX-License-Identifier: Apache-2.0
// Exponentials and related functions as polynomials of additions and multiplications, so that compilers can vectorize
// loops that call them. Processors compute with them, and GPUs where their kernels have no shorter form.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

// The error function of a double. Device code, which has no C++ library, defines its own.
#ifndef KERF_ERF
#define KERF_ERF(x) std::erf(x)
#endif

namespace kerf::runtime {

namespace detail {
/// Constants of the exponential's polynomial for a floating type.
template <typename T> struct ExpTraits;
template <> struct ExpTraits<double> {
  using Bits = uint64_t;
  static constexpr int kMantissaBits = 52, kTerms = 13; // Taylor's remainder at ln(2)/2: 4e-18
  static constexpr double kMagic = 0x1.8p52;            // x + kMagic has round(x) in its low bits
  static constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33; // fdlibm's split of ln 2
  static constexpr double kLowest = -746, kHighest = 710;
};
template <> struct ExpTraits<float> {
  using Bits = uint32_t;
  static constexpr int kMantissaBits = 23, kTerms = 8; // Taylor's remainder at ln(2)/2: 2e-10
  static constexpr float kMagic = 0x1.8p23f;
  static constexpr float kLn2High = 0x1.62e400p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  static constexpr float kLowest = -104, kHighest = 89;
};

/// Returns 1 / n! for n from 1 to the number of terms.
template <typename T> constexpr auto inverseFactorials() {
  std::array<T, ExpTraits<T>::kTerms + 1> values{};
  double factorial = 1;
  for (int n = 1; n <= ExpTraits<T>::kTerms; ++n)
    values[n] = T(1 / (factorial *= n));
  return values;
}

/// The parts of an exponential: exp(x) = scale1 * scale2 * (1 + p). scale1 * scale2 = 2^k, in two factors so that
/// neither overflows, and p = expm1(x - k ln 2) with |x - k ln 2| <= ln(2)/2. If x is NaN, so is p, because comparisons
/// with NaN are false.
template <typename T> struct ExpParts {
  T scale1, scale2, p;
};

/// Returns 2^k for an integer k with |k| < 2^10 (double) or |k| < 2^7 (float).
template <typename T> [[gnu::always_inline]] inline T powerOfTwo(T k) {
  using Traits = ExpTraits<T>;
  using Bits = typename Traits::Bits;
  Bits bits = std::bit_cast<Bits>(T(k + Traits::kMagic)) << Traits::kMantissaBits;
  return std::bit_cast<T>(Bits(bits + std::bit_cast<Bits>(T(1))));
}

/// Splits exp(x) into its parts.
template <typename T> [[gnu::always_inline]] inline ExpParts<T> expParts(T x) {
  using Traits = ExpTraits<T>;
  constexpr T kLog2E = T(1.4426950408889634074);
  x = x < Traits::kLowest ? Traits::kLowest : x;
  x = x > Traits::kHighest ? Traits::kHighest : x;
  T k = (x * kLog2E + Traits::kMagic) - Traits::kMagic;
  T r = (x - k * Traits::kLn2High) - k * Traits::kLn2Low;
  constexpr auto kInverseFactorial = inverseFactorials<T>();
  T sum = 0;
#pragma GCC unroll 16
  for (int n = Traits::kTerms; n >= 2; --n)
    sum = sum * r + kInverseFactorial[n];
  T k1 = (k * T(0.5) + Traits::kMagic) - Traits::kMagic;
  return {powerOfTwo(k1), powerOfTwo(T(k - k1)), r + r * r * sum};
}
} // namespace detail

/// Returns e^x, with an error of at most 2 units in the last place.
template <typename T> [[gnu::always_inline]] inline T fastExp(T x) {
  detail::ExpParts<T> e = detail::expParts(x);
  return (e.scale1 + e.scale1 * e.p) * e.scale2;
}

/// Returns tanh(x), computed from expm1 so that it is accurate near 0, too.
template <typename T> [[gnu::always_inline]] inline T fastTanh(T x) {
  constexpr T kSaturated = sizeof(T) == 8 ? T(20) : T(10); // 1 - tanh is below half a unit in the last place
  T a = x < 0 ? -x : x;
  a = a > kSaturated ? kSaturated : a;
  detail::ExpParts<T> e = detail::expParts(T(2 * a));
  T scale = e.scale1 * e.scale2;
  T expm1 = scale * e.p + (scale - 1);
  T y = expm1 / (expm1 + 2);
  return x < 0 ? -y : y;
}

/// Returns the error function of x: for float with a relative error of at most 2.1e-7, for double as the C++
/// library computes it.
template <typename T> [[gnu::always_inline]] inline T fastErf(T x) {
  if constexpr (sizeof(T) == 8) {
    return KERF_ERF(x);
  } else {
    // Below 1 the series 2 / sqrt(pi) * sum of (-1)^n x^(2n+1) / (n! (2n+1)), above Abramowitz and Stegun, 7.1.26.
    constexpr auto kSeries = [] {
      std::array<T, 11> terms{};
      double factor = 1.1283791670955126; // 2 / sqrt(pi)
      for (int n = 0; n < int(terms.size()); ++n) {
        terms[n] = T(factor / (2 * n + 1));
        factor /= -(n + 1);
      }
      return terms;
    }();
    T a = x < 0 ? -x : x, square = a * a, series = 0;
#pragma GCC unroll 11
    for (int n = int(kSeries.size()) - 1; n >= 0; --n)
      series = series * square + kSeries[n];
    T t = T(1) / (T(1) + T(0.3275911) * a);
    T rest = t * (T(0.254829592) +
                  t * (T(-0.284496736) + t * (T(1.421413741) + t * (T(-1.453152027) + t * T(1.061405429)))));
    T y = a < 1 ? a * series : T(1) - rest * fastExp(-square);
    return x < 0 ? -y : y;
  }
}

/// Returns the logistic function 1 / (1 + e^-x).
template <typename T> [[gnu::always_inline]] inline T fastLogistic(T x) { return T(1) / (T(1) + fastExp(T(-x))); }

} // namespace kerf::runtime
