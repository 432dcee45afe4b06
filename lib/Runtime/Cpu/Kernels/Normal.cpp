// SPDX-License-Identifier: Apache-2.0
// Vectors of normally distributed numbers. They are computed as doubles with polynomials whose result differs from the
// C library's by a few units in the last place. Rounded to float, nearly all of them are the same. The others lie near
// the middle between two floats; they are recognized by their bits and computed again with the C library.
#include "Normal.h"
#include "../../Philox.h"
#include "Simd.h"

#include <algorithm>
#include <array>
#include <numbers>

namespace kerf::runtime {

double normalOf(uint32_t a, uint32_t b) {
  double u = (double(a) + 0.5) * 0x1p-32, v = (double(b) + 0.5) * 0x1p-32;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

namespace {
constexpr int kLanes = 32;
/// The bits of a double that a float does not have, and their value in the middle between two floats.
constexpr uint64_t kLostBits = (uint64_t(1) << 29) - 1, kMiddle = uint64_t(1) << 28;
/// Units in the last place of a double that separate a safe result from the middle. The error is below 16 units.
constexpr uint64_t kMargin = 64;

[[gnu::always_inline]] inline bool isNearMiddle(double value) {
  return (std::bit_cast<uint64_t>(value) & kLostBits) - (kMiddle - kMargin) <= 2 * kMargin;
}

/// Returns the logarithm of a number in (0, 1): u = m 2^e with m in [sqrt(1/2), sqrt(2)), log m = 2 artanh(s) with
/// s = (m - 1) / (m + 1), as a series of 11 terms (the next one is below 2^-60 of the first).
[[gnu::always_inline]] inline double logOf(double u) {
  constexpr uint64_t kHalfRoot = 0x3fe6a09e667f3bcd;                                 // the bits of sqrt(1/2)
  constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33; // fdlibm's split of ln 2
  // The exponent of u relative to sqrt(1/2), as an integer in the low bits of a double; no 64-bit integer is converted.
  uint64_t above = (std::bit_cast<uint64_t>(u) - kHalfRoot + (uint64_t(1023) << 52)) >> 52; // 1023 + e
  double e = std::bit_cast<double>(above | std::bit_cast<uint64_t>(0x1p52)) - (0x1p52 + 1023);
  double m = std::bit_cast<double>(std::bit_cast<uint64_t>(u) - ((above - 1023) << 52));
  double s = (m - 1) / (m + 1), z = s * s;
  double series = 0;
  for (int term = 10; term >= 1; --term)
    series = (series + 1.0 / (2 * term + 1)) * z;
  return (2 * s * series + e * kLn2Low + 2 * s) + e * kLn2High;
}

/// Returns the factors 1 / (n (n - 1)) of the series of sine and cosine, for the terms n = first, first - 2, ...
template <int first> constexpr auto factorsFrom() {
  std::array<double, (first - 1) / 2> factors{};
  for (int i = 0; i < int(factors.size()); ++i)
    factors[size_t(i)] = 1.0 / ((first - 2 * i) * (first - 2 * i - 1));
  return factors;
}

/// Returns the cosine of a number in (0, 2 pi): x = k pi/2 + r with |r| <= pi/4, and Taylor's series of r.
[[gnu::always_inline]] inline double cosOf(double x) {
  // pi/2 in two parts. The first one ends in zeros, so that k times it is exact.
  constexpr double kHigh = 0x1.921fb54442d18p+0, kLow = 0x1.1a62633145c07p-54, kMagic = 0x1.8p52;
  static constexpr auto kSine = factorsFrom<17>(), kCosine = factorsFrom<18>();
  double shifted = x * (2 / std::numbers::pi) + kMagic;
  auto k = std::bit_cast<uint64_t>(shifted);
  double quotient = shifted - kMagic;
  double r = (x - quotient * kHigh) - quotient * kLow, z = r * r;
  double sine = 0, cosine = 0; // sin r = r (1 - sine), cos r = 1 - z/2 (1 - cosine)
#pragma GCC unroll 8
  for (double factor : kSine)
    sine = (1 - sine) * (z * factor);
#pragma GCC unroll 8
  for (double factor : kCosine)
    cosine = (1 - cosine) * (z * factor);
  double sineOfR = r - r * sine, cosineOfR = 1 - z * 0.5 * (1 - cosine);
  // cos x is cos r, -sin r, -cos r, sin r for k = 0, 1, 2, 3 modulo 4.
  uint64_t odd = 0 - (k & 1), sign = ((k + 1) & 2) << 62;
  return std::bit_cast<double>(
      ((std::bit_cast<uint64_t>(sineOfR) & odd) | (std::bit_cast<uint64_t>(cosineOfR) & ~odd)) ^ sign);
}

/// Writes the numbers of kLanes counters. `low` is the first one's low half.
[[gnu::always_inline]] inline void writeLanes(uint64_t low, uint64_t high, uint64_t key, double scale, float *out) {
  PhiloxWords<kLanes> random = philoxRow<kLanes>(low, high, key);
  std::array<double, kLanes> values;
#pragma omp simd
  for (int i = 0; i < kLanes; ++i) {
    double u = (double(random[0][i]) + 0.5) * 0x1p-32, v = (double(random[1][i]) + 0.5) * 0x1p-32;
    values[i] = scale * (std::sqrt(-2.0 * logOf(u)) * cosOf(2.0 * std::numbers::pi * v));
  }
  uint64_t near = 0;
#pragma omp simd reduction(| : near)
  for (int i = 0; i < kLanes; ++i) {
    out[i] = float(values[i]);
    near |= uint64_t(isNearMiddle(values[i]));
  }
  for (int i = 0; near && i < kLanes; ++i)
    if (isNearMiddle(values[i]))
      out[i] = float(scale * normalOf(random[0][i], random[1][i]));
}
} // namespace

void normalRow(uint64_t low, uint64_t high, uint64_t key, double scale, int64_t count, float *out) {
  auto row = [](auto, uint64_t low, uint64_t high, uint64_t key, double scale, int64_t count, float *out) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
      writeLanes(low + uint64_t(i), high, key, scale, out + i);
    std::array<float, kLanes> last;
    if (i < count)
      writeLanes(low + uint64_t(i), high, key, scale, last.data());
    std::copy_n(last.data(), count - i, out + i);
  };
  kernels::dispatch(row, low, high, key, scale, count, out);
}

} // namespace kerf::runtime
