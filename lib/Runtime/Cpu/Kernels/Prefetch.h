// SPDX-License-Identifier: Apache-2.0
// Prefetching for loops that compute on one block of a matrix while the memory of the next block comes closer. The
// prefetches are spread over the loop, because a processor waits for few cache lines at a time.
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
  /// Puts a block at the front and drops what was there, so that the block of `then` comes after it.
  void first(const MemoryRows &rows) {
    front = rows;
    line = 0;
  }
  /// Replaces the whole queue by a block.
  void then(const MemoryRows &rows) {
    back = rows;
    first({});
  }
  /// Asks the second-level cache for the next line.
  [[gnu::always_inline]] void prefetchNext() {
    if (front.count == 0) {
      if (back.count == 0)
        return;
      first(back);
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
