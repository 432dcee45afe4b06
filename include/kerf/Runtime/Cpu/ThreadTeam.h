// SPDX-License-Identifier: Apache-2.0
// The threads that share the work of one rank's kernels on a CPU.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace kerf::runtime {

/// A team of threads: the thread that calls `run`, and worker threads that sleep between calls. Only one thread may
/// call `run` at a time. The result of a task must depend neither on the thread that runs the task nor on the number of
/// threads; results of kernels then do not depend on the team.
class ThreadTeam {
public:
  /// Starts `threads` - 1 worker threads. Throws std::runtime_error if the machine cannot start that many.
  explicit ThreadTeam(int64_t threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam &) = delete;
  ThreadTeam &operator=(const ThreadTeam &) = delete;

  /// Returns the number of threads, the calling one included.
  int64_t threads() const { return int64_t(workers.size()) + 1; }

  /// Calls task(number, thread) once for each number in [0, tasks), in any order, and returns when all calls have
  /// ended. `thread` is in [0, threads()), and differs between calls that run at the same time. Allocates nothing.
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
  /// Runs one task that no thread has taken, and returns whether there was one.
  bool takeOne(int64_t thread);

  Call call = nullptr; // function that runs one task of the present run; `task` is its first argument
  const void *task = nullptr;
  std::atomic<uint32_t> left = 0;  // tasks of the present run that no thread has taken
  std::atomic<uint32_t> ended = 0; // tasks of the present run that have ended
  std::atomic<bool> stopping = false;
  std::vector<std::thread> workers;
};

} // namespace kerf::runtime
