// SPDX-License-Identifier: Apache-2.0
#include "MemoryPlan.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace kerf::runtime {

namespace {
int64_t aligned(int64_t bytes, int64_t alignment) {
  return (std::max<int64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
}

/// The bytes [begin, end) of the arena.
struct Range {
  int64_t begin = 0, end = 0;
};

/// Ranges in ascending order; no two overlap or touch.
using Ranges = std::vector<Range>;

/// Adds a range to a list of ranges.
void unite(Ranges &ranges, Range range) {
  auto first = std::lower_bound(ranges.begin(), ranges.end(), range.begin,
                                [](const Range &other, int64_t offset) { return other.end < offset; });
  auto last = first;
  for (; last != ranges.end() && last->begin <= range.end; ++last)
    range = {std::min(range.begin, last->begin), std::max(range.end, last->end)};
  if (first == last) {
    ranges.insert(first, range);
    return;
  }
  *first = range;
  ranges.erase(first + 1, last);
}

/// The bytes of the arena that are taken at each position of the step, as a segment tree over the positions. Node n has
/// the children 2n and 2n + 1. A good plan leaves few gaps, so the list of ranges of a node stays short even if the
/// node stands for many buffers.
class Occupied {
public:
  explicit Occupied(int64_t positions)
      : leaves(int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(positions, 1))))), nodes(size_t(2 * leaves)) {}

  /// Marks a range as taken from position `begin` to position `end`, both included.
  void add(int64_t begin, int64_t end, Range range) { add(1, 0, leaves, begin, end + 1, range); }
  /// Returns the ranges that are taken at any position from `begin` to `end`, in ascending order; they may overlap.
  const Ranges &during(int64_t begin, int64_t end) {
    found.clear();
    collect(1, 0, leaves, begin, end + 1);
    std::sort(found.begin(), found.end(), [](const Range &a, const Range &b) { return a.begin < b.begin; });
    return found;
  }

private:
  struct Node {
    Ranges always; // ranges taken at every position of the node, except those in `always` of a node above
    Ranges ever;   // ranges taken at any position of the node, except those in `always` of a node above
  };

  void add(size_t node, int64_t low, int64_t high, int64_t begin, int64_t end, Range range) {
    if (end <= low || high <= begin)
      return;
    unite(nodes[node].ever, range);
    if (begin <= low && high <= end) {
      unite(nodes[node].always, range);
      return;
    }
    int64_t middle = (low + high) / 2;
    add(2 * node, low, middle, begin, end, range);
    add(2 * node + 1, middle, high, begin, end, range);
  }

  void collect(size_t node, int64_t low, int64_t high, int64_t begin, int64_t end) {
    if (end <= low || high <= begin || nodes[node].ever.empty())
      return;
    bool whole = begin <= low && high <= end;
    const Ranges &here = whole ? nodes[node].ever : nodes[node].always;
    found.insert(found.end(), here.begin(), here.end());
    if (whole)
      return;
    int64_t middle = (low + high) / 2;
    collect(2 * node, low, middle, begin, end);
    collect(2 * node + 1, middle, high, begin, end);
  }

  int64_t leaves;
  std::vector<Node> nodes;
  Ranges found;
};
} // namespace

BufferPlacement placeBuffers(std::span<const Lifetime> buffers, int64_t alignment) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });

  int64_t positions = 0;
  for (const Lifetime &buffer : buffers)
    positions = std::max(positions, buffer.end + 1);
  Occupied occupied(positions);
  BufferPlacement placement{std::vector<int64_t>(buffers.size()), 0};
  for (size_t index : order) {
    const Lifetime &buffer = buffers[index];
    int64_t bytes = aligned(buffer.bytes, alignment), top = 0, best = -1, bestGap = 0;
    for (const Range &taken : occupied.during(buffer.begin, buffer.end)) {
      int64_t gap = taken.begin - top;
      if (gap >= bytes && (best < 0 || gap < bestGap))
        best = top, bestGap = gap;
      top = std::max(top, taken.end);
    }
    int64_t offset = best >= 0 ? best : top;
    placement.offsets[index] = offset;
    placement.bytes = std::max(placement.bytes, offset + bytes);
    occupied.add(buffer.begin, buffer.end, {offset, offset + bytes});
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
