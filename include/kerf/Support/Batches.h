// SPDX-License-Identifier: Apache-2.0
// Sets of the batches of a training, which are numbered from 0: those in which a collective runs, for example.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace kerf {

/// Batches at equal distances: the first `run` of each `every` batches, from `begin` to before `end`.
///
///   {3, 12, 4, 1}: 3, 7, 11        {3, 12, 4, 3}: 3, 4, 5, 7, 8, 9, 11        {3, 6}: 3, 4, 5
struct BatchRange {
  int64_t begin = 0, end = std::numeric_limits<int64_t>::max();
  int64_t every = 1, run = 1;
  bool contains(int64_t batch) const { return begin <= batch && batch < end && (batch - begin) % every < run; }
  bool operator==(const BatchRange &) const = default;
};

/// The batches of some ranges, each of which begins after the one before it has ended. Distances that double again and
/// again are a short list.
struct BatchSet {
  std::vector<BatchRange> ranges;
  bool contains(int64_t batch) const {
    return std::any_of(ranges.begin(), ranges.end(), [&](const BatchRange &range) { return range.contains(batch); });
  }
  bool operator==(const BatchSet &) const = default;
};

/// Returns the numbers of all ranges, one after the other: begin, end, every, run, begin, ...
inline std::vector<int64_t> flatBatches(const BatchSet &batches) {
  std::vector<int64_t> flat;
  for (const BatchRange &range : batches.ranges)
    flat.insert(flat.end(), {range.begin, range.end, range.every, range.run});
  return flat;
}

} // namespace kerf
