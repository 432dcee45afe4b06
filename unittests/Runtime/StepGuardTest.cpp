// SPDX-License-Identifier: Apache-2.0
#include "../../lib/Runtime/StepGuard.h"
#include "../../lib/Runtime/StepControl.h"
#include "kerf/Package/TensorFile.h"

#include <csignal>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <thread>

using namespace kerf;
using namespace kerf::runtime;

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

/// Returns nine numbers of a type, one of which is `number`.
bool finiteWith(DType dtype, double number, size_t at) {
  std::vector<double> wide(9, 1.5);
  wide[at] = number;
  Tensor tensor{DType::F64, {9}, reinterpret_cast<const std::byte *>(wide.data()), nullptr};
  auto converted = convertTensor(tensor, dtype);
  EXPECT_TRUE(converted);
  return allFinite(converted->data, dtype, 9);
}
} // namespace

TEST(StepGuard, FindsWhatIsNotFinite) {
  for (DType dtype : {DType::F64, DType::F32, DType::BF16, DType::F16})
    for (size_t at : {0, 4, 8}) {
      EXPECT_TRUE(finiteWith(dtype, 0, at));
      EXPECT_TRUE(finiteWith(dtype, -60000, at));
      for (double number : {kInfinity, -kInfinity, kNan, -kNan})
        EXPECT_FALSE(finiteWith(dtype, number, at)) << toString(dtype);
    }
  std::vector<int64_t> whole(3, -1); // bits like those of a NaN
  EXPECT_TRUE(allFinite(whole.data(), DType::I64, 3));
}

TEST(StepControl, EveryRankLearnsWhatAnyRankSays) {
  for (int64_t ranks : {1, 2, 5}) {
    auto communicators = createThreadCommunicators(ranks);
    std::vector<uint64_t> heard(static_cast<size_t>(ranks));
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        for (int64_t step = 0; step < 100; ++step) { // the last rank alone says anything, at the last step
          uint64_t mine = rank == ranks - 1 && step == 99 ? kNonfiniteFlag | kTerminatedFlag : 0;
          auto all = combineFlags(*communicators[size_t(rank)], mine, 3);
          ASSERT_TRUE(all);
          heard[size_t(rank)] |= *all << (step < 99 ? 32 : 0);
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    for (uint64_t flags : heard)
      EXPECT_EQ(flags, kNonfiniteFlag | kTerminatedFlag);
  }
  EXPECT_EQ(signalOfFlags(kInterruptedFlag | kNonfiniteFlag), SIGINT);
  EXPECT_EQ(signalOfFlags(kInterruptedFlag | kTerminatedFlag), SIGTERM);
  EXPECT_EQ(signalOfFlags(kNonfiniteFlag), 0);
}
