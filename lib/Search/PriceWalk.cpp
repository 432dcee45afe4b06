// SPDX-License-Identifier: Apache-2.0
#include "PriceWalk.h"
#include "Primal.h"
#include "TreeMoves.h"
#include "Tuning.h"
#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search;
using namespace kerf::search::tuning;
using namespace kerf::search::tuning::priceWalk;

PriceWalk::PriceWalk(const Core &core, Labels start, std::vector<double> prices, double spread, Random random)
    : core(core), state(core, std::move(start)), prices(std::move(prices)), spread(spread), random(random),
      factors(core.size(), 1.0), persistence(core.slack.size(), 1.0) {
  drawFactors();
}

void PriceWalk::drawFactors() {
  for (double &factor : factors)
    factor = 1 + spread * (random.below(2001) / 1000.0 - 1);
}

void PriceWalk::changePrices() {
  double least = leastRowCost(state, prices);
  std::vector<int64_t> over = state.loads.all();
  for (size_t r = 0; r < prices.size(); ++r) {
    double slack = core.positiveSlack(r), share = std::min(1.0, std::abs(static_cast<double>(over[r])) / slack);
    if (over[r] > 0) {
      persistence[r] *= kPersist;
      double rise = std::min(kMostRise, rate * persistence[r] * (primal::kLeastRise + primal::kRise * share));
      prices[r] = std::max(prices[r] * (1 + rise), least / slack);
    } else {
      persistence[r] = std::max(1.0, persistence[r] / 2);
      if (fitted > 0)
        prices[r] *= 1 - kFall * rate * (kLeastFall + share);
    }
  }
}

int64_t PriceWalk::round(const std::function<void(const LocalSearchState &)> &onChoice) {
  int64_t before = state.steps;
  changePrices();
  std::vector<std::vector<double>> priced = pricesOfLabels(core, prices);
  for (int i = 0; i < core.size(); ++i)
    for (double &cost : priced[i])
      cost *= factors[i];
  state.steps += 2 * core.allLabels() + core.usageEntries() + static_cast<int64_t>(prices.size());
  moveTrees(state, priced, random);
  descendPriced(state, priced);
  if (!state.fits() || !state.allowed())
    return state.steps - before;
  rate *= kShrink;
  if (++fitted % kRedraw == 0)
    drawFactors();
  LocalSearchState within = state;
  descend(within);
  state.steps = within.steps + core.cells() / 8; // an estimate of the copy
  onChoice(within);
  return state.steps - before;
}
