// SPDX-License-Identifier: Apache-2.0
// The share of device memory that plans leave free. Allocator, communication libraries and driver use an amount that
// varies from run to run, so a plan that fills an accelerator to the last byte runs out of memory in practice.
#pragma once

#include "kerf/CostModel/Cluster.h"
#include <optional>

namespace kerf {

/// Share of an accelerator's memory that plans leave free by default.
inline constexpr double kAcceleratorMargin = 0.05;

/// Returns the share of the device's memory that plans leave free by default: kAcceleratorMargin on accelerators, and 0
/// on CPUs, where the runtime allocates exactly what the plan says.
double defaultMargin(const DeviceSpec &device);

/// Returns `cluster` with the memory of every device reduced by the share `margin`, from 0 to 1; without a margin each
/// device is reduced by its defaultMargin.
Cluster withMargin(Cluster cluster, std::optional<double> margin);

} // namespace kerf
