// SPDX-License-Identifier: Apache-2.0
// The services that the executor needs of a device: memory, kernels, streams and events. It knows no other way to the
// hardware, so a device is a folder of lib/Runtime that implements these (docs/adding-a-device.md). A device serves one
// rank.
#pragma once

#include "kerf/Package/Package.h"
#include <memory>
#include <optional>
#include <span>

namespace kerf::runtime {

class CollectiveBackend;
class Communicator;
struct CollectiveOptions;
struct CollectiveRequest;

/// A dense, row-major local tensor. `data` is an address in the device's memory, which host code hands on and never
/// reads; it is null for tensors without elements, and while memory is only being planned.
struct TensorView {
  void *data = nullptr;
  DType dtype = DType::F32;
  Shape shape;
  int64_t elements() const { return elementsOf(shape); }
  int64_t bytes() const { return elements() * bytesOf(dtype); }
};

/// The part of a package's code that a device has loaded.
class DeviceCode {
public:
  virtual ~DeviceCode() = default;
  /// Returns whether the device runs the function of the program as one kernel.
  virtual bool has(std::string_view function) const = 0;
  /// Returns why the device uses none of the package's code, or "".
  virtual std::string unused() const = 0;
};

/// The operands and the place of one kernel. `rank` and `mesh` are for operators whose result depends on the rank
/// (shard_offset, local_slice, mask_padding). `scratch` has the bytes that Device::scratchBytes asked for; its content
/// does not survive the kernel, and kernels of one stream share it.
struct KernelRequest {
  const package::Instruction &instruction;
  std::vector<TensorView> operands, results;
  const Mesh &mesh;
  int64_t rank = 0;
  void *scratch = nullptr;
  /// Set where the instruction calls a function that is one kernel: the function, and the code that has it.
  const package::Function *function = nullptr;
  const DeviceCode *code = nullptr;
  /// Which instruction it is: a fault names it.
  int64_t number = -1;
};

/// A point in a stream. It may be recorded again and again.
class Event {
public:
  virtual ~Event() = default;
  /// Returns when a stream reached the event's last record, in seconds of the machine's steady clock. The stream must
  /// have been synchronized since.
  virtual Result<double> seconds() = 0;
};

/// The direction of a copy. The host's side of it lies in memory of Device::allocateHost.
enum class CopyKind { ToDevice, ToHost, OnDevice };

/// Work in order. All calls but `synchronize` may return before the work has been done, and what they refer to must
/// live until it has; none allocates within what was reserved.
class Stream {
public:
  virtual ~Stream() = default;
  /// Makes room for so many calls of launch, copy, record and wait between two of synchronize.
  virtual void reserve(size_t calls) = 0;
  /// Copies between places that do not overlap.
  virtual Status copy(void *to, const void *from, int64_t bytes, CopyKind kind) = 0;
  virtual Status record(Event &event) = 0;
  /// Makes all work that is enqueued later run after the event's last record. Fails when the recorded stream had failed
  /// and that is known by now.
  virtual Status wait(Event &event) = 0;
  /// Waits until all of the stream's work has ended, and returns its first failure, which is thereby forgotten. After a
  /// failure the rest of the stream's work is skipped, waits included.
  virtual Status synchronize() = 0;
};

/// A kernel, copy, collective or message that is bound to fixed memory.
class BoundKernel {
public:
  virtual ~BoundKernel() = default;
  /// Enqueues it on a stream of its device. Fails when that is known by now.
  virtual Status launch(Stream &stream) = 0;
};

/// A kernel's complaint about its input, for example a label out of range.
struct Fault {
  int64_t number = -1; // KernelRequest::number
  Error error;
};

/// `Compute` runs kernels; on a CPU it may be the calling thread. Whatever runs beside kernels has streams of its own.
enum class StreamKind { Compute, Beside };

/// `Plan`: as if the machine's processor ran all of the package's code, for plans of machines that are not here.
enum class CodeUse { Run, Plan };

class Device {
public:
  virtual ~Device() = default;
  virtual std::string_view kind() const = 0;

  /// Addresses of tensors and scratch are multiples of so many bytes.
  virtual int64_t alignment() const = 0;
  /// Returns memory of any content, aligned to `alignment`; an Error when the device has not that much.
  virtual Result<std::shared_ptr<std::byte>> allocate(int64_t bytes) = 0;
  /// Returns memory of the host that streams copy to and from, which host code may read and write.
  virtual Result<std::shared_ptr<std::byte>> allocateHost(int64_t bytes) = 0;
  /// These two copy from and to any memory of the host and wait for the copy. No stream may be using the device's side.
  virtual Status copyIn(void *device, const void *host, int64_t bytes) = 0;
  virtual Status copyOut(void *host, const void *device, int64_t bytes) = 0;

  virtual Result<std::shared_ptr<const DeviceCode>> loadCode(const package::Program &program, CodeUse use) = 0;
  /// Returns the scratch that `bind` of the same request needs (addresses may be null); an Error where `bind` would
  /// give one.
  virtual Result<int64_t> scratchBytes(const KernelRequest &request) = 0;
  /// Returns whether result `result` may be written over operand `operand` of the same bytes. `function`: of a call
  /// that is one kernel.
  virtual bool mayOverwrite(const package::Instruction &instruction, const package::Function *function, int operand,
                            int result) const = 0;
  /// Checks op, attributes, types and shapes; an Error names what it found and what it can do. The request need not
  /// outlive the call.
  virtual Result<std::unique_ptr<BoundKernel>> bind(const KernelRequest &request) = 0;

  virtual Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request) = 0;
  /// Returns what binds collectives and messages of this device. All ranks call it with the same options. An Error
  /// where the options ask for what the device cannot do.
  virtual Result<std::unique_ptr<CollectiveBackend>> createCollectives(Communicator &communicator,
                                                                       const CollectiveOptions &options) = 0;

  virtual Result<std::unique_ptr<Stream>> createStream(StreamKind kind) = 0;
  virtual Result<std::unique_ptr<Event>> createEvent() = 0;

  /// Returns the first fault that a kernel has met since the last call, and forgets it. Streams that may have met one
  /// must have been synchronized.
  virtual std::optional<Fault> takeFault() = 0;
};

struct DeviceOptions {
  std::string parameter = {}; // what follows the kind and a colon where a device is chosen
  int64_t threads = 1;        // of the host, that share the work of the rank's kernels where these run on the host
  int64_t rank = 0;           // that the device serves
};

/// A kind of device: what its folder defines and CMake registers (lib/Runtime/CMakeLists.txt).
struct DeviceKind {
  std::string_view kind, what;
  Result<std::unique_ptr<Device>> (*create)(const DeviceOptions &options);
  /// Returns the parameter for a device that was chosen without one; null for a kind that takes no parameter.
  std::string (*chooseParameter)() = nullptr;
};

/// The kinds of this build; the first is the one that runs where nothing else is asked for.
std::span<const DeviceKind *const> deviceKinds();
inline constexpr std::string_view kDefaultDevice = ""; // stands for the first kind

/// Returns "KIND" or "KIND:PARAMETER" with what was left to choose chosen; an Error for a kind that is not there.
Result<std::string> resolveDevice(std::string_view chosen);
/// `chosen`: "KIND", "KIND:PARAMETER" or kDefaultDevice; what it says of the parameter counts.
Result<std::unique_ptr<Device>> createDevice(std::string_view chosen = kDefaultDevice, DeviceOptions options = {});

} // namespace kerf::runtime
