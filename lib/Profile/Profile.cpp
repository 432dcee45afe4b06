// SPDX-License-Identifier: Apache-2.0
#include "kerf/Profile/Profile.h"
#include "Collectives.h"
#include "KernelTimer.h"

#include "kerf/CostModel/Compute.h"
#include <algorithm>
#include <ctime>
#include <fmt/format.h>
#include <set>
#include <unistd.h>

using namespace kerf;
using namespace kerf::profile;

namespace {

constexpr int64_t kUsualRanks = 4;
// More threads than this give no new information about the memory of one machine.
constexpr int64_t kMostCores = 256;

struct Budget {
  double kernel, together, collective; // seconds of one measurement of each kind
};
Budget budgetOf(ProfileOptions::Effort effort) {
  return effort == ProfileOptions::Effort::Quick ? Budget{0.01, 0.1, 0.05} : Budget{0.05, 0.6, 0.4};
}

/// Returns the processor's name as the system reports it, for example "AMD EPYC".
std::string processorName() {
  std::string name = "CPU";
  if (FILE *file = std::fopen("/proc/cpuinfo", "r")) {
    char line[512];
    while (std::fgets(line, sizeof line, file)) {
      std::string_view text = line;
      size_t colon = text.find(": ");
      if (text.rfind("model name", 0) != 0 || colon == std::string_view::npos)
        continue;
      name = text.substr(colon + 2);
      while (!name.empty() && (name.back() == '\n' || name.back() == ' '))
        name.pop_back();
      break;
    }
    std::fclose(file);
  }
  return name;
}

std::string today() {
  std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

double best(std::span<const KernelSample> samples, KernelClass kernelClass, const std::string &dtype) {
  double most = 0;
  for (const KernelSample &sample : samples)
    if (sample.work.kernelClass == kernelClass && sample.work.dtype == dtype)
      most = std::max(most, sample.work.flops / sample.seconds);
  return most;
}

class Profiler {
public:
  explicit Profiler(const ProfileOptions &options)
      : options(options), budget(budgetOf(options.effort)),
        cores(std::clamp<int64_t>(sysconf(_SC_NPROCESSORS_ONLN), 1, kMostCores)),
        ranks(options.ranks ? options.ranks : std::max(kUsualRanks, cores)) {}

  Result<Profile> run() {
    name();
    for (auto step : {&Profiler::memory, &Profiler::kernels, &Profiler::together, &Profiler::collectives})
      if (Status status = (this->*step)(); !status)
        return status.error();
    fitAll();
    return std::move(profile);
  }

private:
  void name() {
    Cluster &cluster = profile.cluster;
    std::string processor = processorName();
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    cluster.name = fmt::format("{}, {} cores, {} ranks", processor, cores, ranks);
    DeviceSpec &device = cluster.device;
    device.kind = "cpu";
    device.name = fmt::format("one core of {}", processor);
    device.curves = *knownCurves("cpu", device.name);
    int64_t bytes = int64_t(sysconf(_SC_PHYS_PAGES)) * int64_t(sysconf(_SC_PAGESIZE));
    device.memoryBytes = std::max<int64_t>(1, bytes / ranks);
    cluster.levels = {{"threads", ranks, 1e9, 1e-6, 1e9}};
    cluster.usedRanks = ranks;
    cluster.source["device"] = fmt::format("measured by kerf profile on {}: host {}", today(), host);
    cluster.source["device.memory_bytes"] =
        fmt::format("{} bytes of the system, by {} ranks: as many as fit side by side", bytes, ranks);
  }

  Status memory() {
    options.onProgress("memory bandwidth");
    KernelSpec stream = streamSpec();
    auto one = measure(stream, budget.together);
    if (!one)
      return one.error();
    profile.kernels.push_back(*one);
    DeviceSpec &device = profile.cluster.device;
    device.memoryBandwidth = one->work.bytes / one->seconds;
    if (cores == 1) {
      device.curves.hostMemoryBandwidth = device.memoryBandwidth;
      return ok();
    }
    auto all = secondsOfCall(stream, budget.together, static_cast<int>(cores));
    if (!all)
      return all.error();
    device.curves.hostMemoryBandwidth = static_cast<double>(cores) * one->work.bytes / *all;
    return ok();
  }

  Status kernels() {
    KernelClass last = KernelClass::Nothing;
    for (const KernelSpec &spec : kernelSpecs(options.effort)) {
      if (spec.work.kernelClass != last)
        options.onProgress(fmt::format("kernels: {}", toString(spec.work.kernelClass)));
      last = spec.work.kernelClass;
      auto sample = measure(spec, budget.kernel);
      if (!sample)
        return sample.error();
      profile.kernels.push_back(std::move(*sample));
    }
    return ok();
  }

  /// Measures a product that fits into a core's own cache, on one core and on all cores at once.
  Status together() {
    options.onProgress("all cores at once");
    double &host = profile.cluster.device.curves.hostCores;
    host = static_cast<double>(cores);
    if (cores == 1)
      return ok();
    KernelSpec spec = productSpec(256, 256, 256);
    auto one = secondsOfCall(spec, budget.together),
         all = secondsOfCall(spec, budget.together, static_cast<int>(cores));
    if (!one)
      return one.error();
    if (!all)
      return all.error();
    host = std::clamp(host * *one / *all, 1.0, host);
    return ok();
  }

  Status collectives() {
    std::set<int64_t> counts = {std::min<int64_t>(2, ranks), std::min<int64_t>(4, ranks)};
    for (int64_t count : counts) {
      if (count < 2)
        continue;
      options.onProgress(fmt::format("collectives between {} ranks", count));
      for (Collective collective :
           {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll})
        for (int64_t bytes : {int64_t(1) << 10, int64_t(16) << 10, int64_t(256) << 10, int64_t(4) << 20}) {
          auto sample = measureCollective(collective, count, bytes, budget.collective);
          if (!sample)
            return sample.error();
          profile.collectives.push_back(*sample);
        }
    }
    return ok();
  }

  void fitAll() {
    Cluster &cluster = profile.cluster;
    DeviceSpec &device = cluster.device;
    for (const char *dtype : {"f32", "f64", "bf16"})
      device.peakFlops[dtype] = best(profile.kernels, KernelClass::Product, dtype);
    // Caches belong to single cores, so that the peak bandwidth is that of memory.
    fitKernels(device, profile.kernels);
    auto source = [&](const char *key, const std::string &text) {
      cluster.source[key] = fmt::format("measured by kerf profile on {}: {}", today(), text);
    };
    for (KernelClass kernelClass : {KernelClass::Product, KernelClass::Attention, KernelClass::Pointwise,
                                    KernelClass::Reduction, KernelClass::Gather, KernelClass::Movement}) {
      int64_t count = std::count_if(profile.kernels.begin(), profile.kernels.end(),
                                    [&](const KernelSample &sample) { return sample.work.kernelClass == kernelClass; });
      source(fmt::format("device.curves, {}", toString(kernelClass)).c_str(),
             fmt::format("{} kernels, median error {:.1f} %", count,
                         100 * medianError(device, profile.kernels, kernelClass)));
    }
    source("device.peak_flops", "the fastest product of each type");
    source("device.memory_bandwidth", "adding arrays of 32 MiB on one core; host_memory_bandwidth on all at once");
    if (profile.collectives.empty()) {
      cluster.source["levels.threads"] = "not measured: one rank";
      return;
    }
    fitCollectives(cluster, profile.collectives);
    source("levels.threads", fmt::format("{} collectives of 1 KiB to 4 MiB, median error {:.1f} %",
                                         profile.collectives.size(), 100 * medianError(cluster, profile.collectives)));
  }

  const ProfileOptions &options;
  Budget budget;
  int64_t cores, ranks;
  Profile profile;
};

} // namespace

Result<Profile> kerf::profileCpu(const ProfileOptions &options) { return Profiler(options).run(); }
