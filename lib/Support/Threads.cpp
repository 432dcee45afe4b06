// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/Threads.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

void kerf::onThreads(unsigned most, const std::function<void()> &work) {
  std::exception_ptr failure; // of the last thread that failed
  std::mutex failing;         // of `failure`
  auto guarded = [&] {
    try {
      work();
    } catch (...) {
      std::lock_guard lock(failing);
      failure = std::current_exception();
    }
  };
  std::vector<std::jthread> threads;
  try {
    for (unsigned t = 1; t < std::min(most, std::thread::hardware_concurrency()); ++t)
      threads.emplace_back(guarded);
  } catch (const std::system_error &) { // the system has no further thread
  }
  guarded();
  threads.clear(); // waits for them
  if (failure)
    std::rethrow_exception(failure);
}
