// SPDX-License-Identifier: Apache-2.0
#include "HostStreams.h"

#include <chrono>
#include <cstring>
#include <utility>

namespace kerf::runtime {

namespace {
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
} // namespace

void FirstFault::set(int64_t number, const Error &error) {
  std::lock_guard lock(mutex);
  if (!first)
    first = Fault{number, error};
}

std::optional<Fault> FirstFault::take() {
  std::lock_guard lock(mutex);
  return std::exchange(first, std::nullopt);
}

Result<double> HostEvent::seconds() {
  std::lock_guard lock(mutex);
  if (recorded == 0 || reached < recorded)
    return Error{
        "an event has no time yet: no stream has reached its last record; report this plan, it is a bug of Kerf",
        ExitStatus::InternalCheck};
  return reachedAt;
}

uint64_t HostEvent::recordLater() {
  std::lock_guard lock(mutex);
  return ++recorded;
}

void HostEvent::reach(const std::optional<Error> &error) {
  {
    std::lock_guard lock(mutex);
    ++reached;
    reachedAt = now();
    failure = error;
  }
  changed.notify_all();
}

void HostEvent::reachNow(const std::optional<Error> &error) {
  {
    std::lock_guard lock(mutex);
    ++recorded;
    ++reached;
    reachedAt = now();
    failure = error;
  }
  changed.notify_all();
}

uint64_t HostEvent::lastRecord() {
  std::lock_guard lock(mutex);
  return recorded;
}

Status HostEvent::wait(uint64_t target) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return reached >= target; });
  if (failure)
    return *failure;
  return ok();
}

Status HostKernel::launch(Stream &stream) { return static_cast<HostStream &>(stream).enqueue(*this); }

Status HostKernel::run() const {
  Status status = function();
  if (!status)
    firstFault.set(number, status.error());
  return status;
}

Status CallingStream::enqueue(const HostKernel &kernel) {
  if (failure)
    return *failure;
  Status status = kernel.run();
  if (!status)
    failure = status.error();
  return status;
}

Status CallingStream::copy(void *to, const void *from, int64_t bytes, CopyKind) {
  if (failure)
    return *failure;
  std::memcpy(to, from, size_t(bytes));
  return ok();
}

Status CallingStream::record(Event &event) {
  static_cast<HostEvent &>(event).reachNow(failure);
  return ok();
}

Status CallingStream::wait(Event &event) {
  if (failure)
    return *failure;
  auto &awaited = static_cast<HostEvent &>(event);
  Status status = awaited.wait(awaited.lastRecord());
  if (!status)
    failure = status.error();
  return status;
}

Status CallingStream::synchronize() {
  if (!failure)
    return ok();
  return *std::exchange(failure, std::nullopt);
}

WorkerStream::WorkerStream(std::function<void()> beforeEach)
    : beforeEach(std::move(beforeEach)), worker([this] { work(); }) {}

WorkerStream::~WorkerStream() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  worker.join();
}

void WorkerStream::reserve(size_t calls) {
  std::lock_guard lock(mutex);
  queue.reserve(calls);
}

Status WorkerStream::enqueue(const HostKernel &kernel) {
  push({.kernel = &kernel});
  return ok();
}

Status WorkerStream::copy(void *to, const void *from, int64_t bytes, CopyKind) {
  push({.to = to, .from = from, .bytes = bytes});
  return ok();
}

Status WorkerStream::record(Event &event) {
  auto &recorded = static_cast<HostEvent &>(event);
  recorded.recordLater();
  push({.record = &recorded});
  return ok();
}

Status WorkerStream::wait(Event &event) {
  auto &awaited = static_cast<HostEvent &>(event);
  push({.wait = &awaited, .target = awaited.lastRecord()});
  return ok();
}

Status WorkerStream::synchronize() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return next == queue.size() && !working; });
  if (!failure)
    return ok();
  return *std::exchange(failure, std::nullopt);
}

void WorkerStream::push(const Item &item) {
  {
    std::lock_guard lock(mutex);
    if (next == queue.size()) { // the queue is empty: reuse its memory from the beginning
      queue.clear();
      next = 0;
    }
    queue.push_back(item);
  }
  changed.notify_all();
}

Status WorkerStream::run(const Item &item) {
  if (item.record) {
    item.record->reach(failure);
    return ok();
  }
  if (failure)
    return ok();
  if (item.wait)
    return item.wait->wait(item.target);
  if (beforeEach)
    beforeEach();
  if (item.kernel)
    return item.kernel->run();
  std::memcpy(item.to, item.from, size_t(item.bytes));
  return ok();
}

void WorkerStream::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return stopping || next < queue.size(); });
    if (next == queue.size())
      return;
    Item item = queue[next++];
    working = true;
    lock.unlock();
    Status status = run(item);
    lock.lock();
    if (!status && !failure)
      failure = status.error();
    working = false;
    if (next == queue.size())
      changed.notify_all();
  }
}

} // namespace kerf::runtime
