// SPDX-License-Identifier: Apache-2.0
#include "kerf/Search/Explain.h"
#include "Ascent.h"
#include "Tuning.h"
#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search;
using namespace kerf::search::tuning;

namespace {

/// Builds a core without any reduction, since every strategy of every node needs a bound. Huge costs are left out
/// unless the solution contains one.
BuiltCore coreFor(const Problem &problem, const Solution &solution) {
  BuiltCore built = buildCore(problem, true);
  Labels labels(built.core.size());
  for (size_t i = 0; i < solution.choice.size(); ++i)
    labels[built.variableOf[i]] = solution.choice[i];
  return costOf(built.core, labels) < kInfinity ? built : buildCore(problem, false);
}

} // namespace

SolutionExplanation kerf::explain(const Problem &problem, const Solution &solution) {
  SolutionExplanation explanation;
  BuiltCore built = coreFor(problem, solution);
  std::vector<int64_t> moments;
  std::vector<double> prices;
  for (const MomentPrice &price : solution.prices) {
    moments.push_back(price.moment);
    prices.push_back(price.costPerByte);
    explanation.costPerByte += price.costPerByte;
  }
  Dual dual(built.core);
  AscentOptions options;
  options.passes = explain::kPasses;
  options.rate = explain::kRate;
  prices = mapPrices(built.core, moments, prices);
  if (explanation.costPerByte == 0) { // reductions alone solved the problem, so there are no prices
    prices = initialPrices(built.core, std::max(1e-3 * static_cast<double>(solution.cost - built.offset), 1.0));
    options.rate = explain::kFirstRate;
  }
  AscentResult ascent =
      ascend(built.core, dual, prices, options, [](const AscentResult &, const std::vector<double> &) { return true; });
  double bound = dual.pass(ascent.prices);
  std::vector<std::vector<double>> raises = dual.reducedCosts();
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    std::vector<TotalCost> &least = explanation.lowerBounds.emplace_back();
    for (double raise : raises[built.variableOf[i]]) {
      TotalCost cost = built.hugeLeftOut ? built.leastHuge : kUnboundedTotal; // for a cost that was left out
      if (raise < kInfinity)
        cost = built.offset + static_cast<TotalCost>(
                                  std::max(0.0, built.exact ? std::ceil(bound + raise) : std::floor(bound + raise)));
      least.push_back(std::max(cost, solution.lowerBound));
    }
  }
  return explanation;
}
