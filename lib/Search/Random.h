// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same on every machine. Private to the Search room.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace kerf::search {

/// SplitMix64 (Steele, Lea & Flood 2014).
struct Random {
  uint64_t state = 0; // the seed
  /// Returns the next 64 random bits.
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// Returns a number from 0 to bound - 1.
  int below(int bound) { return static_cast<int>(next() % static_cast<uint64_t>(bound)); }
  /// Returns a number between 0 and 1, neither of which it can be.
  double share() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }
  /// Puts the elements of `values` from `begin` on into a random order.
  void shuffle(std::vector<int> &values, size_t begin = 0) {
    for (size_t n = values.size(); n > begin + 1; --n)
      std::swap(values[n - 1], values[begin + static_cast<size_t>(below(static_cast<int>(n - begin)))]);
  }
};

} // namespace kerf::search
