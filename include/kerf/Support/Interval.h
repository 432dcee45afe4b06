// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace kerf {

/// A range that holds a measured value in 80 % of all cases.
struct Interval {
  double low = 0, high = 0;
  bool operator==(const Interval &) const = default;
};

} // namespace kerf
