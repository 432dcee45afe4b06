// SPDX-License-Identifier: Apache-2.0
// The key "codecs" of a device in a cluster file: measured speeds of gradient codecs.
#pragma once

#include "kerf/CostModel/Cluster.h"
#include <nlohmann/json.hpp>

namespace kerf {

/// Reads the value of the key into `device`. Returns what is wrong with it, or "".
std::string readCodecCurves(const nlohmann::ordered_json &json, DeviceSpec &device);
/// Returns the value of the key; readCodecCurves reads it back to equal speeds.
nlohmann::ordered_json codecCurvesJson(const DeviceSpec &device);

} // namespace kerf
