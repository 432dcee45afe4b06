// SPDX-License-Identifier: Apache-2.0
// Small random problems of every kind, and their answers by trying everything.
#pragma once

#include "kerf/Search/Problem.h"
#include <random>

namespace kerf::test {

struct BruteForce {
  TotalCost cost = kUnboundedTotal;                        // the optimum
  int64_t leastPeak = std::numeric_limits<int64_t>::max(); // over all choices that meet a.-d.
};

BruteForce bruteForce(const Problem &problem);

struct Shape {
  int maxNodes = 7, maxStrategies = 4, valueRange = 50;
  double edgeShare = 0.4, forbiddenShare = 0.0;
  bool memory = false, ties = false, pins = false;
};

Problem randomProblem(const Shape &shape, std::mt19937 &random);

} // namespace kerf::test
