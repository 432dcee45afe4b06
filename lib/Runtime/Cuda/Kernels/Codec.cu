// SPDX-License-Identifier: Apache-2.0
// Ops of the codecs of compressed gradients: random numbers, and several small integers in a byte.
#include "DeviceCode.h"
#pragma clang force_cuda_host_device begin
#include "ParametersCodec.h"
#include "kerf/Support/HashRandom.h"
#pragma clang force_cuda_host_device end

namespace kerf::runtime::cuda {

KERF_KERNEL void randomKey(RandomKeyParameters p) {
  if (firstElement() == 0)
    *p.key = hashKey(uint64_t(*p.seed), uint64_t(*p.step), uint64_t(p.stream), uint64_t(p.position));
}

KERF_KERNEL void hashUniforms(HashUniformParameters p) {
  for (int64_t i = firstElement(); i < p.n; i += elementStep())
    p.y[i] = hashUniform(p.keys[i], uint32_t(i));
}

KERF_KERNEL void packBytes(PackingParameters p) {
  const uint32_t mask = (1u << p.bits) - 1;
  for (int64_t i = firstElement(); i < p.bytes; i += elementStep()) {
    int64_t row = i / p.width, element = row * p.width * (8 / p.bits) + (i - row * p.width);
    uint32_t all = 0;
    for (int32_t shift = 0; shift < 8; shift += p.bits, element += p.width)
      all |= (p.from[element] & mask) << shift;
    p.to[i] = uint8_t(all);
  }
}

KERF_KERNEL void unpackBytes(PackingParameters p) {
  const uint32_t mask = (1u << p.bits) - 1;
  for (int64_t i = firstElement(); i < p.bytes; i += elementStep()) {
    int64_t row = i / p.width, element = row * p.width * (8 / p.bits) + (i - row * p.width);
    for (int32_t shift = 0; shift < 8; shift += p.bits, element += p.width)
      p.to[element] = uint8_t(uint32_t(p.from[i]) >> shift & mask);
  }
}

} // namespace kerf::runtime::cuda
