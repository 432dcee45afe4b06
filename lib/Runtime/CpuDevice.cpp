// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: the compute stream is the calling thread; any other stream is a worker thread with a queue; an
// event is a counter with a condition.
#include "kerf/Runtime/Device.h"
#include "kerf/Runtime/Team.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <mutex>
#include <optional>
#include <sys/mman.h>
#include <thread>

namespace kerf::runtime {

namespace {
class CpuEvent : public Event {
public:
  void recordLater() {
    std::lock_guard lock(mutex);
    ++recorded;
  }
  void reach(const std::optional<Error> &error) {
    {
      std::lock_guard lock(mutex);
      ++reached;
      if (error)
        failure = error;
    }
    changed.notify_all();
  }
  /// Until what was recorded at the time of the call is reached.
  Status wait() {
    std::unique_lock lock(mutex);
    uint64_t target = recorded;
    changed.wait(lock, [&] { return reached >= target; });
    if (failure)
      return *failure;
    return ok();
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0, reached = 0;
  std::optional<Error> failure;
};

/// Runs at once, on the calling thread.
class ComputeStream : public Stream {
public:
  void reserve(size_t) override {} // nothing waits in line
  Status enqueue(const Kernel &kernel) override {
    if (failure)
      return *failure;
    Status status = kernel();
    if (!status)
      failure = status.error();
    return status;
  }
  void record(Event &event) override {
    auto &cpu = static_cast<CpuEvent &>(event);
    cpu.recordLater();
    cpu.reach(failure);
  }
  Status wait(Event &event) override {
    Status status = static_cast<CpuEvent &>(event).wait();
    if (!status && !failure)
      failure = status.error();
    return status;
  }
  Status synchronize() override {
    if (!failure)
      return ok();
    return *std::exchange(failure, std::nullopt);
  }

private:
  std::optional<Error> failure;
};

class WorkerStream : public Stream {
public:
  WorkerStream() : worker([this] { work(); }) {}
  ~WorkerStream() override {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    worker.join();
  }

  void reserve(size_t calls) override {
    std::lock_guard lock(mutex);
    queue.reserve(calls);
  }
  Status enqueue(const Kernel &kernel) override {
    push({&kernel, nullptr, nullptr});
    return ok();
  }
  void record(Event &event) override {
    auto &cpu = static_cast<CpuEvent &>(event);
    cpu.recordLater();
    push({nullptr, &cpu, nullptr});
  }
  Status wait(Event &event) override {
    push({nullptr, nullptr, &static_cast<CpuEvent &>(event)});
    return ok();
  }
  Status synchronize() override {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return next == queue.size() && !working; });
    if (!failure)
      return ok();
    return *std::exchange(failure, std::nullopt);
  }

private:
  struct Item {
    const Kernel *kernel = nullptr;
    CpuEvent *record = nullptr, *wait = nullptr;
  };

  void push(const Item &item) {
    {
      std::lock_guard lock(mutex);
      if (next == queue.size()) { // all taken: begin again, the capacity stays
        queue.clear();
        next = 0;
      }
      queue.push_back(item);
    }
    changed.notify_all();
  }

  void run(const Item &item) {
    Status status = ok();
    if (item.record)
      item.record->reach(failure); // `failure` is written by this thread, or while it is idle
    else if (item.wait)
      status = item.wait->wait();
    else if (!failure)
      status = (*item.kernel)();
    if (!status && !failure) {
      std::lock_guard lock(mutex);
      failure = status.error();
    }
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stopping || next < queue.size(); });
      if (next == queue.size())
        return;
      Item item = queue[next++];
      working = true;
      lock.unlock();
      run(item);
      lock.lock();
      working = false;
      if (next == queue.size())
        changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Item> queue;
  size_t next = 0;
  bool working = false, stopping = false;
  std::optional<Error> failure;
  std::thread worker; // last: it uses the rest
};

class CpuDevice : public Device {
public:
  explicit CpuDevice(int64_t threads) : team(threads) {}

  std::string_view kind() const override { return "cpu"; }

  Result<std::shared_ptr<std::byte>> allocate(int64_t bytes) override {
    // Large memory comes from the system, zeroed, and its pages as they are first written: while weights are read, the
    // arena of a step takes none.
    constexpr int64_t kLarge = int64_t(1) << 20;
    size_t rounded = size_t(std::max<int64_t>((bytes + kAlignment - 1) / kAlignment, 1) * kAlignment);
    bool large = bytes >= kLarge;
    void *memory = large ? mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                         : std::aligned_alloc(size_t(kAlignment), rounded);
    if (!memory || memory == MAP_FAILED)
      return Error{
          fmt::format("cannot allocate {} bytes for one rank: use more ranks, or a plan that needs less", rounded),
          ExitStatus::Infeasible};
    if (large)
      return std::shared_ptr<std::byte>(static_cast<std::byte *>(memory),
                                        [rounded](std::byte *bytes) { munmap(bytes, rounded); });
    std::memset(memory, 0, rounded);
    return std::shared_ptr<std::byte>(static_cast<std::byte *>(memory), [](std::byte *bytes) { std::free(bytes); });
  }
  Result<std::shared_ptr<std::byte>> allocateInHost(int64_t bytes) override { return allocate(bytes); }
  void copyIn(std::byte *device, const std::byte *host, int64_t bytes) override {
    std::memcpy(device, host, size_t(bytes));
  }
  void copyOut(std::byte *host, const std::byte *device, int64_t bytes) override {
    std::memcpy(host, device, size_t(bytes));
  }
  Result<Kernel> bind(const BindRequest &request) override { return bindKernel(shared(request)); }
  Result<int64_t> scratchBytes(const BindRequest &request) override {
    return kerf::runtime::scratchBytes(shared(request));
  }
  Kernel bindCopy(std::byte *to, const std::byte *from, int64_t bytes) override {
    return [=]() -> Status {
      std::memcpy(to, from, size_t(bytes));
      return ok();
    };
  }
  std::unique_ptr<Stream> createComputeStream() override { return std::make_unique<ComputeStream>(); }
  std::unique_ptr<Stream> createStream() override { return std::make_unique<WorkerStream>(); }
  std::unique_ptr<Event> createEvent() override { return std::make_unique<CpuEvent>(); }

private:
  BindRequest shared(BindRequest request) {
    request.team = &team;
    return request;
  }

  Team team;
};
} // namespace

std::unique_ptr<Device> createCpuDevice(int64_t threads) { return std::make_unique<CpuDevice>(threads); }

} // namespace kerf::runtime
