// SPDX-License-Identifier: Apache-2.0
#include "Ascent.h"
#include "Tuning.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>

using namespace kerf;
using namespace kerf::search;
using namespace kerf::search::tuning;

AscentResult
kerf::search::ascend(const Core &core, Dual &dual, std::vector<double> prices, const AscentOptions &options,
                     const std::function<bool(const AscentResult &, const std::vector<double> &)> &shouldContinue) {
  size_t rows = core.slack.size();
  AscentResult best;
  best.rate = options.rate;
  std::vector<double> direction(rows, 0.0);
  double reference = -kInfinity;
  double shrunk = 1; // of the width
  int stalled = 0, streak = 0;
  for (int pass = 0; pass < options.passes; ++pass) {
    double bound = dual.pass(prices);
    best.steps += dual.workPerPass() * 2 + static_cast<int64_t>(rows) + ascent::kOverhead;
    if (bound > best.bound || pass == 0) {
      best.bound = bound;
      best.prices = prices;
      if (++streak >= ascent::kStreak) {
        best.rate = std::min(best.rate * ascent::kGrow, ascent::kMostRate);
        streak = 0;
      }
    } else {
      streak = 0;
    }
    double widest = std::max(ascent::kFirstWidth * std::abs(best.bound), core.quantum);
    best.width = shrunk * (options.width > 0 ? std::min(options.width, widest) : widest);
    if (best.bound > options.enough || !shouldContinue(best, prices))
      break;
    double worthwhile =
        options.enough < kInfinity ? ascent::kWorthwhile * (options.enough - best.bound) : 2e-5 * std::abs(best.bound);
    if (best.bound > reference + worthwhile) {
      reference = best.bound;
      stalled = 0;
    } else if (++stalled > ascent::kPatience) {
      if (rows == 0 || best.rate < options.rate * ascent::kLeastRate)
        break;
      best.rate *= ascent::kShrink;
      shrunk *= ascent::kShrink;
      stalled = 0;
      prices = best.prices;
    }
    if (rows == 0)
      continue;
    std::vector<double> expected = dual.expectedBytes(best.width);
    double least = ascent::kLeastShare * costOfSlack(core, prices) / static_cast<double>(rows);
    for (size_t r = 0; r < rows; ++r) {
      double excess = (expected[r] - static_cast<double>(core.slack[r])) / core.positiveSlack(r);
      direction[r] = ascent::kMemory * direction[r] + (1 - ascent::kMemory) * std::clamp(excess, -1.0, 1.0);
      double change = best.rate * std::abs(direction[r]), factor = 1 + change * (1 + change / 2);
      prices[r] = std::max(least / core.positiveSlack(r), direction[r] > 0 ? prices[r] * factor : prices[r] / factor);
    }
  }
  return best;
}

int64_t kerf::search::scalePrices(const Core &core, Dual &dual, std::vector<double> &prices, double enough) {
  int64_t steps = 0;
  auto boundAt = [&](double scale) {
    std::vector<double> scaled = prices;
    for (double &price : scaled)
      price *= scale;
    double bound = -kInfinity;
    for (int pass = 0; pass < ascent::kScalePasses; ++pass)
      bound = dual.pass(scaled);
    steps += ascent::kScalePasses * (2 * dual.workPerPass() + static_cast<int64_t>(prices.size()) + ascent::kOverhead);
    return bound;
  };
  double best = boundAt(1), scale = 1;
  // The bound is concave in the scale: larger scales are tried as long as they help, then smaller ones.
  for (double factor : {ascent::kScaleStep, 1 / ascent::kScaleStep}) {
    for (int n = 0; n < ascent::kScaleSteps && best < enough; ++n) {
      double bound = boundAt(scale * factor);
      if (bound <= best)
        break;
      best = bound;
      scale *= factor;
    }
    if (scale != 1)
      break;
  }
  for (double &price : prices)
    price *= scale;
  return steps;
}

std::vector<double> kerf::search::initialPrices(const Core &core, double total) {
  std::vector<double> prices(core.slack.size());
  for (size_t r = 0; r < prices.size(); ++r)
    prices[r] = total / static_cast<double>(prices.size()) / core.positiveSlack(r);
  return prices;
}

std::vector<double> kerf::search::mapPrices(const Core &core, const std::vector<int64_t> &moments,
                                            const std::vector<double> &prices) {
  std::vector<double> mapped(core.slack.size(), 0.0);
  size_t nearest = 0;
  for (size_t r = 0; r < prices.size() && !mapped.empty(); ++r) {
    while (nearest + 1 < mapped.size() &&
           std::abs(core.moment[nearest + 1] - moments[r]) <= std::abs(core.moment[nearest] - moments[r]))
      ++nearest;
    mapped[nearest] += prices[r];
  }
  return mapped;
}
