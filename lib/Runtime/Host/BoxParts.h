// SPDX-License-Identifier: Apache-2.0
// Parts of a box, for collectives that exchange large tensors piece by piece. A box is a sequence of bytes in the order
// in which packing it writes them, and a piece is a range of this sequence.
#pragma once

#include "../Box.h"

namespace kerf::runtime {

/// The range [begin, end) of the bytes of a packed box.
struct ByteRange {
  int64_t begin = 0, end = 0;
  int64_t bytes() const { return end - begin; }
  bool empty() const { return begin >= end; }
};

/// The side of a box's copy that is a dense piece of scratch memory: the target while packing, the source while
/// unpacking, and neither where the copy is from tensor to tensor.
enum class DenseSide { None, Source, Target };

/// A copy of a part of a box, as offsets in bytes and loops like those of BoxCopy::allLoops.
struct BoxPart {
  int64_t fromOffset = 0, toOffset = 0;
  std::vector<BoxCopy::Loop> loops;
};

/// Returns the copies that together copy the bytes `range` of the box: at most two for each loop of the box, and one.
/// The dense side holds nothing but the range, from its first byte on.
std::vector<BoxPart> partsOf(const BoxCopy &box, ByteRange range, DenseSide dense);

/// Returns the bytes of the widest integer, 8 to 1, in which a part can be copied: they divide all offsets, strides and
/// runs of bytes.
int64_t widestUnit(const BoxPart &part);

/// Returns whether two boxes of one tensor are packed to the same bytes.
bool packAlike(const BoxCopy &a, const BoxCopy &b);

} // namespace kerf::runtime
