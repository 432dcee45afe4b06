// SPDX-License-Identifier: Apache-2.0
// The random number generator Philox 4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011). It
// computes four random 32-bit words from a 128-bit counter and a 64-bit key, for several consecutive counters at once.
#pragma once

#include <array>
#include <cstdint>

namespace kerf::runtime {

/// Random words of `count` consecutive counters: element [w][i] is word w of the counter (low + i, high).
template <int count> using PhiloxWords = std::array<std::array<uint32_t, count>, 4>;

/// Returns the random words of the counters (low, high) to (low + count - 1, high) under `key`.
template <int count>
[[gnu::always_inline]] inline PhiloxWords<count> philoxRow(uint64_t low, uint64_t high, uint64_t key) {
  constexpr uint64_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  PhiloxWords<count> c;
  for (int i = 0; i < count; ++i) {
    uint64_t counter = low + uint64_t(i);
    c[0][i] = uint32_t(counter), c[1][i] = uint32_t(counter >> 32);
    c[2][i] = uint32_t(high), c[3][i] = uint32_t(high >> 32);
  }
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < kRounds; ++round, k0 += kWeyl0, k1 += kWeyl1)
#ifdef _OPENMP
#pragma omp simd
#endif
    for (int i = 0; i < count; ++i) {
      uint64_t p0 = kMultiply0 * c[0][i], p1 = kMultiply1 * c[2][i];
      c[0][i] = uint32_t(p1 >> 32) ^ c[1][i] ^ k0, c[1][i] = uint32_t(p1);
      c[2][i] = uint32_t(p0 >> 32) ^ c[3][i] ^ k1, c[3][i] = uint32_t(p0);
    }
  return c;
}

/// Returns the four random words of the counter (low, high) under `key`.
inline std::array<uint32_t, 4> philox(uint64_t low, uint64_t high, uint64_t key) {
  PhiloxWords<1> words = philoxRow<1>(low, high, key);
  return {words[0][0], words[1][0], words[2][0], words[3][0]};
}

} // namespace kerf::runtime
