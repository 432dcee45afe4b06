// SPDX-License-Identifier: Apache-2.0
// The services that the executor needs from a device: memory, kernels, collectives, streams and events. The executor
// reaches the hardware in no other way, so adding a device means adding one folder to lib/Runtime that implements this
// interface (docs/adding-a-device.md). A Device object serves one rank.
#pragma once

#include "kerf/Package/Epilogue.h"
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

namespace kerf::runtime {

class CollectiveBackend;
class Communicator;
struct CollectiveOptions;
struct CollectiveRequest;

/// A row-major tensor on one rank. `data` is an address in the device's memory: host code passes it on and never
/// reads through it. `data` is null for a tensor without elements, and while memory is only being planned.
struct TensorView {
  void *data = nullptr;
  DType dtype = DType::F32;
  Shape shape; // local shape, that of this rank's shard
  /// Where the tensor is a part of the rows of a wider one (Device::rowPartAlignment): elements from a row, an index of
  /// the first two dimensions, to the next one. 0 for a tensor without gaps.
  int64_t rowStride = 0;
  /// Returns the number of elements on this rank.
  int64_t elements() const { return elementsOf(shape); }
  /// Returns the bytes of the elements on this rank.
  int64_t bytes() const { return elements() * bytesOf(dtype); }
};

/// The compiled kernels of a package (Program::native) that a device has loaded.
class DeviceCode {
public:
  virtual ~DeviceCode() = default;
  /// Returns whether the device runs the program's function of this name as one compiled kernel.
  virtual bool has(std::string_view function) const = 0;
  /// Returns why the device uses none of the package's compiled kernels, or an empty text if it uses them or
  /// there are none.
  virtual std::string reasonUnused() const = 0;
};

/// The tensors of a product's epilogue, by their role in package::ProductEpilogue.
struct EpilogueTensors {
  package::EpilogueKind kind = package::EpilogueKind::Bias;
  bool ofLeft = false;
  TensorView result;
  std::optional<TensorView> bias, kept, sums;
};

/// One instruction to bind to memory: its operands, its results and its surroundings.
struct KernelRequest {
  const package::Instruction &instruction;
  std::vector<TensorView> operands, results; // the instruction's operands and results, in its order
  /// The program's mesh and this rank's number in it, for operators whose result depends on the rank (shard_offset,
  /// local_slice, mask_padding). The rank counts microbatch axes, too.
  const Mesh &mesh;
  int64_t rank = 0;
  /// Temporary memory of as many bytes as Device::scratchBytes returned. Its content is lost after the kernel, and all
  /// kernels of one stream share it.
  void *scratch = nullptr;
  /// The function that the instruction calls and that runs as one compiled kernel; null for any other instruction.
  const package::Function *function = nullptr;
  /// The loaded code that holds the compiled kernel of `function`; null where no code is loaded.
  const DeviceCode *code = nullptr;
  /// Index of the instruction in the body of the rank's flat program (package::FlatProgram::body). A fault reports this
  /// index.
  int64_t number = -1;
  /// The instructions that `instruction` stands for, the product first, where the device runs a group as one
  /// (Device::joinsProducts); otherwise empty. A value that is used only inside of the group lies in the memory of the
  /// result that the next instruction of the group may write over it.
  std::vector<KernelRequest> parts = {};
  /// The epilogue that `parts` are, with its tensors; absent where there are none.
  std::optional<EpilogueTensors> epilogue = {};
};

/// A marker that is recorded in a stream and that other streams can wait for. The same event may be
/// recorded many times.
class Event {
public:
  virtual ~Event() = default;
  /// Returns the time at which a stream reached the event's last record, in seconds of the machine's steady clock. The
  /// stream must have been synchronized since that record.
  virtual Result<double> seconds() = 0;
};

/// The direction of a copy. A copy's host side must lie in memory that Device::allocateHost returned.
enum class CopyKind { ToDevice, ToHost, OnDevice };

/// A queue of work that a device does in order. Every call except `synchronize` may return before its work is done,
/// and everything that the work refers to must live until then. No call allocates memory within the number of calls
/// that was reserved.
class Stream {
public:
  virtual ~Stream() = default;
  /// Reserves room for `calls` calls of launch, copy, record and wait between two calls of synchronize.
  virtual void reserve(size_t calls) = 0;
  /// Enqueues a copy of `bytes` bytes. The two memory ranges must not overlap.
  virtual Status copy(void *to, const void *from, int64_t bytes, CopyKind kind) = 0;
  /// Enqueues a record of the event.
  virtual Status record(Event &event) = 0;
  /// Makes all work that is enqueued later wait for the event's last record. Fails if the recorded stream is already
  /// known to have failed.
  virtual Status wait(Event &event) = 0;
  /// Waits until all of the stream's work has ended. Returns the first failure, and forgets it. After a failure, the
  /// rest of the stream's work is skipped, waits included.
  virtual Status synchronize() = 0;
};

/// A kernel, copy, collective or message that is bound to fixed addresses and can be launched in every step.
class BoundKernel {
public:
  virtual ~BoundKernel() = default;
  /// Enqueues the kernel on a stream of its device. Fails if the launch, or the stream's earlier work, is already known
  /// to have failed.
  virtual Status launch(Stream &stream) = 0;
};

/// An error that a kernel found in its input, for example a class label that is out of range.
struct Fault {
  /// Index of the faulty instruction in the rank's flat program (KernelRequest::number); -1 if the device has failed so
  /// that it cannot tell its faults.
  int64_t number = -1;
  Error error;
};

/// The purpose of a stream. A `Compute` stream runs kernels; on a CPU it may be the calling thread. `Auxiliary` streams
/// run collectives, messages and copies concurrently with the kernels.
enum class StreamKind { Compute, Auxiliary };

/// The purpose of loading a package's compiled kernels. `Run` loads the kernels that this machine can execute. `Plan`
/// loads nothing and reports every kernel as present, in order to plan the memory of a machine whose processor runs
/// all of them.
enum class CodeUse { Run, Plan };

/// A device of one rank. createDevice makes one.
class Device {
public:
  virtual ~Device() = default;
  /// Returns the name of the kind of device (DeviceKind::kind).
  virtual std::string_view kind() const = 0;

  /// Returns the alignment in bytes of every tensor's and scratch memory's address.
  virtual int64_t alignment() const = 0;
  /// Allocates `bytes` bytes of device memory with undefined content, aligned to `alignment`. Fails if the device has
  /// not enough memory.
  virtual Result<std::shared_ptr<std::byte>> allocate(int64_t bytes) = 0;
  /// Allocates `bytes` bytes of host memory that streams can copy to and from, and that host code may read and write.
  virtual Result<std::shared_ptr<std::byte>> allocateHost(int64_t bytes) = 0;
  /// Copies `bytes` bytes from any host memory to the device, and waits for the copy. No stream may be using the device
  /// memory.
  virtual Status copyIn(void *device, const void *host, int64_t bytes) = 0;
  /// Copies `bytes` bytes from the device to any host memory, and waits for the copy. No stream may be writing the
  /// device memory.
  virtual Status copyOut(void *host, const void *device, int64_t bytes) = 0;
  /// Sets `bytes` bytes of device memory to 0, and waits for it. No stream may be using the device memory.
  virtual Status clear(void *device, int64_t bytes) = 0;

  /// Loads the program's compiled kernels, as far as the device can use them. The program must outlive the result.
  virtual Result<std::shared_ptr<const DeviceCode>> loadCode(const package::Program &program, CodeUse use) = 0;
  /// Returns the bytes of scratch memory that `bind` needs for the same request, whose addresses may still be null.
  /// Fails where `bind` would fail.
  virtual Result<int64_t> scratchBytes(const KernelRequest &request) = 0;
  /// Returns whether the instruction may write its result number `result` in place over its operand number `operand`,
  /// which has as many bytes. `function` is the function that a call runs as one compiled kernel, else null.
  virtual bool mayOverwrite(const package::Instruction &instruction, const package::Function *function, int operand,
                            int result) const = 0;
  /// Returns whether the device runs a product and the instructions that a program joins with it
  /// (package::ProductEpilogue) as one instruction. Otherwise they are bound one by one.
  virtual bool joinsProducts() const { return false; }
  /// Returns the number that must divide the addresses and the distances in bytes of the rows that attention reads or
  /// writes as parts of a wider tensor; 0 if the device takes only tensors without gaps.
  virtual int64_t rowPartAlignment() const { return 0; }
  /// Checks the instruction's op, attributes, types and shapes, and binds it to the request's addresses. An error says
  /// what was found and what is supported. The request need not outlive the call.
  virtual Result<std::unique_ptr<BoundKernel>> bind(const KernelRequest &request) = 0;
  /// Returns the seconds that parts of loadCode and bind have taken, by names such as "cublaslt".
  virtual std::map<std::string, double> bindSeconds() const { return {}; }
  /// Returns what the user should know about how instructions were bound, such as operators that a library lacks.
  virtual std::vector<std::string> notes() const { return {}; }

  /// Returns the bytes of scratch memory that CollectiveBackend::bind needs for the same request, if the backend was
  /// created with `options`.
  virtual Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request,
                                                 const CollectiveOptions &options) = 0;
  /// Creates the object that binds this rank's collectives and messages. All ranks must call it with the same options.
  /// Fails if the options require what the device cannot do.
  virtual Result<std::unique_ptr<CollectiveBackend>> createCollectives(Communicator &communicator,
                                                                       const CollectiveOptions &options) = 0;

  /// Returns whether the copy of a batch to the device runs next to the step before it. Each input then has memory for
  /// the next batch too.
  virtual bool copiesBatchesAhead() const { return false; }
  /// Creates a stream of the device.
  virtual Result<std::unique_ptr<Stream>> createStream(StreamKind kind) = 0;
  /// Creates an event that the device's streams can record and wait for.
  virtual Result<std::unique_ptr<Event>> createEvent() = 0;

  /// Records the work that `enqueue` puts on the stream `compute`, and on streams that wait for its events, without
  /// doing it: each launch of the result then does all of this work. `compute` must wait for the work of the other
  /// streams before `enqueue` returns, and everything that the work refers to must outlive the result. Returns null,
  /// without a call of `enqueue`, if the device records nothing. Fails if the work cannot be recorded; the streams then
  /// work as before.
  virtual Result<std::unique_ptr<BoundKernel>> record(Stream & /*compute*/,
                                                      const std::function<Status()> & /*enqueue*/) {
    return std::unique_ptr<BoundKernel>();
  }

  /// Returns the first fault that a kernel has met since the last call, and forgets it; nothing if there was none.
  /// Streams whose kernels may have met a fault must have been synchronized.
  virtual std::optional<Fault> takeFault() = 0;
};

/// The parameters that createDevice passes to a kind's `create` function.
struct DeviceOptions {
  std::string parameter = {}; // the text behind the colon of "KIND:PARAMETER"; createDevice sets it
  int64_t threads = 1;        // host threads that share the work of the rank's kernels, where kernels run on the host
  int64_t rank = 0;           // the rank that the device serves
  bool tf32 = false;          // whether products may round float32 factors to TF32 (DeviceKind::hasTf32)
  bool deterministic = false; // whether all runs and ranks must compute an instruction with the same algorithm
};

/// The entry of one kind of device in the table of kinds. A device's folder defines it, and
/// lib/Runtime/CMakeLists.txt registers it.
struct DeviceKind {
  std::string_view kind; // the name that --device takes
  std::string_view what; // a short description for help texts and messages
  /// Creates a device of this kind.
  Result<std::unique_ptr<Device>> (*create)(const DeviceOptions &options);
  /// Chooses the parameter for a device that was named without one, which may stay empty. Null for a kind that takes no
  /// parameter.
  std::string (*chooseParameter)() = nullptr;
  bool hasTf32 = false; // whether devices of this kind take DeviceOptions::tf32
  /// Creates a device that plans memory as a device of this kind does (PlanningDevice), on a machine that need not have
  /// the hardware. `product` is the product's name as in cluster files, or empty if nothing is known of it. Null for a
  /// kind whose `create` needs no hardware.
  Result<std::unique_ptr<Device>> (*plan)(std::string_view product) = nullptr;
};

/// Returns the kinds of devices in this build. The first one is the default.
std::span<const DeviceKind *const> deviceKinds();
/// The device name that stands for the default kind.
inline constexpr std::string_view kDefaultDevice = "";

/// Returns the full name of a device, "KIND" or "KIND:PARAMETER", with a default kind or parameter filled in. Fails if
/// this build has no such kind, or if the kind takes no parameter and one is given.
Result<std::string> resolveDevice(std::string_view chosen);
/// Creates a device. `chosen` is "KIND", "KIND:PARAMETER" or kDefaultDevice; its parameter replaces
/// `options.parameter`. Fails as resolveDevice does, if the kind has no TF32 and the options ask for it, or if the
/// device cannot be opened.
Result<std::unique_ptr<Device>> createDevice(std::string_view chosen = kDefaultDevice, DeviceOptions options = {});

/// The hardware for which memory is planned. It need not be in this machine.
struct PlannedHardware {
  std::string device = std::string(kDefaultDevice); // a name as createDevice takes it
  std::string product = {};                         // name of the product, as in cluster files; empty: not known
  bool deterministic = false;                       // whether runs will have ExecutorOptions::deterministic
};
/// Creates a device of which only these functions may be used: alignment, loadCode with CodeUse::Plan, scratchBytes,
/// collectiveScratchBytes, mayOverwrite, joinsProducts, copiesBatchesAhead and rowPartAlignment. They return what they
/// return on the hardware. Fails as resolveDevice does.
Result<std::unique_ptr<Device>> createPlanningDevice(const PlannedHardware &hardware);

} // namespace kerf::runtime
