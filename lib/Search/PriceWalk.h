// SPDX-License-Identifier: Apache-2.0
// A search for cheap choices that follows the prices of memory. Private to the Search room.
#pragma once

#include "Core.h"
#include "Tuning.h"
#include <functional>
#include <vector>

namespace kerf::search {

/// The result of a walk.
struct Walk {
  Labels found;            // the cheapest choice below the cutoff that satisfies the memory constraint R; empty: none
  double cost = kInfinity; // of `found`, in cost units
  int64_t steps = 0;       // table entries and labels that were read, each weighted by kStepsOfWalk
};

/// The settings of a walk.
struct WalkSettings {
  double cutoff = kInfinity; // only choices that cost less, in cost units, are of interest
  uint64_t seed = 0;         // of the random numbers
  int rounds = tuning::priceWalk::kRounds;
  /// Above 0, the walk is an annealing: labels change as if each had a random extra cost of about this many cost units,
  /// which shrinks from round to round.
  double temperature = 0;
};

/// Returns the steps that a walk takes, roughly.
int64_t stepsOfWalk(const Core &core, int rounds = tuning::priceWalk::kRounds);

/// Walks from choice to choice under prices of the memory rows (cost units per byte, one for each row). The prices of
/// rows whose limit the choice exceeds rise, and once a choice was within all limits, the other prices fall, so that
/// the walk stays near the limits. `start` may violate the memory constraint R. Ends early when `timeIsUp`, which may
/// be empty, returns true.
Walk walkUnderPrices(const Core &core, Labels start, std::vector<double> prices, const WalkSettings &settings,
                     const std::function<bool()> &timeIsUp);

} // namespace kerf::search
