// SPDX-License-Identifier: Apache-2.0
#include "Planning.h"
#include "../PlanningDevice.h"
#include "Collectives.h"
#include "Context.h"
#include "kerf/Runtime/Cpu/Kernels.h"

namespace kerf::runtime::ascend {

namespace {
/// The code of a package for NPUs, which have none: each op of a fused kernel is an operator of CANN.
class NoCode : public DeviceCode {
public:
  bool has(std::string_view) const override { return false; }
  std::string reasonUnused() const override { return ""; }
};

class AscendPlanningDevice : public PlanningDevice {
public:
  explicit AscendPlanningDevice(Generation generation) : generation(generation) {}
  std::string_view kind() const override { return "ascend"; }
  int64_t alignment() const override { return kTensorAlignment; }
  Result<std::shared_ptr<const DeviceCode>> loadCode(const package::Program &, CodeUse) override { return noCode(); }
  Result<int64_t> scratchBytes(const KernelRequest &request) override { return scratchBytesOn({generation}, request); }
  bool mayOverwrite(const package::Instruction &instruction, const package::Function *function, int operand,
                    int result) const override {
    return mayOverwriteOnHost(instruction, function, operand, result);
  }
  bool copiesBatchesAhead() const override { return true; }
  Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request, const CollectiveOptions &options) override {
    return ascend::collectiveScratchBytes(request, options);
  }

private:
  Generation generation;
};
} // namespace

Status checkInstruction(const KernelRequest &request) {
  auto checked = kerf::runtime::scratchBytes(hostRequest(request, nullptr));
  return checked ? ok() : Status(checked.error());
}

Result<int64_t> scratchBytesOn(const Target &target, const KernelRequest &request) {
  if (Status checked = checkInstruction(request); !checked)
    return checked.error();
  auto calls = callsOf(request, target);
  if (!calls)
    return calls.error();
  return calls->scratchBytes;
}

std::shared_ptr<const DeviceCode> noCode() { return std::make_shared<NoCode>(); }

Result<std::unique_ptr<Device>> createAscendPlanningDevice(std::string_view product) {
  return std::unique_ptr<Device>(std::make_unique<AscendPlanningDevice>(generationOf(product)));
}

} // namespace kerf::runtime::ascend
