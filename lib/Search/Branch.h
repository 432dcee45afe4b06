// SPDX-License-Identifier: Apache-2.0
// Branch and bound: a dual's bound, what it rules out, what follows from that, and a variable split in two. Private to
// Search.
#pragma once

#include "Ascent.h"
#include <functional>

namespace kerf::search {

/// A choice of labels of some core, cheaper than the cutoff and within the rows.
using Offer = std::function<void(const Labels &)>;

/// What is looked for and how long. Shared by all parts of one search, which lower `cutoff` as they find.
struct Hunt {
  double cutoff = kInfinity;  // only choices whose core costs less matter
  bool found = false;         // the cutoff is what a choice costs, and not just more than any can cost
  double step = 0;            // costs of two choices are equal or at least so far apart
  bool exact = true;          // a core's cost is what a choice costs, not less
  int64_t steps = 0;          // table cells that may still be looked at
  std::function<bool()> late; // the time is over; empty: never

  /// Nothing below the cutoff has a bound of this.
  bool hopeless(double bound) const { return step > 0 ? bound > cutoff - step : bound >= cutoff; }
  /// A label that raises `bound` by more is hopeless.
  double gap(double bound) const { return cutoff - step - bound; }
  /// How far apart costs are that are still undecided; 0 when that is not known.
  double width(double bound) const { return found ? std::max(0.02 * (cutoff - bound), 0.0) : 0.0; }
  bool over() const { return steps <= 0 || (late && late()); }
};

/// Rounds what the dual says, repairs, descends, and offers what beats the cutoff.
void offerRounded(const Core &core, const Dual &dual, const std::vector<double> &prices, Hunt &hunt,
                  const Offer &offer);

/// Explores the choices of `core` below the cutoff, at most `nodes` subproblems (counted down). A lower bound of those
/// left unexplored, +inf when none are.
double branch(const Core &core, const std::vector<double> &prices, Hunt &hunt, int64_t &nodes, const Offer &offer);

} // namespace kerf::search
