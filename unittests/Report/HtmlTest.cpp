// SPDX-License-Identifier: Apache-2.0
// Tests building blocks of HTML pages: escaping, and how the ranks of a mesh lie on nodes.
#include "Html.h"
#include "Rows.h"
#include "Timeline.h"
#include "Topology.h"
#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::html;

namespace {

Cluster dgx(int64_t nodes) {
  Cluster cluster;
  cluster.name = "dgx";
  cluster.device.kind = "cuda";
  cluster.levels = {{"nvlink", 8, 3e11, 1e-6, 0, 0}, {"infiniband", nodes, 2.5e10, 5e-6, 0, 0}};
  cluster.usedRanks = 8 * nodes;
  return cluster;
}

} // namespace

TEST(Html, NothingFromOutsideIsMarkup) {
  EXPECT_EQ(escaped("<script>alert(\"1\")&'</script>"), "&lt;script&gt;alert(&quot;1&quot;)&amp;&#39;&lt;/script&gt;");
  EXPECT_EQ(escaped("gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x98\x80");
}

TEST(Html, BytesThatNoPageMayHoldAreReplaced) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(escaped(std::string("a\0b", 3)), "a" + bad + "b");
  EXPECT_EQ(escaped("\x1b[1m"), bad + "[1m");
  EXPECT_EQ(escaped("\xC3"), bad);                               // cut off
  EXPECT_EQ(escaped("\xC0\xBC"), bad + bad);                     // '<' in two bytes
  EXPECT_EQ(escaped("\xED\xA0\x80"), bad + bad + bad);           // half of a surrogate pair
  EXPECT_EQ(escaped("\xE0\x80\xBC<"), bad + bad + bad + "&lt;"); // '<' in three
}

TEST(Html, NumbersHaveATenthAtMost) {
  EXPECT_EQ(number(12), "12");
  EXPECT_EQ(number(12.34), "12.3");
  EXPECT_EQ(number(-0.01), "0");
}

TEST(Rows, RunsOfStages) {
  EXPECT_EQ(stagesText({0, 1, 2, 3}, 4), "all");
  EXPECT_EQ(stagesText({0, 1, 2, 5}, 8), "0-2, 5");
  EXPECT_EQ(stagesText({7}, 8), "7");
}

TEST(Topology, WhereAxesLie) {
  Mesh mesh{{{"stage", 4}, {"data", 4}, {"model", 4}}};
  auto places = axisPlacements(mesh, dgx(8));
  ASSERT_EQ(places.size(), 3U);
  EXPECT_EQ(places[0].distance, 16);
  EXPECT_EQ(placementText(places[0]), "one rank in each of 4 nodes");
  EXPECT_EQ(places[0].links, "infiniband");
  EXPECT_EQ(placementText(places[1]), "over 2 nodes, 2 ranks in each");
  EXPECT_EQ(places[1].links, "infiniband, nvlink");
  EXPECT_EQ(placementText(places[2]), "inside a node");
  EXPECT_EQ(places[2].links, "nvlink");
}

TEST(Topology, NodesOfOneKindAreOne) {
  auto kinds = nodeKinds(Mesh{{{"stage", 4}, {"data", 4}, {"model", 4}}}, dgx(9), 16);
  ASSERT_EQ(kinds.size(), 5U); // one kind for each stage, and one of unused nodes
  for (int64_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(kinds[stage].count, 2);
    EXPECT_EQ(kinds[stage].stages, std::vector<int64_t>(8, stage));
  }
  EXPECT_EQ(kinds[4].stages, std::vector<int64_t>(8, -1));
  // Two stages share each node: all nodes are one kind.
  kinds = nodeKinds(Mesh{{{"stage", 64}, {"model", 4}}}, dgx(32), 16);
  ASSERT_EQ(kinds.size(), 1U);
  EXPECT_EQ(kinds[0].count, 32);
  EXPECT_EQ(kinds[0].firstStage, 0);
  EXPECT_EQ(kinds[0].lastStage, 63);
}

TEST(Timeline, BeginAndEndOfALongStep) {
  Simulation simulation;
  constexpr int64_t kStages = 40, kMicrobatches = 400;
  simulation.memory.resize(kStages);
  for (int64_t s = 0; s < kStages; ++s)
    for (int64_t m = 0; m < kMicrobatches; ++m) {
      TraceEvent event;
      event.stage = s;
      event.start = static_cast<double>(s + m);
      event.seconds = 1;
      event.task = Task{TaskKind::Forward, m, 0};
      simulation.trace.push_back(event);
    }
  TimelineView view = timelineView(simulation);
  EXPECT_EQ(view.endSeconds, kStages + kMicrobatches - 1);
  EXPECT_EQ(view.gapBegin, kStages - 1 + 8); // the last stage has begun
  EXPECT_EQ(view.gapEnd, kMicrobatches - 8); // and the first one not yet ended
  EXPECT_EQ(view.stages.size(), 16U);
  EXPECT_EQ(view.stages.front(), 0);
  EXPECT_EQ(view.stages.back(), kStages - 1);
  for (const TraceEvent &event : view.events)
    EXPECT_TRUE(event.start < view.gapBegin || event.start + event.seconds > view.gapEnd);
  // The first 47 microbatches of stage 0 and the last 47 of stage 39 are shown.
  EXPECT_EQ(view.hiddenMicrobatches, kMicrobatches - 47 - 47);
}
