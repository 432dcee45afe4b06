// SPDX-License-Identifier: Apache-2.0
// Tests of clusters of several groups: their files, and pipelines whose stages have different devices and networks.
#include "StepsByHand.h"
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <random>

using namespace kerf;

namespace {

std::string groupText(int nodes, const char *name = "A100", double memory = 1e9) {
  return fmt::format(R"({{"device": {{"kind": "cuda", "name": "{}", "memory_bytes": {}, "memory_bandwidth": 2e12,
                           "peak_flops": {{"bf16": 3e14}}}},
    "levels": [{{"name": "nvlink", "size": 4, "bandwidth": 3e11, "latency": 1e-6}},
               {{"name": "infiniband", "size": {}, "bandwidth": 25e9, "latency": 5e-6, "node_bandwidth": 5e10}}]}})",
                     name, memory, nodes);
}
const std::string kBetween = R"({"bandwidth": 25e9, "latency": 5e-6, "node_bandwidth": 5e10})";

std::string fileOf(const std::string &groups, const std::string &between, const std::string &more = "") {
  return fmt::format(R"({{"name": "mixed", "groups": [{}], "between": [{}]{}}})", groups, between, more);
}

Cluster parsed(const std::string &text) {
  Result<Cluster> cluster = parseCluster(text, "c.json");
  EXPECT_TRUE(cluster) << (cluster ? "" : cluster.error().message);
  return cluster ? *cluster : Cluster();
}

void expectMessage(const std::string &json, const std::string &words) {
  Result<Cluster> cluster = parseCluster(json, "c.json");
  ASSERT_FALSE(static_cast<bool>(cluster)) << words;
  EXPECT_EQ(cluster.error().message, "cluster file c.json: " + words);
}

/// A group whose devices compute `speed` bytes per second.
Cluster handGroup(int64_t ranks, double speed, double link = 1e3) {
  Cluster cluster;
  cluster.device.kind = "cuda";
  cluster.device.memoryBytes = 1'000'000;
  cluster.device.memoryBandwidth = speed;
  cluster.device.peakFlops = {{"bf16", 1e3 * speed}};
  cluster.levels = {{"link", ranks, link, 0, link, 0}};
  cluster.usedRanks = ranks;
  return cluster;
}

Cluster handMixed(std::vector<Cluster> groups, GroupLink between = {1e3, 0, 0}) {
  Cluster cluster;
  cluster.name = "by hand";
  cluster.usedRanks = 0;
  for (const Cluster &group : groups)
    cluster.usedRanks += group.usedRanks;
  cluster.groupLinks.assign(groups.size() - 1, between);
  cluster.groups = std::move(groups);
  return cluster;
}

KernelWork kernel(double seconds) {
  KernelWork kernel;
  kernel.work.kernelClass = KernelClass::Pointwise;
  kernel.work.bytes = seconds;
  return kernel;
}

struct MixedStep {
  StepWork work;
  StepPlan plan;
  Mesh mesh{{{"stage", 1}, {"data", 1}, {"model", 1}}};

  std::vector<AxisRef> axis(int i) const {
    return mesh.axes[i].size > 1 ? std::vector<AxisRef>{wholeAxis(mesh, i)} : std::vector<AxisRef>{};
  }
  Simulation on(const Cluster &cluster) const {
    Result<PipelineModel> pipeline = PipelineModel::make(mesh, cluster);
    EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message);
    if (!pipeline)
      return {};
    Result<Simulation> result = simulate(work, plan, *pipeline);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result ? *result : Simulation();
  }
};

/// One layer per part: forward 1 s and backward 2 s on a device of 1 byte/s; it saves 100 bytes and has
/// no optimizer states.
MixedStep mixedPipeline(int64_t stages, int64_t microbatches) {
  MixedStep s;
  s.mesh.axes[0].size = stages;
  Segment layer;
  layer.name = "layer";
  layer.forward.kernels = {kernel(1)};
  layer.inputGradient.kernels = {kernel(1.5)};
  layer.weightGradient.kernels = {kernel(0.5)};
  layer.saved = {{"x", 100}};
  s.work.parts = {{"all", {layer}}};
  s.work.part.assign(stages, {0});
  s.work.message.axes = s.axis(0);
  s.work.tokens = 100;
  s.work.modelFlops = 1e3;
  s.plan.schedule.stages = stages;
  s.plan.schedule.microbatches = microbatches;
  s.plan.bytes = {0, 0, 0};
  return s;
}

/// A plan with every kind of work in real sizes: milliseconds of compute, megabytes between ranks.
MixedStep randomMixedStep(std::mt19937 &random, int64_t stages, int64_t data, int64_t model) {
  auto coin = [&] { return random() % 2 == 0; };
  auto some = [&](double scale) { return scale * (1 + double(random() % 1000) / 250); };
  MixedStep s = mixedPipeline(stages, 1 + random() % 6);
  s.mesh.axes[1].size = data;
  s.mesh.axes[2].size = model;
  s.work.message.axes = s.axis(0);
  bool chunked = coin();
  s.plan.schedule.chunks = chunked ? 2 : 1;
  constexpr ScheduleKind kKinds[] = {ScheduleKind::GPipe, ScheduleKind::OneFOneB, ScheduleKind::ZeroBubbleH1};
  s.plan.schedule.kind = chunked ? ScheduleKind::Interleaved : kKinds[random() % 3];
  Segment &layer = s.work.parts[0].segments[0];
  layer.repeat = 1 + int64_t(random() % 3);
  layer.forward.kernels = {kernel(some(1e9))};
  layer.inputGradient.kernels = {kernel(some(1e9))};
  layer.weightGradient.kernels = {kernel(some(1e9))};
  layer.parameters = {{"w", some(1e6), s.axis(1)}};
  if (model > 1) {
    layer.forward.collectives = {{"sum", Collective::AllReduce, s.axis(2), some(1e7)}};
    layer.inputGradient.collectives = {
        {"sum", Collective::AllReduce, s.axis(2), some(1e7), RecomputeModes::Others, coin()}};
    s.work.message.afterReceive = {{"gather", Collective::AllGather, s.axis(2), some(1e7)}};
  }
  s.work.parts.push_back(s.work.parts[0]);
  s.work.parts[1].segments[0].repeat += 1;
  for (std::vector<int> &parts : s.work.part)
    parts = chunked ? std::vector<int>{0, int(random() % 2)} : std::vector<int>{int(random() % 2)};
  s.work.message.bytes = some(1e7);
  s.work.tiedElements = coin() ? some(1e6) : 0;
  s.plan.optimizerSharding = int(random() % 4);
  s.plan.overlap = {coin(), coin(), coin(), coin()};
  s.plan.bytes = stateBytes("bf16", "f32", 2);
  return s;
}

std::string refusal(const Mesh &mesh, const Cluster &cluster) {
  Result<PipelineModel> pipeline = PipelineModel::make(mesh, cluster);
  return pipeline ? std::string() : pipeline.error().message;
}

} // namespace

TEST(MixedCluster, ReadsGroupsAndWhatJoinsThem) {
  Cluster cluster = parsed(fileOf(groupText(2) + ", " + groupText(3, "V100"), kBetween, R"(, "price_per_hour": 2)"));
  ASSERT_TRUE(cluster.mixed());
  ASSERT_EQ(cluster.groups.size(), 2u);
  EXPECT_EQ(cluster.name, "mixed");
  EXPECT_EQ(cluster.ranks(), 8 + 12);
  EXPECT_EQ(cluster.groups[1].ranks(), 12);
  EXPECT_EQ(cluster.groups[1].device.name, "V100");
  EXPECT_EQ(cluster.groups[1].device.curves, *knownCurves("cuda", "V100"));
  EXPECT_EQ(cluster.groups[1].pricePerHour, 2);
  ASSERT_EQ(cluster.groupLinks.size(), 1u);
  EXPECT_EQ(cluster.groupLinks[0].bandwidth, 25e9);
  EXPECT_EQ(cluster.groupLinks[0].latency, 5e-6);
  EXPECT_EQ(cluster.groupLinks[0].nodeBandwidth, 5e10);
  EXPECT_EQ(groupsText(cluster), "8 A100 + 12 V100");
  EXPECT_TRUE(static_cast<bool>(checkOneGroup(parsed(fileOf(groupText(2), "")), "kerf plan")));
  EXPECT_EQ(checkOneGroup(cluster, "kerf plan").error().message,
            "cluster 'mixed' has 2 groups (8 A100 + 12 V100), but kerf plan needs identical devices (kerf simulate "
            "accepts mixed clusters); give <ranks> 8 or fewer, or a file with one of the groups");
}

TEST(MixedCluster, BetweenIsOneForAllOrOneForEachPair) {
  std::string three = groupText(1) + ", " + groupText(1) + ", " + groupText(1);
  std::string slow = R"({"bandwidth": 1e9, "latency": 0})";
  Cluster same = parsed(fileOf(three, kBetween));
  ASSERT_EQ(same.groupLinks.size(), 1u);
  EXPECT_EQ(same.groupLinks[0].nodeBandwidth, 5e10);
  EXPECT_EQ(firstRanks(same, 6)->groupLinks.size(), 1u);
  Cluster each = parsed(fileOf(three, kBetween + ", " + slow));
  ASSERT_EQ(each.groupLinks.size(), 2u);
  EXPECT_EQ(each.groupLinks[1].bandwidth, 1e9);
  EXPECT_EQ(firstRanks(each, 6)->groupLinks.size(), 1u);
  EXPECT_EQ(each.groupLinks[1].nodeBandwidth, 0) << "its devices x bandwidth";
}

TEST(MixedCluster, RefusesWhatIsWrongByName) {
  std::string two = groupText(2) + ", " + groupText(2);
  expectMessage(R"({"groups": 3})", R"(groups must be a list of {"device", "levels"})");
  expectMessage(R"({"groups": []})", R"(groups must be a list of {"device", "levels"})");
  expectMessage(fmt::format(R"({{"groups": [{}]}})", two), R"(lacks "between"; add it)");
  expectMessage(fileOf(two, ""), "between has 0 entries for 2 groups; give one for all pairs, or 1: one for each pair "
                                 "of neighbours");
  expectMessage(fileOf(two + ", " + groupText(1) + ", " + groupText(1), kBetween + ", " + kBetween),
                "between has 2 entries for 4 groups; give one for all pairs, or 3: one for each pair of neighbours");
  expectMessage(fileOf(groupText(2), kBetween), R"(has "between" but only one group; add a group or drop "between")");
  expectMessage(fileOf(two, R"({"bandwidth": 1e9})"), R"(between[0]: lacks "latency"; add it)");
  expectMessage(fileOf(two, R"({"latency": 0})"), R"(between[0]: lacks "bandwidth"; add it)");
  expectMessage(fileOf(two, R"({"latency": 0, "bandwidth": -1})"),
                "between[0]: bandwidth is -1; must be a finite number above 0");
  expectMessage(fileOf(two, R"({"latency": 0, "bandwidth": 1e9, "node_bandwidth": 0})"),
                "between[0]: node_bandwidth is 0; must be a finite number above 0");
  expectMessage(fileOf(groupText(2) + ", {}", kBetween), R"(groups[1]: lacks "device"; add it)");
  expectMessage(fileOf(groupText(2) + ", " + groupText(2, "x", -1), kBetween),
                "groups[1].device: memory_bytes is -1; must be a whole number, 1 or more");
  expectMessage(fileOf(groupText(2) + ", " + groupText(0), kBetween),
                "groups[1].levels[1]: size is 0; must be a whole number, 1 or more");
  expectMessage(fileOf(two, kBetween, R"(, "levels": [])"),
                R"(has 2 groups and a "levels" of its own; put it into the groups or drop the groups)");
  expectMessage(fileOf(two, kBetween, R"(, "ranks": 17)"), "ranks is 17, but the groups hold 16; give 16 or fewer");
  expectMessage(fileOf(groupText(1 << 28) + ", " + groupText(1 << 28) + ", " + groupText(1), kBetween),
                "its 3 groups have 2147483652 ranks, more than 2147483648; give fewer");
}

TEST(MixedCluster, WritingAndReadingGivesTheSame) {
  std::string two = groupText(2) + ", " + groupText(3, "V100");
  for (const std::string &text :
       {fileOf(two, kBetween), fileOf(two + ", " + groupText(1), kBetween + R"(, {"bandwidth": 1e6, "latency": 0.5})"),
        fileOf(two, kBetween, R"(, "ranks": 13, "price_per_hour": 3, "source": {"a": "b"})"),
        fileOf(groupText(2), "")}) {
    SCOPED_TRACE(text);
    Cluster cluster = parsed(text);
    Cluster again = parsed(toJson(cluster));
    EXPECT_EQ(toJson(again), toJson(cluster));
    EXPECT_EQ(again.ranks(), cluster.ranks());
    EXPECT_EQ(again.groups.size(), cluster.groups.size());
    EXPECT_EQ(again.groupLinks.size(), cluster.groupLinks.size());
  }
}

TEST(MixedCluster, FirstRanksAreThoseOfTheFirstGroups) {
  Cluster cluster = parsed(fileOf(groupText(2) + ", " + groupText(3, "V100"), kBetween));
  Cluster nine = *firstRanks(cluster, 13);
  EXPECT_EQ(nine.ranks(), 13);
  EXPECT_EQ(nine.groups[0].ranks(), 8);
  EXPECT_EQ(nine.groups[1].ranks(), 5);
  EXPECT_EQ(nine.groups[1].levels[1].size, 2);
  for (int64_t ranks : {8, 3}) {
    Cluster first = *firstRanks(cluster, ranks);
    EXPECT_FALSE(first.mixed());
    EXPECT_TRUE(first.groupLinks.empty());
    EXPECT_EQ(first.name, "mixed");
    EXPECT_EQ(first.ranks(), ranks);
    EXPECT_EQ(toJson(first), toJson(parsed(fileOf(groupText(2) + ", " + groupText(3, "V100"), kBetween,
                                                  fmt::format(R"(, "ranks": {})", ranks)))));
  }
  EXPECT_FALSE(static_cast<bool>(firstRanks(cluster, 21)));
}

// Two groups joined by links like those between nodes behave as one cluster.
TEST(MixedPipeline, EqualGroupsAreOneCluster) {
  Cluster one = parsed(groupText(8));
  std::vector<Cluster> cut = {
      parsed(fileOf(groupText(4) + ", " + groupText(4), kBetween)),
      parsed(fileOf(groupText(2) + ", " + groupText(6), kBetween)),
      parsed(fileOf(groupText(2) + ", " + groupText(2) + ", " + groupText(4), kBetween)),
  };
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    MixedStep s = random() % 2 ? randomMixedStep(random, 4, 2, 4) : randomMixedStep(random, 8, 4, 1);
    Simulation wanted = s.on(one);
    for (const Cluster &cluster : cut) {
      Simulation given = s.on(cluster);
      EXPECT_NEAR(given.stepSeconds, wanted.stepSeconds, 1e-12 * wanted.stepSeconds);
      EXPECT_NEAR(given.breakdown.bubble, wanted.breakdown.bubble, 1e-9 * wanted.stepSeconds);
      EXPECT_NEAR(given.modelFlopsUtilization, wanted.modelFlopsUtilization, 1e-12);
      for (int64_t stage = 0; stage < s.plan.schedule.stages; ++stage)
        EXPECT_EQ(given.memory[stage].deviceBytes, wanted.memory[stage].deviceBytes);
    }
  }
}

TEST(MixedPipeline, WhatIsFasterNeverSlowsAPlan) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    MixedStep s = randomMixedStep(random, 4, 2, 4);
    Cluster cluster = parsed(fileOf(groupText(4) + ", " + groupText(4, "V100"), kBetween));
    double slow = s.on(cluster).stepSeconds;
    auto faster = [&] { return 1 + double(random() % 100) / 50; };
    Cluster device = cluster;
    device.groups[random() % 2].device.memoryBandwidth *= faster();
    EXPECT_LE(s.on(device).stepSeconds, slow * (1 + 1e-12));
    Cluster links = cluster;
    for (Level &level : links.groups[random() % 2].levels)
      level.nodeBandwidth *= level.bandwidth *= faster();
    EXPECT_LE(s.on(links).stepSeconds, slow * (1 + 1e-12));
    Cluster joined = cluster;
    joined.groupLinks[0].bandwidth *= 3;
    joined.groupLinks[0].nodeBandwidth *= faster();
    EXPECT_LE(s.on(joined).stepSeconds, slow * (1 + 1e-12));
  }
}

// 1F1B, three microbatches; forward 1 s and backward 2 s on the slow device, half of that on the fast one.
// Slow stage first:
//   stage 0:  F0 0-1  F1 1-2  B0 2.5-4.5  F2 4.5-5.5  B1 5.5-7.5  B2 7.5-9.5
//   stage 1:  F0 1-1.5  B0 1.5-2.5  F1 2.5-3  B1 3-4  F2 5.5-6  B2 6-7
TEST(MixedPipeline, TwoStagesByHand) {
  Cluster slow = handGroup(1, 1), fast = handGroup(1, 2);
  MixedStep s = mixedPipeline(2, 3);
  Simulation slowFirst = s.on(handMixed({slow, fast}));
  EXPECT_NEAR(slowFirst.stepSeconds, 9.5, kEps);
  EXPECT_NEAR(slowFirst.breakdown.forward, 3, kEps) << "of the busiest stage, which is the slow one";
  EXPECT_NEAR(slowFirst.breakdown.bubble, 0.5, kEps);
  EXPECT_NEAR(slowFirst.modelFlopsUtilization, 1e3 / 9.5 / (1e3 + 2e3), kEps) << "of the sum of the peaks";
  // F0 0-.5  F1 .5-1  B0 3.5-4.5  F2 4.5-5  B1 6.5-7.5  B2 9.5-10.5, and F0 .5-1.5  B0 -3.5  F1 -4.5  B1 -6.5  F2 -7.5
  // B2 -9.5.
  EXPECT_NEAR(s.on(handMixed({fast, slow})).stepSeconds, 10.5, kEps);
  EXPECT_NEAR(s.on(handMixed({slow, slow})).stepSeconds, (3 + 1) * 3, kEps);
  EXPECT_NEAR(s.on(handMixed({fast, fast})).stepSeconds, (3 + 1) * 3 / 2.0, kEps);
}

TEST(MixedPipeline, MessagesBetweenGroupsByHand) {
  Cluster slow = handGroup(4, 1, 1e6), fast = handGroup(4, 2, 1e6);
  MixedStep s = mixedPipeline(2, 1);
  s.mesh.axes[2].size = 4;
  s.work.message.axes = s.axis(0);
  s.work.message.bytes = 400;
  double compute = 1 + 0.5 + 1 + 2;
  // Four ranks of a node share the node's bandwidth, and concurrent flows reach 0.65 of it.
  EXPECT_NEAR(s.on(handMixed({slow, fast}, {1e3, 0, 2e3})).stepSeconds, compute + 2 * 400 / (0.65 * 2e3 / 4), kEps);
  EXPECT_NEAR(s.on(handMixed({slow, fast}, {1e3, 0, 8e3})).stepSeconds, compute + 2 * 400 / (0.65 * 1e3), kEps);
  EXPECT_NEAR(s.on(handMixed({slow, fast}, {1e3, 0, 0})).stepSeconds, compute + 2 * 400 / (0.65 * 1e3), kEps);
  // Gradients of parameters that the first and the last stage share cross the link once.
  s.work.message.bytes = 0;
  s.work.tiedElements = 100;
  s.plan.bytes = {0, 4, 0};
  EXPECT_NEAR(s.on(handMixed({slow, fast}, {1e3, 0, 2e3})).stepSeconds, compute + 400 / (0.65 * 2e3 / 4), kEps);
  // Two stages in each group: messages inside a group run at the group's bandwidth, 0.85 of 1e6.
  MixedStep four = mixedPipeline(4, 1);
  four.mesh.axes[2].size = 2;
  four.work.message.axes = four.axis(0);
  four.work.message.bytes = 400;
  EXPECT_NEAR(four.on(handMixed({slow, fast}, {1e3, 0, 2e3})).stepSeconds,
              2 * compute + 2 * 400 / (0.65 * 1e3) + 4 * 400 / (0.85 * 1e6), kEps);
}

TEST(MixedPipeline, GroupsFurtherApartAreJoinedThroughThoseBetween) {
  Cluster cluster = handMixed({handGroup(1, 1), handGroup(1, 1), handGroup(1, 1)});
  cluster.groupLinks = {{1e3, 0.25, 0}, {2e3, 0.5, 0}};
  MixedStep s = mixedPipeline(3, 1);
  Result<PipelineModel> model = PipelineModel::make(s.mesh, cluster);
  ASSERT_TRUE(static_cast<bool>(model));
  auto seconds = [&](int64_t from, int64_t to) { return model->sendSeconds(from, to, s.work.message.axes, 950); };
  auto wanted = [](double latency, double wire) { return std::pow(std::sqrt(latency) + std::sqrt(wire), 2); };
  EXPECT_NEAR(seconds(0, 1), wanted(0.25, 1), kEps);
  EXPECT_NEAR(seconds(1, 2), wanted(0.5, 0.5), kEps);
  EXPECT_NEAR(seconds(2, 0), wanted(0.75, 1), kEps);
  EXPECT_NEAR(seconds(0, 2), seconds(2, 0), kEps);
  cluster.groupLinks.resize(1); // one link for every pair of groups
  model = PipelineModel::make(s.mesh, cluster);
  EXPECT_NEAR(seconds(2, 0), wanted(0.25, 1), kEps);
  EXPECT_NEAR(seconds(1, 2), wanted(0.25, 1), kEps);
}

TEST(MixedPipeline, MemoryIsOfTheStagesOwnDevice) {
  Cluster large = handGroup(1, 1), small = handGroup(1, 1);
  small.device.memoryBytes = 110; // one microbatch of 100 bytes and 6 % for the allocator
  MixedStep s = mixedPipeline(2, 4);
  Simulation enough = s.on(handMixed({large, small}));
  EXPECT_TRUE(enough.fits);
  EXPECT_EQ(enough.memory[0].limitBytes, 1e6);
  EXPECT_EQ(enough.memory[1].limitBytes, 110);
  EXPECT_FALSE(s.on(handMixed({small, large})).fits) << "the first stage holds two";
}

TEST(MixedPipeline, GradientsAreReducedInsideTheGroup) {
  MixedStep s = mixedPipeline(2, 1);
  s.mesh.axes[1].size = 2;
  s.work.message.axes = s.axis(0);
  s.work.parts[0].segments[0].parameters = {{"w", 100, s.axis(1)}};
  s.plan.bytes = {0, 4, 0};
  s.plan.overlap.gradients = false;
  Cluster quick = handGroup(2, 1, 1e9), slow = handGroup(2, 1, 100);
  double joined = 1e-3; // so slow that a reduction across groups would be visible
  Mesh pair{{{"data", 2}}};
  double reduce = CollectiveModel(pair, slow).seconds(Collective::AllReduce, std::vector{wholeAxis(pair, 0)}, 400);
  double without = s.on(handMixed({quick, quick}, {joined, 0, 0})).stepSeconds;
  // The last stage ends 2 seconds before the first.
  EXPECT_NEAR(s.on(handMixed({slow, quick}, {joined, 0, 0})).stepSeconds, without + reduce, 1e-5);
  EXPECT_NEAR(s.on(handMixed({quick, slow}, {joined, 0, 0})).stepSeconds, without + reduce - 2, 1e-5);
}

TEST(MixedPipeline, StagesLieInsideOneGroup) {
  Cluster cluster = handMixed({handGroup(12, 1), handGroup(4, 1)});
  EXPECT_EQ(refusal({{{"stage", 4}, {"data", 4}}}, cluster), "");
  EXPECT_EQ(refusal({{{"stage", 1}, {"data", 12}}}, cluster), "") << "all of it in group 0";
  std::string end = ": 'by hand' has 2 groups (12 cuda + 4 cuda), and every stage must lie inside one group; make "
                    "mesh.stage a multiple of 4 (stages of 4 ranks or of a divisor of 4), or give <ranks> 12 or fewer";
  EXPECT_EQ(refusal({{{"stage", 1}, {"data", 16}}}, cluster), "mesh.stage is 1 on 16 ranks" + end);
  EXPECT_EQ(refusal({{{"data", 8}, {"model", 2}}}, cluster), "mesh.stage is 1 on 16 ranks" + end);
  EXPECT_EQ(refusal({{{"stage", 2}, {"data", 8}}}, cluster),
            "stage 1 has ranks 8 to 15, 4 of them in group 0 and 4 in the next" + end);
  EXPECT_EQ(
      refusal({{{"data", 4}, {"stage", 4}}}, cluster),
      "order begins with \"data\" (size 4), so that each stage has ranks in all 2 groups of 'by hand' (12 cuda + 4 "
      "cuda); on mixed clusters \"stage\" must be the first axis of order");
  EXPECT_NE(refusal({{{"stage", 4}, {"data", 8}}}, cluster).find("has 16 ranks, but 32 are requested"),
            std::string::npos);
  EXPECT_EQ(*groupsOfStages(cluster, 8), (std::vector<int>{0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_TRUE(groupsOfStages(handGroup(16, 1), 8)->empty());
  MixedStep s = mixedPipeline(4, 1);
  Result<Simulation> other = simulate(s.work, s.plan, *PipelineModel::make({{{"stage", 8}, {"data", 2}}}, cluster));
  EXPECT_EQ(other.error().message, "the mesh has 8 stages, but the model is cut into 4; give the mesh 4 stages");
}

TEST(MixedPipeline, LayersInProportion) {
  using Counts = std::vector<int64_t>;
  auto cut = [](int64_t layers, std::vector<double> weights) { return cutByWeights(layers, weights); };
  EXPECT_EQ(cut(10, {2, 1, 1}), (Counts{5, 3, 2}));
  EXPECT_EQ(cut(10, {1, 1, 1, 1}), (Counts{3, 3, 2, 2})) << "as an even cut";
  EXPECT_EQ(cut(4, {100, 1, 1, 1}), (Counts{1, 1, 1, 1}));
  EXPECT_EQ(cut(6, {100, 1, 1, 1}), (Counts{3, 1, 1, 1}));
  EXPECT_EQ(cut(24, {312e12, 312e12, 125e12, 125e12}), (Counts{9, 9, 3, 3}));
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    std::vector<double> weights(1 + random() % 8);
    for (double &weight : weights)
      weight = 1 + double(random() % 100);
    int64_t layers = int64_t(weights.size()) + int64_t(random() % 100), all = 0;
    std::vector<int64_t> counts = cutByWeights(layers, weights);
    for (size_t i = 0; i < counts.size(); ++i) {
      all += counts[i];
      EXPECT_GE(counts[i], 1);
      for (size_t j = 0; j < counts.size(); ++j)
        if (weights[i] > weights[j]) {
          EXPECT_GE(counts[i], counts[j]);
        }
    }
    EXPECT_EQ(all, layers);
  }
}

TEST(StagePlans, OptimizerShardingOfEachStage) {
  MixedStep s = mixedPipeline(2, 3);
  s.mesh.axes[1].size = 2;
  s.work.message.axes = s.axis(0);
  s.work.parts[0].segments[0].parameters = {{"w", 1000, s.axis(1)}};
  s.plan.bytes = stateBytes("bf16", "f32", 2);
  Cluster cluster = handGroup(4, 1e4);
  for (int both : {0, 1, 2, 3}) {
    s.plan.optimizerSharding = both;
    s.plan.optimizerShardingOfStage = {};
    Simulation wanted = s.on(cluster);
    s.plan.optimizerSharding = 0;
    s.plan.optimizerShardingOfStage = {both, both};
    Simulation given = s.on(cluster);
    EXPECT_EQ(given.stepSeconds, wanted.stepSeconds);
    EXPECT_EQ(given.memory[1].peakBytes, wanted.memory[1].peakBytes);
  }
  s.plan.optimizerShardingOfStage = {3, 1};
  Simulation mixed = s.on(cluster);
  EXPECT_NEAR(mixed.memory[0].weights, 1000, kEps);
  EXPECT_NEAR(mixed.memory[1].weights, 2000, kEps);
  EXPECT_NEAR(mixed.memory[0].gradients, 2000, kEps);
  EXPECT_NEAR(mixed.memory[1].gradients, 4000, kEps);
  EXPECT_NEAR(mixed.memory[0].states, 6000, kEps);
  EXPECT_NEAR(mixed.memory[1].states, 6000, kEps);
  // The breakdown describes the busiest stage, so its collectives are those of that stage's optimizer sharding.
  s.plan.optimizerShardingOfStage = {0, 1};
  s.plan.overlap.gradients = false;
  Mesh pair{{{"data", 2}}};
  CollectiveModel links(pair, handGroup(4, 1e4));
  std::vector<AxisRef> data{wholeAxis(pair, 0)};
  double whole = links.seconds(Collective::AllReduce, data, 4000);
  double cut = links.seconds(Collective::ReduceScatter, data, 4000) + links.seconds(Collective::AllGather, data, 2000);
  double given = s.on(cluster).breakdown.collectives.at("data");
  EXPECT_TRUE(std::abs(given - whole) < kEps || std::abs(given - cut) < kEps) << given;
  auto refused = [&](std::vector<int> values) {
    s.plan.optimizerShardingOfStage = std::move(values);
    Result<Simulation> result = simulate(s.work, s.plan, *PipelineModel::make(s.mesh, cluster));
    return result ? std::string() : result.error().message;
  };
  EXPECT_EQ(refused({1}), "optimizer sharding is given for 1 stage, but the plan has 2; give one value for each stage");
  EXPECT_EQ(refused({1, 5}), "optimizer sharding is 5; give 0 to 3");
}
