// SPDX-License-Identifier: Apache-2.0
#include "LeastPeak.h"
#include "Attempt.h"
#include "Tuning.h"
#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search;
using namespace kerf::search::tuning::leastPeak;

namespace {

/// Every finite cost 0: only what is forbidden, and the rows, matter.
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

LeastPeak kerf::search::findLeastPeak(const Problem &problem, Hunt budget) {
  LeastPeak least;
  Problem free = problem;
  int64_t low = problem.constantBytes - 1;            // proven too small
  int64_t high = std::numeric_limits<int64_t>::max(); // of `least.choice`
  bool sure = true;
  // First with no limit at all, then between what is proven too small and the least peak so far.
  for (int64_t limit = int64_t(1) << 61; !budget.over();) {
    free.memoryLimitBytes = limit;
    Built built = buildCore(free, false);
    forgetCosts(built.core);
    Hunt hunt = budget;
    hunt.cutoff = 1;
    hunt.steps = std::max<int64_t>(budget.steps / kShares, 1);
    std::vector<int> choice;
    AttemptOptions options;
    options.accept = [&](const Labels &labels) {
      choice.clear();
      for (int variable : built.variableOf)
        choice.push_back(labels[variable]);
      return 0.0;
    };
    options.report = [](double) {};
    AttemptResult result = attempt(built.core, hunt, options);
    budget.steps -= std::max(result.steps, kLeastSteps);
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
