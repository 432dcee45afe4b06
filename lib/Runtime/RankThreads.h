// SPDX-License-Identifier: Apache-2.0
// The ranks of this process, each in a thread that stays between calls; the first one is whoever calls.
#pragma once

#include "RankRun.h"
#include <condition_variable>
#include <mutex>
#include <thread>

namespace kerf::runtime {

class RankThreads {
public:
  /// `communicators` must outlive it: one for each of `ranks`.
  RankThreads(std::vector<RankRun> ranks, std::vector<Communicator *> communicators);
  ~RankThreads();
  RankThreads(const RankThreads &) = delete;
  RankThreads &operator=(const RankThreads &) = delete;

  /// Does the work on every rank and waits for all of them. Whatever a rank throws ends all ranks with a message.
  /// Returns what the ranks were ended with, else the error of the lowest rank that has one. Where one rank has an
  /// error and another has none, they are ended: they no longer do the same.
  Status each(const std::function<Status(RankRun &)> &work);

private:
  void serve(size_t rank);
  Status guarded(size_t rank, const std::function<Status(RankRun &)> &work);

  std::vector<RankRun> ranks; // outlive the threads: one rank's messages are copied from another's memory
  std::vector<Communicator *> communicators;
  std::vector<std::optional<Error>> errors; // of the last call

  std::mutex mutex;
  std::condition_variable called, finished;
  const std::function<Status(RankRun &)> *work = nullptr; // of the call under way
  int64_t calls = 0;                                      // so far
  size_t busy = 0;                                        // threads that have not finished it
  bool stopping = false;
  std::vector<std::thread> threads; // of the ranks but for the first
};

} // namespace kerf::runtime
