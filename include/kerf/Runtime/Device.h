// SPDX-License-Identifier: Apache-2.0
// What the executor needs of a device: memory, kernels, streams and events. The executor knows no other way to the
// hardware: a CUDA or Ascend device is another implementation of these, and overlap is an order of enqueue, record and
// wait.
#pragma once

#include "kerf/Runtime/Kernels.h"
#include <memory>

namespace kerf::runtime {

/// A point in a stream. Recorded again each step.
class Event {
public:
  virtual ~Event() = default;
};

/// Work in order. Each call is asynchronous unless the device says otherwise; none allocates within what was reserved.
class Stream {
public:
  virtual ~Stream() = default;
  /// There will be at most this many calls of enqueue, record and wait between two of synchronize.
  virtual void reserve(size_t calls) = 0;
  /// `kernel` must outlive the work. After a kernel has failed, the rest of the stream's work is skipped; fails when
  /// that is known by now.
  virtual Status enqueue(const Kernel &kernel) = 0;
  virtual void record(Event &event) = 0;
  /// What is enqueued from here on runs after the event's last record. Fails when the recorded stream had failed (if it
  /// is known by then).
  virtual Status wait(Event &event) = 0;
  /// Waits until the stream is empty; the first failure of its kernels, which is thereby taken.
  virtual Status synchronize() = 0;
};

class Device {
public:
  virtual ~Device() = default;
  virtual std::string_view kind() const = 0;
  /// Zeroed, aligned to kAlignment; an Error when the device has not that much.
  virtual Result<std::shared_ptr<std::byte>> allocate(int64_t bytes) = 0;
  /// The same of the host's memory, which the device's copies can reach.
  virtual Result<std::shared_ptr<std::byte>> allocateInHost(int64_t bytes) = 0;
  virtual void copyIn(std::byte *device, const std::byte *host, int64_t bytes) = 0;
  virtual void copyOut(std::byte *host, const std::byte *device, int64_t bytes) = 0;

  virtual Result<Kernel> bind(const BindRequest &request) = 0;
  virtual Result<int64_t> scratchBytes(const BindRequest &request) = 0;
  /// Copies between places of the device's and the host's memory that don't overlap.
  virtual Kernel bindCopy(std::byte *to, const std::byte *from, int64_t bytes) = 0;

  /// The stream of kernels. On the CPU it runs each one at once on the calling thread.
  virtual std::unique_ptr<Stream> createComputeStream() = 0;
  /// A stream of collectives.
  virtual std::unique_ptr<Stream> createStream() = 0;
  virtual std::unique_ptr<Event> createEvent() = 0;

  static constexpr int64_t kAlignment = 64; // bytes: a cache line, and the widest vector register
};

/// `threads` share the work of each kernel: the calling thread and others.
std::unique_ptr<Device> createCpuDevice(int64_t threads = 1);

} // namespace kerf::runtime
