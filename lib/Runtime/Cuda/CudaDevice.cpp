// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs through the driver's library, which is loaded when the first device is made: this file is built on every
// machine. Kernels are PTX that is part of the program (Kernels/); the driver compiles them for the GPU at hand.
#include "Collectives.h"
#include "Graph.h"
#include "Launches.h"
#include "Planning.h"
#include "PtxCode.h"
#include "kerf/Runtime/Communicator.h"
#include "kerf/Runtime/Cpu/Kernels.h"

#include <cstdlib>
#include <fmt/format.h>

namespace kerf::runtime {

namespace {
using namespace cuda;

/// The places in a program that can find faults. A kernel writes the number of its place into the record.
class FaultPlaces {
public:
  static Result<std::unique_ptr<FaultPlaces>> create(const std::shared_ptr<Context> &context, CudaStream &stream) {
    auto places = std::make_unique<FaultPlaces>();
    auto memory = allocateOfGpu(context, sizeof(FaultRecord));
    auto host = allocatePinned(context, sizeof(FaultRecord));
    if (!memory || !host)
      return memory ? host.error() : memory.error();
    places->record = *memory;
    places->copy = *host;
    if (Status status = places->clear(stream); !status)
      return status.error();
    return places;
  }
  /// Returns the place for one more instruction.
  FaultPlace next() const { return {reinterpret_cast<FaultRecord *>(record.get()), int32_t(texts.size())}; }
  /// Keeps what the place that `next` returned says of its faults.
  void add(int64_t number, FaultText text) { texts.push_back({number, std::move(text)}); }

  std::optional<Fault> take(CudaStream &stream) {
    Status status = stream.copy(copy.get(), record.get(), sizeof(FaultRecord), CopyKind::ToHost);
    if (status)
      status = stream.synchronize();
    if (!status)
      return Fault{-1, status.error()};
    const auto &found = *reinterpret_cast<const FaultRecord *>(copy.get());
    if (!found.set)
      return std::nullopt;
    const auto &[number, text] = texts[size_t(found.site)];
    Fault fault{number, text(found)};
    if (Status cleared = clear(stream); !cleared)
      return Fault{number, cleared.error()};
    return fault;
  }

private:
  Status clear(CudaStream &stream) const {
    Status status = stream.clear(record.get(), sizeof(FaultRecord));
    return status ? stream.synchronize() : status;
  }
  struct Text {
    int64_t number;
    FaultText text;
  };
  std::shared_ptr<std::byte> record, copy; // on the GPU, and pinned memory for a copy
  std::vector<Text> texts;                 // by number of the place
};

/// The launches of one instruction.
class CudaKernel : public BoundKernel {
public:
  CudaKernel(std::vector<Launch> launches, std::shared_ptr<std::byte> constant)
      : launches(std::move(launches)), constant(std::move(constant)) {}
  Status launch(Stream &stream) override { return launchAll(launches, static_cast<CudaStream &>(stream)); }

private:
  std::vector<Launch> launches;
  std::shared_ptr<std::byte> constant; // memory that the first launch reads; null if it reads none
};

class CudaDevice : public AcceleratorDevice {
public:
  static Result<std::unique_ptr<Device>> create(const DeviceOptions &options);

  std::string_view kind() const override { return "cuda"; }
  int64_t alignment() const override { return kMemoryAlignment; }
  Result<std::shared_ptr<std::byte>> allocate(int64_t bytes) override { return allocateOfGpu(context, bytes); }
  Result<std::shared_ptr<std::byte>> allocateHost(int64_t bytes) override { return allocatePinned(context, bytes); }
  Result<std::shared_ptr<const DeviceCode>> loadCode(const package::Program &program, CodeUse use) override {
    auto code = loadPtx(context, program, use);
    if (!code)
      return code.error();
    return std::shared_ptr<const DeviceCode>(std::move(*code));
  }
  Result<int64_t> scratchBytes(const KernelRequest &request) override { return scratchBytesOn(context, request); }
  bool joinsProducts() const override { return context->products.usesLibrary; }
  int64_t rowPartAlignment() const override { return kRowPartAlignment; }
  Result<std::unique_ptr<BoundKernel>> bind(const KernelRequest &request) override;
  std::map<std::string, double> bindSeconds() const override { return context->bindSeconds; }

  Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request, const CollectiveOptions &options) override {
    return cuda::collectiveScratchBytes(request, options);
  }
  Result<std::unique_ptr<CollectiveBackend>> createCollectives(Communicator &communicator,
                                                               const CollectiveOptions &options) override {
    return createCudaCollectives(context, *modules, communicator, options);
  }

  Result<std::unique_ptr<Stream>> createStream(StreamKind) override {
    return asBase<Stream>(CudaStream::create(context));
  }
  Result<std::unique_ptr<Event>> createEvent() override { return asBase<Event>(CudaEvent::create(context, clock)); }
  Result<std::unique_ptr<BoundKernel>> record(Stream &compute, const std::function<Status()> &enqueue) override {
    return asBase<BoundKernel>(CudaGraph::record(static_cast<CudaStream &>(compute), enqueue));
  }
  std::optional<Fault> takeFault() override { return places->take(*copies); }

protected:
  AcceleratorStream &copyStream() override { return *copies; }

private:
  CudaDevice() = default;
  std::shared_ptr<Context> context;
  std::shared_ptr<EventClock> clock;
  std::unique_ptr<CudaStream> copies; // for copyIn, copyOut and faults
  std::unique_ptr<FaultPlaces> places;
  std::unique_ptr<Modules> modules;
};

Result<std::unique_ptr<Device>> CudaDevice::create(const DeviceOptions &options) {
  auto number = deviceNumber(options, "cuda", "a GPU");
  if (!number)
    return number.error();
  std::unique_ptr<CudaDevice> device(new CudaDevice());
  auto context = Context::open(*number);
  if (!context)
    return context.error();
  device->context = *context;
  auto products = productOptions(options);
  if (!products)
    return products.error();
  device->context->products = *products;
  auto clock = makeClock(*context);
  if (!clock)
    return clock.error();
  device->clock = *clock;
  auto copies = CudaStream::create(*context);
  if (!copies)
    return copies.error();
  device->copies = std::move(*copies);
  auto places = FaultPlaces::create(*context, *device->copies);
  if (!places)
    return places.error();
  device->places = std::move(*places);
  device->modules = std::make_unique<Modules>(*context);
  return std::unique_ptr<Device>(std::move(device));
}

Result<std::unique_ptr<BoundKernel>> CudaDevice::bind(const KernelRequest &request) {
  if (Status checked = checkInstruction(request); !checked)
    return checked.error();
  auto calls = callsOf({request, places->next(), context});
  if (!calls)
    return calls.error();
  if (calls->faultText)
    places->add(request.number, std::move(calls->faultText));
  std::shared_ptr<std::byte> constant;
  if (!calls->constant.empty()) {
    auto memory = copyOf(calls->constant.data(), int64_t(calls->constant.size()));
    if (!memory)
      return memory.error();
    constant = std::move(*memory);
    void *address = constant.get();
    std::memcpy(std::get<KernelCall>(calls->calls.front()).parameters.data() + calls->constantAt, &address,
                sizeof address);
  }
  auto launches = launchesOf(*modules, std::move(calls->calls));
  if (!launches)
    return launches.error();
  return std::unique_ptr<BoundKernel>(std::make_unique<CudaKernel>(std::move(*launches), std::move(constant)));
}

std::string gpuOfRank() { return ""; } // each rank takes the GPU of its number on its machine
} // namespace

extern const DeviceKind kCudaDevice;
const DeviceKind kCudaDevice{"cuda",
                             "NVIDIA GPUs: rank n of a machine takes GPU n, or cuda:N takes GPU N",
                             CudaDevice::create,
                             gpuOfRank,
                             true,
                             createCudaPlanningDevice};

} // namespace kerf::runtime
