// SPDX-License-Identifier: Apache-2.0
// The lower bound of a plan's seconds: the largest, over layers and weights, of the relaxation that Planner.h states.
#include "kerf/Compression/Planner.h"

#include <algorithm>

namespace kerf::compression {

namespace {
constexpr int kWeights = 64; // weights of the wire that are tried; the bound holds for each of them
} // namespace

double finishLowerBound(const PlanProblem &problem) {
  std::vector<double> bodyUpTo; // seconds of the layers up to and including each layer
  double body = 0;
  for (const StreamLayer &layer : problem.layers)
    bodyUpTo.push_back(body += layer.body);
  double least = body;
  for (int i = 0; i <= kWeights; ++i) {
    double lambda = static_cast<double>(i) / kWeights;
    auto weighted = [&](const SyncOption &option, bool sentLater) {
      return (sentLater ? lambda * option.cost.wire : 0) + (1 - lambda) * option.cost.compute();
    };
    auto leastOf = [&](const PlanGradient &gradient, bool sentLater) {
      double seconds = weighted(gradient.options.front(), sentLater);
      for (const SyncOption &option : gradient.options)
        seconds = std::min(seconds, weighted(option, sentLater));
      return seconds;
    };
    double sum = 0;
    for (const PlanGradient &gradient : problem.gradients)
      sum += leastOf(gradient, /*sentLater=*/false);
    size_t t = problem.gradients.size();
    for (size_t l = problem.layers.size(); l-- > 0;) {
      for (; t > 0 && problem.gradients[t - 1].layer == l; --t)
        sum += leastOf(problem.gradients[t - 1], true) - leastOf(problem.gradients[t - 1], false);
      least = std::max(least, lambda * bodyUpTo[l] + (1 - lambda) * body + sum);
    }
  }
  return least;
}

} // namespace kerf::compression
