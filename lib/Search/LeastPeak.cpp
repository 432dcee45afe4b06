// SPDX-License-Identifier: Apache-2.0
#include "LeastPeak.h"
#include "CoreSolver.h"
#include "Tuning.h"
#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search;
using namespace kerf::search::tuning;

namespace {

/// Sets every finite cost to 0, so that only forbidden entries and memory rows matter.
void forgetCosts(Core &core) {
  for (std::vector<double> &costs : core.costs)
    for (double &cost : costs)
      cost = cost == kInfinity ? kInfinity : 0.0;
  for (CoreTable &table : core.tables)
    for (double &cost : table.costs)
      cost = cost == kInfinity ? kInfinity : 0.0;
  core.quantum = 0x1p-20;
}

} // namespace

LeastPeak kerf::search::findLeastPeak(const Problem &problem, SearchLimits limits) {
  LeastPeak least;
  Problem free = problem;
  int64_t low = problem.constantBytes - 1;            // largest memory limit that is proven too small
  int64_t high = std::numeric_limits<int64_t>::max(); // peak of `least.choice`
  bool sure = true;
  // The first limit is beyond any memory; the following ones bisect between `low` and `high`.
  for (int64_t limit = int64_t(1) << 61; !limits.exhausted();) {
    free.memoryLimitBytes = limit;
    BuiltCore built = buildCore(free, false);
    forgetCosts(built.core);
    SearchLimits forLimit = limits;
    forLimit.cutoff = 1;
    forLimit.stepsLeft = std::max<int64_t>(limits.stepsLeft / leastPeak::kShares, 1);
    std::vector<int> choice;
    CoreSolverOptions options;
    options.accept = [&](const Labels &labels) {
      choice.clear();
      for (int variable : built.variableOf)
        choice.push_back(labels[variable]);
      return 0.0;
    };
    options.report = [](double) {};
    CoreSolverResult result = solveCore(built.core, forLimit, options);
    limits.stepsLeft -= std::max(result.steps, leastPeak::kLeastSteps);
    if (!choice.empty()) {
      high = peakBytesOf(problem, choice);
      least.choice = std::move(choice);
    } else if (least.choice.empty()) {
      return least;
    } else {
      sure &= result.bound == kInfinity;
      low = limit;
    }
    if (low + 1 >= high)
      break;
    limit = low + (high - low) / 2;
  }
  least.proven = sure && low + 1 >= high && high < std::numeric_limits<int64_t>::max();
  return least;
}
