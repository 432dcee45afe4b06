// SPDX-License-Identifier: Apache-2.0
// A device that finds code which wrongly relies on device memory being host memory or on work being done at once. It
// runs the CPU's kernels on memory that the host cannot access, and on streams that delay their work. New memory and
// scratch memory contain NaN, and sums are added in an unusual order unless ordered sums are required. Code that keeps
// to the contract of Device.h gets the CPU's results.
#include "../Cpu/HostCollectives.h"
#include "../Cpu/HostStreams.h"
#include "Handles.h"
#include "kerf/Runtime/Cpu/Native.h"
#include "kerf/Runtime/Cpu/ThreadTeam.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <random>
#include <thread>

namespace kerf::runtime {

namespace {
constexpr int64_t kAlignment = 256;                // bytes: the alignment of GPUs, larger than the CPU's
constexpr int kDelayedOneIn = 8;                   // one in this many pieces of work is delayed
constexpr std::chrono::microseconds kLongest{200}; // longest delay

/// Sleeps before some pieces of work, chosen at random.
class Delay {
public:
  explicit Delay(uint64_t seed) : random(seed) {}
  void operator()() {
    if (random() % kDelayedOneIn == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random() % uint64_t(kLongest.count())));
  }

private:
  std::mt19937_64 random;
};

/// A stream of the check device: it translates addresses, checks them, and delays its work.
class CheckStream : public WorkerStream {
public:
  CheckStream(uint64_t seed, std::shared_ptr<const Handles> handles)
      : WorkerStream(Delay(seed)), handles(std::move(handles)) {}

  Status copy(void *to, const void *from, int64_t bytes, CopyKind kind) override {
    auto target = kind == CopyKind::ToHost ? handles->hostMemory(to, bytes) : handles->deviceMemory(to, bytes);
    auto source = kind == CopyKind::ToDevice ? handles->hostMemory(from, bytes) : handles->deviceMemory(from, bytes);
    if (!target || !source)
      return target ? source.error() : target.error();
    return bytes > 0 ? WorkerStream::copy(*target, *source, bytes, kind) : ok();
  }

private:
  std::shared_ptr<const Handles> handles;
};

class CheckDevice : public Device {
public:
  CheckDevice(uint64_t seed, const DeviceOptions &options) : seed(seed), rank(options.rank), team(options.threads) {}

  std::string_view kind() const override { return "check"; }
  int64_t alignment() const override { return kAlignment; }
  Result<std::shared_ptr<std::byte>> allocate(int64_t bytes) override { return handles->allocate(bytes); }
  Result<std::shared_ptr<std::byte>> allocateHost(int64_t bytes) override { return handles->allocateHost(bytes); }
  Status copyIn(void *device, const void *host, int64_t bytes) override {
    auto memory = handles->deviceMemory(device, bytes);
    if (!memory)
      return memory.error();
    if (bytes > 0)
      std::memcpy(*memory, host, size_t(bytes));
    return ok();
  }
  Status copyOut(void *host, const void *device, int64_t bytes) override {
    auto memory = handles->deviceMemory(device, bytes);
    if (!memory)
      return memory.error();
    if (bytes > 0)
      std::memcpy(host, *memory, size_t(bytes));
    return ok();
  }
  Status clear(void *device, int64_t bytes) override {
    auto memory = handles->deviceMemory(device, bytes);
    if (!memory)
      return memory.error();
    if (bytes > 0)
      std::memset(*memory, 0, size_t(bytes));
    return ok();
  }

  Result<std::shared_ptr<const DeviceCode>> loadCode(const package::Program &program, CodeUse use) override {
    auto native = loadNative(program, use);
    if (!native)
      return native.error();
    return std::shared_ptr<const DeviceCode>(std::move(*native));
  }
  Result<int64_t> scratchBytes(const KernelRequest &request) override {
    return kerf::runtime::scratchBytes(hostRequest(request, &team));
  }
  bool mayOverwrite(const package::Instruction &instruction, const package::Function *function, int operand,
                    int result) const override {
    return mayOverwriteOnHost(instruction, function, operand, result);
  }
  Result<std::unique_ptr<BoundKernel>> bind(const KernelRequest &request) override {
    BindRequest host = hostRequest(request, &team);
    for (std::vector<TensorView> *views : {&host.operands, &host.results})
      for (TensorView &view : *views) {
        auto memory = handles->deviceMemory(view.data, view.bytes());
        if (!memory)
          return memory.error();
        view.data = *memory;
      }
    auto bytes = kerf::runtime::scratchBytes(host);
    if (!bytes)
      return bytes.error();
    auto scratch = handles->deviceMemory(request.scratch, *bytes);
    if (!scratch)
      return scratch.error();
    host.scratch = *scratch;
    auto kernel = bindKernel(host);
    if (!kernel)
      return kernel.error();
    auto poisons = [kernel = std::move(*kernel), bytes = *bytes, scratch = static_cast<std::byte *>(*scratch)] {
      std::fill_n(scratch, bytes, kPoison);
      return kernel();
    };
    return std::unique_ptr<BoundKernel>(std::make_unique<HostKernel>(std::move(poisons), request.number, firstFault));
  }

  Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request, const CollectiveOptions &) override {
    return kerf::runtime::collectiveScratchBytes(request);
  }
  Result<std::unique_ptr<CollectiveBackend>> createCollectives(Communicator &communicator,
                                                               const CollectiveOptions &options) override {
    return createHostCollectives(
        communicator, firstFault, options.ordered ? SumOrderSeed() : SumOrderSeed(seed),
        [handles = handles](void *address, int64_t bytes) { return handles->deviceMemory(address, bytes); });
  }

  Result<std::unique_ptr<Stream>> createStream(StreamKind) override {
    std::seed_seq all{seed, uint64_t(rank), streams++};
    std::mt19937_64 random(all);
    return std::unique_ptr<Stream>(std::make_unique<CheckStream>(random(), handles));
  }
  Result<std::unique_ptr<Event>> createEvent() override {
    return std::unique_ptr<Event>(std::make_unique<HostEvent>());
  }
  std::optional<Fault> takeFault() override { return firstFault.take(); }

private:
  uint64_t seed;
  int64_t rank;
  uint64_t streams = 0; // number of streams created so far
  std::shared_ptr<Handles> handles = std::make_shared<Handles>();
  ThreadTeam team;
  FirstFault firstFault;
};

Result<std::unique_ptr<Device>> create(const DeviceOptions &options) {
  const std::string &text = options.parameter;
  uint64_t seed = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size())
    return Error{fmt::format("the device 'check' takes the seed of its delays, a whole number from 0 on, and '{}' is "
                             "given; write for example check:7",
                             text)};
  return std::unique_ptr<Device>(std::make_unique<CheckDevice>(seed, options));
}

std::string anySeed() { return fmt::to_string(std::random_device()()); }
} // namespace

extern const DeviceKind kCheckDevice;
const DeviceKind kCheckDevice{
    "check", "the CPU behind the manners of an accelerator, to find code that relies on the host", create, anySeed};

} // namespace kerf::runtime
