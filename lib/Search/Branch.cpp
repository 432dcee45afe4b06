// SPDX-License-Identifier: Apache-2.0
#include "Branch.h"
#include "Primal.h"
#include "Reduce.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstdio>

using namespace kerf;
using namespace kerf::search;

namespace {

static int evi(const char*n,int d);static const int kPasses = getenv("KP")?atoi(getenv("KP")):40; // of the dual, at a subproblem
static const double kRate = getenv("KR")?atof(getenv("KR")):0.03;
constexpr int64_t kOverhead = 2'000; // steps: what a subproblem takes at least
constexpr double kAgain = 0.7; // a subproblem that lost so much of its labels is looked at again before it is split
static int evi(const char*n,int d){const char*e=getenv(n);return e?atoi(e):d;}
static const int kStrongLabels=evi("SL",0),kCandidates=evi("SC",8),kTrialPasses=evi("SP",15);
constexpr int kDepth = 2000;   // of splits: far beyond what a budget explores

class Brancher {
public:
  Brancher(Hunt &hunt, int64_t &nodes) : hunt(hunt), nodes(nodes) {}

  double explore(const Core &core, const std::vector<double> &prices, const Offer &offer, int depth) {
    if (core.contradictory || (core.size() == 0 && hunt.hopeless(core.constant)))
      return kInfinity;
    if (core.size() == 0) {
      offer({});
      return kInfinity;
    }
    --nodes;if(getenv("VB")) fprintf(stderr,"depth %d size %d labels %ld\n",depth,core.size(),core.allLabels());
    hunt.steps -= kOverhead;
    Dual dual(core);
    Ascent ascent = climb(core, dual, prices, depth == 0 ? 10 * kPasses : kPasses);
    if (hunt.hopeless(ascent.bound))
      return kInfinity;
    double bound = dual.pass(ascent.prices);
    offerRounded(core, dual, ascent.prices, hunt, offer);
    if (hunt.hopeless(bound))
      return kInfinity;
    if (nodes <= 0 || hunt.over() || depth > kDepth)
      return bound;
    Reduction left = reduce(dual.prune(hunt.gap(bound)));
    hunt.steps -= 4 * core.cells();
    Offer up = [&](const Labels &labels) { offer(left.expand(labels)); };
    std::vector<double> kept = pricesFor(left.core, core.moment, ascent.prices);
    double below = left.core.contradictory || left.core.size() == 0 ||
                           left.core.allLabels() < kAgain * static_cast<double>(core.allLabels())
                       ? explore(left.core, kept, up, depth + 1)
                       : split(left.core, kept, up, depth);
    return std::max(below, bound);
  }

private:
  Ascent climb(const Core &core, Dual &dual, const std::vector<double> &prices, int passes) {
    AscentOptions options;
    options.passes = passes;
    options.rate = kRate;
    options.width = hunt.width(core.constant);
    options.enough = hunt.cutoff - hunt.step;
    Ascent ascent =
        ascend(core, dual, prices, options, [](const Ascent &, const std::vector<double> &) { return true; });
    hunt.steps -= ascent.steps;
    return ascent;
  }

  /// The variable about which the dual is surest that only one label will do, among those that decide much.
  int splitVariable(const Core &core, const std::vector<std::vector<double>> &raises, double gap) const {
    int chosen = 0;
    double best = -1;
    for (int i = 0; i < core.size(); ++i) {
      std::vector<double> sorted = raises[i];
      std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end());
      double second = std::min(sorted[1] / gap, 1.0);
      double score = (second + 1e-3) * static_cast<double>(1 + core.tablesOf[i].size()) *
                     (1 + 0.2 * static_cast<double>(core.usages[i].size()));
      if (score > best)
        best = score, chosen = i;
    }
    return chosen;
  }

  static std::vector<std::pair<double, int>> likelyFirst(const std::vector<double> &raises) {
    std::vector<std::pair<double, int>> order;
    for (size_t s = 0; s < raises.size(); ++s)
      order.push_back({raises[s], static_cast<int>(s)});
    std::sort(order.begin(), order.end());
    return order;
  }
  /// Labels of the first half, the likely ones.
  static size_t firstHalf(const std::vector<std::pair<double, int>> &order) {
    return order.size() <= 3 ? 1 : order.size() / 3;
  }

  int strongest(const Core &core, const Ascent &ascent, const std::vector<std::vector<double>> &raises, double gap, double bound) {
    std::vector<std::pair<double, int>> candidates;
    for (int i = 0; i < core.size(); ++i) {
      std::vector<double> sorted = raises[i];
      std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end());
      double second = std::min(sorted[1] / gap, 1.0);
      double score = (second + 1e-3) * static_cast<double>(1 + core.tablesOf[i].size()) *
                     (1 + 0.2 * static_cast<double>(core.usages[i].size()));
      candidates.push_back({-score, i});
    }
    size_t tried = std::min<size_t>(candidates.size(), kCandidates);
    std::partial_sort(candidates.begin(), candidates.begin() + tried, candidates.end());
    int chosen = candidates[0].second;
    double best = -1;
    for (size_t k = 0; k < tried; ++k) {
      int i = candidates[k].second;
      std::vector<std::pair<double, int>> order = likelyFirst(raises[i]);
      size_t first = firstHalf(order);
      double score = 1;
      for (int side = 0; side < 2; ++side) {
        Core half = core;
        for (size_t n = 0; n < order.size(); ++n)
          if ((n < first) != (side == 0))
            half.costs[i][order[n].second] = kInfinity;
        Reduction left = reduce(std::move(half));
        double gain = gap;
        if (!left.core.contradictory) {
        Dual dual(left.core);
        Ascent part = climb(left.core, dual, pricesFor(left.core, core.moment, ascent.prices), kTrialPasses);
        gain = std::clamp(part.bound - bound, 0.0, gap);
        }
        score *= gain + 1e-3 * gap;
      }
      if (score > best)
        best = score, chosen = i;
    }
    return chosen;
  }

  double split(const Core &core, const std::vector<double> &prices, const Offer &offer, int depth) {
    Dual dual(core);
    Ascent ascent = climb(core, dual, prices, kPasses / 2);
    double bound = dual.pass(ascent.prices);
    std::vector<std::vector<double>> raises = dual.reducedCosts();
    double gap = std::max(hunt.gap(bound), 1e-300);
    int variable = splitVariable(core, raises, gap);
    if (core.allLabels() <= kStrongLabels)
      variable = strongest(core, ascent, raises, gap, bound);
    std::vector<std::pair<double, int>> order = likelyFirst(raises[variable]);
    size_t first = firstHalf(order);
    double unexplored = kInfinity;
    for (int side = 0; side < 2; ++side) {
      double least = bound + order[side == 0 ? 0 : first].first;
      if (hunt.hopeless(least))
        continue;
      if (nodes <= 0 || hunt.over()) {
        unexplored = std::min(unexplored, least);
        continue;
      }
      Core half = core;
      for (size_t k = 0; k < order.size(); ++k)
        if ((k < first) != (side == 0))
          half.costs[variable][order[k].second] = kInfinity;
      Reduction left = reduce(std::move(half));
      hunt.steps -= core.cells();
      Offer up = [&](const Labels &labels) { offer(left.expand(labels)); };
      unexplored = std::min(
          unexplored,
          std::max(least, explore(left.core, pricesFor(left.core, core.moment, ascent.prices), up, depth + 1)));
    }
    return unexplored;
  }

  Hunt &hunt;
  int64_t &nodes;
};

} // namespace

void kerf::search::offerRounded(const Core &core, const Dual &dual, const std::vector<double> &prices, Hunt &hunt,
                                const Offer &offer) {
  State state(core, dual.round());
  bool repaired = repair(state, prices);
  if (repaired)
    descend(state);
  hunt.steps -= 4 * state.steps + core.cells();
  if (!repaired)
    return;
  if (state.allowed() && state.fits() && state.cost < hunt.cutoff)
    offer(state.labels);
}

double kerf::search::branch(const Core &core, const std::vector<double> &prices, Hunt &hunt, int64_t &nodes,
                            const Offer &offer) {
  return Brancher(hunt, nodes).explore(core, prices, offer, 0);
}
