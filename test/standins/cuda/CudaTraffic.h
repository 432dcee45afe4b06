// SPDX-License-Identifier: Apache-2.0
// The memory traffic of all launches of the process.
#pragma once

#include "PtxTraffic.h"

#include <string>

namespace kerf::standin::cuda {

/// Returns whether launches count their traffic, which makes them several times slower.
bool countsTraffic();
/// Adds the traffic of one launch.
void addTraffic(const std::string &kernel, const ptx::TrafficCounter &counter);

} // namespace kerf::standin::cuda
