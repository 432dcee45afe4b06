// SPDX-License-Identifier: Apache-2.0
// Compares the price of planReshard with an independent shortest path over all shardings of a small tensor.
#include "kerf/Sharding/ReshardPrice.h"
#include "Simulation.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <set>

using namespace kerf;
using namespace kerf::simulation;

namespace {

/// Returns all shardings of the shape by complete axes with default chunks. The sizes divide evenly, so that there is
/// no padding.
std::vector<Sharding> allShardings(const Mesh &mesh, const Shape &shape) {
  std::vector<Sharding> done{Sharding::replicated(shape.size())};
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    const AxisRef ref = wholeAxis(mesh, static_cast<int>(axis));
    std::vector<Sharding> next = done;
    for (const Sharding &sharding : done) {
      next.push_back(sharding);
      next.back().partial.push_back(ref);
      for (size_t d = 0; d < shape.size(); ++d)
        for (size_t at = 0; at <= sharding.dims[d].axes.size(); ++at) {
          next.push_back(sharding);
          std::vector<AxisRef> &axes = next.back().dims[d].axes;
          axes.insert(axes.begin() + static_cast<int64_t>(at), ref);
        }
    }
    done = std::move(next);
  }
  for (Sharding &sharding : done)
    for (size_t d = 0; d < shape.size(); ++d)
      sharding.dims[d].chunk = defaultChunk(shape[d], sharding.dims[d].axes);
  return done;
}

/// Returns the axes that `many` has after those of `few`, or nothing if `many` does not begin with `few` or equals it.
std::optional<std::vector<AxisRef>> addedAxes(const std::vector<AxisRef> &few, const std::vector<AxisRef> &many) {
  if (few.size() >= many.size() || !std::equal(few.begin(), few.end(), many.begin()))
    return std::nullopt;
  return std::vector<AxisRef>(many.begin() + static_cast<int64_t>(few.size()), many.end());
}

std::vector<AxisRef> sorted(std::vector<AxisRef> refs) {
  std::sort(refs.begin(), refs.end());
  return refs;
}

std::vector<AxisRef> minus(const std::vector<AxisRef> &a, const std::vector<AxisRef> &b) {
  std::vector<AxisRef> rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rest));
  return rest;
}

/// Returns the single step that takes `a` to `b`, if there is one.
std::optional<ReshardStep> stepBetween(const Mesh &mesh, const Shape &shape, const Sharding &a, const Sharding &b) {
  const std::vector<AxisRef> reduced = minus(a.partial, b.partial);
  if (!minus(b.partial, a.partial).empty())
    return std::nullopt;
  std::vector<int> differing;
  for (size_t d = 0; d < shape.size(); ++d)
    if (a.dims[d].axes != b.dims[d].axes)
      differing.push_back(static_cast<int>(d));
  if (differing.empty() && !reduced.empty())
    return ReshardStep{ReshardStepKind::AllReduce, reduced, -1, -1, b};
  if (differing.size() == 1) {
    const int d = differing[0];
    const auto gained = addedAxes(a.dims[d].axes, b.dims[d].axes), lost = addedAxes(b.dims[d].axes, a.dims[d].axes);
    if (gained && reduced.empty())
      return ReshardStep{ReshardStepKind::LocalSlice, *gained, d, -1, b};
    if (gained && sorted(*gained) == reduced)
      return ReshardStep{ReshardStepKind::ReduceScatter, *gained, d, -1, b};
    if (lost && reduced.empty())
      return ReshardStep{ReshardStepKind::AllGather, *lost, d, -1, b};
  }
  if (!reduced.empty())
    return std::nullopt;
  if (differing.size() == 2)
    for (const auto &[d, other] : {std::pair(differing[0], differing[1]), std::pair(differing[1], differing[0])}) {
      const auto lost = addedAxes(b.dims[d].axes, a.dims[d].axes),
                 gained = addedAxes(a.dims[other].axes, b.dims[other].axes);
      if (lost && lost == gained)
        return ReshardStep{ReshardStepKind::AllToAll, *lost, d, other, b};
    }
  if (!differing.empty() && localShape(shape, a) == localShape(shape, b))
    return ReshardStep{ReshardStepKind::CollectivePermute, permuteAxes(mesh, a, b), -1, -1, b};
  return std::nullopt;
}

/// A price with a latency, so that many small steps are more expensive than one.
double withLatency(const ReshardStep &step, int64_t bytesIn, int64_t bytesOut) {
  constexpr double kLatencyBytes = 40;
  return step.kind == ReshardStepKind::LocalSlice ? 0.01 : kLatencyBytes + bytesReceived(step, bytesIn, bytesOut);
}

/// The axes and dimensions that `a` or `b` uses; a path between the two may use only these.
struct Reach {
  std::set<AxisRef> axes;
  std::set<size_t> dims;

  explicit Reach(const Sharding &a, const Sharding &b) { add(a), add(b); }
  void add(const Sharding &sharding) {
    axes.insert(sharding.partial.begin(), sharding.partial.end());
    for (size_t d = 0; d < sharding.dims.size(); ++d) {
      axes.insert(sharding.dims[d].axes.begin(), sharding.dims[d].axes.end());
      if (!sharding.dims[d].axes.empty())
        dims.insert(d);
    }
  }
  bool contains(const Sharding &sharding) const {
    Reach all = *this;
    all.add(sharding);
    return all.axes == axes && all.dims == dims;
  }
};

struct Graph {
  std::vector<Sharding> all;
  std::vector<std::vector<double>> price; // price of the single step between two shardings; infinity if there is none

  Graph(const Mesh &mesh, const Shape &shape, const StepPrice &stepPrice) : all(allShardings(mesh, shape)) {
    for (const Sharding &a : all) {
      price.emplace_back();
      for (const Sharding &b : all) {
        const std::optional<ReshardStep> step = stepBetween(mesh, shape, a, b);
        price.back().push_back(
            step ? stepPrice(*step, 4 * elements(localShape(shape, a)), 4 * elements(localShape(shape, b))) : INFINITY);
      }
    }
  }

  double shortest(size_t from, size_t to) const {
    const Reach reach(all[from], all[to]);
    std::vector<double> total(all.size(), INFINITY);
    std::vector<bool> open;
    for (const Sharding &sharding : all)
      open.push_back(reach.contains(sharding));
    for (total[from] = 0;;) {
      size_t nearest = all.size();
      for (size_t i = 0; i < all.size(); ++i)
        if (open[i] && total[i] < INFINITY && (nearest == all.size() || total[i] < total[nearest]))
          nearest = i;
      if (nearest == all.size() || nearest == to)
        return total[to];
      open[nearest] = false;
      for (size_t i = 0; i < all.size(); ++i)
        if (open[i])
          total[i] = std::min(total[i], total[nearest] + price[nearest][i]);
    }
  }
};

/// Compares all pairs of shardings. Returns a description of the first difference, or nothing.
std::string compareAll(const Mesh &mesh, const Shape &shape, const StepPrice &price) {
  const Graph graph(mesh, shape, price);
  LeastStepPrices known;
  for (size_t i = 0; i < graph.all.size(); ++i)
    for (size_t j = 0; j < graph.all.size(); ++j) {
      const Sharding &from = graph.all[i], &to = graph.all[j];
      const std::string what = fmt::format("{} -> {}: ", toString(mesh, shape, from), toString(mesh, shape, to));
      const double best = graph.shortest(i, j);
      if (canReshard(from, to) != (best < INFINITY))
        return what + "canReshard is wrong";
      if (best == INFINITY)
        continue;
      Result<std::vector<ReshardStep>> steps = planReshard(mesh, shape, 4, from, to, price);
      if (!steps)
        return what + steps.error().message;
      std::string text;
      double found = 0;
      Sharding now = from;
      for (const ReshardStep &step : *steps) {
        found += price(step, 4 * elements(localShape(shape, now)), 4 * elements(localShape(shape, step.after)));
        now = step.after;
        text += fmt::format("; {} {}", toString(step.kind), toString(mesh, shape, now));
      }
      if (std::abs(found - best) > 1e-9)
        return what + fmt::format("{} instead of {}{}", found, best, text);
      if (Result<double> alone = reshardPrice(mesh, shape, 4, from, to, price, known);
          !alone || std::abs(*alone - best) > 1e-9)
        return what + fmt::format("{} by reshardPrice instead of {}{}", alone ? *alone : NAN, best, text);
    }
  return "";
}

} // namespace

TEST(ReshardPrice, EqualsExhaustiveShortestPathOnTwoAxes) {
  EXPECT_EQ(compareAll({{{"x", 2}, {"y", 2}}}, {8, 8}, bytesReceived), "");
  EXPECT_EQ(compareAll({{{"x", 2}, {"y", 3}}}, {12, 12}, bytesReceived), "");
  EXPECT_EQ(compareAll({{{"x", 4}, {"y", 2}}}, {16, 8, 8}, withLatency), "");
}

TEST(ReshardPrice, EqualsExhaustiveShortestPathOnThreeAxes) {
  EXPECT_EQ(compareAll({{{"x", 2}, {"y", 2}, {"z", 2}}}, {8, 8}, bytesReceived), "");
  EXPECT_EQ(compareAll({{{"x", 2}, {"y", 3}, {"z", 2}}}, {12, 12}, withLatency), "");
}

TEST(ReshardPrice, PriceAloneIsThatOfThePlan) {
  // Some axes are slow, kinds of steps differ in latency, and sizes do not divide evenly.
  const StepPrice uneven = [](const ReshardStep &step, int64_t bytesIn, int64_t bytesOut) {
    double slowest = 1;
    for (const AxisRef &axis : step.axes)
      slowest = std::max(slowest, axis.axis == 0 ? 9.0 : static_cast<double>(axis.axis));
    return slowest * bytesReceived(step, bytesIn, bytesOut) + 3 * static_cast<double>(step.kind);
  };
  int compared = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const Mesh mesh = randomMesh(random, 96);
    const Shape shape = randomShape(random, 3);
    LeastStepPrices known;
    for (int i = 0; i < 4; ++i) {
      const Sharding from = randomSharding(mesh, shape, random), to = randomSharding(mesh, shape, random);
      if (!canReshard(from, to))
        continue;
      double planned = 0;
      Sharding now = from;
      const Result<std::vector<ReshardStep>> steps = planReshard(mesh, shape, 4, from, to, uneven);
      ASSERT_TRUE(steps);
      for (const ReshardStep &step : *steps) {
        planned += uneven(step, 4 * elements(localShape(shape, now)), 4 * elements(localShape(shape, step.after)));
        now = step.after;
      }
      EXPECT_NEAR(*reshardPrice(mesh, shape, 4, from, to, uneven, known), planned, 1e-9 * planned)
          << "seed " << seed << ": " << toString(mesh, shape, from) << " -> " << toString(mesh, shape, to);
      ++compared;
    }
  }
  EXPECT_GT(compared, 3000);
}

TEST(ReshardPrice, PlansAreTheSameEveryTime) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const Mesh mesh = randomMesh(random, 36);
    const Shape shape = randomShape(random, 3);
    const Sharding from = randomSharding(mesh, shape, random), to = randomSharding(mesh, shape, random);
    if (!canReshard(from, to))
      continue;
    EXPECT_EQ(*planReshard(mesh, shape, 4, from, to, withLatency), *planReshard(mesh, shape, 4, from, to, withLatency))
        << "seed " << seed;
  }
}

TEST(ReshardPrice, PathsThatTieHaveFewerSteps) {
  // If every step costs 1, all-reduce and slice lose to reduce-scatter, and gathers of single axes to one gather.
  const StepPrice one = [](const ReshardStep &, int64_t, int64_t) { return 1.0; };
  const Mesh mesh{{{"x", 2}, {"y", 2}}};
  const AxisRef x = wholeAxis(mesh, 0), y = wholeAxis(mesh, 1);
  const Sharding cut{{{{x, y}, 2}}, {}, ReduceKind::Sum}, sum{{{}}, {x, y}, ReduceKind::Sum},
      whole = Sharding::replicated(1);
  EXPECT_EQ(planReshard(mesh, {8}, 4, sum, cut, one)->size(), 1u);
  EXPECT_EQ(planReshard(mesh, {8}, 4, cut, whole, one)->size(), 1u);
  EXPECT_EQ(planReshard(mesh, {8}, 4, sum, whole, one)->size(), 1u);
}
