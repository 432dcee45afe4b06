// SPDX-License-Identifier: Apache-2.0
// What known devices reach of their peaks. Fitted to micro-benchmarks, one device at a time (docs/cost-model.md,
// section Constants, says which rows); a device that is not in the table takes its kind's line.
#include "kerf/CostModel/Cluster.h"
#include <algorithm>

using namespace kerf;

namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

struct Row {
  const char *prefix; // of device.name
  DeviceCurves curves;
};

//   processors, product: efficiency, overhead k, quantization; attention: efficiency, half length;
//   memory, launch s, issue s, collective s, sustained, context bytes
constexpr double kIssue = 56e-6; // eager PyTorch and Megatron-LM, Python included
const Row kDevices[] = {
    {"V100", {80, 0.86, 127, 0.25, 0.30, 750, 0.80, 2.5e-6, kIssue, 8e-6, 0.95, 1.2 * kGiB}},
    {"T4", {40, 0.60, 127, 0.25, 0.25, 750, 0.80, 2.5e-6, kIssue, 8e-6, 0.70, 1.0 * kGiB}},
    {"A100", {108, 0.833, 127, 0.25, 0.34, 750, 0.80, 2e-6, kIssue, 8e-6, 0.93, 1.5 * kGiB}},
    {"H100", {132, 0.753, 92, 0.0, 0.20, 1550, 0.80, 1.5e-6, kIssue, 4.5e-6, 0.88, 1.7 * kGiB}},
    {"H800", {132, 0.753, 92, 0.0, 0.20, 1550, 0.80, 1.5e-6, kIssue, 4.5e-6, 0.88, 1.7 * kGiB}},
    {"H200", {132, 0.815, 120, 0.02, 0.20, 1550, 0.80, 1.5e-6, kIssue, 4.5e-6, 0.88, 1.7 * kGiB}},
    {"B200", {148, 0.671, 6, 0.05, 0.20, 1550, 0.80, 1.5e-6, kIssue, 6.6e-6, 0.88, 2.0 * kGiB}},
    {"Ascend 910B", {24, 0.75, 127, 0.25, 0.30, 750, 0.80, 4.5e-6, kIssue, 8e-6, 0.93, 2.0 * kGiB}},
    {"Ascend 910A", {32, 0.65, 127, 0.25, 0.30, 750, 0.80, 4.5e-6, kIssue, 8e-6, 0.93, 2.0 * kGiB}},
};
const DeviceCurves kCuda = {108, 0.80, 127, 0.25, 0.34, 750, 0.80, 2e-6, kIssue, 6e-6, 0.93, 1.5 * kGiB};
const DeviceCurves kAscend = {24, 0.70, 127, 0.25, 0.30, 750, 0.80, 4.5e-6, kIssue, 8e-6, 0.93, 2.0 * kGiB};
// One core: oneDNN's products are what peak_flops states; loops that the compiler vectorizes in part.
const DeviceCurves kCpu = {1, 0.9, 0, 0, 0.3, 0, 0.6, 1e-6, 0, 2e-6, 1, 0, 0.8, 0.5, 0.3, 0.5, 0.02, 0.01};

} // namespace

DeviceCurves kerf::defaultCurves(const std::string &kind, const std::string &name) {
  for (const Row &row : kDevices)
    if (name.rfind(row.prefix, 0) == 0)
      return row.curves;
  return kind == "cuda" ? kCuda : kind == "ascend" ? kAscend : kCpu;
}
