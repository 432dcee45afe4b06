// SPDX-License-Identifier: Apache-2.0
// Streams whose work the host's processors do: one kind runs the work on the calling thread, the other on a thread with
// a queue. An event is a pair of counters with a condition variable.
#pragma once

#include "kerf/Runtime/Cpu/Kernels.h"
#include <condition_variable>
#include <mutex>
#include <thread>

namespace kerf::runtime {

/// The first fault that kernels of a device have met. Kernels on any of its streams set the fault, and the
/// host takes it.
class FirstFault {
public:
  /// Records a fault of instruction `number`, unless one is recorded already.
  void set(int64_t number, const Error &error);
  /// Returns the recorded fault, if any, and forgets it.
  std::optional<Fault> take();

private:
  std::mutex mutex;
  std::optional<Fault> first;
};

/// An event of host streams. Records are numbered from 1.
class HostEvent : public Event {
public:
  Result<double> seconds() override;
  /// Counts a record that is put into a stream's queue, and returns the number of records so far.
  uint64_t recordLater();
  /// Marks the next record as reached, at the present time. `error` is the recording stream's failure, if any.
  void reach(const std::optional<Error> &error);
  /// Does the work of `recordLater` and `reach` at once, for a stream without a queue.
  void reachNow(const std::optional<Error> &error);
  /// Returns the number of the last record.
  uint64_t lastRecord();
  /// Waits until record number `target` has been reached. Fails with the recording stream's failure, if any.
  Status wait(uint64_t target);

private:
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0, reached = 0; // numbers of records that were queued and that were reached
  double reachedAt = -1;              // when the last record was reached, in seconds of the steady clock
  std::optional<Error> failure;       // the recording stream's failure when the last record was reached
};

/// A host function that runs as the work of a stream. An error that the function returns becomes the stream's failure,
/// and is recorded in the device's FirstFault.
class HostKernel : public BoundKernel {
public:
  HostKernel(Kernel function, int64_t number, FirstFault &firstFault)
      : function(std::move(function)), number(number), firstFault(firstFault) {}
  Status launch(Stream &stream) override;
  /// Calls the function on the calling thread.
  Status run() const;

private:
  Kernel function;
  int64_t number;
  FirstFault &firstFault;
};

/// A stream that can run host functions.
class HostStream : public Stream {
public:
  /// Enqueues a host function. The kernel must live until the work is done.
  virtual Status enqueue(const HostKernel &kernel) = 0;
};

/// A stream that does all work immediately, on the calling thread.
class CallingStream : public HostStream {
public:
  void reserve(size_t) override {} // there is no queue
  Status enqueue(const HostKernel &kernel) override;
  Status copy(void *to, const void *from, int64_t bytes, CopyKind kind) override;
  Status record(Event &event) override;
  Status wait(Event &event) override;
  Status synchronize() override;

private:
  std::optional<Error> failure;
};

/// A stream that does its work in order, on a thread of its own.
class WorkerStream : public HostStream {
public:
  /// Starts the thread. If `beforeEach` is given, the thread calls it before each piece of work.
  explicit WorkerStream(std::function<void()> beforeEach = {});
  ~WorkerStream() override;
  void reserve(size_t calls) override;
  Status enqueue(const HostKernel &kernel) override;
  Status copy(void *to, const void *from, int64_t bytes, CopyKind kind) override;
  Status record(Event &event) override;
  Status wait(Event &event) override;
  Status synchronize() override;

private:
  /// One piece of work: a kernel, a record, a wait or a copy.
  struct Item {
    const HostKernel *kernel = nullptr;
    HostEvent *record = nullptr, *wait = nullptr;
    uint64_t target = 0; // number of the record that a wait waits for
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
  std::vector<Item> queue; // all work since the queue was last empty
  size_t next = 0;         // index into `queue` of the next piece of work
  bool working = false, stopping = false;
  std::optional<Error> failure; // written by the thread, or while the thread is idle
  std::thread worker;           // the last member, because the thread uses the others
};

} // namespace kerf::runtime
