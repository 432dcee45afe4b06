// SPDX-License-Identifier: Apache-2.0
// The base of devices that plan memory for hardware that is not there (DeviceKind::plan). A device adds its rules; all
// functions that would need the hardware fail.
#pragma once

#include "kerf/Runtime/CollectiveBackend.h"
#include "kerf/Runtime/Device.h"

namespace kerf::runtime {

class PlanningDevice : public Device {
public:
  Result<std::shared_ptr<std::byte>> allocate(int64_t) final { return refusal(); }
  Result<std::shared_ptr<std::byte>> allocateHost(int64_t) final { return refusal(); }
  Status copyIn(void *, const void *, int64_t) final { return refusal(); }
  Status copyOut(void *, const void *, int64_t) final { return refusal(); }
  Status clear(void *, int64_t) final { return refusal(); }
  Result<std::unique_ptr<BoundKernel>> bind(const KernelRequest &) final { return refusal(); }
  Result<std::unique_ptr<CollectiveBackend>> createCollectives(Communicator &, const CollectiveOptions &) final {
    return refusal();
  }
  Result<std::unique_ptr<Stream>> createStream(StreamKind) final { return refusal(); }
  Result<std::unique_ptr<Event>> createEvent() final { return refusal(); }
  std::optional<Fault> takeFault() final { return std::nullopt; }

private:
  static Error refusal() {
    return Error{"the device was created to plan memory and cannot run anything", ExitStatus::InternalCheck};
  }
};

} // namespace kerf::runtime
