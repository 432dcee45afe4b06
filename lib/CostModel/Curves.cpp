// SPDX-License-Identifier: Apache-2.0
// Efficiency curves of known devices, fitted to micro-benchmarks one device at a time (docs/cost-model.md, section
// Curves, names the rows). A device that is not in the table must be described in its cluster file.
#include "kerf/CostModel/Cluster.h"
#include "kerf/Support/Units.h"
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace kerf;

namespace {

struct Row {
  std::string_view kind, prefix; // the beginning of device.name; "": any name
  DeviceCurves curves;
  /// Shares of peak FLOP/s of the vendor's attention and of batched products without matrix units, and the host's time
  /// to issue a kernel relative to that of a DGX A100.
  double vendorAttention = 0, unalignedProducts = 1, issueScale = 1;
};

// Columns of the curves: processors; product efficiency, overhead k and quantization; attention efficiency and half
// length; memory efficiency; launch seconds; collective seconds; sustained clock; context bytes.
const Row kDevices[] = {
    {"cuda", "V100", {80, 0.86, 127, 0.25, 0.30, 750, 0.80, 2.5e-6, 8e-6, 0.95, 1.2 * kGiB}, 0, 0.14, 1},
    {"cuda", "T4", {40, 0.40, 127, 0.25, 0.25, 750, 0.69, 2.5e-6, 8e-6, 0.70, 1.0 * kGiB}, 0, 0.14, 1},
    {"cuda", "A100", {108, 0.833, 127, 0.25, 0.34, 750, 0.80, 2e-6, 8e-6, 0.93, 1.5 * kGiB}, 0.49, 0.07, 1},
    {"cuda", "H100", {132, 0.753, 92, 0.0, 0.20, 1550, 0.80, 1.5e-6, 4.5e-6, 0.88, 1.7 * kGiB}, 0.40, 0.076, 0.76},
    {"cuda", "H800", {132, 0.753, 92, 0.0, 0.20, 1550, 0.80, 1.5e-6, 4.5e-6, 0.88, 1.7 * kGiB}, 0.40, 0.076, 0.76},
    {"cuda", "H200", {132, 0.815, 120, 0.02, 0.20, 1550, 0.80, 1.5e-6, 4.5e-6, 0.88, 1.7 * kGiB}, 0.40, 0.076, 0.76},
    {"cuda", "B200", {148, 0.671, 6, 0.05, 0.20, 1550, 0.80, 1.5e-6, 6.6e-6, 0.88, 2.0 * kGiB}, 0.40, 0.076, 0.76},
    {"ascend", "Ascend 910B", {24, 0.75, 127, 0.25, 0.30, 750, 0.80, 4.5e-6, 8e-6, 0.93, 2.0 * kGiB}},
    {"ascend", "Ascend 910A", {32, 0.65, 127, 0.25, 0.30, 750, 0.80, 4.5e-6, 8e-6, 0.93, 2.0 * kGiB}},
    // One core: oneDNN's products reach the stated peak_flops; other loops are vectorized only in part by the compiler.
    {"cpu", "", {1, 0.9, 0, 0, 0.3, 0, 0.6, 1e-6, 2e-6, 1, 0, 0.8, 0.5, 0.3, 0.5, 0.02, 0.01}},
};

} // namespace

std::optional<DeviceCurves> kerf::knownCurves(std::string_view kind, std::string_view name) {
  for (const Row &row : kDevices)
    if (row.kind == kind && name.starts_with(row.prefix)) {
      DeviceCurves curves = row.curves;
      curves.vendorAttention = row.vendorAttention;
      curves.unalignedProducts = row.unalignedProducts;
      curves.issueScale = row.issueScale;
      return curves;
    }
  return std::nullopt;
}

std::string kerf::knownDevices() {
  std::vector<std::pair<std::string_view, std::vector<std::string_view>>> kinds;
  for (const Row &row : kDevices) {
    if (kinds.empty() || kinds.back().first != row.kind)
      kinds.emplace_back(row.kind, std::vector<std::string_view>());
    if (!row.prefix.empty())
      kinds.back().second.push_back(row.prefix);
  }
  std::vector<std::string> texts;
  for (const auto &[kind, names] : kinds)
    texts.push_back(names.empty() ? std::string(kind) : fmt::format("{} ({})", kind, fmt::join(names, ", ")));
  return fmt::format("{}", fmt::join(texts, ", "));
}
