// SPDX-License-Identifier: Apache-2.0
// Small random problems by family, and their answers by trying everything: what the solver is measured by. Independent
// of lib/Search: only the plain data of Problem.h is used.
#pragma once

#include "kerf/Search/Problem.h"
#include <span>

namespace kerf::test {

/// A kind of problem that a solver may get wrong in a way of its own.
struct Family {
  const char *name; // CamelCase: part of a test's name
  Problem (*make)(uint64_t seed);
};

/// Every problem of theirs has at most kMostChoices choices.
std::span<const Family> families();
inline constexpr int64_t kMostChoices = 20'000;

struct Exact {
  TotalCost cost = kUnboundedTotal;                        // the optimum
  int64_t leastPeak = std::numeric_limits<int64_t>::max(); // over all choices that meet a.-d.
};

/// Every choice, depth first; sums are carried along.
Exact tryEverything(const Problem &problem);

} // namespace kerf::test
