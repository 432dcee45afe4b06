// SPDX-License-Identifier: Apache-2.0
// One GPU as a rank uses it: the driver's context, memory, the kernels' modules, and streams.
#pragma once

#include "../Accelerator/Streams.h"
#include "Calls.h"
#include "Driver.h"
#include <chrono>
#include <map>
#include <mutex>
#include <set>

namespace kerf::runtime::cuda {

class CudaGraph;
class CublasHandle;
class CudnnGpu;

/// How a GPU multiplies matrices, and how cuDNN computes attention and convolutions.
struct ProductOptions {
  bool usesLibrary = true;    // whether cuBLASLt multiplies where it can; false: Kerf's own kernel does
  bool tf32 = false;          // whether float32 factors are rounded to TF32
  bool measures = false;      // whether the fastest way is measured; false: the library's first proposal is taken
  bool deterministic = false; // whether all results have the same bits in every run
};

/// An open GPU. Streams, events, memory and modules keep it open.
class Context {
public:
  /// Opens the GPU of this number (of those that CUDA_VISIBLE_DEVICES leaves). Fails if there is none of this number,
  /// it is too old, or another program has it for itself.
  static Result<std::shared_ptr<Context>> open(int number);
  /// Returns a GPU of this compute capability that exists only to plan memory: no driver is loaded, and every function
  /// that needs one fails.
  static std::shared_ptr<Context> planned(int capability);
  ~Context();
  Context(const Context &) = delete;

  const Driver &driver;
  /// Makes the GPU current on the calling thread. Every function that calls the driver begins with it.
  Status use() const;
  /// Returns ok for 0, and otherwise the error of the driver's call; `what` says what the GPU cannot do.
  Status check(DriverResult result, std::string_view what) const;
  int number() const { return deviceNumber; }
  /// Returns the compute capability: 10 * major + minor.
  int capability() const { return computeCapability; }
  /// Returns whether the GPU exists only to plan memory.
  bool isPlanned() const { return !context; }
  /// cuDNN on this GPU; null until the first instruction that it computes.
  std::shared_ptr<CudnnGpu> cudnn;
  /// Returns why the other ranks cannot go on, and then has ended this rank's communication with them; null for one
  /// rank. A stream asks while it waits for the GPU, so that no rank waits for a rank that has failed.
  std::function<std::optional<Error>()> peerFailure;
  ProductOptions products;
  /// cuBLASLt's state for this GPU; null before the first product (cublasOf).
  std::shared_ptr<const CublasHandle> cublas;
  std::set<CudaGraph *> graphs; // all graphs of this GPU; only the rank's own thread makes and releases them
  bool keepsGraphs = false;     // whether the driver could not destroy a graph: NCCL would wait for it for ever
  std::map<std::string, double> bindSeconds; // seconds of parts of binding, for Device::bindSeconds
  bool recording = false;                    // whether the rank's thread records a graph: calls then enqueue nothing

private:
  Context(const Driver &driver, int number, int capability, DeviceNumber handle, DriverContext context)
      : driver(driver), deviceNumber(number), computeCapability(capability), handle(handle), context(context) {}
  int deviceNumber, computeCapability;
  DeviceNumber handle;
  DriverContext context;
};

/// Adds the time from its construction to its destruction to Context::bindSeconds.
class BindTimer {
public:
  BindTimer(Context &context, std::string part) : seconds(context.bindSeconds[std::move(part)]) {}
  ~BindTimer() { seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); }
  BindTimer(const BindTimer &) = delete;

private:
  double &seconds;
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

/// Allocates memory of the GPU; null for 0 bytes.
Result<std::shared_ptr<std::byte>> allocateOfGpu(const std::shared_ptr<Context> &context, int64_t bytes);
/// Allocates host memory that the GPU's streams copy to and from; null for 0 bytes.
Result<std::shared_ptr<std::byte>> allocatePinned(const std::shared_ptr<Context> &context, int64_t bytes);

/// The modules of Kernels/ that this rank has loaded. The driver compiles a module when it is first asked for.
class Modules {
public:
  explicit Modules(std::shared_ptr<Context> context) : context(std::move(context)) {}
  ~Modules();
  Modules(const Modules &) = delete;
  /// Returns the entry `entry` of Kernels/`file`.cu for elements of type `type`.
  Result<DriverFunction> find(std::string_view file, DType type, std::string_view entry);

private:
  Result<DriverModule> load(std::string_view file, DType type);
  std::shared_ptr<Context> context;
  std::map<std::pair<std::string, DType>, DriverModule> modules;
};

/// Returns the PTX text of Kernels/`file`.cu for elements of type `type`; empty if there is none.
std::string kernelText(std::string_view file, DType type);

/// A stream of the GPU.
class CudaStream : public AcceleratorStream {
public:
  static Result<std::unique_ptr<CudaStream>> create(std::shared_ptr<Context> context);
  ~CudaStream() override;
  Status copy(void *to, const void *from, int64_t bytes, CopyKind kind) override;
  Status clear(void *memory, int64_t bytes) override;
  Status record(Event &event) override;
  Status wait(Event &event) override;
  Status synchronize() override;

  const std::shared_ptr<Context> context;
  const DriverStream stream;

private:
  CudaStream(std::shared_ptr<Context> context, DriverStream stream) : context(std::move(context)), stream(stream) {}
};

/// An event of the GPU. Without a clock, its time cannot be asked for.
class CudaEvent : public Event {
public:
  static Result<std::unique_ptr<CudaEvent>> create(std::shared_ptr<Context> context, std::shared_ptr<EventClock> clock);
  ~CudaEvent() override;
  Result<double> seconds() override { return clock->secondsOf(*this); }

  const DriverEvent event;

private:
  CudaEvent(std::shared_ptr<Context> context, std::shared_ptr<EventClock> clock, DriverEvent event)
      : event(event), context(std::move(context)), clock(std::move(clock)) {}
  std::shared_ptr<Context> context;
  std::shared_ptr<EventClock> clock;
};

/// Makes the clock of a GPU's events.
Result<std::shared_ptr<EventClock>> makeClock(const std::shared_ptr<Context> &context);

} // namespace kerf::runtime::cuda
