// SPDX-License-Identifier: Apache-2.0
// Copies of boxes between dense row-major tensors: planned once, run without allocation.
#pragma once

#include "kerf/Package/Package.h"
#include <cstddef>

namespace kerf::runtime {

/// A box of `counts` elements, at `from` in a tensor of shape `fromShape`, to `to` in one of shape `toShape`.
class BoxCopy {
public:
  BoxCopy() = default;
  BoxCopy(const Shape &fromShape, const Shape &from, const Shape &toShape, const Shape &to, const Shape &counts,
          int64_t elementBytes);

  void run(const std::byte *from, std::byte *to) const;
  /// One memcpy: the box is contiguous on both sides.
  bool contiguous() const { return loops.empty(); }
  int64_t bytes() const;
  int64_t fromOffset() const { return fromBytes; }
  int64_t toOffset() const { return toBytes; }

private:
  struct Loop {
    int64_t count = 0, fromStride = 0, toStride = 0; // strides in bytes
  };
  void runLoop(size_t loop, const std::byte *from, std::byte *to) const;

  int64_t fromBytes = 0, toBytes = 0, runBytes = 0;
  std::vector<Loop> loops; // outermost first
};

/// Between a tensor's box and dense memory of the box's shape.
BoxCopy packBox(const Shape &shape, const Shape &begin, const Shape &counts, int64_t elementBytes);
BoxCopy unpackBox(const Shape &shape, const Shape &begin, const Shape &counts, int64_t elementBytes);

} // namespace kerf::runtime
