// SPDX-License-Identifier: Apache-2.0
// Random small placement problems of several families, and their optima by enumeration, to test the solver. The file
// uses only the plain data of Problem.h and shares no code with the solver.
#pragma once

#include "kerf/Search/Problem.h"
#include <span>

namespace kerf::test {

/// A family of problems that exercises one difficulty of the solver.
struct Family {
  const char *name;               // CamelCase: part of a test's name
  Problem (*make)(uint64_t seed); // returns the family's problem of a seed
};

/// Returns all families. Each of their problems has at most kMostChoices choices.
std::span<const Family> families();
inline constexpr int64_t kMostChoices = 20'000;

/// The optimum of a problem.
struct Exact {
  TotalCost cost = kUnboundedTotal;                        // least cost of a choice that meets a. to e. (Problem.h)
  int64_t leastPeak = std::numeric_limits<int64_t>::max(); // least peak bytes of a choice that meets a. to d.
};

/// Enumerates all choices depth first.
Exact tryEverything(const Problem &problem);

} // namespace kerf::test
