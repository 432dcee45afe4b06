// SPDX-License-Identifier: Apache-2.0
#include "kerf/CostModel/Margin.h"

#include <cmath>

namespace kerf {

double defaultMargin(const DeviceSpec &device) { return device.kind == "cpu" ? 0 : kAcceleratorMargin; }

Cluster withMargin(Cluster cluster, std::optional<double> margin) {
  for (Cluster &group : cluster.groups)
    group = withMargin(std::move(group), margin);
  double share = 1 - margin.value_or(defaultMargin(cluster.device));
  cluster.device.memoryBytes =
      static_cast<int64_t>(std::floor(share * static_cast<double>(cluster.device.memoryBytes)));
  return cluster;
}

} // namespace kerf
