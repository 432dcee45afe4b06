// SPDX-License-Identifier: Apache-2.0
// The runtime's devices with whose rules the memory of compiled programs is planned.
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/Runtime/Device.h"

namespace kerf {

/// Returns the hardware for which the memory of programs for the cluster's device is planned: the runtime's device of
/// DeviceSpec::memoryDevice, else of DeviceSpec::kind, or the CPU as an estimate where this build has no device of that
/// kind.
runtime::PlannedHardware hardwareOf(const DeviceSpec &device);
/// Returns a text for reports that says with whose rules the memory is planned: "as the kernels of the device cuda need
/// it".
std::string memoryRulesText(const DeviceSpec &device);

} // namespace kerf
