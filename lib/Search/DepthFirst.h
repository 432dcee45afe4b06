// SPDX-License-Identifier: Apache-2.0
// Depth-first branch and bound over the buckets' order, last eliminated variable first. Private to Search.
#pragma once

#include "Buckets.h"
#include <limits>

namespace kerf::search {

/// The best choice so far. A search replaces it only by a better one.
struct Incumbent {
  Labels labels;
  double seconds = std::numeric_limits<double>::infinity();
  int64_t peakBytes = std::numeric_limits<int64_t>::max(); // kept by the search for the least peak only
  bool found() const { return !labels.empty() || seconds < std::numeric_limits<double>::infinity(); }
};

enum class Goal {
  Seconds,       // least seconds under the memory rows
  SecondsNoRows, // least seconds, memory rows ignored
  PeakBytes,     // least peak, seconds only need to be finite; ends early at a peak within the limit
};

/// Explores with the tables of the last `buckets.run`. `rootBound` is what that run returned plus all constants, so
/// that it bounds the goal from below. Counts `steps` down; true when the space was exhausted: nothing beats the
/// incumbent.
bool depthFirst(const Network &network, const Buckets &buckets, double rootBound, Goal goal, Incumbent &incumbent,
                int64_t &steps);

} // namespace kerf::search
