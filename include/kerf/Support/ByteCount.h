// SPDX-License-Identifier: Apache-2.0
// Reads numbers of bytes that people write: "85899345920", "80GiB", "80 GB".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kerf {

/// Returns the number of bytes that `text` stands for, with or without a unit, from 1 to 2^62. Returns nothing for any
/// other text.
std::optional<int64_t> byteCountFrom(std::string_view text);

} // namespace kerf
