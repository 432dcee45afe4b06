// SPDX-License-Identifier: Apache-2.0
// The random numbers of kerf.random and kerf.random_key: hashes of counters, so that a number depends on seed, step,
// tensor and element alone.
#pragma once

#include <cstdint>

namespace kerf {

/// Multipliers of hashBits (lowbias32 of C. Wellons, "Prospecting for Hash Functions", 2018).
inline constexpr uint32_t kHashFirst = 0x7feb352d, kHashSecond = 0x846ca68b;

/// Returns a hash of 32 bits, a bijection in which each bit of the result depends on each bit of `x`.
constexpr uint32_t hashBits(uint32_t x) {
  x = (x ^ x >> 16) * kHashFirst;
  x = (x ^ x >> 15) * kHashSecond;
  return x ^ x >> 16;
}

/// Returns a random number in [0, 1), a multiple of 2^-24, for an element of the tensor whose key is `key`.
constexpr float hashUniform(uint32_t key, uint32_t element) {
  return static_cast<float>(hashBits(hashBits(element + key) ^ key) >> 8) * 0x1p-24f;
}

/// Returns the key of a tensor's random numbers in one step on the rank at `position` of its group.
constexpr uint32_t hashKey(uint64_t seed, uint64_t step, uint64_t stream, uint64_t position) {
  uint32_t hash = 0;
  for (uint64_t word : {seed, step, stream, position}) {
    hash = hashBits(hash ^ static_cast<uint32_t>(word));
    hash = hashBits(hash ^ static_cast<uint32_t>(word >> 32));
  }
  return hash;
}

} // namespace kerf
