// SPDX-License-Identifier: Apache-2.0
// Ascend NPUs through CANN's libraries, which are loaded when the first device is made: this file is built on every
// machine. Instructions become calls of CANN's operators (Calls.h), bound once and launched in every step.
#include "Collectives.h"
#include "Launches.h"
#include "Planning.h"
#include "kerf/Runtime/Cpu/Kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace kerf::runtime {

namespace {
using namespace ascend;

/// The copies of the indices that instructions have read in the last step. They are looked through when the step's work
/// is done, so that no operator has to find wrong ones.
class IndexChecks {
public:
  /// Adds the copy of an instruction's indices, which its kernel fills in each step.
  void add(int64_t number, IndexCheck check, std::shared_ptr<std::byte> copy) {
    checks.push_back({number, std::move(check), std::move(copy)});
  }
  /// Returns the first wrong index, and forgets it.
  std::optional<Fault> take() {
    for (Entry &entry : checks)
      if (auto fault = entry.check.indices.dtype == DType::I64 ? faultOf<int64_t>(entry) : faultOf<int32_t>(entry))
        return fault;
    return std::nullopt;
  }

private:
  struct Entry {
    int64_t number;
    IndexCheck check;
    std::shared_ptr<std::byte> copy;
  };
  template <typename I> static std::optional<Fault> faultOf(Entry &entry) {
    const IndexCheck &check = entry.check;
    I *indices = reinterpret_cast<I *>(entry.copy.get());
    for (int64_t i = 0, n = check.indices.elements(); i < n; ++i) {
      auto index = int64_t(indices[i]);
      if ((index >= check.lowest && index < check.whole) || index == check.ignored)
        continue;
      std::fill_n(indices, n, I(check.ignored.value_or(0)));
      return Fault{entry.number, check.text(index, i)};
    }
    return std::nullopt;
  }
  std::vector<Entry> checks; // in the order in which instructions were bound, which is that of the program
};

/// The launches of one instruction, and what they use.
class AscendKernel : public BoundKernel {
public:
  AscendKernel(std::vector<Launch> launches, std::vector<std::shared_ptr<std::byte>> keep)
      : launches(std::move(launches)), keep(std::move(keep)) {}
  Status launch(Stream &stream) override { return launchAll(launches, static_cast<AscendStream &>(stream)); }

private:
  std::vector<Launch> launches;
  std::vector<std::shared_ptr<std::byte>> keep;
};

/// Captured work of a stream.
class AscendRecording : public BoundKernel {
public:
  AscendRecording(std::shared_ptr<Context> context, AclModel model) : context(std::move(context)), model(model) {}
  ~AscendRecording() override {
    context->prepareRelease();
    context->acl.destroyModel(model);
  }
  AscendRecording(const AscendRecording &) = delete;
  Status launch(Stream &stream) override {
    if (Status status = context->use(); !status)
      return status;
    return context->check(context->acl.executeAsync(model, static_cast<AscendStream &>(stream).stream),
                          "launch a recorded step");
  }

private:
  std::shared_ptr<Context> context;
  AclModel model;
};

class AscendDevice : public AcceleratorDevice {
public:
  static Result<std::unique_ptr<Device>> create(const DeviceOptions &options);

  std::string_view kind() const override { return "ascend"; }
  int64_t alignment() const override { return kTensorAlignment; }
  Result<std::shared_ptr<std::byte>> allocate(int64_t bytes) override { return allocateOfNpu(context, bytes); }
  Result<std::shared_ptr<std::byte>> allocateHost(int64_t bytes) override { return allocatePinned(context, bytes); }
  Result<std::shared_ptr<const DeviceCode>> loadCode(const package::Program &, CodeUse) override { return noCode(); }
  Result<int64_t> scratchBytes(const KernelRequest &request) override { return scratchBytesOn(target(), request); }
  Result<std::unique_ptr<BoundKernel>> bind(const KernelRequest &request) override;

  Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request, const CollectiveOptions &options) override {
    return ascend::collectiveScratchBytes(request, options);
  }
  Result<std::unique_ptr<CollectiveBackend>> createCollectives(Communicator &communicator,
                                                               const CollectiveOptions &options) override {
    return createAscendCollectives(context, communicator, options, deterministic);
  }

  Result<std::unique_ptr<Stream>> createStream(StreamKind) override {
    return asBase<Stream>(AscendStream::create(context));
  }
  Result<std::unique_ptr<Event>> createEvent() override { return asBase<Event>(AscendEvent::create(context, clock)); }
  Result<std::unique_ptr<BoundKernel>> record(Stream &compute, const std::function<Status()> &enqueue) override;
  std::optional<Fault> takeFault() override { return checks.take(); }
  std::vector<std::string> notes() const override { return {missingOperators.begin(), missingOperators.end()}; }

protected:
  AcceleratorStream &copyStream() override { return *copies; }

private:
  AscendDevice() = default;
  /// Returns the NPU as calls are planned for it.
  Target target() {
    Target made{context->generation};
    made.has = [this](const Operator &one) { return bool(context->find(one)); };
    made.onMissing = [this](const std::string &op, const Operator &missing, const std::set<std::string> &taken) {
      missingOperators.insert(
          fmt::format("CANN {} has no {} for '{}', which takes {} instead; it may be slower and need "
                      "more memory than planned, and a newer CANN has the operator",
                      context->acl.release, missing.name, op, fmt::join(taken, ", ")));
    };
    return made;
  }
  /// Returns memory that holds the given bytes and that all instructions with these bytes share, such as the mask of
  /// causal attention.
  Result<std::shared_ptr<std::byte>> constantOf(const void *bytes, int64_t size) {
    std::weak_ptr<std::byte> &known = constants[std::string(static_cast<const char *>(bytes), size_t(size))];
    if (auto shared = known.lock())
      return shared;
    auto made = copyOf(bytes, size);
    if (made)
      known = *made;
    return made;
  }
  std::shared_ptr<Context> context;
  std::shared_ptr<EventClock> clock;
  std::unique_ptr<AscendStream> copies;
  std::map<std::string, std::weak_ptr<std::byte>> constants; // by their bytes
  IndexChecks checks;
  std::set<std::string> missingOperators; // a sentence for each
  bool deterministic = false;
};

Result<std::unique_ptr<Device>> AscendDevice::create(const DeviceOptions &options) {
  auto number = deviceNumber(options, "ascend", "an NPU");
  if (!number)
    return number.error();
  std::unique_ptr<AscendDevice> device(new AscendDevice());
  auto context = Context::open(*number, options.deterministic);
  if (!context)
    return context.error();
  device->context = *context;
  device->deterministic = options.deterministic;
  auto clock = makeClock(*context);
  if (!clock)
    return clock.error();
  device->clock = *clock;
  auto copies = AscendStream::create(*context);
  if (!copies)
    return copies.error();
  device->copies = std::move(*copies);
  return std::unique_ptr<Device>(std::move(device));
}

Result<std::unique_ptr<BoundKernel>> AscendDevice::bind(const KernelRequest &request) {
  if (Status checked = checkInstruction(request); !checked)
    return checked.error();
  Target all = target();
  all.constant = [&](const void *bytes, int64_t size) { return constantOf(bytes, size); };
  all.pinned = [&](int64_t size) { return allocateHost(size); };
  auto calls = callsOf(request, all);
  if (!calls)
    return calls.error();
  if (calls->check && calls->check->indices.elements() > 0) {
    const TensorView &indices = calls->check->indices;
    auto copy = allocateHost(indices.bytes());
    if (!copy)
      return copy.error();
    if (indices.dtype == DType::I64)
      std::fill_n(reinterpret_cast<int64_t *>(copy->get()), indices.elements(), calls->check->ignored.value_or(0));
    else
      std::fill_n(reinterpret_cast<int32_t *>(copy->get()), indices.elements(),
                  int32_t(calls->check->ignored.value_or(0)));
    calls->calls.insert(calls->calls.begin(), CopyCall{copy->get(), indices.data, indices.bytes(), CopyKind::ToHost});
    checks.add(request.number, std::move(*calls->check), std::move(*copy));
  }
  auto launches = launchesOf(context, std::move(calls->calls));
  if (!launches)
    return launches.error();
  return std::unique_ptr<BoundKernel>(std::make_unique<AscendKernel>(std::move(*launches), std::move(calls->keep)));
}

Result<std::unique_ptr<BoundKernel>> AscendDevice::record(Stream &compute, const std::function<Status()> &enqueue) {
  if (context->needsHost) // an error, and not null: on other ranks, the step may have nothing of the kind
    return Error{"the host takes part in the step: it draws random numbers for dropout, or makes an executor for each "
                 "launch of an operator; its calls are made one by one in each step"};
  auto &origin = static_cast<AscendStream &>(compute);
  const Acl &acl = context->acl;
  if (Status status = context->use(); !status)
    return status.error();
  if (Status status = context->check(acl.captureBegin(origin.stream, kThreadLocalCapture), "record a step"); !status)
    return status.error();
  ++context->captures;
  Status enqueued = enqueue();
  ++context->captures;
  AclModel model = nullptr;
  Status ended = context->check(acl.captureEnd(origin.stream, &model), "record a step");
  if (!enqueued || !ended) {
    if (model)
      acl.destroyModel(model);
    return enqueued ? ended.error() : enqueued.error();
  }
  return std::unique_ptr<BoundKernel>(std::make_unique<AscendRecording>(context, model));
}

std::string npuOfRank() { return ""; } // each rank takes the NPU of its number on its machine
} // namespace

extern const DeviceKind kAscendDevice;
const DeviceKind kAscendDevice{"ascend",
                               "Ascend NPUs: rank n of a machine takes NPU n, or ascend:N takes NPU N",
                               AscendDevice::create,
                               npuOfRank,
                               false,
                               createAscendPlanningDevice};

} // namespace kerf::runtime
