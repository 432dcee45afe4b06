// SPDX-License-Identifier: Apache-2.0
// A thread that finds tasks left takes the last of them. A thread that wakes up late finds no task, and no other thread
// waits for it.
#include "kerf/Runtime/Cpu/ThreadTeam.h"

#include <fmt/format.h>
#include <stdexcept>
#include <system_error>

namespace kerf::runtime {

namespace {
/// How often a waiting thread polls a counter before it goes to sleep: for about 20 us, longer than the pause
/// between most kernels.
constexpr int kPolls = 1000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Waits until `counter` is no longer `value`.
void waitWhile(const std::atomic<uint32_t> &counter, uint32_t value) {
  for (int i = 0; i < kPolls; ++i) {
    if (counter.load(std::memory_order_acquire) != value)
      return;
    pause();
  }
  counter.wait(value, std::memory_order_acquire);
}
} // namespace

ThreadTeam::ThreadTeam(int64_t threads) {
  try {
    for (int64_t thread = 1; thread < threads; ++thread)
      workers.emplace_back([this, thread] { work(thread); });
  } catch (const std::system_error &error) {
    int64_t started = this->threads();
    stop();
    throw std::runtime_error(fmt::format("only {} of a rank's {} threads can be started: {}; give fewer threads",
                                         started, threads, error.what()));
  }
}

ThreadTeam::~ThreadTeam() { stop(); }

void ThreadTeam::stop() {
  stopping = true;
  left = 1; // wakes sleeping threads, which then see `stopping`
  left.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

bool ThreadTeam::takeOne(int64_t thread) {
  uint32_t before = left.load(std::memory_order_acquire);
  do {
    if (before == 0 || stopping)
      return false;
  } while (!left.compare_exchange_weak(before, before - 1, std::memory_order_acq_rel));
  // `call` and `task` stay valid, because the run cannot end before this task has.
  call(task, int64_t(before) - 1, thread);
  ended.fetch_add(1, std::memory_order_acq_rel);
  ended.notify_one();
  return true;
}

void ThreadTeam::work(int64_t thread) {
  while (!stopping)
    if (!takeOne(thread))
      waitWhile(left, 0);
}

void ThreadTeam::run(int64_t tasks, Call newCall, const void *newTask) {
  if (tasks <= 1 || workers.empty()) {
    for (int64_t number = 0; number < tasks; ++number)
      newCall(newTask, number, 0);
    return;
  }
  call = newCall;
  task = newTask;
  ended.store(0, std::memory_order_relaxed);
  left.store(uint32_t(tasks), std::memory_order_release);
  left.notify_all();
  while (takeOne(0))
    ;
  for (uint32_t soFar = ended.load(std::memory_order_acquire); soFar != uint32_t(tasks);
       soFar = ended.load(std::memory_order_acquire))
    waitWhile(ended, soFar);
}

} // namespace kerf::runtime
