// SPDX-License-Identifier: Apache-2.0
#include "Planning.h"
#include "../PlanningDevice.h"
#include "Collectives.h"
#include "PtxCode.h"
#include "kerf/Runtime/Communicator.h"
#include "kerf/Runtime/Cpu/Kernels.h"

#include <cstdlib>
#include <fmt/format.h>

namespace kerf::runtime::cuda {

namespace {
/// The beginning of a product's name, and 10 * major + minor of its compute capability. Where one beginning is the
/// beginning of another, the longer one is first.
struct ProductRow {
  std::string_view prefix;
  int capability;
};
constexpr ProductRow kProducts[] = {
    {"V100", 70},  {"T4", 75},    {"A100", 80},   {"A800", 80},  {"A30", 80},    {"A10", 86}, {"A40", 86},
    {"L40", 89},   {"L4", 89},    {"H100", 90},   {"H800", 90},  {"H200", 90},   {"H20", 90}, {"GH200", 90},
    {"B100", 100}, {"B200", 100}, {"GB200", 100}, {"B300", 103}, {"GB300", 103},
};
constexpr int kUnknownCapability = 80;

class CudaPlanningDevice : public PlanningDevice {
public:
  explicit CudaPlanningDevice(std::shared_ptr<Context> gpu) : gpu(std::move(gpu)) {}
  std::string_view kind() const override { return "cuda"; }
  int64_t alignment() const override { return kMemoryAlignment; }
  Result<std::shared_ptr<const DeviceCode>> loadCode(const package::Program &program, CodeUse) override {
    auto code = loadPtx(gpu, program, CodeUse::Plan);
    if (!code)
      return code.error();
    return std::shared_ptr<const DeviceCode>(std::move(*code));
  }
  Result<int64_t> scratchBytes(const KernelRequest &request) override { return scratchBytesOn(gpu, request); }
  bool mayOverwrite(const package::Instruction &instruction, const package::Function *function, int operand,
                    int result) const override {
    return mayOverwriteOnHost(instruction, function, operand, result);
  }
  bool joinsProducts() const override { return gpu->products.usesLibrary; }
  bool copiesBatchesAhead() const override { return true; }
  int64_t rowPartAlignment() const override { return kRowPartAlignment; }
  Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request, const CollectiveOptions &options) override {
    return cuda::collectiveScratchBytes(request, options);
  }

private:
  std::shared_ptr<Context> gpu;
};
} // namespace

Status checkInstruction(const KernelRequest &request) {
  for (const KernelRequest &part : request.parts)
    if (Status status = checkInstruction(part); !status)
      return status;
  if (request.function || !request.parts.empty())
    return ok();
  auto checked = kerf::runtime::scratchBytes(hostRequest(request, nullptr));
  return checked ? ok() : Status(checked.error());
}

Result<int64_t> scratchBytesOn(const std::shared_ptr<Context> &gpu, const KernelRequest &request) {
  if (Status checked = checkInstruction(request); !checked)
    return checked.error();
  auto calls = callsOf({request, FaultPlace{}, gpu});
  if (!calls)
    return calls.error();
  return calls->scratchBytes;
}

Result<ProductOptions> productOptions(const DeviceOptions &options) {
  const char *chosen = std::getenv("KERF_CUBLASLT");
  if (chosen && std::string_view(chosen) != "off")
    return Error{fmt::format("KERF_CUBLASLT is '{}'; the only value that it takes is off, which leaves products to "
                             "Kerf's own kernels",
                             chosen)};
  return ProductOptions{!chosen, options.tf32, !options.deterministic && !launchedAsRank(), options.deterministic};
}

int capabilityOfProduct(std::string_view product) {
  constexpr std::string_view kMaker = "NVIDIA ";
  if (product.starts_with(kMaker))
    product.remove_prefix(kMaker.size());
  for (const ProductRow &row : kProducts)
    if (product.starts_with(row.prefix))
      return row.capability;
  return kUnknownCapability;
}

Result<std::unique_ptr<Device>> createCudaPlanningDevice(std::string_view product) {
  auto products = productOptions({});
  if (!products)
    return products.error();
  std::shared_ptr<Context> gpu = Context::planned(capabilityOfProduct(product));
  gpu->products = *products;
  return std::unique_ptr<Device>(std::make_unique<CudaPlanningDevice>(std::move(gpu)));
}

} // namespace kerf::runtime::cuda
