// SPDX-License-Identifier: Apache-2.0
// The share of a device's memory that plans leave free. What an allocator, communication libraries and the driver take
// varies from run to run: plans that fill an accelerator to the last byte run out of memory in practice.
#pragma once

#include "kerf/CostModel/Cluster.h"
#include <optional>

namespace kerf {

inline constexpr double kAcceleratorMargin = 0.05;

/// The share that plans leave free where nobody says otherwise: kAcceleratorMargin, and nothing on CPUs, where the
/// runtime allocates what the plan says.
double defaultMargin(const Device &device);

/// The cluster as plans may fill it: every device has `margin` of its memory less (none given: defaultMargin).
Cluster withMargin(Cluster cluster, std::optional<double> margin);

} // namespace kerf
