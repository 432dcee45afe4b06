// SPDX-License-Identifier: Apache-2.0
#include "RankThreads.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <new>

namespace kerf::runtime {

RankThreads::RankThreads(std::vector<RankRun> given, std::vector<Communicator *> communicators)
    : ranks(std::move(given)), communicators(std::move(communicators)), errors(ranks.size()) {
  for (size_t rank = 1; rank < ranks.size(); ++rank)
    threads.emplace_back([this, rank] { serve(rank); });
}

RankThreads::~RankThreads() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  called.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

Status RankThreads::guarded(size_t rank, const std::function<Status(RankRun &)> &work) {
  auto failed = [&](const std::string &what) {
    Error error{fmt::format("rank {}: {}", communicators[rank]->rank(), what), ExitStatus::InternalCheck};
    communicators[rank]->abort(error);
    return error;
  };
  try {
    return work(ranks[rank]);
  } catch (const std::bad_alloc &) {
    return failed("this machine has no memory left; run fewer ranks on it, or use smaller batches");
  } catch (const std::exception &exception) {
    return failed(exception.what());
  }
}

void RankThreads::serve(size_t rank) {
  for (int64_t next = 1;; ++next) {
    const std::function<Status(RankRun &)> *task = nullptr;
    {
      std::unique_lock lock(mutex);
      called.wait(lock, [&] { return stopping || calls == next; });
      if (stopping)
        return;
      task = work;
    }
    Status done = guarded(rank, *task);
    {
      std::lock_guard lock(mutex);
      errors[rank] = done ? std::nullopt : std::optional(done.error());
      --busy;
    }
    finished.notify_one();
  }
}

Status RankThreads::runOnAll(const std::function<Status(RankRun &)> &given) {
  {
    std::lock_guard lock(mutex);
    work = &given;
    busy = threads.size();
    ++calls;
  }
  called.notify_all();
  Status first = guarded(0, given);
  std::unique_lock lock(mutex);
  finished.wait(lock, [&] { return busy == 0; });
  errors[0] = first ? std::nullopt : std::optional(first.error());
  auto failed = std::find_if(errors.begin(), errors.end(), [](const auto &error) { return error.has_value(); });
  if (failed == errors.end())
    return ok();
  const bool all = std::all_of(errors.begin(), errors.end(), [](const auto &error) { return error.has_value(); });
  if (!all)
    communicators[0]->abort(**failed);
  if (auto failure = communicators[0]->failure())
    return *failure;
  return **failed;
}

} // namespace kerf::runtime
