// SPDX-License-Identifier: Apache-2.0
// Prefetching for loops that compute on one block of a matrix while the next block is fetched into the cache. The
// prefetches are spread over the loop, because a processor can wait for only a few cache lines at a time.
#pragma once

#include <cstdint>

namespace kerf::runtime::kernels {

inline constexpr int64_t kCacheLine = 64; // bytes

/// Rows of memory: `count` rows of `bytes` bytes, `stride` bytes apart.
struct MemoryRows {
  const void *from = nullptr;
  int64_t bytes = 0, stride = 0, count = 0;
};

/// The cache lines that are prefetched next: those of up to two blocks of memory, one block after the other.
class PrefetchQueue {
public:
  /// Replaces the whole queue by one block.
  void reset(const MemoryRows &rows) {
    back = rows;
    putFirst({});
  }
  /// Puts a block at the front, in place of what is left of the block that is there.
  void putFirst(const MemoryRows &rows) {
    front = rows;
    line = 0;
  }
  /// Asks the second-level cache for the next line.
  [[gnu::always_inline]] void prefetchNext() {
    if (front.count == 0) {
      if (back.count == 0)
        return;
      putFirst(back);
      back.count = 0;
    }
    __builtin_prefetch(static_cast<const char *>(front.from) + line, /*rw=*/0, /*locality=*/2);
    line += kCacheLine;
    if (line >= front.bytes) {
      line = 0;
      front.from = static_cast<const char *>(front.from) + front.stride;
      --front.count;
    }
  }

private:
  MemoryRows front, back;
  int64_t line = 0; // the next line of the front's first row, in bytes
};

} // namespace kerf::runtime::kernels
