// SPDX-License-Identifier: Apache-2.0
#include "Attempt.h"
#include "Neighbourhoods.h"
#include "Primal.h"
#include "Tuning.h"
#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

using namespace kerf;
using namespace kerf::search;
using namespace kerf::search::tuning::attempt;

namespace {

class Attempter {
public:
  Attempter(const Core &first, Hunt hunt, const AttemptOptions &options)
      : first(first), hunt(std::move(hunt)), options(options), budget(this->hunt.steps) {}

  AttemptResult run() {
    stage.push(reduce(first));
    hunt.steps -= 4 * first.cells();
    if (!options.start.empty() && !stage.core().contradictory)
      tryStart();
    if (!finished())
      startPrices();
    double rate = options.prices.empty() ? 0.2 : kNextRate;
    for (int64_t round = 0; !finished(); ++round) {
      tighten(rate);
      rate = kNextRate;
      if (finished() || hunt.over())
        break;
      improve(std::min(kRoundSteps << std::min<int64_t>(round, 20), std::max<int64_t>(hunt.steps, 1)), round);
      if (hunt.over())
        break;
    }
    result.steps = budget - hunt.steps;
    result.prices = pricesFor(first, stage.core().moment, prices);
    return std::move(result);
  }

private:
  /// True when nothing is left to look for.
  bool finished() {
    if (result.closed)
      return true;
    const Core &core = stage.core();
    if (!core.contradictory && core.size() == 0 && core.constant < hunt.cutoff)
      accept({});
    bool nothingLeft = core.contradictory || hunt.hopeless(result.bound);
    if (nothingLeft || core.size() == 0) {
      result.closed = true;
      raiseBound(nothingLeft || hunt.exact ? kInfinity : core.constant);
    }
    return result.closed;
  }

  void raiseBound(double bound) {
    if (bound <= result.bound)
      return;
    result.bound = bound;
    options.report(std::min(bound, hunt.cutoff));
  }

  void accept(const Labels &labels) {
    Labels found = stage.expand(labels);
    double cutoff = options.accept(found);
    if (cutoff >= hunt.cutoff)
      return;
    hunt.cutoff = cutoff;
    hunt.found = true;
    best = std::move(found);
    options.report(std::min(result.bound, hunt.cutoff));
  }

  void tryStart() {
    if (State plain(first, options.start); plain.fits() && plain.allowed() && plain.cost < hunt.cutoff) {
      double cutoff = options.accept(options.start);
      hunt.cutoff = std::min(hunt.cutoff, cutoff);
      hunt.found = true;
      best = options.start;
      return;
    }
    State state(stage.core(), stage.project(options.start));
    if (repair(state, options.prices.empty() ? std::vector<double>(stage.core().slack.size(), 0.0)
                                             : pricesFor(stage.core(), first.moment, options.prices))) {
      accept(state.labels);
    }
  }

  void startPrices() {
    if (!options.prices.empty()) {
      prices = pricesFor(stage.core(), first.moment, options.prices);
      return;
    }
    Dual dual(stage.core());
    std::vector<double> none(stage.core().slack.size(), 0.0);
    double bound = 0;
    for (int pass = 0; pass < 10; ++pass)
      bound = dual.pass(none);
    raiseBound(bound);
    prices = evenPrices(stage.core(), std::max(1e-3 * std::abs(bound), 1.0));
  }

  /// Raises the bound and lets it take out what it can, as long as that is worth it.
  void tighten(double rate) {
    double width = hunt.width(result.bound);
    while (!finished() && !hunt.over()) {
      const Waypoint *waypoint = nextWaypoint();
      const Core &core = stage.core();
      Dual dual(core);
      AscentOptions ascentOptions;
      ascentOptions.rate = rate;
      ascentOptions.width = width;
      ascentOptions.enough = hunt.cutoff - hunt.step;
      if (waypoint && result.trail.empty() && !core.slack.empty())
        hunt.steps -= fitScale(core, dual, prices, hunt.cutoff - kReplayGap * waypoint->gap);
      double gapBefore = hunt.cutoff - result.bound;
      bool shrunk = false;
      int pass = 0;
      int64_t primal = 0, before = hunt.steps;
      int64_t each = 2 * dual.workPerPass() + static_cast<int64_t>(core.slack.size());
      Offer offer = [&](const Labels &labels) { accept(labels); };
      Ascent ascent =
          ascend(core, dual, prices, ascentOptions, [&](const Ascent &sofar, const std::vector<double> &current) {
            hunt.steps -= each;
            if (sofar.bound > result.bound + 1e-4 * std::abs(result.bound) || hunt.hopeless(sofar.bound))
              raiseBound(sofar.bound);
            if (++pass % kRoundEvery == 0 &&
                static_cast<double>(primal) <= kPrimalShare * static_cast<double>(before - hunt.steps)) {
              int64_t now = hunt.steps;
              offerRounded(core, dual, current, hunt, offer);
              primal += now - hunt.steps;
            }
            double gap = hunt.cutoff - sofar.bound;
            bool again = waypoint && pass >= kReplayPasses && gap < kReplayGap * waypoint->gap;
            shrunk = hunt.found && (again || (pass > kPrunePasses && gap < kPruneAt * gapBefore));
            if (shrunk && !again) {
              hunt.steps -= 4 * core.cells();
              shrunk = dual.hopelessShare(gap) > kPruneLeast;
              gapBefore = gap;
            }
            return !shrunk && !hunt.over();
          });
      raiseBound(ascent.bound);
      prices = ascent.prices;
      double bound = dual.pass(prices);
      if (!waypoint || !hunt.found)
        offerRounded(core, dual, prices, hunt, offer);
      if (finished())
        return;
      // What costs as much as the best choice stays, so that neighbourhoods can start from it.
      Core pruned = dual.prune(hunt.cutoff - bound);
      result.trail.push_back(
          {stage.remember(pruned), core.moment, prices, hunt.found ? hunt.cutoff - bound : kInfinity});
      Reduction left = reduce(std::move(pruned));
      hunt.steps -= 8 * core.cells();
      bool worthwhile =
          static_cast<double>(left.core.allLabels()) < kWorthwhile * static_cast<double>(core.allLabels());
      prices = pricesFor(left.core, core.moment, prices);
      stage.push(std::move(left));
      rate = shrunk ? ascent.rate : std::min(rate, kNextRate);
      width = hunt.width(result.bound);
      if (!shrunk && !worthwhile && !replaying())
        return;
    }
  }

  bool replaying() const { return options.trail && result.trail.size() < options.trail->size(); }

  /// Takes up what an earlier search knew at the same place of its way.
  const Waypoint *nextWaypoint() {
    if (!replaying())
      return nullptr;
    const Waypoint &waypoint = (*options.trail)[result.trail.size()];
    stage.recall(waypoint.moved);
    prices = pricesFor(stage.core(), waypoint.moments, waypoint.prices);
    return &waypoint;
  }

  struct Part {
    Hunt hunt;
    Labels found; // of the stage's core
    double unexplored = -kInfinity;
    bool branched = false;
  };

  /// One round: branch and bound on one thread, neighbourhoods on the others; in turn when there is one.
  void improve(int64_t steps, int64_t round) {
    const Core &core = stage.core();
    std::vector<Part> parts(std::max(1, options.threads));
    sizes.resize(parts.size());
    for (size_t k = 0; k < parts.size(); ++k) {
      parts[k].hunt = hunt;
      parts[k].hunt.steps = steps;
      parts[k].branched = k == 0 && (parts.size() > 1 || round % 2 == 0 || best.empty());
    }
    // Once the branches leave nothing unexplored, no neighbourhood can find anything: what they find meanwhile is not
    // looked at.
    std::atomic<bool> settled = false;
    auto work = [&](size_t k) {
      Part &part = parts[k];
      part.hunt.late = [&] { return settled || (hunt.late && hunt.late()); };
      if (part.branched) {
        int64_t nodes = std::numeric_limits<int64_t>::max();
        part.unexplored = branch(core, prices, part.hunt, nodes, [&](const Labels &labels) {
          part.found = labels;
          part.hunt.cutoff = costOf(core, labels);
          part.hunt.found = true;
        });
        settled = part.unexplored == kInfinity;
      } else if (!best.empty()) {
        State state(core, stage.project(best));
        if (!repair(state, prices))
          return;
        descend(state);
        Random random{static_cast<uint64_t>(round * 1000 + static_cast<int64_t>(k))};
        searchNeighbourhoods(state, prices, part.hunt, std::numeric_limits<int>::max(), kNodes, sizes[k], random);
        if (state.cost < hunt.cutoff)
          part.found = state.labels;
      }
    };
    std::vector<std::thread> threads;
    for (size_t k = 1; k < parts.size(); ++k)
      threads.emplace_back(work, k);
    work(0);
    for (std::thread &thread : threads)
      thread.join();
    hunt.steps -= steps;
    for (const Part &part : parts) {
      if (!part.found.empty() && costOf(core, part.found) < hunt.cutoff)
        accept(part.found);
      if (!part.branched)
        continue;
      // With everything explored, nothing is below what the branches had as their cutoff in the end.
      raiseBound(std::min(part.unexplored, part.hunt.cutoff));
      result.closed |= part.unexplored == kInfinity;
      if (result.closed)
        break;
    }
    if (result.closed && hunt.exact)
      raiseBound(kInfinity);
  }

  const Core &first;
  Hunt hunt;
  const AttemptOptions &options;
  const int64_t budget;
  Stage stage;
  std::vector<double> prices; // per row of the stage's core
  Labels best;                // of the first core
  std::vector<Sizes> sizes;
  AttemptResult result;
};

} // namespace

AttemptResult kerf::search::attempt(const Core &core, Hunt hunt, const AttemptOptions &options) {
  return Attempter(core, std::move(hunt), options).run();
}
