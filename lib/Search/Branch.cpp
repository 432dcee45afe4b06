// SPDX-License-Identifier: Apache-2.0
#include "Branch.h"
#include "Primal.h"
#include "Reduce.h"
#include "Tuning.h"
#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search;
using namespace kerf::search::tuning::branch;

namespace {

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
    --nodes;
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

  /// Labels by what the dual says they cost, in two halves: the likely ones first.
  struct Halves {
    std::vector<std::pair<double, int>> order; // what a label raises the bound by, label
    size_t first = 0;                          // labels of the first half

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

  /// The variable whose halves both raise the bound most, as far as a few passes tell (strong branching: Applegate,
  /// Bixby, Chvatal & Cook 1995), among those about which the dual is surest that only one label will do and that
  /// decide much.
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
    size_t tried = core.allLabels() <= kTrialLabels ? std::min(candidates.size(), kCandidates) : 1;
    std::partial_sort(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(tried), candidates.end());
    int chosen = candidates[0].second;
    double best = -1;
    for (size_t k = 0; k < tried && tried > 1 && !hunt.over(); ++k) {
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

  /// A bound of a half.
  double trial(Core half, const std::vector<double> &prices, const std::vector<int64_t> &moments) {
    hunt.steps -= half.cells() + half.allLabels();
    Reduction left = reduce(std::move(half));
    if (left.core.contradictory)
      return kInfinity;
    Dual dual(left.core);
    return climb(left.core, dual, pricesFor(left.core, moments, prices), kTrialPasses).bound;
  }

  double split(const Core &core, const std::vector<double> &prices, const Offer &offer, int depth) {
    Dual dual(core);
    Ascent ascent = climb(core, dual, prices, kPasses / 2);
    double bound = dual.pass(ascent.prices);
    std::vector<std::vector<double>> raises = dual.reducedCosts();
    double gap = std::max(hunt.gap(bound), 1e-300);
    int variable = splitVariable(core, raises, ascent.prices, bound, gap);
    Halves halves(raises[variable]);
    double unexplored = kInfinity;
    for (int side = 0; side < 2; ++side) {
      double least = bound + halves.order[side == 0 ? 0 : halves.first].first;
      if (hunt.hopeless(least))
        continue;
      if (nodes <= 0 || hunt.over()) {
        unexplored = std::min(unexplored, least);
        continue;
      }
      Reduction left = reduce(halves.of(core, variable, side));
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
