// SPDX-License-Identifier: Apache-2.0
// The initial values of parameters that no file gives.
#pragma once

#include "../Shards.h"

namespace kerf::runtime {

/// The initial values of one parameter (docs/runtime.md). One-dimensional parameters named `weight` or `*.weight` are
/// ones, other one-dimensional and scalar ones zeros, and all others are drawn from a normal distribution with mean 0
/// and standard deviation 0.02. An element depends only on the seed, the name and the element's index in the global
/// tensor.
class InitialValues {
public:
  InitialValues(uint64_t seed, const std::string &name, const Shape &shape, Shard shard, DType dtype);
  /// Writes the elements [begin, end) of the rank's local tensor to `out`. Padding becomes zero.
  void write(int64_t begin, int64_t end, std::byte *out) const;

private:
  void writeRun(uint64_t global, int64_t count, std::byte *out) const;
  const uint64_t seed, hash; // `hash` is that of the name
  const Shape shape;         // of the global tensor
  const Shard shard;
  const DType dtype;
  const bool isFlat, isOnes; // whether all elements are equal, and whether they are ones
  /// The local tensor consists of rows that are contiguous in the global tensor too: those of the dimensions from
  /// `inner` on, of `row` elements, of which the first `valid` are not padding.
  size_t inner;
  int64_t row = 1, valid = 1;
};

} // namespace kerf::runtime
