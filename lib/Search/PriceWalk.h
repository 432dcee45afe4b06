// SPDX-License-Identifier: Apache-2.0
// A search for cheap choices that follows the prices of memory. Private to the Search room.
#pragma once

#include "LocalSearchState.h"
#include "Random.h"
#include <functional>

namespace kerf::search {

/// Walks from choice to choice under prices of the memory rows. The prices of rows whose limit the choice exceeds rise,
/// and once a choice was within all limits, the other prices fall, so that the walk stays near the limits.
class PriceWalk {
public:
  /// Starts at `start`, which may violate the memory constraint R. `prices` is in cost units per byte, one for each
  /// row; `spread` is the largest difference from 1 of the random factor of a variable's memory price. `core` must
  /// outlive the walk.
  PriceWalk(const Core &core, Labels start, std::vector<double> prices, double spread, Random random);

  /// Changes the prices, and gives the variables labels that are cheap under the new prices. Where the choice then
  /// satisfies the memory constraint R, it is made cheaper within R (`descend`) and offered to `onChoice`. Returns the
  /// steps taken.
  int64_t round(const std::function<void(const LocalSearchState &)> &onChoice);

private:
  void changePrices();
  /// Draws a random factor near 1 for the memory price of each variable. Variables with the same costs and bytes, such
  /// as those of identical layers, would otherwise all change their label at the same price.
  void drawFactors();

  const Core &core;
  LocalSearchState state;
  std::vector<double> prices;
  double spread;
  Random random;
  std::vector<double> factors;     // [variable]
  std::vector<double> persistence; // [row]: grows with each round in which the row's limit is exceeded
  double rate = 1;                 // size of the changes of prices; shrinks with each choice that fits
  int fitted = 0;                  // number of choices that fitted
};

} // namespace kerf::search
