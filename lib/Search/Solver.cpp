// SPDX-License-Identifier: Apache-2.0
// From a problem to a core and back: exact costs, budgets, and what is said when nothing fits.
#include "kerf/Search/Solver.h"
#include "Attempt.h"
#include "Exhaust.h"
#include "LeastPeak.h"
#include "Tuning.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

using namespace kerf;
using namespace kerf::search;
using namespace kerf::search::tuning::solver;

struct kerf::SearchMemory {
  explicit SearchMemory(Trail trail) : trail(std::move(trail)) {}
  Trail trail;
};

namespace {

class Solving {
public:
  Solving(const Problem &problem, const SolveOptions &options, const std::function<void(const Progress &)> &progress)
      : problem(problem), options(options), progress(progress), began(Clock::now()) {
    solution.lowerBound = 0;
    if (options.after && options.start.empty() && hasStrategies(options.after->choice))
      this->options.start = options.after->choice;
  }

  Solution run() {
    built = buildCore(problem, true);
    work = options.seconds ? std::numeric_limits<int64_t>::max() / 4 : options.workBudget;
    bool restricted = built.hugeLeftOut;
    AttemptResult result = attemptOnce();
    if (restricted && !solution.feasible && !newHunt(1.0).over()) {
      // Perhaps nothing but what costs more than all else together fits.
      built = buildCore(problem, false);
      result = attemptOnce();
    }
    if (!built.exact && solution.feasible) {
      // With a choice known, smaller costs are left; perhaps they are small enough to be exact.
      options.start.assign(solution.choice.begin(), solution.choice.end());
      built = buildCore(problem, false, solution.cost - built.offset);
      result = attemptOnce();
    }
    conclude(result);
    tell();
    return std::move(solution);
  }

private:
  using Clock = std::chrono::steady_clock;

  /// The choice is of this problem, as far as its numbers say.
  bool hasStrategies(const std::vector<int> &choice) const {
    bool fits = choice.size() == problem.nodes.size();
    for (size_t i = 0; fits && i < choice.size(); ++i)
      fits = choice[i] >= 0 && choice[i] < problem.strategies(static_cast<int>(i));
    return fits;
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - began).count(); }

  /// A core's bound as a bound of the problem: between whole costs the next one. What was left out matters until a
  /// choice without it is known.
  TotalCost totalBound(double bound) const {
    TotalCost total = kUnboundedTotal;
    if (bound < kInfinity)
      total = built.offset + static_cast<TotalCost>(std::max(built.exact ? std::ceil(bound) : std::floor(bound), 0.0));
    return built.hugeLeftOut && !solution.feasible ? std::min<TotalCost>(total, built.leastHuge) : total;
  }

  double accept(const Labels &labels) {
    std::vector<int> choice;
    for (int variable : built.variableOf)
      choice.push_back(labels[variable]);
    TotalCost cost = kerf::costOf(problem, choice);
    int64_t peak = peakBytesOf(problem, choice);
    if (cost < solution.cost && (!problem.memoryLimitBytes || peak <= *problem.memoryLimitBytes)) {
      solution.choice = std::move(choice);
      solution.cost = cost;
      solution.peakBytes = peak;
      solution.feasible = true;
    }
    if (!solution.feasible)
      return kInfinity;
    TotalCost above = solution.cost - built.offset;
    auto cutoff = static_cast<double>(above);
    // Rounded down it would rule out what is cheaper by less than that.
    return static_cast<TotalCost>(cutoff) < above ? std::nextafter(cutoff, kInfinity) : cutoff;
  }

  void report(double bound) {
    TotalCost total = std::min(totalBound(bound), solution.cost);
    if (total < kUnboundedTotal)
      solution.lowerBound = std::max(solution.lowerBound, total);
    tell();
  }

  void tell() const {
    if (progress)
      progress({seconds(), solution.feasible ? std::optional(solution.cost) : std::nullopt, solution.lowerBound});
  }

  /// While nothing fits, a part of the time is kept for the least peak.
  Hunt newHunt(double share) {
    Hunt hunt;
    hunt.steps = static_cast<int64_t>(static_cast<double>(work) * share);
    if (options.seconds)
      hunt.late = [this, share] {
        return seconds() > *options.seconds * kTimeShare * (solution.feasible ? 1.0 : share);
      };
    return hunt;
  }

  AttemptResult attemptOnce() {
    Hunt hunt = newHunt(problem.memoryLimitBytes ? 1 - kLeastPeakShare : 1.0);
    hunt.exact = built.exact;
    hunt.step = built.exact ? 1 : 0;
    hunt.cutoff = largestSum(built.core) + 2; // more than any choice costs: a bound of this says that nothing fits
    AttemptOptions attemptOptions;
    attemptOptions.threads = options.threads;
    attemptOptions.accept = [this](const Labels &labels) { return accept(labels); };
    attemptOptions.report = [this](double bound) { report(bound); };
    for (size_t i = 0; i < options.start.size() && i < built.variableOf.size(); ++i) {
      attemptOptions.start.resize(built.core.size(), 0);
      attemptOptions.start[built.variableOf[i]] = options.start[i];
    }
    if (options.after && options.after->memory)
      attemptOptions.trail = &options.after->memory->trail;
    // Without any price there is nothing to start from: prices that are multiplied don't leave zero.
    if (options.after && !options.after->prices.empty()) {
      std::vector<int64_t> moments;
      std::vector<double> prices;
      for (const MomentPrice &price : options.after->prices)
        moments.push_back(price.moment), prices.push_back(price.costPerByte);
      attemptOptions.prices = pricesFor(built.core, moments, prices);
    }
    AttemptResult result = attempt(built.core, hunt, attemptOptions);
    solution.memory = std::make_shared<const SearchMemory>(std::move(result.trail));
    solution.prices.clear();
    for (size_t r = 0; r < result.prices.size(); ++r)
      if (result.prices[r] > 0)
        solution.prices.push_back({built.core.moment[r], result.prices[r]});
    return result;
  }

  void conclude(const AttemptResult &result) {
    // That nothing fits without the huge costs says nothing of choices with them.
    bool closed = result.bound == kInfinity && (solution.feasible || !built.hugeLeftOut);
    if (!built.exact && !closed && problem.nodes.size() <= kExhaustNodes) {
      // Costs too large for doubles: what is small is explored once more in whole numbers.
      Exhausted exhausted =
          exhaust(problem, solution.feasible ? std::optional(solution.cost) : std::nullopt, kExhaustSteps);
      closed = exhausted.complete;
      if (!exhausted.choice.empty()) {
        solution.choice = exhausted.choice;
        solution.cost = kerf::costOf(problem, solution.choice);
        solution.peakBytes = peakBytesOf(problem, solution.choice);
        solution.feasible = true;
      }
    }
    if (solution.feasible) {
      solution.proven = closed || solution.lowerBound == solution.cost;
      solution.lowerBound = solution.proven
                                ? solution.cost
                                : std::min(std::max(solution.lowerBound, totalBound(result.bound)), solution.cost);
      return;
    }
    solution.proven = closed;
    solution.lowerBound = closed ? kUnboundedTotal : std::max(solution.lowerBound, built.offset);
    if (problem.memoryLimitBytes)
      explainMisfit();
  }

  /// The choice with the least peak that can be found.
  void explainMisfit() {
    LeastPeak least = findLeastPeak(problem, newHunt(1.0));
    if (least.choice.empty())
      return;
    solution.choice = least.choice;
    solution.cost = kerf::costOf(problem, solution.choice);
    solution.peakBytes = solution.leastPeakBytes = peakBytesOf(problem, solution.choice);
    solution.leastPeakProven = least.proven;
    if (solution.peakBytes <= *problem.memoryLimitBytes) { // found after all
      solution.feasible = true;
      solution.proven = false;
      solution.lowerBound = std::min(std::max<TotalCost>(solution.lowerBound, 0), solution.cost);
      solution.leastPeakBytes = 0;
      solution.leastPeakProven = false;
    } else if (least.proven) {
      solution.proven = true;
      solution.lowerBound = kUnboundedTotal;
    }
  }

  const Problem &problem;
  SolveOptions options;
  const std::function<void(const Progress &)> &progress;
  const Clock::time_point began;
  Built built;
  int64_t work = 0;
  Solution solution;
};

Status checkOptions(const Problem &problem, const SolveOptions &options) {
  if (options.threads < 1)
    return Error{fmt::format("the solver is given {} threads; must be 1 or more", options.threads)};
  if (options.seconds && !(*options.seconds >= 0))
    return Error{fmt::format("the solver is given {} seconds; must be 0 or more", *options.seconds)};
  if (options.start.empty())
    return ok();
  if (options.start.size() != problem.nodes.size())
    return Error{fmt::format("the starting answer has {} entries; the problem has {} nodes", options.start.size(),
                             problem.nodes.size())};
  for (size_t i = 0; i < options.start.size(); ++i)
    if (options.start[i] < 0 || options.start[i] >= problem.strategies(static_cast<int>(i)))
      return Error{fmt::format("the starting answer gives node {} ('{}') strategy {}; it has {}", i,
                               problem.nodes[i].name, options.start[i], problem.strategies(static_cast<int>(i)))};
  return ok();
}

} // namespace

Result<Solution> kerf::solve(const Problem &problem, const SolveOptions &options,
                             const std::function<void(const Progress &)> &progress) {
  if (Status status = check(problem); !status)
    return status.error();
  if (Status status = checkOptions(problem, options); !status)
    return status.error();
  return Solving(problem, options, progress).run();
}

Result<std::vector<Solution>> kerf::sweep(const Problem &problem, const std::vector<int64_t> &memoryLimitsBytes,
                                          const SolveOptions &options) {
  std::vector<size_t> order(memoryLimitsBytes.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return memoryLimitsBytes[a] > memoryLimitsBytes[b]; });
  std::vector<Solution> solutions(order.size());
  Problem limited = problem;
  const Solution *last = options.after;
  for (size_t k : order) {
    limited.memoryLimitBytes = memoryLimitsBytes[k];
    if (last && last != options.after && last->feasible && last->peakBytes <= memoryLimitsBytes[k]) {
      solutions[k] = *last; // the bound holds under less memory too
    } else {
      SolveOptions warm = options;
      warm.after = last;
      Result<Solution> solved = solve(limited, warm);
      if (!solved)
        return solved.error();
      solutions[k] = std::move(*solved);
    }
    last = &solutions[k];
  }
  return solutions;
}

Result<Solution> kerf::solveExcluding(const Problem &problem, const Solution &solution, int node,
                                      const SolveOptions &options) {
  if (node < 0 || node >= static_cast<int>(problem.nodes.size()) || solution.choice.size() != problem.nodes.size())
    return Error{fmt::format("runner-up: node {} of {}, with a solution of {} choices", node, problem.nodes.size(),
                             solution.choice.size())};
  Problem without = problem;
  without.nodes[node].costs[solution.choice[node]] = kForbidden;
  SolveOptions warm = options;
  warm.after = &solution;
  return solve(without, warm);
}
