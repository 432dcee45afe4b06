// SPDX-License-Identifier: Apache-2.0
// The order of attack: reduce, answer without memory, price the memory, branch, improve; docs/search.md.
#include "kerf/Search/Solver.h"
#include "Buckets.h"
#include "DepthFirst.h"
#include "LeastPeak.h"
#include "LocalMoves.h"
#include "Neighbourhoods.h"
#include "Prices.h"
#include "Reparametrize.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <optional>

using namespace kerf;
using namespace kerf::search;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kMaxCells = int64_t(1) << 23; // all tables of one elimination: 64 MB
constexpr int kPricePasses = 2;                 // prices, tables shifted under them, prices again
constexpr int64_t kLeastPeakCells = 1 << 14;    // table limit where only forbidden pairs matter

/// The largest table limit with which one elimination costs at most `steps` and fits in memory.
Buckets planBuckets(const Network &network, int64_t steps) {
  for (int64_t cells = 1 << 20;; cells /= 4) {
    Buckets buckets(network, cells);
    if (cells <= 256 || (buckets.workPerRun() <= steps && buckets.totalCells() <= kMaxCells))
      return buckets;
  }
}

struct Answer {
  Incumbent incumbent;
  double bound = 0;
  bool exhausted = false;             // nothing beats the incumbent, or nothing exists when there is none
  std::optional<LeastPeak> leastPeak; // looked for only when no choice that fits turned up
};

class Attack {
public:
  Attack(const Network &start, int64_t budget) : network(start), budget(budget), steps(budget) { shift({}); }

  Answer run() {
    if (withoutMemory() || answer.exhausted)
      return answer;
    std::vector<double> price(network.rows.size(), 0.0);
    if (!network.rows.empty())
      price = withMemory();
    if (!answer.exhausted && !answer.incumbent.labels.empty()) {
      improveByGroups(network, price, answer.bound, answer.incumbent, steps);
      answer.exhausted = answer.incumbent.seconds - answer.bound <= 1e-11 * std::abs(answer.bound);
    }
    return answer;
  }

private:
  /// True when the answer without memory rows fits, and so is the answer.
  bool withoutMemory() {
    Buckets buckets = planBuckets(network, budget / 4);
    steps -= buckets.workPerRun();
    double bound = buckets.run(network.unary, Buckets::PairSeconds::Counted) + network.constantSeconds;
    answer.bound = std::max(answer.bound, bound);
    if (std::isinf(bound)) {
      answer.exhausted = true;
      return false;
    }
    Incumbent relaxed;
    int64_t share = steps / (network.rows.empty() ? 3 : 6), left = share;
    bool complete = depthFirst(network, buckets, bound, Goal::SecondsNoRows, relaxed, left);
    steps -= share - left;
    if (complete && relaxed.labels.empty() && network.size() > 0) {
      answer.exhausted = true; // forbidden pairs leave nothing
      answer.bound = kInfinity;
      return false;
    }
    if (complete)
      answer.bound = std::max(answer.bound, relaxed.seconds);
    bool fitting = relaxed.found() && fits(network, relaxed.labels);
    if (fitting)
      answer.incumbent = relaxed;
    answer.exhausted = complete && fitting;
    if (!network.rows.empty() && !fitting && relaxed.found()) {
      Labels labels = relaxed.labels;
      if (repair(network, labels, steps))
        descend(network, labels, steps), offer(labels);
    }
    return answer.exhausted;
  }

  void offer(const Labels &labels) {
    double seconds = secondsOf(network, labels);
    if (seconds < answer.incumbent.seconds && fits(network, labels))
      answer.incumbent = {labels, seconds, answer.incumbent.peakBytes};
  }

  /// Prices, then branch and bound under them. Returns the prices.
  std::vector<double> withMemory() {
    Prices prices;
    prices.secondsPerByte.assign(network.rows.size(), 0.0);
    for (int pass = 0; pass < kPricePasses && !prices.unbounded; ++pass) {
      Buckets buckets = planBuckets(network, steps / 100);
      int64_t share = steps / 4, left = share;
      prices = raisePrices(network, buckets, prices.secondsPerByte, answer.incumbent, left);
      steps -= share - left;
      if (!prices.unbounded)
        answer.bound = std::max(answer.bound, prices.bound), shift(extraUnary(prices.secondsPerByte));
    }
    if (prices.unbounded) // such prices are too large to compute with; the rows alone will have to tell
      std::fill(prices.secondsPerByte.begin(), prices.secondsPerByte.end(), 0.0);
    if (!answer.incumbent.found() && !startFromLeastPeak())
      return prices.secondsPerByte;
    Buckets buckets = planBuckets(network, steps / 4);
    steps -= buckets.workPerRun();
    double root = buckets.run(pricedUnary(network, prices.secondsPerByte), Buckets::PairSeconds::Counted) +
                  network.constantSeconds + priceOfSlack(network, prices.secondsPerByte);
    answer.bound = std::max(answer.bound, root);
    int64_t share, left;
    share = left = steps / 2;
    bool complete = depthFirst(network, buckets, root, Goal::Seconds, answer.incumbent, left);
    steps -= share - left;
    if (complete) {
      answer.exhausted = true;
      answer.bound = answer.incumbent.seconds; // +inf when nothing fits
    }
    return prices.secondsPerByte;
  }

  std::vector<std::vector<double>> extraUnary(const std::vector<double> &secondsPerByte) const {
    std::vector<std::vector<double>> extra = pricedUnary(network, secondsPerByte);
    for (int i = 0; i < network.size(); ++i)
      for (int s = 0; s < network.labels(i); ++s)
        extra[i][s] -= network.unary[i][s];
    return extra;
  }

  /// False when it is proven that nothing fits.
  bool startFromLeastPeak() {
    int64_t share = steps / 2, left = share;
    answer.leastPeak = findLeastPeak(network, kLeastPeakCells, left);
    steps -= share - left;
    Incumbent &least = answer.leastPeak->incumbent;
    if (least.found() && least.peakBytes <= network.limitBytes) {
      descend(network, least.labels, steps);
      offer(least.labels);
    } else if (answer.leastPeak->proven) {
      answer.exhausted = true;
      answer.bound = kInfinity;
      return false;
    }
    return true;
  }

  /// Moves seconds between tables and nodes; no choice changes its cost.
  void shift(const std::vector<std::vector<double>> &extraUnary) {
    int64_t share = steps / 8, left = share;
    network = reparametrize(network, extraUnary, left);
    steps -= share - left;
  }

  Network network;
  int64_t budget, steps;
  Answer answer;
};

/// From labels of the innermost network to strategies of the problem's nodes.
struct Chain {
  std::vector<int> variableOf;
  Network merged, reduced;

  std::vector<int> strategies(const Labels &labels) const {
    Labels base = expand(merged, expand(reduced, labels));
    std::vector<int> choice;
    for (int variable : variableOf)
      choice.push_back(base[variable]);
    return choice;
  }
};

void describe(const Problem &problem, std::vector<int> choice, Solution &solution) {
  solution.choice = std::move(choice);
  solution.cost = costOf(problem, solution.choice);
  solution.peakBytes = peakBytesOf(problem, solution.choice);
  solution.feasible = !problem.memoryLimitBytes || solution.peakBytes <= *problem.memoryLimitBytes;
}

/// Nothing that fits was found: the least peak says by how much.
void describeLeastPeak(const Problem &problem, const Chain &chain, const LeastPeak &least, Solution &solution) {
  if (!least.incumbent.found())
    return;
  describe(problem, chain.strategies(least.incumbent.labels), solution);
  solution.leastPeakBytes = solution.peakBytes;
  solution.leastPeakProven = least.proven;
}

constexpr double kWorkPerSecond = 8e8; // of one 2020s core, measured on the problems of docs/search.md

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

int64_t workOf(const SolveOptions &options) {
  if (!options.seconds)
    return options.workBudget;
  return static_cast<int64_t>(std::min(1e18, *options.seconds * kWorkPerSecond));
}

/// A bound in doubles, made safe: costs are whole numbers, and so is the bound of their sums.
TotalCost wholeBound(double bound) {
  constexpr double kRounding = 1e-9; // of sums of many doubles
  if (std::isinf(bound))
    return kUnboundedTotal;
  return static_cast<TotalCost>(std::ceil(std::max(0.0, bound - std::abs(bound) * kRounding)));
}

Solution attack(const Problem &problem, int64_t workBudget) {
  Solution solution;
  solution.lowerBound = kUnboundedTotal;
  Chain chain;
  chain.merged = buildNetwork(problem, chain.variableOf);
  if (chain.merged.contradictory) {
    solution.proven = true;
    return solution;
  }
  int64_t pruning = workBudget / 4;
  chain.reduced = removeDominated(chain.merged, pruning);
  if (chain.reduced.contradictory) {
    solution.proven = true;
    return solution;
  }
  Answer answer = Attack(chain.reduced, workBudget / 4 * 3).run();
  solution.lowerBound = wholeBound(answer.bound);
  solution.proven = answer.exhausted;
  if (answer.incumbent.found()) {
    describe(problem, chain.strategies(answer.incumbent.labels), solution);
    solution.lowerBound = solution.proven ? solution.cost : std::min(solution.lowerBound, solution.cost);
    solution.proven = solution.lowerBound == solution.cost;
  } else if (answer.leastPeak) {
    describeLeastPeak(problem, chain, *answer.leastPeak, solution);
  }
  return solution;
}

/// The starting answer in place of a dearer one.
void offerStart(const Problem &problem, const std::vector<int> &start, Solution &solution) {
  Solution given;
  describe(problem, start, given);
  given.lowerBound = std::min(solution.lowerBound, given.cost);
  given.proven = given.lowerBound == given.cost;
  bool better = given.feasible && (!solution.feasible || given.cost < solution.cost);
  if (better && verify(problem, given)) // ties, pins and what is forbidden
    solution = std::move(given);
}

} // namespace

Result<Solution> kerf::solve(const Problem &problem, const SolveOptions &options,
                             const std::function<void(const Progress &)> &progress) {
  auto begin = std::chrono::steady_clock::now();
  if (Status status = check(problem); !status)
    return status.error();
  if (Status status = checkOptions(problem, options); !status)
    return status.error();
  Solution solution = attack(problem, workOf(options));
  if (!options.start.empty())
    offerStart(problem, options.start, solution);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (progress)
    progress({seconds.count(), solution.feasible ? std::optional(solution.cost) : std::nullopt, solution.lowerBound});
  return solution;
}

Result<Solution> kerf::solveExcluding(const Problem &problem, const Solution &solution, int node,
                                      const SolveOptions &options) {
  if (node < 0 || node >= static_cast<int>(problem.nodes.size()) || solution.choice.size() != problem.nodes.size())
    return Error{fmt::format("runner-up: node {} of {}, with a solution of {} choices", node, problem.nodes.size(),
                             solution.choice.size())};
  Problem without = problem;
  without.nodes[node].costs[solution.choice[node]] = kForbidden;
  return solve(without, options);
}
