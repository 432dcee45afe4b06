// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/ByteCount.h"

#include <algorithm>
#include <charconv>

namespace kerf {

namespace {

struct ByteUnit {
  std::string_view name;
  double bytes;
};
constexpr ByteUnit kByteUnits[] = {{"", 1},         {"B", 1},        {"kB", 1e3},    {"KB", 1e3},
                                   {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},   {"KiB", 0x1p10},
                                   {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
constexpr double kMostBytes = 0x1p62;

} // namespace

std::optional<int64_t> byteCountFrom(std::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789.+-eE"), text.size());
  std::string_view unit = text.substr(end), digits = text.substr(0, end);
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  if (digits.starts_with('+'))
    digits.remove_prefix(1);
  double number = 0;
  auto [last, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (code != std::errc() || last != digits.data() + digits.size())
    return std::nullopt;
  for (const ByteUnit &known : kByteUnits)
    if (unit == known.name && number * known.bytes >= 1 && number * known.bytes <= kMostBytes)
      return static_cast<int64_t>(number * known.bytes);
  return std::nullopt;
}

} // namespace kerf
