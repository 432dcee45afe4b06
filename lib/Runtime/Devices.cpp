// SPDX-License-Identifier: Apache-2.0
// The kinds of devices in this build. CMakeLists.txt generates Devices.inc from the list KERF_DEVICES.
#include "kerf/Runtime/Device.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::runtime {

#define KERF_DEVICE(folder) extern const DeviceKind k##folder##Device;
#include "Devices.inc"
#undef KERF_DEVICE

namespace {
constexpr const DeviceKind *kKinds[] = {
#define KERF_DEVICE(folder) &k##folder##Device,
#include "Devices.inc"
#undef KERF_DEVICE
};

/// A kind of device and its parameter.
struct Choice {
  const DeviceKind *kind;
  std::string parameter;
};

/// Parses "KIND" or "KIND:PARAMETER", with the default kind and parameter filled in.
Result<Choice> choiceOf(std::string_view chosen) {
  if (chosen == kDefaultDevice)
    chosen = kKinds[0]->kind;
  size_t colon = chosen.find(':');
  std::string_view name = chosen.substr(0, colon);
  auto found = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto *kind) { return kind->kind == name; });
  if (found == std::end(kKinds)) {
    std::vector<std::string> known;
    for (const DeviceKind *kind : kKinds)
      known.push_back(fmt::format("'{}' ({})", kind->kind, kind->what));
    return Error{fmt::format("there is no device '{}'; this build has {}", name, fmt::join(known, ", "))};
  }
  Choice choice{*found, colon == std::string_view::npos ? "" : std::string(chosen.substr(colon + 1))};
  if (colon != std::string_view::npos && !choice.kind->chooseParameter)
    return Error{
        fmt::format("the device '{}' takes no parameter, but '{}' is given; write '{}'", name, choice.parameter, name)};
  if (choice.parameter.empty() && choice.kind->chooseParameter)
    choice.parameter = choice.kind->chooseParameter();
  return choice;
}
} // namespace

std::span<const DeviceKind *const> deviceKinds() { return kKinds; }

Result<std::string> resolveDevice(std::string_view chosen) {
  auto choice = choiceOf(chosen);
  if (!choice)
    return choice.error();
  std::string kind(choice->kind->kind);
  return choice->parameter.empty() ? kind : fmt::format("{}:{}", kind, choice->parameter);
}

Result<std::unique_ptr<Device>> createDevice(std::string_view chosen, DeviceOptions options) {
  auto choice = choiceOf(chosen);
  if (!choice)
    return choice.error();
  if (options.tf32 && !choice->kind->hasTf32)
    return Error{
        fmt::format("the device '{}' cannot round to TF32, the float32 of 10 bits that GPUs multiply fast; leave "
                    "<tf32> out, or choose another device",
                    choice->kind->kind)};
  options.parameter = choice->parameter;
  return choice->kind->create(options);
}

Result<std::unique_ptr<Device>> createPlanningDevice(const PlannedHardware &hardware) {
  auto choice = choiceOf(hardware.device);
  if (!choice)
    return choice.error();
  return choice->kind->plan ? choice->kind->plan(hardware.product) : createDevice(hardware.device);
}

} // namespace kerf::runtime
