// SPDX-License-Identifier: Apache-2.0
// Tests of resharding: worked examples, and random pairs of shardings that are executed on all ranks. The value must
// stay the same, and no more bytes may move than by gathering and slicing.
#include "Simulation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::simulation;

namespace {

const AxisRef kX{0, 1, 4}, kY{1, 1, 2}, kX1{0, 1, 2}, kX2{0, 2, 2};

std::string describe(const Mesh &mesh, const Shape &shape, const std::vector<ReshardStep> &steps) {
  std::string text;
  for (const ReshardStep &step : steps)
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", toString(step.kind), toString(mesh, shape, step.after));
  return text;
}

std::string planText(const Shape &shape, const Sharding &from, const Sharding &to) {
  Result<std::vector<ReshardStep>> steps = planReshard(kMesh, shape, 4, from, to, bytesReceived);
  return steps ? describe(kMesh, shape, *steps) : steps.error().message;
}

} // namespace

TEST(Reshard, EqualPlacementsNeedNothing) {
  const Sharding whole{{{{kX}, 2}, {}}, {}, ReduceKind::Sum}, parts{{{{kX1, kX2}, 2}, {}}, {}, ReduceKind::Sum};
  EXPECT_EQ(planText({8, 8}, whole, whole), "");
  EXPECT_EQ(planText({8, 8}, parts, whole), "");
}

TEST(Reshard, SingleSteps) {
  const Shape shape{8, 8};
  const Sharding none = Sharding::replicated(2), rows{{{{kX}, 2}, {}}, {}, ReduceKind::Sum},
                 columns{{{}, {{kX}, 2}}, {}, ReduceKind::Sum};
  const Sharding sum{{{}, {}}, {kX}, ReduceKind::Sum};
  EXPECT_EQ(planText(shape, none, rows), R"(local_slice [{"x"}, {}])");
  EXPECT_EQ(planText(shape, rows, none), "all_gather [{}, {}]");
  EXPECT_EQ(planText(shape, rows, columns), R"(all_to_all [{}, {"x"}])");
  EXPECT_EQ(planText(shape, sum, none), "all_reduce [{}, {}]");
  EXPECT_EQ(planText(shape, sum, columns), R"(reduce_scatter [{}, {"x"}])");
  const Sharding xy{{{{kX, kY}, 1}, {}}, {}, ReduceKind::Sum}, yx{{{{kY, kX}, 1}, {}}, {}, ReduceKind::Sum};
  EXPECT_EQ(planText(shape, xy, yx), R"(collective_permute [{"y", "x"}, {}])");
  const Sharding half{{{{kX1}, 4}, {}}, {}, ReduceKind::Sum};
  EXPECT_EQ(planText(shape, rows, half), R"(all_gather [{"x":(1)2}, {}])");
}

TEST(Reshard, PartialValuesStayPartialWhereAsked) {
  const Shape shape{8, 8};
  const Sharding both{{{}, {}}, {kX, kY}, ReduceKind::Sum}, one{{{}, {}}, {kY}, ReduceKind::Sum},
      cut{{{{kX}, 2}, {}}, {kY}, ReduceKind::Sum};
  EXPECT_EQ(planText(shape, both, one), R"(all_reduce [{}, {}] partial ["y"])");
  EXPECT_EQ(planText(shape, both, cut), R"(reduce_scatter [{"x"}, {}] partial ["y"])");
}

TEST(Reshard, SlicesBeforeItMoves) {
  // In the target, x is the major axis of the rows, and each rank needs half a chunk: a permute moves an eighth of the
  // tensor, a gather would move a half.
  const Sharding from{{{{kY}, 4}, {}}, {}, ReduceKind::Sum}, to{{{{kX, kY}, 1}, {}}, {}, ReduceKind::Sum};
  EXPECT_EQ(planText({8, 8}, from, to), R"(local_slice [{"y", "x"}, {}]; collective_permute [{"x", "y"}, {}])");
}

TEST(Reshard, ChunksThatDoNotRefineAreGathered) {
  // 10 rows over x are 3 rows per rank, and over x and y 2 rows per rank; 2 is not half of 3.
  const Sharding from{{{{kX}, 3}}, {}, ReduceKind::Sum}, to{{{{kX, kY}, 2}}, {}, ReduceKind::Sum},
      aligned{{{{kX}, 4}}, {}, ReduceKind::Sum};
  EXPECT_EQ(planText({10}, from, to), R"(all_gather [{}]; local_slice [{"x", "y"}])");
  EXPECT_EQ(planText({10}, aligned, to), R"(local_slice [{"x", "y"}])");
  EXPECT_EQ(planText({10}, to, aligned), R"(all_gather [{"x"}/4])");
}

TEST(Reshard, RefusesToMakePartial) {
  const Sharding whole = Sharding::replicated(1), sum{{{}}, {kX}, ReduceKind::Sum}, max{{{}}, {kX}, ReduceKind::Max},
                 half{{{}}, {kX2}, ReduceKind::Sum};
  EXPECT_FALSE(canReshard(whole, sum));
  EXPECT_FALSE(canReshard(sum, max));
  EXPECT_FALSE(canReshard(half, sum));
  EXPECT_TRUE(canReshard(sum, half));
  EXPECT_NE(planText({8}, whole, sum).find("does not become partial"), std::string::npos);
  const Sharding uncovered{{{{kX}, 1}}, {}, ReduceKind::Sum};
  EXPECT_NE(
      planText({8}, uncovered, whole).find("reshard from: dimension 0 of size 8 is not covered by 4 chunks of 1 = 4"),
      std::string::npos);
}

TEST(Reshard, PermuteSourcesAreAPermutationThatKeepsWhatItCan) {
  const Mesh mesh{{{"x", 3}, {"y", 3}, {"z", 2}}};
  const Sharding before{{{{{0, 1, 3}}, 2}}, {}, ReduceKind::Sum}, after{{{{{1, 1, 3}}, 2}}, {}, ReduceKind::Sum};
  EXPECT_EQ(permuteAxes(mesh, before, after), (std::vector<AxisRef>{{0, 1, 3}, {1, 1, 3}}));
  std::vector<int> sends(mesh.ranks(), 0);
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const int64_t source = permuteSource(mesh, before, after, rank);
    ++sends[source];
    EXPECT_EQ(mesh.coordinate(source, 0), mesh.coordinate(rank, 1));
    EXPECT_EQ(mesh.coordinate(source, 2), mesh.coordinate(rank, 2));
    if (mesh.coordinate(rank, 0) == mesh.coordinate(rank, 1)) {
      EXPECT_EQ(source, rank);
    }
  }
  EXPECT_EQ(sends, std::vector<int>(mesh.ranks(), 1));
}

namespace {

/// Returns a random target for `from` that is partial only over axes over which `from` is partial.
Sharding randomTarget(const Mesh &mesh, const Shape &shape, const Sharding &from, std::mt19937 &random) {
  Sharding to = randomSharding(mesh, shape, random);
  if (canReshard(from, to))
    return to;
  to.partial.clear();
  to.partialKind = ReduceKind::Sum;
  // Some partial axes of `from` stay partial if `to` does not use them.
  for (const AxisRef &ref : from.partial) {
    Sharding more = to;
    more.partial.push_back(ref);
    more.partialKind = from.partialKind;
    if (pick(random, 0, 1) && checkSharding(mesh, shape, more))
      to = more;
  }
  return to;
}

double stepBytes(const Shape &shape, const Sharding &before, const ReshardStep &step) {
  return bytesReceived(step, 4 * elements(localShape(shape, before)), 4 * elements(localShape(shape, step.after)));
}

/// Returns the bytes of an all-reduce and a gather of every dimension that differs; slicing is free.
double gatherThenSliceBytes(const Shape &shape, const Sharding &from, const Sharding &to) {
  Sharding now = from;
  const double n = static_cast<double>(shardCount(from.partial)) / static_cast<double>(shardCount(to.partial));
  double bytes = 2.0 * 4 * static_cast<double>(elements(localShape(shape, from))) * (n - 1) / n;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (canonical(from).dims[d] == canonical(to).dims[d] || from.dims[d].axes.empty())
      continue;
    const ReshardStep step{ReshardStepKind::AllGather, from.dims[d].axes, static_cast<int>(d), -1, [&] {
                             Sharding after = now;
                             after.dims[d] = {};
                             return after;
                           }()};
    bytes += stepBytes(shape, now, step);
    now = step.after;
  }
  return bytes;
}

/// Plans and executes one random reshard. Returns a description of what went wrong, or nothing.
std::string tryOne(uint32_t seed) {
  std::mt19937 random(seed);
  const Mesh mesh = randomMesh(random, 64);
  const Shape shape = randomShape(random, 3);
  const Sharding from = randomSharding(mesh, shape, random), to = randomTarget(mesh, shape, from, random);
  const std::string what = fmt::format("{} -> {}: ", toString(mesh, shape, from), toString(mesh, shape, to));

  Result<std::vector<ReshardStep>> steps = planReshard(mesh, shape, 4, from, to, bytesReceived);
  if (!steps)
    return what + steps.error().message;
  const std::string plan = what + describe(mesh, shape, *steps) + ": ";
  const Array value = randomArray(shape, random);
  Ranks ranks = place(mesh, value, from, random);
  Sharding now = from;
  double bytes = 0;
  for (const ReshardStep &step : *steps) {
    if (Status status = checkSharding(mesh, shape, step.after); !status)
      return plan + status.error().message;
    bytes += stepBytes(shape, now, step);
    ranks = carryOut(mesh, shape, now, step, ranks);
    now = step.after;
    if (const std::string wrong = difference(mesh, value, now, ranks); !wrong.empty())
      return plan + fmt::format("after {}: {}", toString(mesh, shape, now), wrong);
  }
  if (canonical(now) != canonical(to) || (!steps->empty() && now != to))
    return plan + "ends elsewhere";
  if (const double most = gatherThenSliceBytes(shape, from, to); bytes > most * (1 + 1e-12))
    return plan + fmt::format("{} bytes, gathering and slicing takes {}", bytes, most);
  return "";
}

} // namespace

TEST(Reshard, RandomPairsKeepTheValueAndNeverMoveMoreThanGatherAndSlice) {
  for (uint32_t seed = 0; seed < 3000; ++seed)
    ASSERT_EQ(tryOne(seed), "") << "seed " << seed;
}
