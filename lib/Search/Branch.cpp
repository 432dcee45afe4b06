// SPDX-License-Identifier: Apache-2.0
#include "Branch.h"
#include "Primal.h"
#include "Reduce.h"
#include "Tuning.h"
#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search;
using namespace kerf::search::tuning;

namespace {

class Brancher {
public:
  Brancher(SearchLimits &limits, int64_t &nodes) : limits(limits), nodes(nodes) {}

  double explore(const Core &core, const std::vector<double> &prices, const OnChoice &onChoice, int depth) {
    if (core.infeasible || (core.size() == 0 && limits.prunes(core.constant)))
      return kInfinity;
    if (core.size() == 0) {
      onChoice({});
      return kInfinity;
    }
    --nodes;
    limits.stepsLeft -= branching::kOverhead;
    Dual dual(core);
    AscentResult ascent = climb(core, dual, prices, depth == 0 ? 10 * branching::kPasses : branching::kPasses);
    if (limits.prunes(ascent.bound))
      return kInfinity;
    double bound = dual.pass(ascent.prices);
    offerRoundedChoice(core, dual, ascent.prices, limits, onChoice);
    if (limits.prunes(bound))
      return kInfinity;
    if (nodes <= 0 || limits.exhausted() || depth > branching::kDepth)
      return bound;
    Reduction left = reduce(dual.prune(limits.prunableGap(bound)));
    limits.stepsLeft -= 4 * core.cells();
    OnChoice up = [&](const Labels &labels) { onChoice(left.expand(labels)); };
    std::vector<double> kept = mapPrices(left.core, core.moment, ascent.prices);
    double below = left.core.infeasible || left.core.size() == 0 ||
                           left.core.allLabels() < branching::kRepeatShare * static_cast<double>(core.allLabels())
                       ? explore(left.core, kept, up, depth + 1)
                       : split(left.core, kept, up, depth);
    return std::max(below, bound);
  }

private:
  AscentResult climb(const Core &core, Dual &dual, const std::vector<double> &prices, int passes) {
    AscentOptions options;
    options.passes = passes;
    options.rate = branching::kRate;
    options.width = limits.undecidedWidth(core.constant);
    options.enough = limits.cutoff - limits.leastCostStep;
    AscentResult ascent =
        ascend(core, dual, prices, options, [](const AscentResult &, const std::vector<double> &) { return true; });
    limits.stepsLeft -= ascent.steps;
    return ascent;
  }

  /// A variable's labels in two halves, by their reduced costs: the cheap ones, which more likely contain
  /// the optimum, come first.
  struct Halves {
    std::vector<std::pair<double, int>> order; // (reduced cost, label), ascending
    size_t first = 0;                          // number of labels in the first half

    explicit Halves(const std::vector<double> &raises) {
      for (size_t s = 0; s < raises.size(); ++s)
        order.push_back({raises[s], static_cast<int>(s)});
      std::sort(order.begin(), order.end());
      first = order.size() <= 3 ? 1 : order.size() / 3;
    }
    Core of(const Core &core, int variable, int side) const {
      Core half = core;
      for (size_t k = 0; k < order.size(); ++k)
        if ((k < first) != (side == 0))
          half.costs[variable][order[k].second] = kInfinity;
      return half;
    }
  };

  /// Returns the variable whose halves both raise the bound most after a few passes (strong branching:
  /// Applegate, Bixby, Chvatal & Cook 1995). Candidates are variables with a large second-least reduced cost,
  /// many tables and much memory.
  int splitVariable(const Core &core, const std::vector<std::vector<double>> &raises, const std::vector<double> &prices,
                    double bound, double gap) {
    std::vector<std::pair<double, int>> candidates;
    for (int i = 0; i < core.size(); ++i) {
      std::vector<double> sorted = raises[i];
      std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end());
      double second = std::min(sorted[1] / gap, 1.0);
      candidates.push_back({-(second + 1e-3) * static_cast<double>(1 + core.tablesOf[i].size()) *
                                (1 + 0.2 * static_cast<double>(core.usages[i].size())),
                            i});
    }
    size_t tried =
        core.allLabels() <= branching::kTrialLabels ? std::min(candidates.size(), branching::kCandidates) : 1;
    std::partial_sort(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(tried), candidates.end());
    int chosen = candidates[0].second;
    double best = -1;
    for (size_t k = 0; k < tried && tried > 1 && !limits.exhausted(); ++k) {
      int variable = candidates[k].second;
      Halves halves(raises[variable]);
      double score = 1;
      for (int side = 0; side < 2; ++side)
        score *= std::clamp(trial(halves.of(core, variable, side), prices, core.moment) - bound, 1e-3 * gap, gap);
      if (score > best)
        best = score, chosen = variable;
    }
    return chosen;
  }

  /// Returns a lower bound of one half.
  double trial(Core half, const std::vector<double> &prices, const std::vector<int64_t> &moments) {
    limits.stepsLeft -= half.cells() + half.allLabels();
    Reduction left = reduce(std::move(half));
    if (left.core.infeasible)
      return kInfinity;
    Dual dual(left.core);
    return climb(left.core, dual, mapPrices(left.core, moments, prices), branching::kTrialPasses).bound;
  }

  double split(const Core &core, const std::vector<double> &prices, const OnChoice &onChoice, int depth) {
    Dual dual(core);
    AscentResult ascent = climb(core, dual, prices, branching::kPasses / 2);
    double bound = dual.pass(ascent.prices);
    std::vector<std::vector<double>> raises = dual.reducedCosts();
    double gap = std::max(limits.prunableGap(bound), 1e-300);
    int variable = splitVariable(core, raises, ascent.prices, bound, gap);
    Halves halves(raises[variable]);
    double unexplored = kInfinity;
    for (int side = 0; side < 2; ++side) {
      double least = bound + halves.order[side == 0 ? 0 : halves.first].first;
      if (limits.prunes(least))
        continue;
      if (nodes <= 0 || limits.exhausted()) {
        unexplored = std::min(unexplored, least);
        continue;
      }
      Reduction left = reduce(halves.of(core, variable, side));
      limits.stepsLeft -= core.cells();
      OnChoice up = [&](const Labels &labels) { onChoice(left.expand(labels)); };
      unexplored = std::min(
          unexplored,
          std::max(least, explore(left.core, mapPrices(left.core, core.moment, ascent.prices), up, depth + 1)));
    }
    return unexplored;
  }

  SearchLimits &limits;
  int64_t &nodes;
};

} // namespace

void kerf::search::offerRoundedChoice(const Core &core, const Dual &dual, const std::vector<double> &prices,
                                      SearchLimits &limits, const OnChoice &onChoice) {
  LocalSearchState state(core, dual.round());
  bool repaired = repair(state, prices);
  if (repaired)
    descend(state);
  limits.stepsLeft -= 4 * state.steps + core.cells();
  if (!repaired)
    return;
  if (state.allowed() && state.fits() && state.cost < limits.cutoff)
    onChoice(state.labels);
}

double kerf::search::branch(const Core &core, const std::vector<double> &prices, SearchLimits &limits, int64_t &nodes,
                            const OnChoice &onChoice) {
  return Brancher(limits, nodes).explore(core, prices, onChoice, 0);
}
