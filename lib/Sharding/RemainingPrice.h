// SPDX-License-Identifier: Apache-2.0
// The least price of the steps that a search for the price of a reshard still needs.
#pragma once

#include "LayoutSpace.h"
#include "kerf/Sharding/ReshardPrice.h"

#include <array>

namespace kerf::reshard {

/// Lower bounds of the price from a layout to the goal. An object without arguments knows none.
class RemainingPrice {
public:
  RemainingPrice() = default;
  /// Looks up the least prices of steps. A space with sub-axes that overlap, or with too many of them, gets no bounds.
  RemainingPrice(const LayoutSpace &space, LeastStepPrices &known, const StepPrice &price);
  /// Returns the least price of a path from a layout to the goal; 0 where no bound is known.
  double from(const Layout &layout) const;

private:
  size_t dims = 0;                                           // dimensions that the reshard cuts
  bool estimates = false;                                    // whether `from` knows more than 0
  std::array<double, kMaxSubAxes> moved{}, gone{}, summed{}; // by sub-axis: as LeastStepPrices::Entry
  double anyStep = 0;
  std::array<uint32_t, kMaxCutDims> goalBits{}; // by dimension: bits of the sub-axes that cut it in the goal
  uint32_t goalCuts = 0;                        // bits of the sub-axes that cut any dimension in the goal
  uint32_t goalPartial = 0;                     // bits of the sub-axes over which the goal is partial
};

} // namespace kerf::reshard
