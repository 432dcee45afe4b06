// SPDX-License-Identifier: Apache-2.0
// Prices of the memory rows that raise a dual's bound. Private to Search.
#pragma once

#include "Dual.h"
#include <functional>

namespace kerf::search {

struct AscentOptions {
  int passes = 100'000;      // at most
  double enough = kInfinity; // a greater bound is of no use
  double rate = 0.2;         // by what share a price may change at one pass, first
  double width = 0;          // see Dual::expectedBytes, first; 0: a part of the bound
};

struct Ascent {
  std::vector<double> prices; // per row
  double bound = -kInfinity;
  double rate = 0, width = 0; // last
  int64_t steps = 0;          // table cells looked at
};

/// Multiplies the price of a row by up to 1 + rate where the bytes that the dual expects exceed the slack, and divides
/// it where they leave room; rate and width shrink when the bound stalls. Multiplication and not subgradient steps:
/// rows differ by magnitudes, and most want no price at all. `goOn(best so far)` is asked after every pass.
Ascent ascend(const Core &core, Dual &dual, std::vector<double> prices, const AscentOptions &options,
              const std::function<bool(const Ascent &, const std::vector<double> &)> &goOn);

/// Prices to start from when nothing is known: `total` cost units in all, the same for the slack of every row.
std::vector<double> evenPrices(const Core &core, double total);

/// Multiplies all prices by what raises the bound most, unless it is `enough` as they are: a limit that changed moves
/// all of them, and by far more than an ascent does in a pass. Returns the steps.
int64_t fitScale(const Core &core, Dual &dual, std::vector<double> &prices, double enough);

/// The prices of rows at these moments for a core that has some of them: those of rows that went join the nearest left.
std::vector<double> pricesFor(const Core &core, const std::vector<int64_t> &moments, const std::vector<double> &prices);

} // namespace kerf::search
