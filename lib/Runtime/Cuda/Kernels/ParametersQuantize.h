// SPDX-License-Identifier: Apache-2.0
// The parameters of Kernels/Quantize.cu. A format is 0 for f8E4M3FN and 1 for f8E5M2.
#pragma once

#include <cstdint>

namespace kerf::runtime::cuda {

/// y[i] = x[i] times the scale of the magnitude, rounded to the format.
struct QuantizeParameters {
  const void *x, *magnitude;
  uint8_t *y;
  int64_t n;
  int32_t format;
};

/// y[i] = the value of codes[i].
struct WidenParameters {
  const uint8_t *codes;
  void *y;
  int64_t n;
  int32_t format;
};

/// scales = the numbers by which the two factors of a product are to be multiplied.
struct ScalesParameters {
  const void *left, *right; // magnitudes
  float *scales;            // of the left and the right factor; the second one is 256 bytes behind the first
  int32_t leftFormat, rightFormat;
};

/// y[i] = x[i] times both scales.
struct RestoreParameters {
  const float *x, *scales;
  void *y;
  int64_t n;
};

/// Elements from the scale of the left factor to that of the right one, so that both addresses are aligned.
inline constexpr int64_t kScaleStride = 64;

} // namespace kerf::runtime::cuda
