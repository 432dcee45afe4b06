// SPDX-License-Identifier: Apache-2.0
#include "kerf/CostModel/Dtypes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

Status checkDtype(const Cluster &cluster, std::string_view dtype) {
  for (const Cluster &group : cluster.groups)
    if (Status status = checkDtype(group, dtype); !status)
      return Error{fmt::format("cluster '{}': {}", cluster.name, status.error().message)};
  const DeviceSpec &device = cluster.device;
  if (cluster.mixed() || device.kind == "cpu" || device.peakFlops.contains(std::string(dtype)))
    return ok();
  std::vector<std::string> has;
  for (const auto &[name, flops] : device.peakFlops)
    if (name != "tf32") // a mode in which f32 products may be computed, not an element type of models
      has.push_back(name);
  return Error{fmt::format("device '{}' does not compute in {}: its peak_flops has {}; give <dtype> {}, or add "
                           "peak_flops.{} to the cluster file if the device has it",
                           device.name.empty() ? device.kind : device.name, dtype, fmt::join(has, ", "),
                           dtype == "f8" && device.peakFlops.contains("bf16")    ? "bf16"
                           : dtype == "bf16" && device.peakFlops.contains("f16") ? "f16"
                           : has.empty()                                         ? "another"
                                                                                 : has.back(),
                           dtype)};
}

} // namespace kerf
