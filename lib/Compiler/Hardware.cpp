// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/Hardware.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf {

namespace {
bool hasKind(std::string_view kind) {
  auto kinds = runtime::deviceKinds();
  return std::any_of(kinds.begin(), kinds.end(), [&](const auto *one) { return one->kind == kind; });
}
} // namespace

runtime::PlannedHardware hardwareOf(const DeviceSpec &device) {
  runtime::PlannedHardware hardware;
  if (!device.memoryDevice.empty())
    hardware = {device.memoryDevice, device.memoryDevice.starts_with(device.kind) ? device.name : ""};
  else if (hasKind(device.kind))
    hardware = {device.kind, device.name};
  hardware.deterministic = device.memoryDeterministic;
  return hardware;
}

std::string memoryRulesText(const DeviceSpec &device) {
  if (device.memoryDevice.empty() && !hasKind(device.kind))
    return fmt::format("estimated with the CPU's kernels, because Kerf has none for the kind '{}'", device.kind);
  const std::string planned = hardwareOf(device).device;
  return fmt::format("as the kernels of the device {} need it{}", planned.substr(0, planned.find(':')),
                     device.memoryDeterministic ? " in deterministic runs" : "");
}

} // namespace kerf
