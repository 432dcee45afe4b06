// SPDX-License-Identifier: Apache-2.0
// The layouts between which a reshard is searched, packed into small values that are quick to compare and to hash.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kerf::reshard {

// Reshards beyond these limits use gatherThenSlice. A mesh of three axes with two parts each has 6 sub-axes.
inline constexpr size_t kMaxSubAxes = 12;
inline constexpr size_t kMaxCutDims = 8;

/// The sub-axes of one dimension, most significant first, packed into 64 bits: four bits for the index of each, and
/// their number in the highest bits.
class Digits {
public:
  bool operator==(const Digits &) const = default;

  size_t count() const { return word >> kCountAt; }
  uint8_t operator[](size_t i) const { return word >> (4 * i) & 15; }
  void append(uint8_t subAxis) { word = (word | static_cast<uint64_t>(subAxis) << (4 * count())) + (1ull << kCountAt); }
  uint32_t mask(size_t first = 0) const {
    uint32_t bits = 0;
    for (size_t i = first; i < count(); ++i)
      bits |= 1u << (*this)[i];
    return bits;
  }
  Digits part(size_t first, size_t end) const {
    Digits some;
    for (size_t i = first; i < end; ++i)
      some.append((*this)[i]);
    return some;
  }
  Digits plus(const Digits &minor) const {
    Digits both = *this;
    for (size_t i = 0; i < minor.count(); ++i)
      both.append(minor[i]);
    return both;
  }
  uint64_t bits() const { return word; }

private:
  static constexpr int kCountAt = 4 * kMaxSubAxes;
  uint64_t word = 0;
};

/// A node of the search. The indices of `dims` and `chunk` count the dimensions that the reshard cuts.
struct Layout {
  uint32_t partial = 0;                     // bits of the sub-axes over which the value is partial
  std::array<Digits, kMaxCutDims> dims{};   // by dimension: the sub-axes that cut it
  std::array<int64_t, kMaxCutDims> chunk{}; // by dimension: the chunk
  bool operator==(const Layout &) const = default;
};

/// The hash of a layout, for unordered maps.
struct LayoutHash {
  size_t operator()(const Layout &layout) const {
    uint64_t hash = layout.partial;
    auto mix = [&](uint64_t value) {
      hash = (hash ^ value) * 0x9E3779B97F4A7C15u, hash ^= hash >> 29;
    }; // Fibonacci hashing
    for (size_t d = 0; d < kMaxCutDims; ++d)
      if (layout.dims[d].count())
        mix(layout.dims[d].bits() + d), mix(static_cast<uint64_t>(layout.chunk[d]));
    return hash;
  }
};

} // namespace kerf::reshard
