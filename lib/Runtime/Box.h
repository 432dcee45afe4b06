// SPDX-License-Identifier: Apache-2.0
// Copies of boxes (rectangular parts) between dense, row-major tensors. A copy is planned once and then runs
// without allocating memory.
#pragma once

#include "kerf/Package/Package.h"
#include <cstddef>

namespace kerf::runtime {

/// The copy of one box from a tensor to another tensor.
class BoxCopy {
public:
  BoxCopy() = default;
  /// Plans the copy of a box of `counts` elements in each dimension. The box begins at index `from` of a tensor of
  /// shape `fromShape`, and is copied to index `to` of a tensor of shape `toShape`.
  BoxCopy(const Shape &fromShape, const Shape &from, const Shape &toShape, const Shape &to, const Shape &counts,
          int64_t elementBytes);

  /// Copies the box. `from` and `to` are the addresses of the two whole tensors.
  void run(const std::byte *from, std::byte *to) const;
  /// Returns whether the box is contiguous in both tensors, so that one memcpy copies it.
  bool contiguous() const { return loops.empty(); }
  /// Returns the size of the box in bytes.
  int64_t bytes() const;
  /// Returns the byte offset of the box's first element in the source tensor.
  int64_t fromOffset() const { return fromBytes; }
  /// Returns the byte offset of the box's first element in the target tensor.
  int64_t toOffset() const { return toBytes; }

  /// One loop over pieces of the box; strides in bytes.
  struct Loop {
    int64_t count = 0, fromStride = 0, toStride = 0;
    bool operator==(const Loop &) const = default;
  };
  /// Returns the loops over the contiguous pieces, outermost first, and last a loop over the bytes of a piece.
  std::vector<Loop> allLoops() const {
    std::vector<Loop> all = loops;
    all.push_back({runBytes, 1, 1});
    return all;
  }

private:
  void runLoop(size_t loop, const std::byte *from, std::byte *to) const;

  int64_t fromBytes = 0, toBytes = 0; // offsets of the box's first element
  int64_t runBytes = 0;               // bytes of each contiguous piece
  std::vector<Loop> loops;            // loops over the contiguous pieces, outermost first
};

/// Returns the copy of a box at index `begin` of a tensor of shape `shape` to a dense tensor of the box's shape.
BoxCopy packBox(const Shape &shape, const Shape &begin, const Shape &counts, int64_t elementBytes);
/// Returns the copy of a dense tensor of the box's shape to a box at index `begin` of a tensor of shape `shape`.
BoxCopy unpackBox(const Shape &shape, const Shape &begin, const Shape &counts, int64_t elementBytes);

} // namespace kerf::runtime
