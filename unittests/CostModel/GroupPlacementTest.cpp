// SPDX-License-Identifier: Apache-2.0
// The closed form of the placement of groups against the enumeration of all groups, on random meshes and networks.
#include "../../lib/CostModel/GroupPlacement.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace kerf;
using namespace kerf::cost;

namespace {

/// A mesh, some of its axes or parts of axes, and a level of a network.
struct Case {
  Mesh mesh;
  std::vector<AxisRef> axes;
  LevelUnits level;
};

Case randomCase(std::mt19937 &random) {
  auto pick = [&](std::initializer_list<int64_t> values) { return *(values.begin() + random() % values.size()); };
  Case one;
  for (int axis = 0; axis < 4; ++axis) {
    int64_t outer = pick({1, 2, 3, 4}), inner = pick({1, 1, 2, 3});
    one.mesh.axes.push_back({"a" + std::to_string(axis), outer * inner});
    if (random() % 2)
      one.axes.push_back({axis, 1, outer});
    if (random() % 2)
      one.axes.push_back({axis, outer, inner});
  }
  one.level.node = pick({2, 4, 6, 8});
  one.level.below = pick({1, one.level.node, one.level.node, one.level.node * 4});
  one.level.within = one.level.below == 1 ? one.level.node : one.level.below * pick({2, 3, 4, 1000});
  return one;
}

/// Returns whether the links of one unit are at least as busy as those of another in which a group lies alike.
bool covers(const UnitMembers &one, const UnitMembers &other) {
  return std::tuple(one.members, one.nodes, one.parts, one.membersWithin) ==
             std::tuple(other.members, other.nodes, other.parts, other.membersWithin) &&
         one.groupsLeaving >= other.groupsLeaving && one.ranksLeaving >= other.ranksLeaving;
}

} // namespace

TEST(GroupPlacement, DigitsAreSortedAndMerged) {
  Mesh mesh{{{"a", 6}, {"b", 4}, {"c", 2}}};
  std::vector<AxisRef> whole = {{2, 1, 2}, {0, 1, 6}}, parts = {{0, 2, 3}, {1, 1, 4}, {2, 1, 1}};
  EXPECT_EQ(digitsOf(mesh, whole), (std::vector<RankDigit>{{1, 2}, {8, 6}}));
  EXPECT_EQ(digitsOf(mesh, parts), (std::vector<RankDigit>{{2, 12}}));
}

TEST(GroupPlacement, EnumerationFindsTheGroupsOfTheMesh) {
  // Nodes of 4; groups of 3 ranks 2 apart: {0 2 4} and {1 3 5} lie in two nodes each, {6 8 10} and {7 9 11} too.
  const std::vector<RankDigit> digits = {{2, 3}};
  std::vector<UnitMembers> found = enumeratedUnits(digits, 12, {4, 4, 12});
  // Members, nodes, parts, members in all, groups and ranks that leave the node.
  const UnitMembers two{2, 1, 2, 3, 2, 4}, one{1, 1, 2, 3, 4, 4};
  EXPECT_EQ(std::ranges::count(found, two), 4);
  EXPECT_EQ(std::ranges::count(found, one), 4);
  EXPECT_EQ(found.size(), 8u);
}

TEST(GroupPlacement, ClosedFormAndPeriodAgreeWithTheEnumeration) {
  int alike = 0, others = 0, periodic = 0;
  for (unsigned seed = 1; seed <= 2000; ++seed) {
    std::mt19937 random(seed);
    const Case one = randomCase(random);
    const std::vector<RankDigit> digits = digitsOf(one.mesh, one.axes);
    if (digits.empty())
      continue;
    const int64_t ranks = one.mesh.ranks();
    std::vector<UnitMembers> all = enumeratedUnits(digits, ranks, one.level);
    std::erase_if(all, [](const UnitMembers &unit) { return unit.parts < 2; });
    std::vector<UnitMembers> found = unitsOfGroups(digits, ranks, one.level);
    periodic += found.size() > 1 && found.size() < all.size();
    std::erase_if(found, [](const UnitMembers &unit) { return unit.parts < 2; });
    (unitOfAlikeGroups(digits, ranks, one.level) ? alike : others) += !all.empty();
    for (const UnitMembers &unit : found)
      EXPECT_NE(std::ranges::find(all, unit), all.end()) << "seed " << seed;
    for (const UnitMembers &unit : all)
      EXPECT_TRUE(std::ranges::any_of(found, [&](const UnitMembers &its) { return covers(its, unit); }))
          << "seed " << seed;
  }
  EXPECT_GT(alike, 100);
  EXPECT_GT(others, 100);
  EXPECT_GT(periodic, 20);
}
