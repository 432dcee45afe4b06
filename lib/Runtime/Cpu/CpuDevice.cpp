// SPDX-License-Identifier: Apache-2.0
// The CPU as a device. The compute stream is the calling thread, and every other stream is a thread with a queue. The
// device's memory is host memory.
#include "HostCollectives.h"
#include "HostMemory.h"
#include "HostStreams.h"
#include "kerf/Runtime/Cpu/Native.h"
#include "kerf/Runtime/Cpu/ThreadTeam.h"

#include <cstring>

namespace kerf::runtime {

namespace {
class CpuDevice : public Device {
public:
  explicit CpuDevice(int64_t threads) : team(threads) {}

  std::string_view kind() const override { return "cpu"; }
  int64_t alignment() const override { return kHostAlignment; }
  Result<std::shared_ptr<std::byte>> allocate(int64_t bytes) override { return allocateOfHost(bytes); }
  Result<std::shared_ptr<std::byte>> allocateHost(int64_t bytes) override { return allocateOfHost(bytes); }
  Status copyIn(void *device, const void *host, int64_t bytes) override {
    std::memcpy(device, host, size_t(bytes));
    return ok();
  }
  Status copyOut(void *host, const void *device, int64_t bytes) override {
    std::memcpy(host, device, size_t(bytes));
    return ok();
  }
  Status clear(void *device, int64_t bytes) override {
    std::memset(device, 0, size_t(bytes));
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
    auto kernel = bindKernel(hostRequest(request, &team));
    if (!kernel)
      return kernel.error();
    return std::unique_ptr<BoundKernel>(std::make_unique<HostKernel>(std::move(*kernel), request.number, firstFault));
  }

  Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request, const CollectiveOptions &) override {
    return kerf::runtime::collectiveScratchBytes(request);
  }
  Result<std::unique_ptr<CollectiveBackend>> createCollectives(Communicator &communicator,
                                                               const CollectiveOptions &) override {
    return createHostCollectives(communicator, firstFault, {},
                                 [](void *address, int64_t) { return Result<void *>(address); });
  }

  Result<std::unique_ptr<Stream>> createStream(StreamKind kind) override {
    if (kind == StreamKind::Compute)
      return std::unique_ptr<Stream>(std::make_unique<CallingStream>());
    return std::unique_ptr<Stream>(std::make_unique<WorkerStream>());
  }
  Result<std::unique_ptr<Event>> createEvent() override {
    return std::unique_ptr<Event>(std::make_unique<HostEvent>());
  }
  std::optional<Fault> takeFault() override { return firstFault.take(); }

private:
  ThreadTeam team;
  FirstFault firstFault;
};
} // namespace

extern const DeviceKind kCpuDevice;
const DeviceKind kCpuDevice{"cpu", "the processors of this machine",
                            [](const DeviceOptions &options) -> Result<std::unique_ptr<Device>> {
                              return std::unique_ptr<Device>(std::make_unique<CpuDevice>(options.threads));
                            }};

} // namespace kerf::runtime
