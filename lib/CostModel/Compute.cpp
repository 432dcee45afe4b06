// SPDX-License-Identifier: Apache-2.0
// Seconds of a kernel from the device's curves; docs/cost-model.md says where each number comes from.
#include "kerf/CostModel/Compute.h"
#include <algorithm>
#include <cmath>

using namespace kerf;

namespace {

// Tiles that product libraries choose from, and the rate of a small one beside the largest: it reads more bytes per
// product (CUTLASS's default shapes; the shares are of cuBLAS on A100, docs/cost-model.md).
struct Tile {
  double m, n, rate;
};
constexpr Tile kTiles[] = {{256, 128, 1},  {128, 256, 1},  {128, 128, 0.95},
                           {128, 64, 0.9}, {64, 128, 0.9}, {64, 64, 0.72}};

/// A product as tiles dealt to processors, wave after wave, with the tile that ends first.
double tiledProductSeconds(const Device &device, const Work &work, double peak) {
  const DeviceCurves &curves = device.curves;
  double best = 0;
  for (const Tile &tile : kTiles) {
    double waves = std::ceil(work.m / tile.m) * std::ceil(work.n / tile.n) * work.batch / curves.processors;
    waves = curves.productQuantization * std::ceil(waves) + (1 - curves.productQuantization) * std::max(1.0, waves);
    double rate = peak / curves.processors * curves.productEfficiency * tile.rate;
    double seconds = waves * 2 * tile.m * tile.n * (work.k + curves.productOverheadK) / rate;
    best = best == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

} // namespace

ComputeEfficiency kerf::efficiencyOf(const Device &device, KernelClass kernelClass) {
  const DeviceCurves &curves = device.curves;
  auto of = [&](double flops, double bytes) {
    return ComputeEfficiency{flops * curves.sustained, bytes, curves.launchSeconds};
  };
  switch (kernelClass) {
  case KernelClass::Product:
    return of(curves.productEfficiency, curves.productMemory);
  case KernelClass::Attention:
    return of(curves.attentionEfficiency, curves.memoryEfficiency);
  case KernelClass::Pointwise:
    return of(curves.pointwiseFlops, curves.memoryEfficiency);
  case KernelClass::Reduction:
    return of(curves.reductionFlops, curves.reductionMemory);
  case KernelClass::Gather:
    return of(curves.reductionFlops, curves.gatherMemory);
  case KernelClass::Movement:
    return of(curves.pointwiseFlops, curves.movementMemory);
  case KernelClass::Nothing:
    break;
  }
  return {};
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
  const DeviceCurves &curves = device.curves;
  ComputeEfficiency efficiency = efficiencyOf(device, work.kernelClass);
  double peak = peakFlops(device, work.dtype);
  double compute = work.flops / (efficiency.flops * peak);
  double memory = work.bytes / (efficiency.bytes * device.memoryBandwidth);
  bool sized = work.m > 0 && work.n > 0 && work.k > 0;
  if (work.kernelClass == KernelClass::Product && sized)
    compute = curves.processors > 1 ? work.launches * tiledProductSeconds(device, work, peak * curves.sustained)
                                    : compute * (1 + curves.productOverheadK / work.k); // no tiles to deal out
  if (work.kernelClass == KernelClass::Attention && work.n > 0)
    compute *= 1 + curves.attentionHalfLength / work.n;
  return std::max(compute, memory) + work.launches * curves.launchSeconds;
}
