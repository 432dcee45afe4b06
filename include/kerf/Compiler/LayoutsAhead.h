// SPDX-License-Identifier: Apache-2.0
// Computes layouts on other threads before a search asks for them.
#pragma once

#include "kerf/PlanSearch/CompletePlan.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace kerf {

/// Threads that compute the layouts of a list, the first one first. They start with the first list.
class LayoutsAhead {
public:
  /// `compute` computes one layout and must be safe to call from several threads. `threads` is the number of threads.
  LayoutsAhead(std::function<void(const LayoutKey &)> compute, int threads)
      : compute(std::move(compute)), count(threads) {}
  ~LayoutsAhead();

  /// Replaces the list. An empty list also waits until no thread computes a layout.
  void expect(std::span<const LayoutKey> layouts);
  /// Removes the first layout from the list and returns it, for the caller to compute; nothing where the list is empty.
  std::optional<LayoutKey> take();

private:
  void work();

  std::function<void(const LayoutKey &)> compute;
  int count;
  std::mutex mutex; // of all that follows
  std::condition_variable changed;
  std::vector<LayoutKey> waiting; // the most likely one last
  int busy = 0;                   // threads that compute a layout
  bool ends = false;
  std::vector<std::thread> threads;
};

} // namespace kerf
