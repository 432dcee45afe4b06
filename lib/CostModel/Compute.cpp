// SPDX-License-Identifier: Apache-2.0
// The seconds of a kernel, from the device's efficiency curves; docs/cost-model.md gives the source of each number.
#include "kerf/CostModel/Compute.h"
#include <algorithm>
#include <cmath>

using namespace kerf;

namespace {

// Tile sizes that product libraries choose from, and their rate relative to the largest tile; small tiles read more
// bytes per product (CUTLASS's default shapes; rates of cuBLAS on A100, docs/cost-model.md).
struct Tile {
  double m, n, rate;
};
constexpr Tile kTiles[] = {{256, 128, 1},  {128, 256, 1},  {128, 128, 0.95},
                           {128, 64, 0.9}, {64, 128, 0.9}, {64, 64, 0.72}};

// Rows of 16-bit factors must have a multiple of so many elements (16 bytes) for matrix units to read them.
constexpr int64_t kAlignedElements = 8;

/// Returns whether a batched product reads or writes 16-bit rows that are no multiple of 16 bytes. Only batched
/// products (scores and contexts of attention) are checked: frameworks pad vocabularies and widths, but not heads.
bool isUnaligned(const Work &work) {
  auto misses = [](double size) { return static_cast<int64_t>(size) % kAlignedElements != 0; };
  return work.batch > 1 && (work.dtype == "f16" || work.dtype == "bf16") && (misses(work.n) || misses(work.k));
}

/// Returns the seconds of a product whose tiles are distributed to processors in waves, for the fastest tile size.
/// Libraries cut the sum of a product with fewer tiles than processors into parts (split-K), whose results in f32 are
/// written and added afterwards; weight gradients of convolutions are such products.
double tiledProductSeconds(const DeviceSpec &device, const Work &work, double peak) {
  constexpr double kPartBytes = 2 * 4; // of a part's result: a write and a read in f32
  const DeviceCurves &curves = device.curves;
  double best = 0, reached = curves.productEfficiency * (isUnaligned(work) ? curves.unalignedProducts : 1);
  for (const Tile &tile : kTiles) {
    double tiles = std::ceil(work.m / tile.m) * std::ceil(work.n / tile.n) * work.batch;
    double rate = peak / curves.processors * reached * tile.rate;
    for (double parts = 1; parts == 1 || tiles * parts <= curves.processors; parts *= 2) {
      double waves = tiles * parts / curves.processors;
      waves = curves.productQuantization * std::ceil(waves) + (1 - curves.productQuantization) * std::max(1.0, waves);
      double seconds = waves * 2 * tile.m * tile.n * (work.k / parts + curves.productOverheadK) / rate;
      if (parts > 1)
        seconds += kPartBytes * parts * work.m * work.n * work.batch / (curves.productMemory * device.memoryBandwidth);
      best = best == 0 ? seconds : std::min(best, seconds);
    }
  }
  return best;
}

/// Returns the seconds of a product on one CPU core that takes `seconds` at the full rate: short dimensions leave
/// registers and loops partly empty, and each product of a batch costs a library call.
double coreProductSeconds(const DeviceCurves &curves, const Work &work, double seconds) {
  return seconds * (1 + curves.productOverheadM / work.m) * (1 + curves.productOverheadN / work.n) *
             (1 + curves.productOverheadK / work.k) +
         work.launches * work.batch * curves.productCallSeconds;
}

/// Returns the kernel's bytes, where bytes from the cache count as the bytes that memory delivers in the same time.
double bytesAsFromMemory(const DeviceCurves &curves, const Work &work) {
  double cached = std::min(work.bytes, work.launches * curves.cacheBytes);
  return cached > 0 ? work.bytes - cached + cached / curves.cacheSpeedup : work.bytes;
}

} // namespace

ComputeEfficiency kerf::efficiencyOf(const DeviceSpec &device, KernelClass kernelClass, AttentionLibrary attention) {
  const DeviceCurves &curves = device.curves;
  auto of = [&](double flops, double bytes) {
    return ComputeEfficiency{flops * curves.sustained, bytes, curves.launchSeconds};
  };
  switch (kernelClass) {
  case KernelClass::Product:
    return of(curves.productEfficiency, curves.productMemory);
  case KernelClass::Attention:
    return of(attention == AttentionLibrary::Vendor && curves.vendorAttention > 0 ? curves.vendorAttention
                                                                                  : curves.attentionEfficiency,
              curves.memoryEfficiency);
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

double kerf::peakFlops(const DeviceSpec &device, std::string_view dtype) {
  auto find = [&](std::string_view key) {
    auto it = device.peakFlops.find(std::string(key));
    return it == device.peakFlops.end() ? 0.0 : it->second;
  };
  if (double own = find(dtype))
    return own;
  if (dtype == "f8") // such products are computed from 16-bit copies of their factors
    return peakFlops(device, "bf16");
  std::string_view sixteenOther = dtype == "bf16" ? "f16" : dtype == "f16" ? "bf16" : "";
  if (double other = find(sixteenOther))
    return other;
  double wide = find("f32") > 0 ? find("f32") : find("tf32");
  if (wide == 0) { // the device has other dtypes only: take the slowest
    wide = device.peakFlops.begin()->second;
    for (const auto &[key, peak] : device.peakFlops)
      wide = std::min(wide, peak);
  }
  return dtype == "f64" ? wide / 2 : wide;
}

double kerf::hostBandwidth(const DeviceSpec &device) {
  bool shares = device.hostBandwidth == 0 && device.kind == "cpu";
  return shares ? device.memoryBandwidth / 2 : device.hostBandwidth;
}

double kerf::oversubscription(const DeviceSpec &device, int64_t ranks) {
  double cores = device.curves.hostCores;
  return cores > 0 ? std::max(1.0, static_cast<double>(ranks) / cores) : 1;
}

DeviceSpec kerf::sharedDevice(const DeviceSpec &device, int64_t ranks) {
  DeviceSpec shared = device;
  DeviceCurves &curves = shared.curves;
  if (double factor = oversubscription(device, ranks); factor > 1) {
    for (auto &[dtype, peak] : shared.peakFlops)
      peak /= factor;
    shared.memoryBandwidth /= factor;
    curves.launchSeconds *= factor;
    curves.productCallSeconds *= factor;
    curves.collectiveSeconds *= factor;
  }
  double left = curves.hostMemoryBandwidth / static_cast<double>(ranks);
  if (left > 0 && left < shared.memoryBandwidth) { // caches are not shared, so they keep their speed
    curves.cacheSpeedup *= shared.memoryBandwidth / left;
    shared.memoryBandwidth = left;
  }
  return shared;
}

double kerf::computeSeconds(const DeviceSpec &device, const Work &work, AttentionLibrary attention) {
  if (work.kernelClass == KernelClass::Nothing)
    return 0;
  const DeviceCurves &curves = device.curves;
  ComputeEfficiency efficiency = efficiencyOf(device, work.kernelClass, attention);
  double peak = peakFlops(device, work.dtype);
  double compute = work.flops / (efficiency.flops * peak);
  double memory = bytesAsFromMemory(curves, work) / (efficiency.bytes * device.memoryBandwidth);
  bool sized = work.m > 0 && work.n > 0 && work.k > 0;
  if (work.kernelClass == KernelClass::Product && sized)
    compute = curves.processors > 1 ? work.launches * tiledProductSeconds(device, work, peak * curves.sustained)
                                    : coreProductSeconds(curves, work, compute);
  if (work.kernelClass == KernelClass::Attention && work.n > 0)
    compute *= 1 + curves.attentionHalfLength / work.n;
  if (work.kernelClass == KernelClass::Attention && curves.attentionHalfWidth > 0 && work.k > 0)
    compute *= 1 + curves.attentionHalfWidth / work.k;
  return std::max(compute, memory) + work.launches * curves.launchSeconds;
}
