// SPDX-License-Identifier: Apache-2.0
// A copy between two strided boxes. Transpose, broadcast, slice, concatenate and pad are all such copies, with
// different strides. A copy is planned once: neighbouring dimensions that are contiguous in both boxes are merged, and
// the two innermost dimensions are copied in tiles.
#pragma once

#include "Common.h"

namespace kerf::runtime::kernels {

/// One dimension of a copy: its number of elements, and its strides in the source and the target, in elements. `from`
/// is 0 in a dimension along which a value is repeated.
struct CopyDim {
  int64_t size, from, to;
};

/// A planned copy between strided boxes.
class StridedCopy {
public:
  StridedCopy() = default;
  /// Plans a copy of elements of `elementBytes` bytes. The order of `dims` does not matter.
  StridedCopy(std::vector<CopyDim> dims, int64_t elementBytes);
  /// Copies from address `from` to address `to`, the addresses of the boxes' first elements.
  void operator()(const void *from, void *to, ThreadTeam *team = nullptr) const;

private:
  template <typename T> void run(const T *from, T *to, ThreadTeam *team) const;

  std::vector<CopyDim> dims; // outermost first
  int64_t elementBytes = 1;
  bool empty = false;
};

/// Returns the row-major strides of a shape, in elements.
std::vector<int64_t> stridesOf(const Shape &shape);

} // namespace kerf::runtime::kernels
