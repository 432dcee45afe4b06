// SPDX-License-Identifier: Apache-2.0
// One copy between two strided boxes: transpose, broadcast, slice, concatenate and pad are all this, with other
// strides. Made once; neighbouring dimensions that lie alike in both are merged, and the two innermost are done in
// tiles.
#pragma once

#include "Common.h"

namespace kerf::runtime::kernels {

struct CopyDim {
  int64_t size, from, to; // strides in elements; `from` is 0 where a value is repeated
};

class StridedCopy {
public:
  StridedCopy() = default;
  StridedCopy(std::vector<CopyDim> dims, int64_t elementBytes);
  void operator()(const void *from, void *to, Team *team = nullptr) const;

private:
  template <typename T> void run(const T *from, T *to, Team *team) const;

  std::vector<CopyDim> dims; // outermost first
  int64_t elementBytes = 1;
  bool empty = false;
};

/// Row-major strides of a shape, in elements.
std::vector<int64_t> stridesOf(const Shape &shape);

} // namespace kerf::runtime::kernels
