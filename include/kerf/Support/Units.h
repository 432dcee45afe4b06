// SPDX-License-Identifier: Apache-2.0
// Formats bytes, seconds and counts for messages and reports.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kerf {

inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0; // bytes of one GiB

/// Returns a duration as text in seconds, milliseconds or microseconds, for example "3.121 s", "12.500 ms", "7.3 us".
std::string secondsText(double seconds);
/// Returns a number of bytes as text, in the largest binary unit that does not exceed it: "80.00 GiB", "512 B".
std::string bytesText(int64_t bytes);
/// Returns a number of bytes, computed in floating point and rounded up, as text such as "80.00 GiB"; returns "more
/// than 8 EiB" for numbers that do not fit into 64 bits.
std::string bytesText(double bytes);
/// Returns a count with its noun in the singular or plural: "1 rank", "8 ranks". `plural` is the plural of `noun`; the
/// empty string means `noun` with an "s".
std::string countText(int64_t count, std::string_view noun, std::string_view plural = "");

} // namespace kerf
