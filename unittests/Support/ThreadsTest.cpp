// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/Threads.h"
#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace kerf;

TEST(Threads, EachPieceIsDoneOnce) {
  for (unsigned most : {1U, 2U, 64U}) {
    std::vector<int> done(1000, 0);
    std::atomic<size_t> next = 0;
    std::atomic<unsigned> calls = 0;
    onThreads(most, [&] {
      ++calls;
      for (size_t i = next++; i < done.size(); i = next++)
        ++done[i];
    });
    EXPECT_EQ(done, std::vector<int>(1000, 1));
    EXPECT_EQ(calls, std::max(1U, std::min(most, std::thread::hardware_concurrency())));
  }
}

TEST(Threads, OneThreadIsThisOne) {
  std::thread::id its;
  onThreads(1, [&] { its = std::this_thread::get_id(); });
  EXPECT_EQ(its, std::this_thread::get_id());
}

TEST(Threads, AnExceptionArrives) {
  for (unsigned most : {1U, 4U})
    EXPECT_THROW(onThreads(most, [] { throw std::runtime_error("no memory"); }), std::runtime_error);
}
