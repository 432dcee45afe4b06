// SPDX-License-Identifier: Apache-2.0
#include "PriceWalk.h"
#include "LocalSearchState.h"
#include "Primal.h"
#include "Random.h"
#include "TreeMoves.h"
#include "Tuning.h"
#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search;
using namespace kerf::search::tuning;

namespace {

class PriceWalk {
public:
  /// `spread` is the largest difference from 1 of the random factor of a variable's memory price.
  PriceWalk(const Core &core, Labels start, std::vector<double> prices, double spread, Random random);

  /// Changes the prices, and gives the variables labels that are cheap under the new prices. Where the choice then
  /// satisfies the memory constraint R, it is made cheaper within R (`descend`) and offered to `onChoice`. Returns the
  /// steps taken. `temperature` is the scale of the labels' random extra costs, in cost units; with `followed`, single
  /// variables change their labels after the trees.
  int64_t round(double temperature, bool followed, const std::function<void(const LocalSearchState &)> &onChoice);

private:
  void changePrices();
  /// Returns the price of each label's bytes, indexed by [variable][label].
  std::vector<std::vector<double>> pricedLabels() const;
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
      persistence[r] *= priceWalk::kPersist;
      double rise =
          std::min(priceWalk::kMostRise, rate * persistence[r] * (primal::kLeastRise + primal::kRise * share));
      prices[r] = std::max(prices[r] * (1 + rise), least / slack);
    } else {
      persistence[r] = std::max(1.0, persistence[r] / 2);
      if (fitted > 0)
        prices[r] *= 1 - priceWalk::kFall * rate * (priceWalk::kLeastFall + share);
    }
  }
}

std::vector<std::vector<double>> PriceWalk::pricedLabels() const {
  std::vector<std::vector<double>> priced = pricesOfLabels(core, prices);
  for (int i = 0; i < core.size(); ++i)
    for (double &cost : priced[i])
      cost *= factors[i];
  return priced;
}

int64_t PriceWalk::round(double temperature, bool followed,
                         const std::function<void(const LocalSearchState &)> &onChoice) {
  int64_t before = state.steps;
  changePrices();
  std::vector<std::vector<double>> priced = pricedLabels();
  state.steps += 2 * core.allLabels() + core.usageEntries() + static_cast<int64_t>(prices.size());
  if (temperature > 0) {
    // Labels of least cost plus Gumbel noise are samples of a Gibbs distribution, nearly (Papandreou & Yuille 2011).
    std::vector<std::vector<double>> noisy = priced;
    for (std::vector<double> &costs : noisy)
      for (double &cost : costs)
        cost += temperature * std::log(-std::log(random.share()));
    moveTrees(state, noisy, random);
  } else {
    moveTrees(state, priced, random);
  }
  if (followed)
    descendPriced(state, priced);
  if (!state.fits() || !state.allowed())
    return state.steps - before;
  rate *= priceWalk::kShrink;
  if (++fitted % priceWalk::kRedraw == 0)
    drawFactors();
  LocalSearchState within = state;
  descend(within);
  state.steps = within.steps + core.cells() / 8; // an estimate of the copy
  onChoice(within);
  return state.steps - before;
}

} // namespace

int64_t kerf::search::stepsOfWalk(const Core &core, int rounds) {
  return rounds * priceWalk::kStepsOfWalk * (core.cells() + core.usageEntries() + core.allLabels());
}

Walk kerf::search::walkUnderPrices(const Core &core, Labels start, std::vector<double> prices,
                                   const WalkSettings &settings, const std::function<bool()> &timeIsUp) {
  Walk walk;
  walk.cost = settings.cutoff;
  double spread = priceWalk::kWidestSpread / static_cast<double>(1 << 2 * (settings.seed % priceWalk::kSpreads));
  PriceWalk under(core, std::move(start), std::move(prices), spread, Random{settings.seed});
  for (int round = 0; round < settings.rounds && !(timeIsUp && timeIsUp()); ++round) {
    double cooled = std::pow(priceWalk::kCold, static_cast<double>(round) / settings.rounds);
    bool followed = settings.temperature == 0 || cooled < priceWalk::kFollowed;
    auto keep = [&](const LocalSearchState &state) {
      if (state.cost < walk.cost) {
        walk.cost = state.cost;
        walk.found = state.labels;
      }
    };
    walk.steps += priceWalk::kStepsOfWalk * under.round(settings.temperature * cooled, followed, keep);
  }
  return walk;
}
