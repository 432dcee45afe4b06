// SPDX-License-Identifier: Apache-2.0
// Streams of work that the host's processors do: one that is the calling thread, one that is a thread with a queue. An
// event is a pair of counters with a condition.
#pragma once

#include "kerf/Runtime/Cpu/Kernels.h"
#include <condition_variable>
#include <mutex>
#include <thread>

namespace kerf::runtime {

/// The first fault of a device's kernels: kernels on any of its streams set it, the host takes it.
class FaultWord {
public:
  void set(int64_t number, const Error &error);
  std::optional<Fault> take();

private:
  std::mutex mutex;
  std::optional<Fault> first;
};

class HostEvent : public Event {
public:
  Result<double> seconds() override;
  /// Counts a record of which a stream's queue now has the end; returns how many there have been.
  uint64_t recordLater();
  void reach(const std::optional<Error> &error);
  /// `recordLater` and `reach` in one, for a stream that has nothing in a queue.
  void reachNow(const std::optional<Error> &error);
  uint64_t lastRecord();
  /// Waits until record number `target` has been reached.
  Status wait(uint64_t target);

private:
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0, reached = 0;
  double reachedAt = -1;
  std::optional<Error> failure; // of the stream, at the last record that was reached
};

/// A function of the host as work of a stream. What fails in it is told by the stream, and by the device's word.
class HostKernel : public BoundKernel {
public:
  HostKernel(Kernel function, int64_t number, FaultWord &word)
      : function(std::move(function)), number(number), word(word) {}
  Status launch(Stream &stream) override;
  Status run() const;

private:
  Kernel function;
  int64_t number;
  FaultWord &word;
};

class HostStream : public Stream {
public:
  virtual Status enqueue(const HostKernel &kernel) = 0;
};

/// Runs everything at once, on the calling thread.
class CallingStream : public HostStream {
public:
  void reserve(size_t) override {} // nothing waits in line
  Status enqueue(const HostKernel &kernel) override;
  Status copy(void *to, const void *from, int64_t bytes, CopyKind kind) override;
  Status record(Event &event) override;
  Status wait(Event &event) override;
  Status synchronize() override;

private:
  std::optional<Error> failure;
};

/// Runs everything in order on a thread of its own.
class WorkerStream : public HostStream {
public:
  /// `beforeEach` is called on the thread before each piece of work, where it is given.
  explicit WorkerStream(std::function<void()> beforeEach = {});
  ~WorkerStream() override;
  void reserve(size_t calls) override;
  Status enqueue(const HostKernel &kernel) override;
  Status copy(void *to, const void *from, int64_t bytes, CopyKind kind) override;
  Status record(Event &event) override;
  Status wait(Event &event) override;
  Status synchronize() override;

private:
  struct Item {
    const HostKernel *kernel = nullptr;
    HostEvent *record = nullptr, *wait = nullptr;
    uint64_t target = 0; // of a wait
    void *to = nullptr;
    const void *from = nullptr;
    int64_t bytes = 0;
  };
  void push(const Item &item);
  Status run(const Item &item);
  void work();

  std::function<void()> beforeEach;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Item> queue;
  size_t next = 0;
  bool working = false, stopping = false;
  std::optional<Error> failure; // written by the thread, or while it is idle
  std::thread worker;           // last: it uses the rest
};

} // namespace kerf::runtime
