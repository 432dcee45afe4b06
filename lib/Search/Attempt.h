// SPDX-License-Identifier: Apache-2.0
// One core, from the first bound to the last improvement. Private to Search.
#pragma once

#include "Branch.h"
#include "Stage.h"

namespace kerf::search {

/// Where a search stood when it pruned. A search of a problem that differs a little goes the same way again, in big
/// steps: it takes up prices and messages, and prunes as soon as the gap is about what it was.
struct Waypoint {
  MovedTables moved;
  std::vector<int64_t> moments; // of the prices
  std::vector<double> prices;
  double gap = kInfinity; // cutoff - bound; infinite while there was no cutoff
};
using Trail = std::vector<Waypoint>;

struct AttemptOptions {
  int threads = 1;
  Labels start;                 // of the core; empty: none
  std::vector<double> prices;   // per row; empty: none
  const Trail *trail = nullptr; // of a core with the same variables
  /// A choice of the core that fits and beats the cutoff so far. Returns the new cutoff.
  std::function<double(const Labels &)> accept;
  /// Something got better: the lower bound of the core's cost so far.
  std::function<void(double)> report;
};

struct AttemptResult {
  double bound =
      -kInfinity;      // of the core's cost; +inf: nothing is cheaper than the last accepted choice, or nothing fits
  bool closed = false; // there is nothing left to do; but where costs were rounded, the bound may stay below
  std::vector<double> prices; // per row of the core
  Trail trail;
  int64_t steps = 0; // used
};

AttemptResult attempt(const Core &core, Hunt hunt, const AttemptOptions &options);

} // namespace kerf::search
