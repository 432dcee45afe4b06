// SPDX-License-Identifier: Apache-2.0
// Random small placement problems, and their optima by brute force.
#pragma once

#include "kerf/Search/Problem.h"
#include <random>

namespace kerf::test {

/// The optimum of a problem.
struct BruteForce {
  TotalCost cost = kUnboundedTotal;                        // least cost of a choice that meets a. to e. (Problem.h)
  int64_t leastPeak = std::numeric_limits<int64_t>::max(); // least peak bytes of a choice that meets a. to d.
};

/// Evaluates every choice of a problem.
BruteForce bruteForce(const Problem &problem);

/// The sizes and features of a random problem.
struct Shape {
  int maxNodes = 7, maxStrategies = 4, valueRange = 50;
  double edgeShare = 0.4;      // probability of an edge between two nodes
  double forbiddenShare = 0.0; // probability that a strategy or pair is forbidden
  bool memory = false, ties = false, pins = false;
};

/// Returns a random problem of the given shape.
Problem randomProblem(const Shape &shape, std::mt19937 &random);

} // namespace kerf::test
