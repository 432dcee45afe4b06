// SPDX-License-Identifier: Apache-2.0
// Ascent of the Lagrangian dual (Dual.h): finds prices of the memory rows that raise the lower bound. Private
// to the Search room.
#pragma once

#include "Dual.h"
#include <functional>

namespace kerf::search {

/// The settings of one ascent.
struct AscentOptions {
  int passes = 100'000;      // most passes of the dual
  double enough = kInfinity; // the ascent ends once the bound exceeds this many cost units
  double rate = 0.2;         // relative change of a price at one pass, at the start
  double width = 0; // argument of Dual::expectedBytes at the start, in cost units; 0: a fixed part of the bound
};

/// The best prices of an ascent, and the state from which another ascent can go on.
struct AscentResult {
  std::vector<double> prices; // cost units per byte, one for each row
  double bound = -kInfinity;  // the lower bound at `prices`, in cost units
  double rate = 0, width = 0; // AscentOptions::rate and ::width at the end
  int64_t steps = 0;          // table entries that were read
};

/// Raises the dual's bound by changing prices. The price of a row whose expected bytes exceed its slack is multiplied
/// by up to 1 + rate; the price of a row with room is divided by as much. Rate and width shrink when the bound stalls.
/// Prices are multiplied, instead of changed by subgradient steps, because prices of different rows differ by orders of
/// magnitude and most are near zero. `shouldContinue(best so far, current prices)` is called after every pass; false
/// ends the ascent.
AscentResult ascend(const Core &core, Dual &dual, std::vector<double> prices, const AscentOptions &options,
                    const std::function<bool(const AscentResult &, const std::vector<double> &)> &shouldContinue);

/// Returns prices to start from when nothing is known: price times slack is the same for every row and sums
/// to `total` cost units.
std::vector<double> initialPrices(const Core &core, double total);

/// Multiplies all prices by the one factor that raises the bound most, unless the bound already reaches `enough` cost
/// units. It serves warm starts under another memory limit, which changes all prices by far more than one pass of an
/// ascent does. Returns the number of table entries that were read.
int64_t scalePrices(const Core &core, Dual &dual, std::vector<double> &prices, double enough);

/// Returns prices for the rows of `core`, given `prices` of rows at `moments`. The price of a moment that the core has
/// no row for is added to the row at the nearest moment.
std::vector<double> mapPrices(const Core &core, const std::vector<int64_t> &moments, const std::vector<double> &prices);

} // namespace kerf::search
