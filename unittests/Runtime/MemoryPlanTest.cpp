// SPDX-License-Identifier: Apache-2.0
#include "../../lib/Runtime/MemoryPlan.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace kerf::runtime {
namespace {

TEST(MemoryPlan, NeverOverlapsLiveBuffers) {
  constexpr uint32_t kSeed = 5;
  std::mt19937 random(kSeed);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<Lifetime> buffers;
    for (size_t count = 1 + random() % 60; buffers.size() < count;) {
      int64_t begin = random() % 40, end = begin + random() % 12;
      buffers.push_back({int64_t(random() % 500), begin, end});
    }
    BufferPlacement placement = placeBuffers(buffers, 64);
    std::vector<int64_t> live = liveBytes(buffers, 64, 64);
    int64_t peak = *std::max_element(live.begin(), live.end());
    EXPECT_GE(placement.bytes, peak);
    EXPECT_LE(placement.bytes, 2 * peak) << "trial " << trial;
    for (size_t a = 0; a < buffers.size(); ++a) {
      EXPECT_EQ(placement.offsets[a] % 64, 0);
      EXPECT_GE(placement.offsets[a], 0);
      EXPECT_LE(placement.offsets[a] + buffers[a].bytes, placement.bytes);
      for (size_t b = 0; b < a; ++b) {
        bool together = buffers[a].begin <= buffers[b].end && buffers[b].begin <= buffers[a].end;
        bool apart = placement.offsets[a] + std::max<int64_t>(buffers[a].bytes, 1) <= placement.offsets[b] ||
                     placement.offsets[b] + std::max<int64_t>(buffers[b].bytes, 1) <= placement.offsets[a];
        ASSERT_TRUE(!together || apart) << "seed " << kSeed << ", trial " << trial << ": buffers " << a << " and " << b;
      }
    }
  }
}

/// Places buffers by a direct implementation of the definition: each buffer is compared with all placed buffers that
/// are alive with it.
std::vector<int64_t> placedOneByOne(const std::vector<Lifetime> &buffers, int64_t alignment) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  auto sizeOf = [&](size_t i) {
    return (std::max<int64_t>(buffers[i].bytes, 1) + alignment - 1) / alignment * alignment;
  };
  std::vector<int64_t> offsets(buffers.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) {
    const Lifetime &buffer = buffers[order[i]];
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t j = 0; j < i; ++j)
      if (buffers[order[j]].begin <= buffer.end && buffer.begin <= buffers[order[j]].end)
        taken.emplace_back(offsets[order[j]], offsets[order[j]] + sizeOf(order[j]));
    std::sort(taken.begin(), taken.end());
    int64_t top = 0, best = -1, bestGap = 0;
    for (auto [begin, end] : taken) {
      if (begin - top >= sizeOf(order[i]) && (best < 0 || begin - top < bestGap))
        best = top, bestGap = begin - top;
      top = std::max(top, end);
    }
    offsets[order[i]] = best >= 0 ? best : top;
  }
  return offsets;
}

TEST(MemoryPlan, IsTheTightestGapOneByOne) {
  constexpr uint32_t kSeed = 6;
  std::mt19937 random(kSeed);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<Lifetime> buffers;
    for (size_t count = 1 + random() % 120; buffers.size() < count;) {
      int64_t begin = random() % 70, length = random() % (random() % 4 ? 6 : 60);
      buffers.push_back({int64_t(random() % 900), begin, begin + length});
    }
    ASSERT_EQ(placeBuffers(buffers, 64).offsets, placedOneByOne(buffers, 64))
        << "seed " << kSeed << ", trial " << trial;
  }
}

TEST(MemoryPlan, AChainNeedsTwoBuffers) {
  std::vector<Lifetime> chain;
  for (int64_t i = 0; i < 100; ++i)
    chain.push_back({1024, i, i + 1});
  EXPECT_EQ(placeBuffers(chain, 64).bytes, 2048);
}

TEST(MemoryPlan, TakesTheTightestGap) {
  // At position 5 there is a gap of 2048 bytes and, above it, a gap of 512 bytes.
  std::vector<Lifetime> buffers = {{4096, 0, 9}, {2048, 0, 1}, {1024, 0, 9}, {512, 0, 2}, {480, 0, 9}, {448, 5, 6}};
  BufferPlacement placement = placeBuffers(buffers, 64);
  EXPECT_EQ(placement.offsets[5], placement.offsets[3]);
  EXPECT_EQ(placement.bytes, 4096 + 2048 + 1024 + 512 + 512);
}

} // namespace
} // namespace kerf::runtime
