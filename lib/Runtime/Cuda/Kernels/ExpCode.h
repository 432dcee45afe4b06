// SPDX-License-Identifier: Apache-2.0
// Exponentials of floats by the GPU's own instructions for powers of two and reciprocals, which take a few operations
// where the polynomials of FastMath.h take twenty. Where a kernel reads or writes 16-bit numbers, it has time for
// about 50 operations an element.
#pragma once

#include "DeviceCode.h"

namespace kerf::runtime::cuda {

/// Returns 2^x with a relative error of at most 2^-22, and 0 for results below 2^-126.
KERF_DEVICE float powerOfTwo(float x) { return __nvvm_ex2_approx_ftz_f(x); }
/// Returns 1 / x with an error of at most one unit in the last place, and 0 for results below 2^-126.
KERF_DEVICE float reciprocal(float x) { return __nvvm_rcp_approx_ftz_f(x); }

/// Returns e^x for x of at most 128, with a relative error of at most 4e-7: infinity for large x, 0 for results below
/// 2^-126, NaN for NaN. The rounding of x * log2(e) is corrected.
KERF_DEVICE float exponentialBelow(float x) {
  constexpr float kLog2E = 0x1.715476p+0f, kLog2ERest = 0x1.4ae0cp-26f, kLn2 = 0x1.62e43p-1f;
  x = __nvvm_fmax_nan_f(x, -128.0f); // e^-128 is 0 in float
  float power = x * kLog2E, rest = __builtin_fmaf(x, kLog2E, -power) + x * kLog2ERest;
  return powerOfTwo(power) * __builtin_fmaf(rest, kLn2, 1.0f);
}
KERF_DEVICE double exponentialBelow(double x) { return fastExp(x); }

/// Returns 1 / (1 + e^-x), with a relative error of at most 5e-7, and 0 for results below 2^-126.
KERF_DEVICE float logisticOf(float x) { return reciprocal(1.0f + exponentialBelow(__nvvm_fmin_nan_f(-x, 128.0f))); }
KERF_DEVICE double logisticOf(double x) { return fastLogistic(x); }

/// The density of the normal distribution at x, and the probability of smaller numbers: Phi(x) = (1 + erf(x / sqrt(2)))
/// / 2.
template <typename X> struct Normal {
  X density, below;
};
/// For x < 0, the probability has a relative error of at most 6e-7 down to x = -3, and of 4e-6 down to x = -9.
KERF_DEVICE Normal<float> normalAt(float x) {
  // Phi(-a) = e^(-a^2 / 2) * t * p(t) with t = 1 / (1 + 0.31 a), as in Abramowitz and Stegun, 7.1.26. The polynomial p
  // has the least relative error, 1.7e-7, over 0 <= a <= 16, and p(1) is 1/2 exactly.
  constexpr float kTerms[] = {0x1.fa7e64p-4f,  0x1.fc3904p-4f, 0x1.b903a8p-4f,  0x1.c44b24p-4f,
                              -0x1.fa88e6p-7f, 0x1.3ebdc6p-3f, -0x1.22a4eep-3f, 0x1.26328cp-5f};
  constexpr float kHalfLog2E = 0x1.715476p-1f, kInverseRoot2Pi = 0x1.988454p-2f;
  float a = x < 0 ? -x : x, t = reciprocal(__builtin_fmaf(0.31f, a, 1.0f));
  float sum = kTerms[7];
#pragma unroll
  for (int n = 6; n >= 0; --n)
    sum = __builtin_fmaf(sum, t, kTerms[n]);
  float power = powerOfTwo(x * x * -kHalfLog2E), tail = power * (sum * t);
  return {power * kInverseRoot2Pi, x < 0 ? tail : 1.0f - tail};
}
KERF_DEVICE Normal<double> normalAt(double x) {
  constexpr double kInverseRoot2 = 0.7071067811865476, kInverseRoot2Pi = 0.3989422804014327;
  return {kInverseRoot2Pi * fastExp(-0.5 * x * x), 0.5 * (1 + fastErf(x * kInverseRoot2))};
}

} // namespace kerf::runtime::cuda
