// SPDX-License-Identifier: Apache-2.0
#include "Staging.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>

namespace kerf::runtime {

namespace {
constexpr int64_t kStagedBytes = int64_t(16) << 20; // of host memory
constexpr int64_t kTaskBytes = int64_t(64) << 10;   // that one thread writes at a time

/// Returns a team of as many threads, or of the calling thread alone where the machine cannot start them.
std::unique_ptr<ThreadTeam> teamOf(int64_t threads) {
  try {
    return std::make_unique<ThreadTeam>(threads);
  } catch (const std::runtime_error &) {
    return std::make_unique<ThreadTeam>(1);
  }
}
} // namespace

Staging::Staging(Device &device, int64_t ranks)
    : device(device), threads(std::max<int64_t>(1, int64_t(std::thread::hardware_concurrency()) / ranks)) {}

Status Staging::fill(const TensorView &tensor, const Write &write) {
  const int64_t elementBytes = bytesOf(tensor.dtype), perTask = kTaskBytes / elementBytes, all = tensor.elements();
  if (!memory) {
    auto made = device.allocateHost(kStagedBytes);
    if (!made)
      return made.error();
    memory = *made;
  }
  if (!team && all > perTask)
    team = teamOf(threads);
  for (int64_t first = 0; first < all;) {
    const int64_t end = std::min(all, first + kStagedBytes / elementBytes);
    const int64_t tasks = (end - first + perTask - 1) / perTask;
    std::mutex mutex;
    std::pair<int64_t, Status> failure{tasks, ok()}; // of the lowest task that failed
    auto task = [&](int64_t number, int64_t) {
      int64_t begin = first + number * perTask;
      Status status = write(begin, std::min(end, begin + perTask), memory.get() + (begin - first) * elementBytes);
      std::lock_guard lock(mutex);
      if (!status && number < failure.first)
        failure = {number, status};
    };
    if (tasks == 1)
      task(0, 0);
    else
      team->run(tasks, task);
    if (!failure.second)
      return failure.second;
    auto *target = static_cast<std::byte *>(tensor.data) + first * elementBytes;
    if (Status status = device.copyIn(target, memory.get(), (end - first) * elementBytes); !status)
      return status;
    first = end;
  }
  return ok();
}

} // namespace kerf::runtime
