// SPDX-License-Identifier: Apache-2.0
// Compression in the simulator, with steps that can be computed by hand: devices move 1 byte/s and links 1 byte/s.
#include "kerf/CostModel/CompressedGradients.h"
#include "StepsByHand.h"

#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::compression;

namespace {

/// A cluster of `nodes` nodes with `perNode` CPU cores each. Codecs encode 100 and decode 200 f32 bytes/s.
Cluster cores(int64_t nodes, int64_t perNode) {
  Cluster cluster;
  cluster.device.kind = "cpu";
  cluster.device.memoryBytes = 1'000'000;
  cluster.device.memoryBandwidth = 1;
  cluster.device.peakFlops = {{"f32", 1e3}};
  cluster.device.curves = DeviceCurves();
  for (const CodecRecord &codec : codecs())
    cluster.device.codecs[std::string(codec.name)] = {0, 0.01, 0, 0.005};
  cluster.levels = {{"inside", perNode, 1, 0, 1, 0}, {"between", nodes, 1, 0, static_cast<double>(perNode), 0}};
  cluster.usedRanks = nodes * perNode;
  return cluster;
}

/// Two layers whose backward takes 10 s, each with a matrix of `rows` x 10.
StepWork twoLayers(const Mesh &mesh, int64_t rows) {
  StepWork work;
  Segment layer;
  layer.name = "layer";
  layer.repeat = 2;
  KernelWork kernel;
  kernel.work.kernelClass = KernelClass::Pointwise;
  kernel.work.bytes = 10;
  layer.forward.kernels = layer.weightGradient.kernels = {kernel};
  ParameterGroup group{"w", static_cast<double>(rows) * 10, {wholeAxis(mesh, 0)}};
  group.shape = {rows, 10};
  group.parameter = "h.0.w";
  layer.parameters = {group};
  work.parts = {{"first", {layer}}};
  work.part = {{0}};
  work.tokens = 1;
  work.dtype = "f32";
  return work;
}

StepPlan planOfOneStage() {
  StepPlan plan;
  plan.schedule.stages = plan.schedule.microbatches = 1;
  plan.bytes = stateBytes("f32", "f32", 0);
  return plan;
}

TEST(CompressedGradients, DivideAGroupIntoNodes) {
  Mesh mesh{{{"data", 8}, {"model", 2}}};
  CollectiveModel collectives(mesh, cores(4, 4)); // a node holds two ranks of "data"
  HierarchyAxes axes = hierarchyAxes(collectives, {wholeAxis(mesh, 0)});
  EXPECT_EQ(axes.inner, (std::vector<AxisRef>{{0, 4, 2}}));
  EXPECT_EQ(axes.outer, (std::vector<AxisRef>{{0, 1, 4}}));
  SyncNetwork network = syncNetwork(collectives, {wholeAxis(mesh, 0)});
  EXPECT_EQ(network.members, 8);
  EXPECT_EQ(network.innerMembers, 2);
  EXPECT_TRUE(network.hierarchical());
  EXPECT_TRUE(hierarchyAxes(collectives, {wholeAxis(mesh, 1)}).inner.empty()); // all in one node
  CollectiveModel flat(Mesh{{{"data", 4}}}, cores(4, 1));
  EXPECT_FALSE(syncNetwork(flat, {AxisRef{0, 1, 4}}).hierarchical());
}

TEST(CompressedGradients, AreSimulatedLayerByLayer) {
  Mesh mesh{{{"data", 2}}};
  Cluster cluster = cores(2, 1);
  CollectiveModel collectives(mesh, cluster);
  StepWork work = twoLayers(mesh, 1); // 10 elements, 40 bytes: an all-reduce of 2 ranks takes 40 s
  StepPlan plan = planOfOneStage();
  double forward = 20;
  auto plain = simulate(work, plan, collectives);
  ASSERT_TRUE(plain) << plain.error().message;
  // The gradients are ready 10 s and 20 s after the backward's start; they take 40 s each on the wire, and the kernels
  // of the task become slower by 0.3 of their 20 s (kContention). The optimizer reads and writes 20 elements of f32.
  double optimizer = plain->breakdown.optimizer;
  EXPECT_NEAR(plain->stepSeconds, forward + 10 + 80 + 6 + optimizer, 0.01);
  // The layer that is ready last is the first one. In 16 bits its 20 bytes are padded to 32, which take 32 s, 0.4 s to
  // encode and 0.2 s to decode.
  SyncChoice half{findCodec("bf16"), SyncScheme::AllReduce, 1, false, false, 0};
  plan.compressionOfPart = {{half, SyncChoice()}};
  auto coded = simulate(work, plan, collectives);
  ASSERT_TRUE(coded) << coded.error().message;
  EXPECT_NEAR(coded->stepSeconds, plain->stepSeconds - 8 + 0.2, 0.2);
  EXPECT_NEAR(coded->breakdown.collectives.at("data"), 72, kEps);
  // The other layer alone: its encoding delays the backward, and its message ends 8 s earlier.
  plan.compressionOfPart = {{SyncChoice(), half}};
  auto other = simulate(work, plan, collectives);
  ASSERT_TRUE(other);
  EXPECT_NEAR(other->stepSeconds, plain->stepSeconds - 8 + 0.4, 0.2);
  EXPECT_GT(other->stepSeconds, coded->stepSeconds);
  EXPECT_NEAR(coded->memory[0].states, plain->memory[0].states, kEps); // bf16 keeps nothing
  plan.compressionOfPart = {{half}};
  auto wrong = simulate(work, plan, collectives);
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("1 gradients of part 0, but it has 2"), std::string::npos);
}

TEST(CompressedGradients, KeepErrorFeedbackInMemory) {
  Mesh mesh{{{"data", 2}}};
  CollectiveModel collectives(mesh, cores(2, 1));
  StepWork work = twoLayers(mesh, 8); // 80 elements
  StepPlan plan = planOfOneStage();
  auto plain = simulate(work, plan, collectives);
  plan.compressionOfPart = {{{findCodec("onebit"), SyncScheme::TwoStage, 1, false, true, 0}, {}}};
  auto coded = simulate(work, plan, collectives);
  ASSERT_TRUE(plain && coded);
  EXPECT_NEAR(coded->memory[0].states - plain->memory[0].states, 4 * (80 + 40), kEps);
  EXPECT_NEAR(coded->memory[0].peakBytes - plain->memory[0].peakBytes, 4 * (80 + 40), kEps);
}

TEST(CompressedGradients, ProblemHasThePricesOfTheSimulator) {
  Mesh mesh{{{"data", 2}}};
  CollectiveModel collectives(mesh, cores(2, 1));
  PipelineModel pipeline(collectives);
  StepWork work = twoLayers(mesh, 1);
  StepPlan plan = planOfOneStage();
  SyncChoice half{findCodec("bf16"), SyncScheme::AllReduce, 1, false, false, 0};
  auto options = [&](const GradientOfPart &, const SyncGradient &gradient, const SyncNetwork &network,
                     const CollectiveModel &) {
    return std::vector<SyncOption>{plainOption(gradient, network), {half, {}, 2}};
  };
  PartProblem part = gradientProblem(work, plan, pipeline, 0, 0, options);
  EXPECT_EQ(part.indexOf, (std::vector<size_t>{1, 0})); // the last layer's backward comes first
  ASSERT_EQ(part.problem.layers.size(), 2u);
  auto plain = simulate(work, plan, pipeline);
  for (OptionIndices choice : {OptionIndices{0, 1}, {1, 0}, {1, 1}}) {
    plan.compressionOfPart = {GradientChoices(2)};
    for (size_t t = 0; t < 2; ++t)
      plan.compressionOfPart[0][part.indexOf[t]] = part.problem.gradients[t].options[choice[t]].choice;
    auto coded = simulate(work, plan, pipeline);
    double predicted = finishSeconds(part.problem, choice) - finishSeconds(part.problem, {0, 0});
    EXPECT_NEAR(coded->stepSeconds - plain->stepSeconds, predicted, 0.3); // kernels slow down beside messages
  }
}

TEST(CompressedGradients, SpeedsOfCodecsAreReadAndWritten) {
  Cluster cluster = cores(2, 1);
  cluster.device.memoryBandwidth = 1e10;
  cluster.device.memoryBytes = 1 << 30;
  cluster.device.peakFlops = {{"f32", 1e11}};
  for (Level &level : cluster.levels)
    level.bandwidth = level.nodeBandwidth = 1e9;
  auto again = parseCluster(toJson(cluster), "c.json");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->device.codecs.size(), codecs().size());
  EXPECT_NEAR(again->device.codecs.at("int8").encodePerByte, 0.01, 1e-12);
  std::string text = toJson(cluster);
  auto refused = [&](const std::string &from, const std::string &to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    auto parsed = parseCluster(changed, "c.json");
    return parsed ? std::string() : parsed.error().message;
  };
  EXPECT_NE(refused("\"int8\"", "\"int9\"").find("did you mean \"int8\""), std::string::npos);
  EXPECT_NE(refused("\"encode_bytes_per_second\"", "\"encode_rate\"").find("lacks \"encode_bytes_per_second\""),
            std::string::npos);
  EXPECT_NE(refused("\"encode_bytes_per_second\": 100", "\"encode_bytes_per_second\": -1").find("bytes/s"),
            std::string::npos);
}

} // namespace
