// SPDX-License-Identifier: Apache-2.0
// Solves a problem by way of its core: exact costs, budgets, and the least peak memory when nothing fits.
#include "kerf/Search/Solver.h"
#include "CoreSolver.h"
#include "ExhaustiveSearch.h"
#include "LeastPeak.h"
#include "Tuning.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

using namespace kerf;
using namespace kerf::search;
using namespace kerf::search::tuning;

struct kerf::WarmStart {
  explicit WarmStart(PruneHistory history) : history(std::move(history)) {}
  PruneHistory history;
};

namespace {

class ProblemSolver {
public:
  ProblemSolver(const Problem &problem, const SolveOptions &options,
                const std::function<void(const Progress &)> &progress)
      : problem(problem), options(options), progress(progress), began(Clock::now()) {
    solution.lowerBound = 0;
    if (options.previous && options.start.empty() && hasStrategies(options.previous->choice))
      this->options.start = options.previous->choice;
  }

  Solution run() {
    built = buildCore(problem, true);
    work = options.seconds ? std::numeric_limits<int64_t>::max() / 4 : options.workBudget;
    bool leftOutHuge = built.hugeLeftOut;
    CoreSolverResult result = solveBuiltCore();
    if (leftOutHuge && !solution.feasible && !newLimits(1.0).exhausted()) {
      // Perhaps only choices with huge costs fit.
      built = buildCore(problem, false);
      result = solveBuiltCore();
    }
    if (!built.exact && solution.feasible) {
      // A known choice rules out large costs; the remaining ones may be small enough to be exact.
      options.start.assign(solution.choice.begin(), solution.choice.end());
      built = buildCore(problem, false, solution.cost - built.offset);
      result = solveBuiltCore();
    }
    conclude(result);
    tell();
    return std::move(solution);
  }

private:
  using Clock = std::chrono::steady_clock;

  /// Returns whether the choice has one valid strategy for each node of this problem.
  bool hasStrategies(const std::vector<int> &choice) const {
    bool fits = choice.size() == problem.nodes.size();
    for (size_t i = 0; fits && i < choice.size(); ++i)
      fits = choice[i] >= 0 && choice[i] < problem.strategies(static_cast<int>(i));
    return fits;
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - began).count(); }

  /// Returns the problem's bound for a bound of the core, rounded up to an integer where costs are exact. Huge costs
  /// that were left out limit the bound until a choice is known.
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
    // A cutoff that is rounded down could rule out a slightly cheaper choice.
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

  /// Returns limits with `share` of the budget. Once a choice is known, the search may use all of the time.
  SearchLimits newLimits(double share) {
    SearchLimits limits;
    limits.stepsLeft = static_cast<int64_t>(static_cast<double>(work) * share);
    if (options.seconds)
      limits.timeIsUp = [this, share] {
        return seconds() > *options.seconds * solver::kTimeShare * (solution.feasible ? 1.0 : share);
      };
    return limits;
  }

  CoreSolverResult solveBuiltCore() {
    SearchLimits limits = newLimits(problem.memoryLimitBytes ? 1 - solver::kLeastPeakShare : 1.0);
    limits.exact = built.exact;
    limits.leastCostStep = built.exact ? 1 : 0;
    limits.cutoff = largestSum(built.core) + 2; // more than any choice costs: reaching it proves that nothing fits
    CoreSolverOptions coreOptions;
    coreOptions.threads = options.threads;
    coreOptions.accept = [this](const Labels &labels) { return accept(labels); };
    coreOptions.report = [this](double bound) { report(bound); };
    for (size_t i = 0; i < options.start.size() && i < built.variableOf.size(); ++i) {
      coreOptions.start.resize(built.core.size(), 0);
      coreOptions.start[built.variableOf[i]] = options.start[i];
    }
    if (options.previous && options.previous->warmStart)
      coreOptions.history = &options.previous->warmStart->history;
    // Without any price there is nothing to start from: prices of 0 cannot grow by multiplication.
    if (options.previous && !options.previous->prices.empty()) {
      std::vector<int64_t> moments;
      std::vector<double> prices;
      for (const MomentPrice &price : options.previous->prices)
        moments.push_back(price.moment), prices.push_back(price.costPerByte);
      coreOptions.prices = mapPrices(built.core, moments, prices);
    }
    CoreSolverResult result = solveCore(built.core, limits, coreOptions);
    solution.warmStart = std::make_shared<const WarmStart>(std::move(result.history));
    solution.prices.clear();
    for (size_t r = 0; r < result.prices.size(); ++r)
      if (result.prices[r] > 0)
        solution.prices.push_back({built.core.moment[r], result.prices[r]});
    return result;
  }

  void conclude(const CoreSolverResult &result) {
    // If no choice without huge costs fits, a choice with them may still fit.
    bool closed = result.bound == kInfinity && (solution.feasible || !built.hugeLeftOut);
    if (!built.exact && !closed && problem.nodes.size() <= solver::kExhaustNodes) {
      // Costs were rounded to doubles; a small problem is searched once more in integers.
      ExhaustiveResult exhaustive = searchExhaustively(
          problem, solution.feasible ? std::optional(solution.cost) : std::nullopt, solver::kExhaustSteps);
      closed = exhaustive.complete;
      if (!exhaustive.choice.empty()) {
        solution.choice = exhaustive.choice;
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

  /// Replaces the solution of a problem that nothing fits by the choice with the least peak.
  void explainMisfit() {
    LeastPeak least = findLeastPeak(problem, newLimits(1.0));
    if (least.choice.empty())
      return;
    solution.choice = least.choice;
    solution.cost = kerf::costOf(problem, solution.choice);
    solution.peakBytes = solution.leastPeakBytes = peakBytesOf(problem, solution.choice);
    solution.leastPeakProven = least.proven;
    if (solution.peakBytes <= *problem.memoryLimitBytes) { // the bisection found a choice that fits
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
  BuiltCore built;
  int64_t work = 0;
  Solution solution;
};

Status checkOptions(const Problem &problem, const SolveOptions &options) {
  if (options.threads < 1)
    return Error{fmt::format("the solver got {} threads; it needs 1 or more", options.threads)};
  if (options.seconds && !(*options.seconds >= 0))
    return Error{fmt::format("the solver got a time budget of {} seconds; it must be 0 or more", *options.seconds)};
  if (options.start.empty())
    return ok();
  if (options.start.size() != problem.nodes.size())
    return Error{fmt::format("the start has {} strategies; the problem has {} nodes; give one strategy for each node",
                             options.start.size(), problem.nodes.size())};
  for (size_t i = 0; i < options.start.size(); ++i)
    if (options.start[i] < 0 || options.start[i] >= problem.strategies(static_cast<int>(i)))
      return Error{fmt::format("the start gives node {} ('{}') strategy {}; its strategies are 0 to {}", i,
                               problem.nodes[i].name, options.start[i], problem.strategies(static_cast<int>(i)) - 1)};
  return ok();
}

} // namespace

Result<Solution> kerf::solve(const Problem &problem, const SolveOptions &options,
                             const std::function<void(const Progress &)> &progress) {
  if (Status status = check(problem); !status)
    return status.error();
  if (Status status = checkOptions(problem, options); !status)
    return status.error();
  return ProblemSolver(problem, options, progress).run();
}

Result<std::vector<Solution>> kerf::sweep(const Problem &problem, const std::vector<int64_t> &memoryLimitsBytes,
                                          const SolveOptions &options) {
  std::vector<size_t> order(memoryLimitsBytes.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return memoryLimitsBytes[a] > memoryLimitsBytes[b]; });
  std::vector<Solution> solutions(order.size());
  Problem limited = problem;
  const Solution *last = options.previous;
  for (size_t k : order) {
    limited.memoryLimitBytes = memoryLimitsBytes[k];
    if (last && last != options.previous && last->feasible && last->peakBytes <= memoryLimitsBytes[k]) {
      solutions[k] = *last; // its bound is also valid for less memory
    } else {
      SolveOptions warm = options;
      warm.previous = last;
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
    return Error{fmt::format("runner-up of node {}: the problem has {} nodes, and the solution {} strategies; give a "
                             "node of the problem, and a solution with one strategy for each node",
                             node, problem.nodes.size(), solution.choice.size())};
  Problem without = problem;
  without.nodes[node].costs[solution.choice[node]] = kForbidden;
  SolveOptions warm = options;
  warm.previous = &solution;
  return solve(without, warm);
}
