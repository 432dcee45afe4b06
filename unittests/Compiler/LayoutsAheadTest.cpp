// SPDX-License-Identifier: Apache-2.0
// Threads that compute layouts ahead: each layout of the last list is computed, and an empty list ends the work.
#include "kerf/Compiler/LayoutsAhead.h"
#include <atomic>
#include <gtest/gtest.h>
#include <mutex>
#include <set>

using namespace kerf;

namespace {

std::vector<LayoutKey> layoutsFor(int64_t first, int64_t last) {
  std::vector<LayoutKey> list;
  for (int64_t microbatch = first; microbatch <= last; ++microbatch)
    list.push_back({.microbatch = microbatch});
  return list;
}

} // namespace

TEST(LayoutsAhead, ComputesTheList) {
  std::mutex mutex;
  std::condition_variable added;
  std::multiset<LayoutKey> made;
  LayoutsAhead ahead(
      [&](const LayoutKey &key) {
        std::lock_guard lock(mutex);
        made.insert(key);
        added.notify_all();
      },
      3);
  const std::vector<LayoutKey> list = layoutsFor(1, 40);
  ahead.expect(list);
  std::unique_lock lock(mutex);
  added.wait(lock, [&] { return made.size() == list.size(); });
  EXPECT_EQ(made, std::multiset<LayoutKey>(list.begin(), list.end()));
}

TEST(LayoutsAhead, AnEmptyListWaitsForLayoutsInWork) {
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> busy = 0, begun = 0;
    LayoutsAhead ahead(
        [&](const LayoutKey &) {
          ++busy;
          ++begun;
          std::this_thread::yield();
          --busy;
        },
        2);
    ahead.expect(layoutsFor(1, 1000));
    while (begun == 0)
      std::this_thread::yield();
    ahead.expect({});
    EXPECT_EQ(busy, 0);
    const int before = begun;
    std::this_thread::yield();
    EXPECT_EQ(begun, before);
    EXPECT_FALSE(ahead.take());
  }
}

TEST(LayoutsAhead, WithoutThreadsTheCallerTakesTheListInOrder) {
  LayoutsAhead ahead([](const LayoutKey &) { ADD_FAILURE(); }, 0);
  ahead.expect(layoutsFor(5, 9));
  ahead.expect(layoutsFor(1, 3)); // replaces the list
  for (const LayoutKey &key : layoutsFor(1, 3))
    EXPECT_EQ(ahead.take(), key);
  EXPECT_FALSE(ahead.take());
}
