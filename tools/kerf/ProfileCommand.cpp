// SPDX-License-Identifier: Apache-2.0
// kerf profile: measures this machine and writes the measurements as a cluster file.
#include "Checks.h"
#include "Options.h"

#include "kerf/CostModel/Compute.h"
#include "kerf/Profile/Profile.h"
#include <chrono>
#include <filesystem>
#include <fmt/core.h>

namespace kerf::tool {

namespace {

constexpr int64_t kMostRanks = 4096; // ranks are threads of one process while the collectives are measured

nlohmann::ordered_json samplesJson(const Profile &profile) {
  nlohmann::ordered_json json;
  json["kernels"] = nlohmann::ordered_json::array();
  for (const KernelSample &sample : profile.kernels)
    json["kernels"].push_back({{"name", sample.name},
                               {"class", toString(sample.work.kernelClass)},
                               {"flops", sample.work.flops},
                               {"bytes", sample.work.bytes},
                               {"seconds", sample.seconds},
                               {"predicted_seconds", computeSeconds(profile.cluster.device, sample.work)}});
  json["collectives"] = nlohmann::ordered_json::array();
  for (const CollectiveSample &sample : profile.collectives)
    json["collectives"].push_back({{"name", toString(sample.collective)},
                                   {"ranks", sample.ranks},
                                   {"bytes", sample.bytes},
                                   {"seconds", sample.seconds},
                                   {"predicted_seconds", predictedSeconds(profile.cluster, sample)}});
  return json;
}

std::string summary(const Profile &profile) {
  const DeviceSpec &device = profile.cluster.device;
  const Level &threads = profile.cluster.levels.front();
  std::string text = fmt::format("{}\n", profile.cluster.name);
  for (const auto &[dtype, flops] : device.peakFlops)
    text += fmt::format("  {:<5} {:>8.1f} GFLOP/s a core\n", dtype, flops / 1e9);
  text += fmt::format("  memory {:>7.1f} GB/s a core, {:.1f} in all; {:.1f} times that up to {:.2f} MB a kernel\n",
                      device.memoryBandwidth / 1e9, device.curves.hostMemoryBandwidth / 1e9, device.curves.cacheSpeedup,
                      device.curves.cacheBytes / 1e6);
  text +=
      fmt::format("  ranks  {:>7.1f} GB/s and {:.1f} us between two\n", threads.bandwidth / 1e9, threads.latency * 1e6);
  text += fmt::format("  cores  {:>7.2f} that compute at once\n", device.curves.hostCores);
  text += "  median error of the fitted formulas:";
  for (KernelClass kernelClass : {KernelClass::Product, KernelClass::Attention, KernelClass::Pointwise,
                                  KernelClass::Reduction, KernelClass::Gather, KernelClass::Movement})
    text +=
        fmt::format(" {} {:.0f} %,", toString(kernelClass), 100 * medianError(device, profile.kernels, kernelClass));
  return text + fmt::format(" collectives {:.0f} %\n", 100 * medianError(profile.cluster, profile.collectives));
}

struct ProfileCommand {
  std::string device = "cpu", output;
  int64_t ranks = 0;
  bool quick = false, json = false;

  int run() {
    if (device != "cpu")
      return fail({fmt::format("--device {}: this kerf was built without {}; build it on a machine with the device's "
                               "toolkit, or write the cluster file by hand (clusters/ has ready ones)",
                               device, device == "cuda" ? "CUDA" : "Ascend's CANN")});
    // This is checked before the measurements, which take a minute.
    std::filesystem::path folder = std::filesystem::absolute(output).parent_path();
    if (std::error_code code; !std::filesystem::is_directory(folder, code))
      return fail({fmt::format("-o {}: the folder '{}' does not exist; create it first", output, folder.string())});
    auto start = std::chrono::steady_clock::now();
    auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
    ProfileOptions options;
    options.ranks = ranks;
    options.effort = quick ? ProfileOptions::Effort::Quick : ProfileOptions::Effort::Full;
    options.onProgress = [&](const std::string &what) { fmt::print(stderr, "{:5.1f} s  {}\n", seconds(), what); };
    auto profile = profileCpu(options);
    if (!profile)
      return fail(profile.error());
    if (Status status = writeCluster(profile->cluster, output); !status)
      return fail(status.error());
    fmt::print(stderr, "{:5.1f} s  wrote {}\n", seconds(), output);
    if (json)
      fmt::print("{}\n", samplesJson(*profile).dump(2));
    else
      fmt::print("{}", summary(*profile));
    return 0;
  }
};

} // namespace

void addProfileCommand(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<ProfileCommand>(
      app, "profile",
      "Measure the speed of this machine and write it as a cluster file, for --cluster of the other commands.\n"
      "Run this command when the machine is otherwise idle.\n"
      "Example: kerf profile -o here.json && kerf plan model.onnx --cluster here.json --ranks 2",
      status);
  sub->add_option("--device", command->device,
                  "device to measure: cpu, or cuda or ascend where kerf was built with their toolkits")
      ->check(CLI::IsMember({"cpu", "cuda", "ascend"}))
      ->capture_default_str();
  sub->add_option(
         "--ranks", command->ranks,
         "number of ranks that the cluster file describes, 1 to 4096 (default: the number of cores, but at least 4)")
      ->check(wholeNumber(1, kMostRanks));
  sub->add_option("-o", command->output, "file for the measured cluster: cluster.json")->required();
  sub->add_flag("--quick", command->quick,
                "measure for less than 15 seconds instead of 60, with less accurate results");
  sub->add_flag("--json", command->json,
                "print every measurement, beside the time that the fitted cost model predicts, as JSON");
}

} // namespace kerf::tool
