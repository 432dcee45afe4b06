// SPDX-License-Identifier: Apache-2.0
// The parameters of Kernels/Codec.cu.
#pragma once

#include <cstdint>

namespace kerf::runtime::cuda {

/// *key = hashKey(*seed, *step, stream, position).
struct RandomKeyParameters {
  const int64_t *seed, *step;
  uint32_t *key;
  int64_t stream, position;
};

/// y[i] = hashUniform(keys[i], i).
struct HashUniformParameters {
  const uint32_t *keys;
  float *y;
  int64_t n;
};

/// Rows of `width` bytes that hold 8 / bits elements each, and the rows of their elements, one in a byte: of each byte
/// the bits from k * bits on are element number k * width + j of the row, where j is the byte's number in its row.
struct PackingParameters {
  const uint8_t *from;
  uint8_t *to;
  int64_t bytes, width; // packed bytes in all, and in a row
  int32_t bits;
};

} // namespace kerf::runtime::cuda
