// SPDX-License-Identifier: Apache-2.0
#include "RemainingPrice.h"
#include "SubAxes.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace kerf {

const LeastStepPrices::Entry &LeastStepPrices::of(const std::vector<AxisRef> &axes, int64_t bytes, int64_t shardsOfAxes,
                                                  int64_t shardsOfGoal, const StepPrice &price) {
  std::vector<int64_t> key = {bytes, shardsOfGoal};
  for (const AxisRef &axis : axes)
    key.insert(key.end(), {axis.axis, axis.before, axis.size});
  auto [found, isNew] = known.try_emplace(std::move(key));
  Entry &entry = found->second;
  if (!isNew)
    return entry;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  entry.axes.assign(axes.size(), {kInfinity, kInfinity, kInfinity});
  entry.anyStep = kInfinity;
  for (uint32_t some = 1; some < 1u << axes.size(); ++some) {
    ReshardStep step;
    int64_t ranks = 1;
    for (size_t a = 0; a < axes.size(); ++a)
      if (some >> a & 1) {
        appendMerged(step.axes, axes[a]);
        ranks *= axes[a].size;
      }
    auto least = [&](ReshardStepKind kind, int64_t bytesIn, int64_t bytesOut) {
      step.kind = kind;
      return price(step, bytesIn, bytesOut);
    };
    const int64_t cut = bytes / shardsOfAxes, whole = bytes / (shardsOfAxes / ranks), goal = bytes / shardsOfGoal;
    const double gather = least(ReshardStepKind::AllGather, cut, whole),
                 exchange = std::min({gather, least(ReshardStepKind::AllToAll, cut, cut),
                                      least(ReshardStepKind::CollectivePermute, cut, cut)}),
                 sum = std::min(least(ReshardStepKind::ReduceScatter, whole, cut),
                                least(ReshardStepKind::AllReduce, whole, whole));
    for (size_t a = 0; a < axes.size(); ++a)
      if (some >> a & 1) {
        Axis &its = entry.axes[a];
        const int64_t without = bytes / (shardsOfAxes / axes[a].size);
        its.moved = std::min(its.moved, exchange);
        its.gone = std::min({its.gone, gather, least(ReshardStepKind::CollectivePermute, without, without)});
        its.summed = std::min(its.summed, sum);
      }
    entry.anyStep = std::min(
        {entry.anyStep, least(ReshardStepKind::AllGather, goal / ranks, goal),
         least(ReshardStepKind::AllToAll, goal, goal), least(ReshardStepKind::CollectivePermute, goal, goal),
         least(ReshardStepKind::ReduceScatter, goal, goal / ranks), least(ReshardStepKind::AllReduce, goal, goal)});
  }
  return entry;
}

namespace reshard {

namespace {
// With more sub-axes than this, reshardPrice does not estimate the remaining price: it would price too many groups.
constexpr size_t kMaxEstimatedSubAxes = 5;
constexpr double kLessRounding = 1 - 1e-9; // keeps the rounding of sums from making an estimate too high
} // namespace

/// A rank holds at least the tensor's bytes divided by the sizes of all sub-axes that can cut it.
RemainingPrice::RemainingPrice(const LayoutSpace &space, LeastStepPrices &known, const StepPrice &price) {
  const size_t count = space.subAxes.size();
  if (space.anyOverlap || count > kMaxEstimatedSubAxes)
    return;
  dims = space.cutDims.size();
  goalPartial = space.goal.partial;
  int64_t all = space.elementBytes, ofGoal = 1, ofAxes = 1;
  for (int64_t size : space.shape)
    all *= size;
  for (size_t d = 0; d < dims; ++d) {
    goalBits[d] = space.goal.dims[d].mask();
    goalCuts |= goalBits[d];
    ofGoal *= space.shardCountOf(space.goal.dims[d]);
  }
  std::vector<AxisRef> sorted;
  for (uint8_t a : space.inOrder) {
    sorted.push_back(space.subAxes[a]);
    ofAxes *= space.subAxes[a].size;
  }
  const LeastStepPrices::Entry &entry = known.of(sorted, all, ofAxes, ofGoal, price);
  for (size_t i = 0; i < count; ++i) {
    moved[space.inOrder[i]] = entry.axes[i].moved * kLessRounding;
    gone[space.inOrder[i]] = entry.axes[i].gone * kLessRounding;
    summed[space.inOrder[i]] = entry.axes[i].summed * kLessRounding;
  }
  anyStep = entry.anyStep * kLessRounding;
  estimates = true;
}

/// A sub-axis that cuts a dimension which it does not cut in the goal has to take part in some step that communicates,
/// and so has a sub-axis over which the value is partial and the goal is not.
double RemainingPrice::from(const Layout &layout) const {
  if (!estimates)
    return 0;
  uint32_t leaving = 0;
  for (size_t d = 0; d < dims; ++d)
    leaving |= layout.dims[d].mask() & ~goalBits[d];
  uint32_t partial = layout.partial & ~goalPartial;
  double most = leaving | partial ? anyStep : 0;
  for (; leaving; leaving &= leaving - 1) {
    const int a = std::countr_zero(leaving);
    most = std::max(most, goalCuts >> a & 1 ? moved[a] : gone[a]);
  }
  for (; partial; partial &= partial - 1)
    most = std::max(most, summed[std::countr_zero(partial)]);
  return most;
}

} // namespace reshard
} // namespace kerf
