// SPDX-License-Identifier: Apache-2.0
// Bytes, seconds and counts as people read them, in messages and reports.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kerf {

inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0; // bytes

/// "3.121 s", "12.500 ms", "7.3 us".
std::string secondsText(double seconds);
/// "80.00 GiB", "512 B": in the largest binary unit of which there is at least one.
std::string bytesText(int64_t bytes);
/// The same for bytes that were computed as a floating-point number; "more than 8 EiB" beyond what 64 bits count.
std::string bytesText(double bytes);
/// "1 rank", "8 ranks". `plural` is for nouns that do not only take an s.
std::string countText(int64_t count, std::string_view noun, std::string_view plural = "");

} // namespace kerf
