// SPDX-License-Identifier: Apache-2.0
#include "MemoryPlan.h"

#include <algorithm>
#include <numeric>

namespace kerf::runtime {

namespace {
int64_t aligned(int64_t bytes, int64_t alignment) {
  return (std::max<int64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
}
} // namespace

Placement placeBuffers(std::span<const Lifetime> buffers, int64_t alignment) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });

  struct Placed {
    int64_t offset, top, begin, end;
  };
  std::vector<Placed> placed; // by offset
  Placement placement{std::vector<int64_t>(buffers.size()), 0};
  for (size_t index : order) {
    const Lifetime &buffer = buffers[index];
    int64_t bytes = aligned(buffer.bytes, alignment), top = 0, best = -1, bestGap = 0;
    for (const Placed &other : placed) {
      if (other.end < buffer.begin || buffer.end < other.begin)
        continue;
      int64_t gap = other.offset - top;
      if (gap >= bytes && (best < 0 || gap < bestGap))
        best = top, bestGap = gap;
      top = std::max(top, other.top);
    }
    int64_t offset = best >= 0 ? best : top;
    placement.offsets[index] = offset;
    placement.bytes = std::max(placement.bytes, offset + bytes);
    Placed entry{offset, offset + bytes, buffer.begin, buffer.end};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), entry,
                                   [](const Placed &a, const Placed &b) { return a.offset < b.offset; }),
                  entry);
  }
  return placement;
}

std::vector<int64_t> liveBytes(std::span<const Lifetime> buffers, int64_t positions, int64_t alignment) {
  std::vector<int64_t> change(static_cast<size_t>(positions) + 1, 0);
  for (const Lifetime &buffer : buffers) {
    change[size_t(buffer.begin)] += aligned(buffer.bytes, alignment);
    change[size_t(buffer.end) + 1] -= aligned(buffer.bytes, alignment);
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  change.pop_back();
  return change;
}

} // namespace kerf::runtime
