// SPDX-License-Identifier: Apache-2.0
// Tests of collectives against closed forms, groups counted by hand, public measurements, and properties that hold for
// any cluster.
#include "kerf/CostModel/Collectives.h"
#include "kerf/CostModel/Compute.h"
#include <chrono>
#include <gtest/gtest.h>
#include <random>

using namespace kerf;

namespace {

Cluster load(const std::string &file) { return *readCluster(std::string(KERF_CLUSTERS) + "/" + file + ".json"); }

Mesh mesh(std::initializer_list<int64_t> sizes) {
  Mesh mesh;
  for (int64_t size : sizes)
    mesh.axes.push_back({"a" + std::to_string(mesh.axes.size()), size});
  return mesh;
}

std::vector<AxisRef> axes(const Mesh &mesh, std::initializer_list<int> which) {
  std::vector<AxisRef> refs;
  for (int axis : which)
    refs.push_back(wholeAxis(mesh, axis));
  return refs;
}

/// Returns the bus bandwidth as nccl-tests prints it.
double busBandwidth(const CollectiveModel &model, std::vector<AxisRef> group, double bytes) {
  auto n = static_cast<double>(shardCount(group));
  return 2 * (n - 1) / n * bytes / model.seconds(Collective::AllReduce, group, bytes);
}

constexpr double kBig = 1 << 30;

/// Expects that a group reaches more than half, and at most all, of the `bandwidth` of a link, in bytes/s. The exact
/// shares in Collectives.cpp are fitted to measurements.
void expectMostOf(double bandwidth, double reached) {
  EXPECT_LE(reached, bandwidth);
  EXPECT_GT(reached, 0.5 * bandwidth);
}

} // namespace

TEST(Collectives, GroupsOfOneAreFree) {
  Mesh m = mesh({1, 8});
  CollectiveModel model(m, load("dgx-a100"));
  EXPECT_EQ(model.seconds(Collective::AllReduce, axes(m, {0}), kBig), 0);
  EXPECT_EQ(model.seconds(Collective::AllToAll, {}, kBig), 0);
}

TEST(Collectives, ShapesOfGroupsCountedByHand) {
  // 16 ranks on 2 nodes of 8: axis 1 (size 4) is inside a node, axis 0 (size 4) has two ranks in each node.
  Mesh m = mesh({4, 4});
  CollectiveModel model(m, *firstRanks(load("dgx-a100"), 16));
  const GroupShape &inner = model.group(axes(m, {1}));
  ASSERT_EQ(inner.levels.size(), 1u);
  EXPECT_TRUE(inner.levels[0].innermost);
  EXPECT_EQ(inner.levels[0].parts, 4);
  const GroupShape &outer = model.group(axes(m, {0}));
  ASSERT_EQ(outer.levels.size(), 2u);
  EXPECT_EQ(outer.levels[0].parts, 2);
  EXPECT_EQ(outer.levels[1].parts, 2);
  // 4 groups with 2 members in each node leave the node: each gets 4/3 of a network card's 25 GB/s.
  EXPECT_DOUBLE_EQ(outer.levels[1].ringBandwidth, 4.0 / 3 * outer.levels[1].memberBandwidth);
  expectMostOf(25e9, outer.levels[1].memberBandwidth);
  EXPECT_DOUBLE_EQ(outer.levels[0].outsideShare, 0.25);
  EXPECT_DOUBLE_EQ(outer.levels[1].outsideShare, 0.5);
}

TEST(Collectives, GroupsShareTheNodesWayOut) {
  // 64 V100 in 8 nodes with one 100 Gb/s card each: each of the 8 strided groups gets an eighth of the card.
  Mesh m = mesh({8, 8});
  CollectiveModel model(m, load("v100-nodes"));
  double strided = model.group(axes(m, {0})).levels[0].ringBandwidth;
  double all = model.group(axes(m, {0, 1})).levels[1].ringBandwidth;
  expectMostOf(12.5e9 / 8, strided);
  expectMostOf(12.5e9, all);
  EXPECT_LT(strided, all / 8) << "groups that share the way disturb each other";
}

TEST(Collectives, ANodeThatIsPartFull) {
  // 12 of 8 x 16 ranks as 3 x 4: the middle group of axis 1 is ranks 4-7, and no group crosses nodes. Groups of axis 0
  // do: 0, 4 | 8.
  Mesh m = mesh({3, 4});
  CollectiveModel model(m, *firstRanks(load("dgx-a100"), 12));
  EXPECT_EQ(model.group(axes(m, {1})).levels.size(), 1u);
  const GroupShape &across = model.group(axes(m, {0}));
  ASSERT_EQ(across.levels.size(), 2u);
  EXPECT_EQ(across.levels[0].parts, 2);
  SCOPED_TRACE("the second node has one member of each group");
  expectMostOf(25e9, across.levels[1].ringBandwidth);
  EXPECT_DOUBLE_EQ(across.levels[1].outsideShare, 2.0 / 3);
}

TEST(Collectives, ClosedFormsOnOneLevel) {
  Cluster cluster = load("cpu-4");
  double bandwidth = cluster.levels[0].bandwidth, latency = cluster.levels[0].latency;
  Mesh m = mesh({4});
  CollectiveModel model(m, cluster);
  auto seconds = [&](Collective kind) { return model.seconds(kind, axes(m, {0}), kBig); };
  double launch = model.group(axes(m, {0})).launchSeconds;
  EXPECT_DOUBLE_EQ(seconds(Collective::AllGather), launch + 3 * latency + 0.75 * kBig / bandwidth);
  EXPECT_DOUBLE_EQ(seconds(Collective::ReduceScatter), seconds(Collective::AllGather));
  EXPECT_DOUBLE_EQ(seconds(Collective::AllReduce), launch + 6 * latency + 1.5 * kBig / bandwidth);
  EXPECT_DOUBLE_EQ(seconds(Collective::AllToAll), launch + 3 * latency + 0.75 * kBig / bandwidth);
  EXPECT_DOUBLE_EQ(seconds(Collective::Send), launch + latency + kBig / bandwidth);
  EXPECT_DOUBLE_EQ(seconds(Collective::Permute), seconds(Collective::Send));
}

TEST(Collectives, PublicBusBandwidthsWithinAQuarter) {
  // NCCL with 1 GB or more; DGX A100 and H100 across nodes with all network cards.
  auto within = [](double predicted, double measured) {
    EXPECT_GT(predicted, 0.75 * measured);
    EXPECT_LT(predicted, 1.25 * measured);
  };
  Mesh node = mesh({8}), two = mesh({2, 8});
  within(busBandwidth({node, *firstRanks(load("dgx-a100"), 8)}, axes(node, {0}), 4 * kBig), 230e9);
  within(busBandwidth({node, *firstRanks(load("dgx-h100"), 8)}, axes(node, {0}), 4 * kBig), 370e9);
  within(busBandwidth({node, *firstRanks(load("v100-nodes"), 8)}, axes(node, {0}), 4 * kBig), 134e9);
  within(busBandwidth({two, *firstRanks(load("dgx-a100"), 16)}, axes(two, {0, 1}), 4 * kBig), 192e9);
  within(busBandwidth({two, *firstRanks(load("dgx-h100"), 16)}, axes(two, {0, 1}), 4 * kBig), 380e9);
  // 512 bytes over 8 A100: all-reduce 22.6 us, all-gather 15.6 us.
  CollectiveModel a100(node, *firstRanks(load("dgx-a100"), 8));
  within(a100.seconds(Collective::AllReduce, axes(node, {0}), 512), 22.6e-6);
  within(a100.seconds(Collective::AllGather, axes(node, {0}), 512), 15.6e-6);
}

// Rows of NCCL's tables (aiconfigurator; vTrain; nccl-tests on p4de, p5): within 40 % over the complete range of sizes.
TEST(Collectives, PublicSizes) {
  struct Row {
    const char *file;
    int64_t ranks;
    Collective kind;
    double bytes, microseconds;
  };
  const Row rows[] = {
      {"dgx-a100", 8, Collective::AllReduce, 2048, 22},
      {"dgx-a100", 8, Collective::AllReduce, 8388608, 128},
      {"dgx-a100", 8, Collective::AllReduce, 134217728, 1169},
      {"dgx-a100", 4, Collective::AllReduce, 33554432, 288},
      {"dgx-a100", 2, Collective::AllReduce, 134217728, 748},
      {"dgx-a100", 8, Collective::AllGather, 8388608, 74},
      {"dgx-a100", 8, Collective::AllGather, 536870912, 2288},
      {"dgx-a100", 8, Collective::ReduceScatter, 33554432, 210},
      {"dgx-a100", 8, Collective::AllToAll, 134217728, 640},
      {"dgx-h100", 8, Collective::AllReduce, 134217728, 578},
      {"dgx-h100", 4, Collective::AllReduce, 134217728, 615},
      {"dgx-h100", 8, Collective::AllGather, 134217728, 390},
      {"p4de", 16, Collective::AllReduce, 1024, 165},
      {"p4de", 16, Collective::AllReduce, 268435456, 7201.7},
      {"p5", 16, Collective::AllReduce, 1024, 69.2},
      {"p5", 16, Collective::AllReduce, 1073741824, 4607.6},
  };
  for (const Row &row : rows) {
    Mesh m = mesh({row.ranks});
    CollectiveModel model(m, *firstRanks(load(row.file), row.ranks));
    double ratio = model.seconds(row.kind, axes(m, {0}), row.bytes) / (row.microseconds * 1e-6);
    EXPECT_GT(ratio, 0.6) << row.file << " " << row.ranks << " " << toString(row.kind) << " " << row.bytes;
    EXPECT_LT(ratio, 1.4) << row.file << " " << row.ranks << " " << toString(row.kind) << " " << row.bytes;
  }
}

// Galvatron's A100 nodes, modelled as 4 x 200 Gb/s: concurrent groups of 1, 2 and 4 devices in each of 2 nodes,
// by bus bandwidth.
TEST(Collectives, StridedGroups) {
  Cluster cluster = *firstRanks(load("vtrain-a100"), 16);
  const std::pair<int64_t, double> rows[] = {{1, 8.13e9}, {2, 16.22e9}, {4, 20.77e9}};
  for (auto [perNode, measured] : rows) {
    Mesh m = mesh({2, perNode, 8 / perNode});
    double predicted = busBandwidth({m, cluster}, axes(m, {0, 1}), kBig);
    EXPECT_GT(predicted, 0.75 * measured) << perNode;
    EXPECT_LT(predicted, 1.25 * measured) << perNode;
  }
}

// Three levels: rings that cross the outermost level leave a unit through one node, however many nodes the unit has.
TEST(Collectives, RingsCrossTheSpineThroughOneNode) {
  Mesh m = mesh({40, 8});
  CollectiveModel model(m, *firstRanks(load("selene"), 320));
  const GroupShape &all = model.group(axes(m, {0, 1}));
  ASSERT_EQ(all.levels.size(), 3u);
  double alone = model.group(axes(m, {0})).levels[1].ringBandwidth;
  expectMostOf(200e9, all.levels[1].ringBandwidth);
  expectMostOf(13.3e9, alone);
  EXPECT_DOUBLE_EQ(all.levels[2].ringBandwidth, 8 * alone);
}

TEST(Collectives, FasterLinksAndFewerBytesNeverTakeLonger) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Mesh m = mesh({int64_t(1 + random() % 4), int64_t(1 + random() % 5), int64_t(1 + random() % 4)});
    Cluster cluster = *firstRanks(load(random() % 2 ? "dgx-a100" : "v100-nodes"), std::min<int64_t>(m.ranks(), 64));
    if (m.ranks() > cluster.ranks())
      continue;
    Cluster faster = cluster;
    Level &level = faster.levels[random() % faster.levels.size()];
    level.bandwidth *= 2, level.nodeBandwidth *= 2, level.latency /= 2;
    CollectiveModel slow(m, cluster), fast(m, faster);
    std::vector<AxisRef> group = axes(m, {int(random() % 3)});
    for (auto kind : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll,
                      Collective::Permute, Collective::Send}) {
      double bytes = static_cast<double>(random() % 100'000'000);
      EXPECT_LE(fast.seconds(kind, group, bytes), slow.seconds(kind, group, bytes));
      EXPECT_LE(slow.seconds(kind, group, bytes / 2), slow.seconds(kind, group, bytes));
      EXPECT_GE(slow.seconds(kind, group, bytes), 0);
    }
    double bytes = 1e6;
    EXPECT_LE(slow.seconds(Collective::AllReduce, group, bytes), slow.seconds(Collective::ReduceScatter, group, bytes) +
                                                                     slow.seconds(Collective::AllGather, group, bytes) +
                                                                     1e-12);
  }
}

// A core of 12 GB/s moves 0.75 GB/s of messages over a network. Four ranks that share two cores halve what a core does,
// and leave what a slow wire does.
TEST(Collectives, SharedCoresSlowDownCopiesAndNotTheWire) {
  Cluster cluster = load("cpu-4");
  cluster.levels[0].latency = cluster.device.curves.collectiveSeconds = 0;
  Mesh m = mesh({4});
  auto slowdown = [&](double bandwidth) {
    cluster.levels[0].bandwidth = cluster.levels[0].nodeBandwidth = bandwidth;
    cluster.device.curves.hostCores = 0;
    double own = CollectiveModel(m, cluster).seconds(Collective::AllReduce, axes(m, {0}), 1e9);
    cluster.device.curves.hostCores = 2;
    return CollectiveModel(m, cluster).seconds(Collective::AllReduce, axes(m, {0}), 1e9) / own;
  };
  EXPECT_DOUBLE_EQ(slowdown(0.125e9), 1) << "1 Gbit/s";
  EXPECT_DOUBLE_EQ(slowdown(0.5e9), 0.5e9 / 0.375e9) << "faster than the half of a core";
  EXPECT_DOUBLE_EQ(slowdown(5e9), 2) << "memory";
}

TEST(Collectives, OrderOfAxesAndRepetitionChangeNothing) {
  Mesh m = mesh({2, 2, 2});
  CollectiveModel model(m, *firstRanks(load("dgx-a100"), 8));
  double first = model.seconds(Collective::AllReduce, axes(m, {0, 2}), 1e6);
  EXPECT_EQ(model.seconds(Collective::AllReduce, axes(m, {2, 0}), 1e6), first);
  EXPECT_EQ(model.seconds(Collective::AllReduce, axes(m, {0, 2}), 1e6), first);
}

TEST(Collectives, PricesOfReshardSteps) {
  Mesh m = mesh({4});
  Cluster cluster = load("cpu-4");
  CollectiveModel model(m, cluster);
  ReshardStep step;
  step.axes = axes(m, {0});
  step.kind = ReshardStepKind::AllGather;
  EXPECT_EQ(model.seconds(step, 100, 400), model.seconds(Collective::AllGather, step.axes, 400));
  step.kind = ReshardStepKind::ReduceScatter;
  EXPECT_EQ(model.seconds(step, 400, 100), model.seconds(Collective::ReduceScatter, step.axes, 400));
  step.kind = ReshardStepKind::AllReduce;
  EXPECT_EQ(model.seconds(step, 400, 400), model.seconds(Collective::AllReduce, step.axes, 400));
  step.kind = ReshardStepKind::LocalSlice;
  EXPECT_LT(model.seconds(step, 4e6, 1e6), model.seconds(Collective::AllGather, step.axes, 4e6));
  EXPECT_GT(model.seconds(step, 4e6, 1e6), 0);
}

TEST(Collectives, ManyRanksAreFast) {
  Mesh m = mesh({16, 8});
  CollectiveModel model(m, load("dgx-a100"));
  auto start = std::chrono::steady_clock::now();
  double sum = 0;
  for (int i = 0; i < 100'000; ++i)
    sum += model.seconds(Collective::AllReduce, axes(m, {i % 2}), i);
  EXPECT_GT(sum, 0);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 1.0);
}
