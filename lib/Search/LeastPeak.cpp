// SPDX-License-Identifier: Apache-2.0
// min_x max_r bytes_r(x) >= max over weights w >= 0, sum w = 1, of min_x sum_r w_r bytes_r(x): the inner minimum is an
// elimination with forbidden pairs only. Weights follow the rows that are largest at the minimizer (multiplicative
// update).
#include "LeastPeak.h"
#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search;

namespace {
constexpr int kWeightRounds = 12;
} // namespace

LeastPeak kerf::search::findLeastPeak(const Network &network, int64_t cellLimit, int64_t &steps) {
  LeastPeak result;
  Buckets buckets(network, cellLimit);
  size_t count = network.rows.size();
  std::vector<double> weight(count, 1.0 / static_cast<double>(std::max<size_t>(count, 1))), bestWeight = weight;
  double bestBound = -1;
  auto weighted = [&](const std::vector<double> &w) {
    std::vector<std::vector<double>> unary;
    for (int i = 0; i < network.size(); ++i)
      unary.emplace_back(network.labels(i), 0.0);
    double floor = 0;
    for (size_t r = 0; r < count; ++r) {
      floor += w[r] * static_cast<double>(network.rows[r].floorBytes);
      for (const RowTerm &term : network.rows[r].terms)
        for (size_t s = 0; s < term.extraBytes.size(); ++s)
          unary[term.variable][s] += w[r] * static_cast<double>(term.extraBytes[s]);
    }
    steps -= buckets.workPerRun();
    return floor + buckets.run(unary, Buckets::PairSeconds::ForbiddenOnly);
  };
  for (int round = 0; round < kWeightRounds && (round == 0 || steps > 0); ++round) {
    double bound = weighted(weight);
    if (bound > bestBound)
      bestBound = bound, bestWeight = weight;
    Labels labels(network.size(), 0);
    buckets.decode(network.size(), labels);
    double seconds = secondsOf(network, labels);
    int64_t peak = peakBytesOf(network, labels);
    if (!std::isinf(seconds) && peak < result.incumbent.peakBytes)
      result.incumbent = {labels, seconds, peak};
    if (result.incumbent.peakBytes <= network.limitBytes) {
      result.proven = true;
      return result;
    }
    std::vector<int64_t> extra = extraBytesOf(network, labels);
    double total = 0;
    for (size_t r = 0; r < count; ++r) {
      double share =
          static_cast<double>(network.rows[r].floorBytes + extra[r]) / static_cast<double>(std::max<int64_t>(peak, 1));
      total += weight[r] *= std::exp(8 * (share - 1));
    }
    for (double &w : weight)
      w /= total;
  }
  double bound = weighted(bestWeight);
  result.proven = depthFirst(network, buckets, bound, Goal::PeakBytes, result.incumbent, steps);
  return result;
}
