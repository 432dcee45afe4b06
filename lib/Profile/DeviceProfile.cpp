// SPDX-License-Identifier: Apache-2.0
// The profile of accelerators: NVIDIA GPUs and Ascend NPUs. Kernels of each kind grow until one call would take long,
// so that the profile of a slow device ends soon too.
#include "Collectives.h"
#include "DeviceTimer.h"
#include "kerf/CostModel/Compute.h"
#include "kerf/Runtime/Ascend/Properties.h"
#include "kerf/Runtime/Cuda/Properties.h"

#include <algorithm>
#include <ctime>
#include <fmt/format.h>
#include <map>
#include <unistd.h>
#include <utility>

using namespace kerf;
using namespace kerf::profile;

namespace {

constexpr double kLongestCall = 0.1; // seconds; a call that is expected to take longer is not measured

/// A kind of accelerators.
struct Accelerators {
  const char *kind;           // as --device and cluster files name it
  const char *one, *level;    // in messages; the name of the cluster's level between them
  const char *communication;  // the library of collectives
  Result<int64_t> (*count)(); // how many this machine has
  Result<runtime::DeviceProperties> (*properties)(int number);
};
constexpr Accelerators kAccelerators[] = {
    {"cuda", "GPU", "gpus", "NCCL", runtime::gpuCount, runtime::gpuProperties},
    {"ascend", "NPU", "npus", "HCCL", runtime::npuCount, runtime::npuProperties},
};

constexpr double kContextGuess = 1.5 * 1024 * 1024 * 1024;

std::string today() {
  std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

class DeviceProfiler {
public:
  DeviceProfiler(const Accelerators &kind, const ProfileOptions &options)
      : kind(kind), options(options), budget(options.effort == ProfileOptions::Effort::Quick ? 0.02 : 0.2) {}

  Result<Profile> run() {
    for (auto step : {&DeviceProfiler::describe, &DeviceProfiler::kernels, &DeviceProfiler::collectives})
      if (Status status = (this->*step)(); !status)
        return status.error();
    fitAll();
    return std::move(profile);
  }

private:
  Status describe() {
    auto count = kind.count();
    if (!count)
      return count.error();
    ranks = options.ranks ? options.ranks : *count;
    if (ranks < 1 || ranks > *count)
      return Error{fmt::format("<ranks> is {0}, but this machine has {1} {2}s; give at most as many ranks as {2}s",
                               ranks, *count, kind.one),
                   ExitStatus::Infeasible};
    auto found = kind.properties(0);
    if (!found)
      return found.error();
    halfType = found->halfType;
    Cluster &cluster = profile.cluster;
    DeviceSpec &device = cluster.device;
    cluster.name = fmt::format("{} x {}", ranks, found->name);
    device.kind = kind.kind;
    device.name = found->name;
    device.memoryBytes = found->memoryBytes;
    auto known = knownCurves(device.kind, device.name);
    device.curves = known.value_or(DeviceCurves{});
    device.curves.processors = double(found->processors);
    if (!known) {
      device.curves.productQuantization = 0.25;
      device.curves.productOverheadK = 100;
      device.curves.attentionHalfLength = 1000;
      device.curves.collectiveSeconds = 1e-5;
      device.curves.contextBytes = kContextGuess;
    }
    cluster.levels = {{kind.level, ranks, 1e9, 1e-6, 1e9}};
    cluster.usedRanks = ranks;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    source("device", fmt::format("{} 0 of host {}", kind.one, host));
    cluster.source["device.curves, not measured"] =
        fmt::format("context_bytes is {}", known ? "Kerf's for this product" : "a guess");
    return ok();
  }

  Status kernels() {
    auto device = runtime::createDevice(fmt::format("{}:0", kind.kind));
    if (!device)
      return device.error();
    options.onProgress("launches and copies");
    auto launches = measureLaunches(**device, budget);
    if (!launches)
      return launches.error();
    DeviceSpec &spec = profile.cluster.device;
    spec.curves.launchSeconds = std::min(launches->recorded.value_or(launches->single), 0.1);
    source("device.curves, launch_seconds",
           launches->recorded
               ? fmt::format("an addition of 32 numbers in a recording of 100; {:.3g} s where they are enqueued "
                             "one by one",
                             launches->single)
               : "an addition of 32 numbers, enqueued one by one");
    auto copies = measureHostCopies(**device, int64_t(64) << 20, budget);
    if (!copies)
      return copies.error();
    spec.hostBandwidth = *copies;
    source("device.host_bandwidth", "copies of 64 MiB from locked memory");
    // The amounts of work per second of the last measured kernel of an operator and type, and of products of a type.
    std::map<std::string, double> rates, products;
    KernelClass last = KernelClass::Nothing;
    for (const KernelSpec &kernel : deviceKernelSpecs(halfType)) {
      if (kernel.work.kernelClass != last)
        options.onProgress(fmt::format("kernels: {}", toString(kernel.work.kernelClass)));
      last = kernel.work.kernelClass;
      double amount = std::max(kernel.work.flops, sampleOf(kernel, 1).work.bytes);
      double &rate = rates[kernel.op + kernel.work.dtype];
      double expected = rate > 0 ? rate : kernel.work.flops == amount ? products[kernel.work.dtype] : 0;
      if (expected > 0 && amount / expected > kLongestCall) // only products reach this rate
        continue;
      auto sample = measureOnDevice(**device, kernel, budget / 4);
      if (!sample)
        return sample.error();
      rate = amount / sample->seconds;
      if (kernel.work.kernelClass == KernelClass::Product)
        products[kernel.work.dtype] = rate;
      profile.kernels.push_back(std::move(*sample));
    }
    return sustained(**device);
  }

  /// Measures how much slower products become while they keep the GPU busy, because it warms up and reaches the limit
  /// of its power.
  Status sustained(runtime::Device &device) {
    constexpr double kSeconds = 2, kLongest = 0.02; // of all calls, and of one
    const KernelSample *largest = nullptr;
    for (const KernelSample &sample : profile.kernels)
      if (sample.work.kernelClass == KernelClass::Product && sample.work.dtype == toString(DType::BF16) &&
          (!largest || sample.work.flops > largest->work.flops))
        largest = &sample;
    if (!largest || largest->seconds > kLongest)
      return ok(); // no device that becomes slower
    const Work &work = largest->work;
    options.onProgress("products for a longer time");
    auto ratio =
        measureSustained(device, productSpec(int64_t(work.m), int64_t(work.n), int64_t(work.k), DType::BF16), kSeconds);
    if (!ratio)
      return ratio.error();
    profile.cluster.device.curves.sustained = *ratio;
    source("device.curves, sustained",
           fmt::format("a product of {} x {} x {} in bf16, after {} s, and when the GPU is cool", work.m, work.n,
                       work.k, kSeconds));
    return ok();
  }

  Status collectives() {
    if (ranks < 2)
      return ok();
    options.onProgress(fmt::format("collectives between {} {}s", ranks, kind.one));
    for (Collective collective :
         {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll}) {
      double rate = 0;
      for (int64_t bytes = int64_t(4) << 10; bytes <= int64_t(256) << 20; bytes *= 16) {
        if (rate > 0 && double(bytes) / rate > kLongestCall)
          break;
        auto sample = measureOnDevices(kind.kind, collective, ranks, bytes, budget);
        if (!sample)
          return sample.error();
        rate = sample->bytes / sample->seconds;
        profile.collectives.push_back(*sample);
      }
    }
    return ok();
  }

  void fitAll() {
    Cluster &cluster = profile.cluster;
    DeviceSpec &device = cluster.device;
    for (const KernelSample &sample : profile.kernels) {
      if (sample.work.kernelClass == KernelClass::Product) {
        double &peak = device.peakFlops[sample.work.dtype];
        peak = std::max(peak, sample.work.flops / sample.seconds);
      }
      if (sample.work.kernelClass == KernelClass::Pointwise && sample.name.starts_with("add "))
        device.memoryBandwidth = std::max(device.memoryBandwidth, sample.work.bytes / sample.seconds);
    }
    source("device.peak_flops", "the fastest product of each type; a data sheet's numbers are higher");
    source("device.memory_bandwidth", "the fastest addition of two tensors");
    double sustained = std::exchange(device.curves.sustained, 1.0); // the kernels were measured one by one
    fitDeviceKernels(device, profile.kernels);
    device.curves.sustained = sustained;
    for (KernelClass kernelClass : {KernelClass::Product, KernelClass::Attention, KernelClass::Pointwise,
                                    KernelClass::Reduction, KernelClass::Gather, KernelClass::Movement})
      source(fmt::format("device.curves, {}", toString(kernelClass)),
             fmt::format("median error {:.1f} %", 100 * medianError(device, profile.kernels, kernelClass)));
    const std::string levelKey = fmt::format("levels.{}", kind.level);
    if (profile.collectives.empty()) {
      cluster.source[levelKey] = fmt::format("not measured: one {}", kind.one);
      return;
    }
    fitCollectives(cluster, profile.collectives);
    source(levelKey, fmt::format("{} collectives of {}, median error {:.1f} %", profile.collectives.size(),
                                 kind.communication, 100 * medianError(cluster, profile.collectives)));
  }

  void source(const std::string &key, const std::string &text) {
    profile.cluster.source[key] = fmt::format("measured by kerf profile on {}: {}", today(), text);
  }

  const Accelerators &kind;
  const ProfileOptions &options;
  double budget; // seconds for the measurement of a collective; a kernel takes a quarter
  int64_t ranks = 1;
  DType halfType = DType::BF16;
  Profile profile;
};

} // namespace

Result<std::vector<KernelSample>> kerf::profileRows(const RowsOfKernels &size) {
  constexpr double kSecondsOfEach = 0.05;
  auto device = runtime::createDevice("cuda:0");
  if (!device)
    return device.error();
  std::vector<KernelSpec> specs = rowKernelSpecs(size.rows, size.columns, DType::BF16);
  specs.insert(specs.begin(), streamSpec());
  std::vector<KernelSample> samples;
  for (const KernelSpec &spec : specs) {
    auto sample = measureOnDevice(**device, spec, kSecondsOfEach);
    if (!sample)
      return sample.error();
    samples.push_back(std::move(*sample));
  }
  return samples;
}

Result<Profile> kerf::profileAccelerators(std::string_view name, const ProfileOptions &options) {
  for (const Accelerators &kind : kAccelerators)
    if (kind.kind == name)
      return DeviceProfiler(kind, options).run();
  return Error{
      fmt::format("there are no accelerators of the kind '{}' to measure; give the kind cuda or ascend", name)};
}
