// SPDX-License-Identifier: Apache-2.0
// The threads that share the work of one rank's kernels.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace kerf::runtime {

/// The thread that calls `run`, and others that sleep between calls. One thread calls at a time. What a task computes
/// must not depend on which thread runs it, nor on how many there are: then no result does.
class Team {
public:
  /// Throws where the machine refuses so many.
  explicit Team(int64_t threads);
  ~Team();
  Team(const Team &) = delete;
  Team &operator=(const Team &) = delete;

  int64_t threads() const { return int64_t(workers.size()) + 1; }

  /// task(number, thread) once for each number in [0, tasks), in any order; ends when all have ended. `thread` is in
  /// [0, threads()); two calls that overlap have different ones. Allocates nothing.
  template <typename F> void run(int64_t tasks, const F &task) {
    run(
        tasks, [](const void *f, int64_t number, int64_t thread) { (*static_cast<const F *>(f))(number, thread); },
        &task);
  }

private:
  using Call = void (*)(const void *task, int64_t number, int64_t thread);
  void run(int64_t tasks, Call call, const void *task);
  void work(int64_t thread);
  void stop();
  bool takeOne(int64_t thread);

  Call call = nullptr; // with `task`, of the run that tasks are left of
  const void *task = nullptr;
  std::atomic<uint32_t> left = 0;  // tasks that nobody has taken
  std::atomic<uint32_t> ended = 0; // tasks of this run that have ended
  std::atomic<bool> stopping = false;
  std::vector<std::thread> workers;
};

} // namespace kerf::runtime
