// SPDX-License-Identifier: Apache-2.0
// Tests of the worked examples in Sharding.h, of sub-axes and process groups by brute force, and of checkSharding.
#include "Simulation.h"

#include <gtest/gtest.h>
#include <set>

using namespace kerf;
using kerf::simulation::kMesh;

namespace {

std::string complaint(const Shape &shape, const Sharding &sharding) {
  const Status status = checkSharding(kMesh, shape, sharding);
  return status ? "" : status.error().message;
}

} // namespace

TEST(Sharding, WorkedExample) {
  const Sharding sharding{{{{wholeAxis(kMesh, 0)}, 3}, {}}, {wholeAxis(kMesh, 1)}, ReduceKind::Sum};
  EXPECT_EQ(complaint({10, 6}, sharding), "");
  EXPECT_EQ(toString(kMesh, {10, 6}, sharding), R"([{"x"}, {}] partial ["y"])");
  EXPECT_EQ(localShape({10, 6}, sharding), (Shape{3, 6}));
  const int64_t begins[] = {0, 3, 6, 9}, counts[] = {3, 3, 3, 1};
  for (int64_t rank = 0; rank < 8; ++rank) {
    const Extent extent = validExtent(10, sharding.dims[0], kMesh, rank);
    EXPECT_EQ(extent.begin, begins[rank / 2]);
    EXPECT_EQ(extent.count, counts[rank / 2]);
  }
  EXPECT_TRUE(isPadded(10, sharding.dims[0]));
  EXPECT_FALSE(isPadded(12, sharding.dims[0]));
  EXPECT_FALSE(isPadded(6, sharding.dims[1]));
}

TEST(Sharding, TrailingRanksMayHoldOnlyPadding) {
  const DimSharding dim{{wholeAxis(kMesh, 0)}, 2}; // 3 elements over 4 ranks in chunks of 2: 2, 1, 0, 0
  EXPECT_EQ(validExtent(3, dim, kMesh, 2).count, 1);
  EXPECT_EQ(validExtent(3, dim, kMesh, 4).count, 0);
  EXPECT_EQ(validExtent(3, dim, kMesh, 6).count, 0);
}

TEST(Sharding, SubAxesAreDigitsOfTheAxis) {
  const Mesh mesh{{{"x", 12}, {"y", 5}}};
  const AxisRef parts[] = {{0, 1, 2}, {0, 2, 3}, {0, 6, 2}};
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const int64_t x = rank / 5;
    EXPECT_EQ(coordinate(mesh, parts[0], rank), x / 6);
    EXPECT_EQ(coordinate(mesh, parts[1], rank), x / 2 % 3);
    EXPECT_EQ(coordinate(mesh, parts[2], rank), x % 2);
    EXPECT_EQ(position(mesh, parts, rank), x);
  }
  EXPECT_EQ(mergeParts(parts), std::vector<AxisRef>{wholeAxis(mesh, 0)});
  const AxisRef backwards[] = {parts[1], parts[0]};
  EXPECT_EQ(mergeParts(backwards), (std::vector<AxisRef>{parts[1], parts[0]}));
}

TEST(Sharding, GroupsAreOrderedByPosition) {
  const Mesh mesh{{{"x", 4}, {"y", 3}, {"z", 2}}};
  const AxisRef refs[] = {{2, 1, 2}, {0, 2, 2}};
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const std::vector<int64_t> group = groupOf(mesh, refs, rank);
    ASSERT_EQ(group.size(), 4u);
    EXPECT_EQ(group[position(mesh, refs, rank)], rank);
    for (size_t p = 0; p < group.size(); ++p) {
      EXPECT_EQ(position(mesh, refs, group[p]), static_cast<int64_t>(p));
      EXPECT_EQ(mesh.coordinate(group[p], 1), mesh.coordinate(rank, 1));
      EXPECT_EQ(mesh.coordinate(group[p], 0) / 2, mesh.coordinate(rank, 0) / 2);
      EXPECT_EQ(rankAt(mesh, refs, rank, static_cast<int64_t>(p)), group[p]);
    }
    EXPECT_EQ(std::set<int64_t>(group.begin(), group.end()).size(), 4u);
  }
}

TEST(Sharding, PrintsSubAxesChunksAndKinds) {
  const Sharding sharding{{{{{0, 1, 2}, {1, 1, 2}}, 32}, {}}, {{0, 2, 2}}, ReduceKind::Max};
  EXPECT_EQ(toString(kMesh, {100, 6}, sharding), R"([{"x":(1)2, "y"}/32, {}] partial(max) ["x":(2)2])");
  EXPECT_EQ(toString(kMesh, {128, 6}, sharding), R"([{"x":(1)2, "y"}, {}] partial(max) ["x":(2)2])");
}

TEST(Sharding, CheckNamesBothNumbers) {
  const AxisRef x = wholeAxis(kMesh, 0), y = wholeAxis(kMesh, 1);
  EXPECT_EQ(complaint({8, 8}, Sharding::replicated(1)),
            "the sharding has 1 dimensions, the tensor 2; give one entry for each dimension");
  EXPECT_EQ(complaint({8}, {{{{x}, 1}}, {}, ReduceKind::Sum}),
            "dimension 0 of size 8 is not covered by 4 chunks of 1 = 4; the chunk must be at least 2");
  EXPECT_NE(complaint({8}, {{{{x}, 0}}, {}, ReduceKind::Sum}), "");
  EXPECT_NE(complaint({8}, {{{{}, 8}}, {}, ReduceKind::Sum}), "");
  EXPECT_NE(complaint({8}, {{{{x}, -2}}, {}, ReduceKind::Sum}), "");
  EXPECT_NE(complaint({8}, {{{{x}, INT64_MAX}}, {}, ReduceKind::Sum}), "");
  EXPECT_NE(complaint({8}, {{{{{2, 1, 2}}, 4}}, {}, ReduceKind::Sum}).find("axis 2, the mesh has 2 axes"),
            std::string::npos);
  EXPECT_NE(complaint({8}, {{{{{0, 1, 3}}, 4}}, {}, ReduceKind::Sum}).find("does not divide the axis's size 4"),
            std::string::npos);
  EXPECT_NE(complaint({8}, {{{{{0, INT64_MAX, INT64_MAX}}, 4}}, {}, ReduceKind::Sum}), "");
  EXPECT_NE(complaint({8}, {{{{{0, 1, 1}}, 8}}, {}, ReduceKind::Sum}).find("size 1 cut nothing"), std::string::npos);
  EXPECT_NE(complaint({8}, {{{{x}, 2}}, {{0, 2, 2}}, ReduceKind::Sum}).find("overlap; an axis may occur only once"),
            std::string::npos);
  EXPECT_EQ(complaint({8}, {{{{{0, 1, 2}}, 4}}, {{0, 2, 2}}, ReduceKind::Sum}), "");
  EXPECT_NE(complaint({8}, {{{}}, {y, x}, ReduceKind::Sum}).find("not sorted"), std::string::npos);
  EXPECT_NE(complaint({8}, {{{}}, {}, ReduceKind::Max}).find("its reduction is max"), std::string::npos);
}
