// SPDX-License-Identifier: Apache-2.0
// The ranks of this process, one thread for each. The threads stay alive between calls; the calling thread serves
// the first rank.
#pragma once

#include "RankRun.h"
#include <condition_variable>
#include <mutex>
#include <thread>

namespace kerf::runtime {

/// Runs functions on all ranks of this process at once.
class RankThreads {
public:
  /// Starts a thread for each rank but the first. `communicators` has one element for each of `ranks`, and must
  /// outlive this object.
  RankThreads(std::vector<RankRun> ranks, std::vector<Communicator *> communicators);
  ~RankThreads();
  RankThreads(const RankThreads &) = delete;
  RankThreads &operator=(const RankThreads &) = delete;

  /// Calls work(rank) on every rank at the same time, and waits for all calls. If the run was ended on all ranks
  /// (Communicator::abort), returns that error; otherwise the error of the lowest rank that has one. If only some of
  /// the ranks have an error, the run is ended on all of them, because the ranks are no longer in the same state. An
  /// exception on a rank also ends the run.
  Status runOnAll(const std::function<Status(RankRun &)> &work);

private:
  void serve(size_t rank);
  Status guarded(size_t rank, const std::function<Status(RankRun &)> &work);

  std::vector<RankRun> ranks; // outlive the threads: a rank's messages are copied out of another rank's memory
  std::vector<Communicator *> communicators;
  std::vector<std::optional<Error>> errors; // each rank's error in the last call, if any

  std::mutex mutex;
  std::condition_variable called, finished;
  const std::function<Status(RankRun &)> *work = nullptr; // the function of the present call
  int64_t calls = 0;                                      // number of calls so far
  size_t busy = 0;                                        // threads that have not finished the present call
  bool stopping = false;
  std::vector<std::thread> threads; // threads of all ranks but the first
};

} // namespace kerf::runtime
