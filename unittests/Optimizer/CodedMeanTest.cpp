// SPDX-License-Identifier: Apache-2.0
#include "kerf/Optimizer/CodedMean.h"

#include <gtest/gtest.h>
#include <set>

namespace kerf {
namespace {

std::set<int64_t> upTo(int64_t end, const BatchSet &batches) {
  std::set<int64_t> found;
  for (int64_t batch = 0; batch < end; ++batch)
    if (batches.contains(batch))
      found.insert(batch);
  return found;
}

TEST(CodedMean, DistancesGrowAsTheHeaderShows) {
  SumBatches sums = sumsAt({.freeze = 10, .plainSums = 2, .localSteps = 4, .longest = 4});
  EXPECT_EQ(upTo(26, sums.plain), (std::set<int64_t>{0, 1, 2, 4, 6}));
  EXPECT_EQ(upTo(26, sums.coded), (std::set<int64_t>{3, 5, 7, 8, 9, 10, 11, 12, 13, 15, 17, 21, 25}));
}

TEST(CodedMean, DistancesAreThoseOfALoopOverTheBatches) {
  constexpr int64_t kEnd = 400;
  for (int64_t freeze : {1, 2, 16, 17, 100, 399})
    for (int64_t plainSums : {1, 3, 16, 1000})
      for (int64_t localSteps : {1, 5, 64})
        for (int64_t longest : {1, 3, 16}) {
          std::set<int64_t> plain, all;
          int64_t distance = 1;
          for (int64_t batch = 0, count = 0; batch < freeze; batch += distance, ++count) {
            distance = int64_t(1) << (count / plainSums);
            plain.insert(batch);
          }
          for (int64_t batch = 0; batch < freeze; ++batch)
            all.insert(batch);
          distance = 1;
          for (int64_t begin = freeze, batch = freeze; batch < kEnd;) {
            all.insert(batch + distance - 1);
            batch += distance;
            if (batch - begin >= localSteps && distance < longest)
              distance = std::min(2 * distance, longest), begin = batch;
          }
          all.erase(all.lower_bound(kEnd), all.end());
          SumBatches sums = sumsAt({freeze, plainSums, localSteps, longest});
          EXPECT_EQ(upTo(kEnd, sums.plain), plain);
          EXPECT_EQ(upTo(kEnd, sums.sums), all);
          std::set<int64_t> both = upTo(kEnd, sums.coded);
          for (int64_t batch : plain)
            EXPECT_TRUE(both.insert(batch).second) << "batch " << batch << " sums plainly and in codes";
          EXPECT_EQ(both, all);
          EXPECT_EQ(sums.hasLocalSteps(), longest > 1);
          int64_t before = 0;
          for (const BatchRange &range : sums.coded.ranges) {
            EXPECT_TRUE(before <= range.begin && range.begin < range.end && 1 <= range.run && range.run <= range.every);
            before = range.end;
          }
          for (const BatchSet &batches : {sums.plain, sums.coded, sums.sums})
            for (int64_t batch = 0, count = 0; batch < kEnd; count += batches.contains(batch), ++batch)
              ASSERT_EQ(countBefore(batches, double(batch)).number(), double(count));
        }
}

TEST(CodedMean, TheLargestSettingsOverflowNothing) {
  constexpr auto kMost = int64_t(1e15);
  SumBatches sums = sumsAt({kMost, kMost, kMost, 1'000'000});
  EXPECT_EQ(sums.plain, (BatchSet{{{0, kMost}}}));
  EXPECT_GT(sums.coded.ranges.back().begin, kMost);
  EXPECT_LT(sumsAt({kMost, 1, 1, 1}).plain.ranges.size(), 64u);
}

} // namespace
} // namespace kerf
