// SPDX-License-Identifier: Apache-2.0
#include "kerf/Runtime/DataSet.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <set>

namespace kerf::runtime {
namespace {

std::vector<int64_t> orderOf(uint64_t seed, int64_t pass, int64_t rows) {
  std::vector<int64_t> order;
  for (int64_t place = 0; place < rows; ++place)
    order.push_back(shuffledRow(seed, pass, rows, place));
  return order;
}

TEST(ShuffledRow, GivesEachRowOnce) {
  for (int64_t rows : {1, 2, 3, 4, 5, 16, 17, 255, 256, 257, 1000, 70000}) {
    std::vector<int64_t> order = orderOf(3, 1, rows);
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), size_t(rows));
    EXPECT_GE(*std::min_element(order.begin(), order.end()), 0);
    EXPECT_LT(*std::max_element(order.begin(), order.end()), rows);
  }
}

TEST(ShuffledRow, DependsOnSeedAndPass) {
  EXPECT_EQ(orderOf(3, 1, 100), orderOf(3, 1, 100));
  EXPECT_NE(orderOf(3, 1, 100), orderOf(3, 2, 100));
  EXPECT_NE(orderOf(3, 1, 100), orderOf(4, 1, 100));
}

/// Over many seeds, each of the 24 orders of four rows occurs about equally often.
TEST(ShuffledRow, FavoursNoOrder) {
  constexpr int64_t kSeeds = 24000;
  std::map<std::vector<int64_t>, int64_t> counts;
  for (int64_t seed = 0; seed < kSeeds; ++seed)
    ++counts[orderOf(uint64_t(seed), seed % 7, 4)];
  ASSERT_EQ(counts.size(), 24u);
  double chiSquared = 0;
  for (const auto &[order, count] : counts)
    chiSquared += double((count - 1000) * (count - 1000)) / 1000;
  EXPECT_LT(chiSquared, 60); // 23 degrees of freedom: above 60 with probability 4e-5
}

/// The position of a row in one pass is not correlated with its position in the next pass.
TEST(ShuffledRow, PassesAreUnrelated) {
  constexpr int64_t kRows = 10000;
  std::vector<int64_t> first = orderOf(1, 0, kRows), second = orderOf(1, 1, kRows);
  double mean = (kRows - 1) / 2.0, covariance = 0, variance = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    covariance += (double(first[size_t(i)]) - mean) * (double(second[size_t(i)]) - mean);
    variance += (double(i) - mean) * (double(i) - mean);
  }
  EXPECT_LT(std::abs(covariance / variance), 0.04); // four standard deviations
}

} // namespace
} // namespace kerf::runtime
