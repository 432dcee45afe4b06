// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/Units.h"

#include <cmath>
#include <fmt/format.h>

namespace kerf {

std::string secondsText(double seconds) {
  double size = std::abs(seconds);
  if (size >= 1)
    return fmt::format("{:.3f} s", seconds);
  if (size >= 1e-3)
    return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string bytesText(int64_t bytes) {
  constexpr const char *kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double size = static_cast<double>(bytes);
  if (std::abs(size) < 1024)
    return fmt::format("{} B", bytes);
  const char *unit = "";
  for (const char *next : kUnits) {
    if (std::abs(size) < 1024)
      break;
    size /= 1024;
    unit = next;
  }
  return fmt::format("{:.2f} {}", size, unit);
}

std::string bytesText(double bytes) {
  constexpr double kMost = 0x1p63;
  return bytes < kMost ? bytesText(static_cast<int64_t>(std::ceil(bytes))) : "more than 8 EiB";
}

std::string countText(int64_t count, std::string_view noun, std::string_view plural) {
  if (count == 1)
    return fmt::format("1 {}", noun);
  return plural.empty() ? fmt::format("{} {}s", count, noun) : fmt::format("{} {}", count, plural);
}

} // namespace kerf
