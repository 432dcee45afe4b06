// SPDX-License-Identifier: Apache-2.0
#include "kerf/Sharding/Refine.h"

#include <gtest/gtest.h>
#include <random>

namespace kerf {

namespace {

Mesh meshOf(const std::vector<int64_t> &sizes) {
  Mesh mesh;
  for (int64_t size : sizes)
    mesh.axes.push_back({"a" + std::to_string(mesh.axes.size()), size});
  return mesh;
}

using Axes = std::vector<std::vector<int>>;

TEST(Refine, OneMeshIsItsOwn) {
  Mesh mesh = meshOf({2, 1, 6});
  Refinement made = refine(std::span(&mesh, 1));
  EXPECT_EQ(made.subAxes, (std::vector<int64_t>{2, 6}));
  EXPECT_EQ(made.axes[0], (Axes{{0}, {}, {1}}));
}

TEST(Refine, NestedBoundaries) {
  std::vector<Mesh> meshes = {meshOf({4, 2}), meshOf({2, 4}), meshOf({8, 1})};
  Refinement made = refine(meshes);
  EXPECT_EQ(made.subAxes, (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(made.axes[0], (Axes{{0, 1}, {2}}));
  EXPECT_EQ(made.axes[1], (Axes{{0}, {1, 2}}));
  EXPECT_EQ(made.axes[2], (Axes{{0, 1, 2}, {}}));
}

TEST(Refine, BoundariesThatDoNotNest) {
  std::vector<Mesh> meshes = {meshOf({2, 3}), meshOf({3, 2})};
  Refinement made = refine(meshes);
  EXPECT_EQ(made.subAxes, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(made.axes[0], (Axes{{0}, {1}}));
  EXPECT_EQ(made.axes[1], (Axes{{1}, {0}}));
}

TEST(Refine, NoRanksNoSubAxes) {
  std::vector<Mesh> meshes = {meshOf({1}), meshOf({})};
  EXPECT_TRUE(refine(meshes).subAxes.empty());
  EXPECT_TRUE(refine({}).subAxes.empty());
}

/// Returns whether the boundaries of the meshes' axes nest: of any two products of inner axis sizes, one
/// divides the other.
bool nests(const std::vector<Mesh> &meshes) {
  std::vector<int64_t> borders;
  for (const Mesh &mesh : meshes) {
    int64_t border = 1;
    for (size_t axis = mesh.axes.size(); axis-- > 0; borders.push_back(border))
      border *= mesh.axes[axis].size;
  }
  std::sort(borders.begin(), borders.end());
  for (size_t i = 1; i < borders.size(); ++i)
    if (borders[i] % borders[i - 1] != 0)
      return false;
  return true;
}

TEST(Refine, RandomMeshesKeepTheirSizesAndWhereTheyCanTheirCoordinates) {
  std::mt19937_64 random(1);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  int nested = 0;
  for (int test = 0; test < 2000; ++test) {
    std::vector<int64_t> primes(1 + below(6));
    for (int64_t &prime : primes)
      prime = std::vector<int64_t>{2, 2, 2, 3, 3, 5}[below(6)];
    std::vector<Mesh> meshes;
    for (int64_t m = 1 + below(3); m >= 0; --m) {
      std::vector<int64_t> sizes(1 + below(4), 1);
      for (int64_t prime : primes)
        sizes[below(static_cast<int64_t>(sizes.size()))] *= prime;
      meshes.push_back(meshOf(sizes));
    }
    Refinement made = refine(meshes);
    Mesh subAxes = meshOf(made.subAxes);
    ASSERT_EQ(subAxes.ranks(), meshes[0].ranks());
    bool same = nests(meshes);
    nested += same;
    for (size_t m = 0; m < meshes.size(); ++m) {
      std::vector<int> uses(made.subAxes.size(), 0);
      for (size_t axis = 0; axis < meshes[m].axes.size(); ++axis) {
        std::vector<AxisRef> refs;
        for (int subAxis : made.axes[m][axis]) {
          ++uses[subAxis];
          refs.push_back(wholeAxis(subAxes, subAxis));
        }
        EXPECT_EQ(shardCount(refs), meshes[m].axes[axis].size);
        EXPECT_TRUE(std::is_sorted(made.axes[m][axis].begin(), made.axes[m][axis].end()));
        for (int64_t rank = 0; same && rank < subAxes.ranks(); ++rank)
          EXPECT_EQ(position(subAxes, refs, rank), meshes[m].coordinate(rank, static_cast<int>(axis)));
      }
      EXPECT_EQ(uses, std::vector<int>(made.subAxes.size(), 1));
    }
  }
  EXPECT_GT(nested, 100);
}

} // namespace
} // namespace kerf
