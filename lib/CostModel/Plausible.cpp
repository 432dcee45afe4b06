// SPDX-License-Identifier: Apache-2.0
#include "Plausible.h"
#include "kerf/Support/Units.h"

#include <cmath>
#include <fmt/format.h>
#include <iterator>

namespace kerf {

namespace {

constexpr double kMiB = 1024.0 * 1024;

/// A guess at the unit that was meant: values below `below` are probably in `unit`, which is `factor` of
/// the file's unit.
struct Guess {
  double below;
  const char *unit;
  double factor;
};

/// The plausible values of a quantity, from `least` to `most`: a range far wider than that of any device or link today
/// or in the near future.
struct Range {
  const char *unit;
  double least, most;
  Guess small[2]; // units that a value below `least` was probably meant in; the first that fits
  Guess large;    // unit that a value above `most` was probably meant in
};

Range rangeOf(Quantity quantity) {
  switch (quantity) {
  case Quantity::Bytes:
    return {"bytes", 65536, 1e15, {{4096, "GiB", kGiB}, {65536, "MiB", kMiB}}, {0, "", 0}};
  case Quantity::BytesPerSecond:
    return {"bytes/s", 1e5, 1e16, {{1e4, "GB/s", 1e9}, {1e5, "MB/s", 1e6}}, {0, "", 0}};
  case Quantity::FlopPerSecond:
    return {"FLOP/s", 1e6, 1e18, {{1e5, "TFLOP/s", 1e12}, {1e6, "GFLOP/s", 1e9}}, {0, "", 0}};
  case Quantity::Seconds:
    return {"seconds", 0, 0.5, {{0, "", 0}, {0, "", 0}}, {1e5, "microseconds", 1e-6}};
  }
  return {};
}

} // namespace

std::string implausible(Quantity quantity, const std::string &key, double value) {
  Range range = rangeOf(quantity);
  if (value >= range.least && value <= range.most)
    return "";
  std::string text = fmt::format("{} is {} {}, which no device or link has ({} to {}); the file's unit is {}", key,
                                 value, range.unit, range.least, range.most, range.unit);
  if (quantity == Quantity::Seconds)
    text = fmt::format("{} is {} seconds, which no device or link takes (at most {}); the file's unit is seconds", key,
                       value, range.most);
  if (value > range.most && value < range.large.below)
    return text + fmt::format(": write {:.4g} for {:g} {}", value * range.large.factor, value, range.large.unit);
  if (value < range.least)
    for (const Guess &guess : range.small)
      if (value < guess.below)
        return text + fmt::format(": write {:.15g} for {:g} {}", value * guess.factor, value, guess.unit);
  return text;
}

} // namespace kerf
