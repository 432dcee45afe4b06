// SPDX-License-Identifier: Apache-2.0
#include "CoreSolver.h"
#include "Join.h"
#include "Neighbourhoods.h"
#include "PriceWalk.h"
#include "Primal.h"
#include "Reduce.h"
#include "Tuning.h"
#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <thread>

using namespace kerf;
using namespace kerf::search;
using namespace kerf::search::tuning;

namespace {

class CoreSolver {
public:
  CoreSolver(const Core &first, SearchLimits limits, const CoreSolverOptions &options)
      : first(first), limits(std::move(limits)), options(options), budget(this->limits.stepsLeft) {}

  CoreSolverResult run() {
    stack.push(reduce(first));
    limits.stepsLeft -= 4 * first.cells();
    if (!options.start.empty() && !stack.core().infeasible)
      tryStart();
    if (!finished())
      startPrices();
    double rate = options.prices.empty() ? 0.2 : coreSolver::kNextRate;
    for (int64_t round = 0; !finished(); ++round) {
      tighten(rate);
      rate = coreSolver::kNextRate;
      if (finished() || limits.exhausted())
        break;
      improve(std::min(coreSolver::kRoundSteps << std::min<int64_t>(round, 20), std::max<int64_t>(limits.stepsLeft, 1)),
              round);
      if (limits.exhausted())
        break;
    }
    result.steps = budget - limits.stepsLeft;
    result.prices = mapPrices(first, stack.core().moment, prices);
    return std::move(result);
  }

private:
  /// Returns whether the search is complete, and raises the bound accordingly.
  bool finished() {
    if (result.closed)
      return true;
    const Core &core = stack.core();
    if (!core.infeasible && core.size() == 0 && core.constant < limits.cutoff)
      accept({});
    bool nothingLeft = core.infeasible || limits.prunes(result.bound);
    if (nothingLeft || core.size() == 0) {
      result.closed = true;
      raiseBound(nothingLeft || limits.exact ? kInfinity : core.constant);
    }
    return result.closed;
  }

  void raiseBound(double bound) {
    if (bound <= result.bound)
      return;
    result.bound = bound;
    options.report(std::min(bound, limits.cutoff));
  }

  void accept(const Labels &labels) {
    Labels found = stack.expand(labels);
    double cutoff = options.accept(found);
    if (cutoff >= limits.cutoff)
      return;
    limits.cutoff = cutoff;
    limits.hasIncumbent = true;
    best = std::move(found);
    options.report(std::min(result.bound, limits.cutoff));
  }

  void tryStart() {
    if (LocalSearchState plain(first, options.start); plain.fits() && plain.allowed() && plain.cost < limits.cutoff) {
      double cutoff = options.accept(options.start);
      limits.cutoff = std::min(limits.cutoff, cutoff);
      limits.hasIncumbent = true;
      best = options.start;
      return;
    }
    LocalSearchState state(stack.core(), stack.project(options.start));
    if (repair(state, options.prices.empty() ? std::vector<double>(stack.core().slack.size(), 0.0)
                                             : mapPrices(stack.core(), first.moment, options.prices))) {
      accept(state.labels);
    }
  }

  void startPrices() {
    if (!options.prices.empty()) {
      prices = mapPrices(stack.core(), first.moment, options.prices);
      return;
    }
    Dual dual(stack.core());
    std::vector<double> none(stack.core().slack.size(), 0.0);
    double bound = 0;
    for (int pass = 0; pass < 10; ++pass)
      bound = dual.pass(none);
    raiseBound(bound);
    prices = initialPrices(stack.core(), std::max(1e-3 * std::abs(bound), 1.0));
  }

  /// The searches for choices during one ascent.
  struct ChoiceSearch {
    int64_t before = 0;              // steps left when the ascent began
    int64_t walked = 0, rounded = 0; // steps of walks and of roundings so far
    std::future<Walk> beside = {};   // a walk on a second thread
    int64_t joinAt = 0;              // steps left when the ascent waits for it
  };

  /// Walks under the prices `current`, and rounds the messages until a choice fits, where these have had too small a
  /// share of the ascent's steps.
  void searchChoices(const Core &core, const Dual &dual, const std::vector<double> &current, ChoiceSearch &search) {
    int64_t now = limits.stepsLeft, ofWalk = stepsOfWalk(core);
    auto used = static_cast<double>(search.before - now);
    if (options.threads > 1) {
      // Beside the ascent, for as many steps as a walk takes, so that the same steps give the same answer.
      if (search.beside.valid() && now <= search.joinAt)
        finish(search.beside.get());
      if (!search.beside.valid() && used >= static_cast<double>(ofWalk)) {
        search.joinAt = now - ofWalk;
        search.beside = std::async(std::launch::async, walkUnderPrices, std::cref(core), dual.round(), current,
                                   WalkSettings{limits.cutoff, ++walks}, limits.timeIsUp);
      }
    } else if (static_cast<double>(search.walked + ofWalk) <= walkShare * used) {
      Walk walk = walkUnderPrices(core, dual.round(), current, {limits.cutoff, ++walks}, limits.timeIsUp);
      limits.stepsLeft -= walk.steps;
      search.walked += walk.steps;
      finish(walk);
    }
    if (limits.hasIncumbent || static_cast<double>(search.rounded) > coreSolver::kRoundShare * used)
      return;
    int64_t left = limits.stepsLeft;
    offerRoundedChoice(core, dual, current, limits, [&](const Labels &labels) { accept(labels); });
    search.rounded += left - limits.stepsLeft;
  }

  /// Alternates ascents of the dual with pruning and reduction of the core, as long as either makes good progress.
  void tighten(double rate) {
    double width = limits.undecidedWidth(result.bound);
    while (!finished() && !limits.exhausted()) {
      const PruneCheckpoint *checkpoint = nextCheckpoint();
      const Core &core = stack.core();
      Dual dual(core);
      AscentOptions ascentOptions;
      ascentOptions.rate = rate;
      ascentOptions.width = width;
      ascentOptions.enough = limits.cutoff - limits.leastCostStep;
      if (checkpoint && result.history.empty() && !core.slack.empty())
        limits.stepsLeft -= scalePrices(core, dual, prices, limits.cutoff - coreSolver::kReplayGap * checkpoint->gap);
      double gapBefore = limits.cutoff - result.bound;
      bool shrunk = false;
      int pass = 0;
      ChoiceSearch choices{limits.stepsLeft};
      int64_t each = 2 * dual.workPerPass() + static_cast<int64_t>(core.slack.size());
      AscentResult ascent =
          ascend(core, dual, prices, ascentOptions, [&](const AscentResult &sofar, const std::vector<double> &current) {
            limits.stepsLeft -= each;
            if (sofar.bound > result.bound + 1e-4 * std::abs(result.bound) || limits.prunes(sofar.bound))
              raiseBound(sofar.bound);
            if (++pass % coreSolver::kRoundEvery == 0)
              searchChoices(core, dual, current, choices);
            double gap = limits.cutoff - sofar.bound;
            bool again =
                checkpoint && pass >= coreSolver::kReplayPasses && gap < coreSolver::kReplayGap * checkpoint->gap;
            shrunk = limits.hasIncumbent &&
                     (again || (pass > coreSolver::kPrunePasses && gap < coreSolver::kPruneAt * gapBefore));
            if (shrunk && !again) {
              limits.stepsLeft -= 4 * core.cells();
              shrunk = dual.prunableShare(gap) > coreSolver::kPruneLeast;
              gapBefore = gap;
            }
            return !shrunk && !limits.exhausted();
          });
      if (choices.beside.valid())
        finish(choices.beside.get());
      raiseBound(ascent.bound);
      prices = ascent.prices;
      double bound = dual.pass(prices);
      if (!checkpoint || !limits.hasIncumbent)
        offerRoundedChoice(core, dual, prices, limits, [&](const Labels &labels) { accept(labels); });
      if (finished())
        return;
      // The gap without `leastCostStep`: the best known choice stays in the core, where neighbourhoods start from it.
      Core pruned = dual.prune(limits.cutoff - bound);
      result.history.push_back(
          {stack.saveMessages(pruned), core.moment, prices, limits.hasIncumbent ? limits.cutoff - bound : kInfinity});
      Reduction left = reduce(std::move(pruned));
      limits.stepsLeft -= 8 * core.cells();
      bool worthwhile =
          static_cast<double>(left.core.allLabels()) < coreSolver::kWorthwhile * static_cast<double>(core.allLabels());
      prices = mapPrices(left.core, core.moment, prices);
      stack.push(std::move(left));
      rate = shrunk ? ascent.rate : std::min(rate, coreSolver::kNextRate);
      width = limits.undecidedWidth(result.bound);
      if (!shrunk && !worthwhile && !replaying())
        return;
    }
  }

  /// Accepts what a walk found, and changes the share of walks.
  void finish(const Walk &walk) {
    if (!walk.found.empty() && walk.cost < limits.cutoff)
      accept(walk.found);
    walkShare = walk.found.empty() ? std::max(walkShare / 2, coreSolver::kLeastWalkShare)
                                   : std::min(walkShare * 2, coreSolver::kMostWalkShare);
  }

  bool replaying() const { return options.history && result.history.size() < options.history->size(); }

  /// Loads prices and messages of the earlier search's next checkpoint. Returns null when there is none.
  const PruneCheckpoint *nextCheckpoint() {
    if (!replaying())
      return nullptr;
    const PruneCheckpoint &checkpoint = (*options.history)[result.history.size()];
    stack.loadMessages(checkpoint.messages);
    prices = mapPrices(stack.core(), checkpoint.moments, checkpoint.prices);
    return &checkpoint;
  }

  /// The task of a thread in a round of improvement.
  enum class Task { Branch, Join, Neighbourhoods };

  /// The share of one thread in a round of improvement.
  struct Part {
    SearchLimits limits;
    Task task = Task::Neighbourhoods;
    uint64_t restart = 0; // seed of the annealing that makes the neighbourhoods' first choice; 0: the best one
    Labels found;         // labels of the reduced core; empty: nothing better was found
    double unexplored = -kInfinity; // what branching or joining proved; -infinity: nothing
    JoinedBound joined;             // of Task::Join
  };

  /// Returns what the first thread does in a round. A single thread does it in every second round only.
  Task firstTask(int64_t round) const {
    bool alone = options.threads <= 1;
    if (best.empty())
      return Task::Branch;
    if (alone && round % 2 == 1)
      return Task::Neighbourhoods;
    int64_t turn = alone ? round / 2 : round;
    const bool join = turn >= joining.next, branch = turn >= branching.next;
    if (join && branch)
      return joining.last <= branching.last ? Task::Join : Task::Branch;
    return join ? Task::Join : branch ? Task::Branch : Task::Neighbourhoods;
  }

  /// Returns a choice that does not depend on the best one, for at most half of the steps of `part`.
  Labels anneal(Part &part) const {
    const Core &core = stack.core();
    int64_t rounds = std::min<int64_t>(part.limits.stepsLeft / 2 / stepsOfWalk(core, 1), coreSolver::kMostRounds);
    Dual dual(core);
    double bound = -kInfinity;
    for (int pass = 0; pass < coreSolver::kAnnealPasses; ++pass)
      bound = dual.pass(prices);
    double temperature = coreSolver::kHeat * (limits.cutoff - bound) / core.size();
    Walk walk = walkUnderPrices(core, dual.round(), prices,
                                {kInfinity, part.restart, static_cast<int>(rounds), temperature}, part.limits.timeIsUp);
    part.limits.stepsLeft -= walk.steps;
    return walk.found.empty() ? stack.project(best) : walk.found;
  }

  /// Runs one round of improvement: branch and bound or joins on the first thread, as long as they help, and
  /// neighbourhood search on the others.
  void improve(int64_t steps, int64_t round) {
    const Core &core = stack.core();
    std::vector<Part> parts(std::max(1, options.threads));
    sizes.resize(parts.size());
    for (size_t k = 0; k < parts.size(); ++k) {
      parts[k].limits = limits;
      parts[k].limits.stepsLeft = steps;
    }
    parts[0].task = firstTask(round);
    bool restarts = round >= restarting.next && parts.back().task == Task::Neighbourhoods && !core.slack.empty() &&
                    steps / 2 >= stepsOfWalk(core, coreSolver::kLeastRounds);
    if (restarts)
      parts.back().restart = ++walks;
    // Once branch and bound has explored everything, neighbourhoods cannot find a better choice and are stopped.
    std::atomic<bool> settled = false;
    auto work = [&](size_t k) {
      Part &part = parts[k];
      part.limits.timeIsUp = [&] { return settled || (limits.timeIsUp && limits.timeIsUp()); };
      if (part.task != Task::Neighbourhoods) {
        OnChoice onChoice = [&](const Labels &labels) {
          part.found = labels;
          part.limits.cutoff = costOf(core, labels);
          part.limits.hasIncumbent = true;
        };
        if (int64_t nodes = std::numeric_limits<int64_t>::max(); part.task == Task::Branch) {
          part.unexplored = branch(core, prices, part.limits, nodes, onChoice);
        } else {
          part.joined = boundByJoining(core, prices, part.limits, onChoice);
          part.unexplored = part.joined.bound;
        }
        settled = part.unexplored == kInfinity;
      } else if (!best.empty()) {
        LocalSearchState state(core, part.restart ? anneal(part) : stack.project(best));
        if (!repair(state, prices))
          return;
        descend(state);
        Random random{static_cast<uint64_t>(round * 1000 + static_cast<int64_t>(k))};
        searchNeighbourhoods(state, prices, part.limits, std::numeric_limits<int>::max(), coreSolver::kNodes, sizes[k],
                             random);
        if (state.cost < limits.cutoff)
          part.found = state.labels;
      }
    };
    std::vector<std::thread> threads;
    for (size_t k = 1; k < parts.size(); ++k)
      threads.emplace_back(work, k);
    work(0);
    for (std::thread &thread : threads)
      thread.join();
    limits.stepsLeft -= steps;
    if (restarts)
      restarting.count(round, !parts.back().found.empty());
    double boundBefore = result.bound;
    for (const Part &part : parts) {
      if (!part.found.empty() && costOf(core, part.found) < limits.cutoff)
        accept(part.found);
      if (part.task == Task::Neighbourhoods)
        continue;
      // If everything is explored, no choice costs less than the last cutoff of the thread.
      raiseBound(std::min(part.unexplored, part.limits.cutoff));
      result.closed |= part.unexplored == kInfinity;
      if (result.closed)
        break;
    }
    if (result.closed && limits.exact)
      raiseBound(kInfinity);
    if (result.closed)
      return;
    bool raised = result.bound - boundBefore > coreSolver::kWorthwhileRaise * (limits.cutoff - boundBefore);
    int64_t turn = options.threads <= 1 ? round / 2 : round;
    if (parts[0].task == Task::Branch)
      branching.count(turn, raised || !parts[0].found.empty());
    else if (parts[0].task == Task::Join) {
      const bool smaller = forbidImpossible(parts[0].joined.possible);
      joining.count(turn, smaller || raised);
      if (smaller)
        branching.next = turn + 1; // fewer labels make fewer branches
    }
  }

  /// Forbids all labels that joins ruled out. Returns whether it is a worthwhile share of the labels.
  bool forbidImpossible(const std::vector<std::vector<char>> &possible) {
    Core core = stack.core();
    auto labels = static_cast<double>(core.allLabels());
    for (int i = 0; i < core.size(); ++i)
      for (int s = 0; s < core.labels(i); ++s)
        if (!possible[i][s])
          core.costs[i][s] = kInfinity;
    Reduction left = reduce(std::move(core));
    limits.stepsLeft -= 4 * stack.core().cells();
    auto kept = static_cast<double>(left.core.allLabels());
    prices = mapPrices(left.core, stack.core().moment, prices);
    stack.push(std::move(left));
    return kept < coreSolver::kWorthwhile * labels;
  }

  /// When a task gets its next turn. Turns that did not help make the task wait, each time twice as long.
  struct Turns {
    int64_t next = 0, pause = 1, last = -1;
    void count(int64_t turn, bool helped) {
      last = turn;
      pause = helped ? 1 : 2 * pause;
      next = turn + pause;
    }
  };

  const Core &first;
  SearchLimits limits;
  const CoreSolverOptions &options;
  const int64_t budget;
  ReductionStack stack;
  std::vector<double> prices; // one for each row of the reduced core
  Labels best;                // labels of the original core
  std::vector<NeighbourhoodSizes> sizes;
  Turns branching, joining{1}, restarting;
  uint64_t walks = 0;                            // begun so far
  double walkShare = coreSolver::kMostWalkShare; // most steps of walks, as a share of an ascent's steps
  CoreSolverResult result;
};

} // namespace

CoreSolverResult kerf::search::solveCore(const Core &core, SearchLimits limits, const CoreSolverOptions &options) {
  return CoreSolver(core, std::move(limits), options).run();
}
