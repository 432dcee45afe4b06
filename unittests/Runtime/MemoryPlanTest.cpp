// SPDX-License-Identifier: Apache-2.0
#include "../../lib/Runtime/MemoryPlan.h"

#include <algorithm>
#include <gtest/gtest.h>
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
    Placement placement = placeBuffers(buffers, 64);
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

TEST(MemoryPlan, AChainNeedsTwoBuffers) {
  std::vector<Lifetime> chain;
  for (int64_t i = 0; i < 100; ++i)
    chain.push_back({1024, i, i + 1});
  EXPECT_EQ(placeBuffers(chain, 64).bytes, 2048);
}

TEST(MemoryPlan, TakesTheTightestGap) {
  // At 5 a gap of 2048 and, above it, one of 512 are free.
  std::vector<Lifetime> buffers = {{4096, 0, 9}, {2048, 0, 1}, {1024, 0, 9}, {512, 0, 2}, {480, 0, 9}, {448, 5, 6}};
  Placement placement = placeBuffers(buffers, 64);
  EXPECT_EQ(placement.offsets[5], placement.offsets[3]);
  EXPECT_EQ(placement.bytes, 4096 + 2048 + 1024 + 512 + 512);
}

} // namespace
} // namespace kerf::runtime
