// SPDX-License-Identifier: Apache-2.0
// kerf profile: measures this machine and writes the measurements as a cluster file.
#include "ProfileCommand.h"
#include "Checks.h"
#include "Command.h"

#include "kerf/CostModel/Compute.h"
#include "kerf/Profile/Profile.h"
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace kerf::tool {

namespace {

constexpr int64_t kMostElements = int64_t(1) << 32; // of a tensor of --kernels
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

/// Returns the median errors of the fitted formulas.
std::string errorsText(const Profile &profile) {
  std::string text = "  median error of the fitted formulas:";
  for (KernelClass kernelClass : {KernelClass::Product, KernelClass::Attention, KernelClass::Pointwise,
                                  KernelClass::Reduction, KernelClass::Gather, KernelClass::Movement})
    text += fmt::format(" {} {:.0f} %,", toString(kernelClass),
                        100 * medianError(profile.cluster.device, profile.kernels, kernelClass));
  return text + fmt::format(" collectives {:.0f} %\n", 100 * medianError(profile.cluster, profile.collectives));
}

std::string acceleratorSummary(const Profile &profile) {
  const DeviceSpec &device = profile.cluster.device;
  const Level &link = profile.cluster.levels.front();
  std::string text = fmt::format("{}\n", profile.cluster.name);
  for (const auto &[dtype, flops] : device.peakFlops)
    text += fmt::format("  {:<5} {:>8.2f} TFLOP/s\n", dtype, flops / 1e12);
  text +=
      fmt::format("  memory {:>7.1f} GB/s; copies from the host {:.1f} GB/s; a kernel of a recorded step {:.2f} us\n",
                  device.memoryBandwidth / 1e9, device.hostBandwidth / 1e9, device.curves.launchSeconds * 1e6);
  if (!profile.collectives.empty())
    text += fmt::format("  link   {:>7.1f} GB/s and {:.1f} us between two\n", link.bandwidth / 1e9, link.latency * 1e6);
  return text + errorsText(profile);
}

std::string summary(const Profile &profile) {
  if (profile.cluster.device.kind != "cpu")
    return acceleratorSummary(profile);
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
  return text + errorsText(profile);
}

/// Reads a size such as "65536x768".
std::optional<RowsOfKernels> parseSize(const std::string &text) {
  RowsOfKernels size;
  char x = 0, rest = 0;
  bool isSize = std::sscanf(text.c_str(), "%" SCNd64 "%c%" SCNd64 "%c", &size.rows, &x, &size.columns, &rest) == 3;
  if (!isSize || x != 'x' || size.rows < 1 || size.columns < 2 || size.rows > kMostElements / size.columns)
    return std::nullopt;
  return size;
}

/// Measures the kernels whose time is that of memory, on tensors of one size after the other, and prints a table.
int printKernels(const std::vector<std::string> &sizes) {
  for (const std::string &text : sizes) {
    auto size = parseSize(text);
    if (!size)
      return fail({fmt::format("--kernels {}: this is no size of a tensor; write rows and columns, such as 65536x768, "
                               "with at most 2^32 elements",
                               text)});
    auto samples = profileRows(*size);
    if (!samples)
      return fail(samples.error());
    const double memory = samples->front().work.bytes / samples->front().seconds;
    fmt::print("bf16 tensors of {} x {}; memory {:.0f} GB/s (an addition of large tensors)\n", size->rows,
               size->columns, memory / 1e9);
    fmt::print("{:<44}{:>10}{:>10}{:>10}{:>8}\n", "kernel", "us", "MB", "GB/s", "share");
    for (const KernelSample &sample : *samples) {
      const double speed = sample.work.bytes / sample.seconds;
      fmt::print("{:<44}{:>10.1f}{:>10.1f}{:>10.0f}{:>8.2f}\n", sample.name, sample.seconds * 1e6,
                 sample.work.bytes / 1e6, speed / 1e9, speed / memory);
    }
  }
  return 0;
}

struct ProfileCommand {
  std::string device = "cpu", output;
  std::vector<std::string> kernels;
  int64_t ranks = 0;
  bool quick = false, json = false;

  int run() {
    if (!kernels.empty())
      return device == "cuda" ? printKernels(kernels)
                              : fail({"--kernels: these kernels are measured on GPUs; add --device cuda"});
    if (output.empty())
      return fail({"-o is missing; give a file for the measured cluster, such as -o here.json"});
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
    auto profile = device == "cpu" ? profileCpu(options) : profileAccelerators(device, options);
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

void setUpProfileCommand(CLI::App &app, int &status) {
  auto command = attachCommand<ProfileCommand>(app, status);
  app.add_option("--device", command->device, "device to measure: cpu, cuda for NVIDIA GPUs, or ascend for Ascend NPUs")
      ->check(CLI::IsMember({"cpu", "cuda", "ascend"}))
      ->capture_default_str();
  app.add_option("--ranks", command->ranks,
                 "number of ranks that the cluster file describes, 1 to 4096 (default: the number of cores, but at "
                 "least 4; with cuda and "
                 "ascend, the number of GPUs or NPUs)")
      ->check(wholeNumber(1, kMostRanks));
  app.add_option("-o", command->output, "file for the measured cluster: cluster.json (required without --kernels)");
  app.add_option("--kernels", command->kernels,
                 "with --device cuda: instead of a cluster file, print how fast the kernels are whose time is that of "
                 "memory, on bf16 tensors of the size ROWSxCOLUMNS, for example 65536x768; may be given several times");
  app.add_flag("--quick", command->quick, "measure for a quarter of the time or less, with less accurate results");
  app.add_flag("--json", command->json,
               "print every measurement, beside the time that the fitted cost model predicts, as JSON");
}

void addProfileCommand(CLI::App &app, int &status) {
  setUpProfileCommand(
      *app.add_subcommand(
          "profile", "Measure the speed of this machine and write it as a cluster file, for --cluster of the other "
                     "commands.\nRun this command when the machine is otherwise idle.\n"
                     "Example: kerf profile -o here.json && kerf plan model.onnx --cluster here.json --ranks 2"),
      status);
}

int runKerfProfile(int argc, char **argv) {
  return runAsProgram(
      "kerf-profile",
      "Measure the speed of this machine and write it as a cluster file. This program is `kerf profile` without "
      "the compiler: a machine needs no MLIR or LLVM for it.\n\n"
      "Example: kerf-profile --device cuda -o here.json",
      setUpProfileCommand, argc, argv);
}

} // namespace kerf::tool
