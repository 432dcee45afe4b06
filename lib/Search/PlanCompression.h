// SPDX-License-Identifier: Apache-2.0
// The key "compression" of plan.json.
#pragma once

#include "kerf/Search/Plan.h"

namespace kerf {

/// Reads the value of the key. Returns what is wrong with it, or "".
std::string readCompression(const nlohmann::ordered_json &json, std::vector<CompressionPin> &pins);
/// Returns the value of the key; readCompression reads it back to equal pins.
nlohmann::ordered_json compressionJson(const std::vector<CompressionPin> &pins);

} // namespace kerf
