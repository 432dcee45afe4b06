// SPDX-License-Identifier: Apache-2.0
// Efficiencies per kernel class; docs/cost.md says where each comes from.
#include "kerf/CostModel/Compute.h"
#include <algorithm>
#include <array>

using namespace kerf;

namespace {

// Share of peak FLOP/s, share of memory bandwidth, per class.
struct Shares {
  double flops, bytes;
};

// GPUs. Products: the median of public bf16 GEMM tables above 32 GFLOP is 0.80 of peak on A100 and 0.73 on H100.
// Attention: FlashAttention-2 (Dao 2023) reports 0.5-0.7 forward and backward on A100. Bytes: 0.8 of the spec sheet is
// what copy kernels reach (aiconfigurator's empirical factor); a gather reads rows in no order: half of that.
constexpr std::array<Shares, 7> kAccelerator = {
    {{0.77, 0.8}, {0.55, 0.8}, {0.1, 0.8}, {0.1, 0.7}, {0.1, 0.4}, {0.1, 0.7}, {1, 1}}};
// CPUs, of one core: oneDNN's products are what peak_flops states; the reference kernels of the other classes are loops
// that the compiler vectorizes in part.
constexpr std::array<Shares, 7> kCpu = {
    {{0.9, 0.8}, {0.3, 0.6}, {0.02, 0.6}, {0.01, 0.5}, {0.01, 0.3}, {0.02, 0.5}, {1, 1}}};

// From the call to the first element. GPU: 4-5 us is the usual figure for a kernel in a stream. CPU: a function call
// and its descriptors.
constexpr double kAcceleratorLaunchSeconds = 4.5e-6;
constexpr double kCpuLaunchSeconds = 1e-6;

} // namespace

ComputeEfficiency kerf::efficiencyOf(const Device &device, KernelClass kernelClass) {
  if (kernelClass == KernelClass::Nothing)
    return {};
  bool cpu = device.kind == "cpu";
  Shares shares = (cpu ? kCpu : kAccelerator)[static_cast<size_t>(kernelClass)];
  return {shares.flops, shares.bytes, cpu ? kCpuLaunchSeconds : kAcceleratorLaunchSeconds};
}

double kerf::peakFlops(const Device &device, std::string_view dtype) {
  auto find = [&](std::string_view key) {
    auto it = device.peakFlops.find(std::string(key));
    return it == device.peakFlops.end() ? 0.0 : it->second;
  };
  if (double own = find(dtype))
    return own;
  std::string_view sixteenOther = dtype == "bf16" ? "f16" : dtype == "f16" ? "bf16" : "";
  if (double other = find(sixteenOther))
    return other;
  double wide = find("f32") > 0 ? find("f32") : find("tf32");
  if (wide == 0) { // a device of other dtypes only: its slowest
    wide = device.peakFlops.begin()->second;
    for (const auto &[key, peak] : device.peakFlops)
      wide = std::min(wide, peak);
  }
  return dtype == "f64" ? wide / 2 : wide;
}

double kerf::computeSeconds(const Device &device, const Work &work) {
  if (work.kernelClass == KernelClass::Nothing)
    return 0;
  ComputeEfficiency efficiency = efficiencyOf(device, work.kernelClass);
  double compute = work.flops / (efficiency.flops * peakFlops(device, work.dtype));
  double memory = work.bytes / (efficiency.bytes * device.memoryBandwidth);
  return std::max(compute, memory) + work.launches * efficiency.launchSeconds;
}
