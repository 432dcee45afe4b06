// SPDX-License-Identifier: Apache-2.0
#include "kerf/PlanSearch/Explain.h"

#include <gtest/gtest.h>

namespace kerf {

namespace {

Cluster machine(int64_t ranks) {
  auto cluster =
      parseCluster(R"({"name": "machine", "device": {"kind": "cpu", "memory_bytes": 1e9, "memory_bandwidth": 1e10,
    "peak_flops": {"f32": 1e11}}, "levels": [{"name": "bus", "size": )" +
                       std::to_string(ranks) + R"(, "bandwidth": 1e9, "latency": 1e-6}]})",
                   "cluster.json");
  EXPECT_TRUE(bool(cluster)) << cluster.error().message;
  return *cluster;
}

Result<CompletedPlan> completed(const std::string &keys, int64_t ranks = 16) {
  TrainingJob job;
  job.model = "m";
  auto plan = parsePlan(R"({"kerf": 1, )" + keys + "}", "p");
  return plan ? completePlan(*plan, "p", machine(ranks), job) : Result<CompletedPlan>(plan.error());
}

std::string message(const std::string &keys) {
  auto made = completed(keys);
  return made ? "" : made.error().message;
}

TEST(ShardingAxes, FromTheInnermostOn) {
  Mesh mesh{{{"stage", 2}, {"data", 4}, {"context", 2}, {"model", 2}}};
  EXPECT_EQ(replicaCount(mesh), 8);
  EXPECT_EQ(shardingAxes(mesh, 0), (std::vector<AxisRef>{{1, 1, 4}, {2, 1, 2}}));
  EXPECT_EQ(shardingAxes(mesh, 8), shardingAxes(mesh, 0));
  EXPECT_EQ(shardingAxes(mesh, 4), (std::vector<AxisRef>{{1, 2, 2}, {2, 1, 2}}));
  EXPECT_EQ(shardingAxes(mesh, 2), (std::vector<AxisRef>{{2, 1, 2}}));
  EXPECT_TRUE(shardingAxes(mesh, 1).empty());
  // A factor that does not divide one axis is taken from the others.
  Mesh three{{{"data", 6}, {"expert", 4}}};
  EXPECT_EQ(shardingAxes(three, 3), (std::vector<AxisRef>{{0, 2, 3}}));
  EXPECT_EQ(shardingAxes(three, 6), (std::vector<AxisRef>{{0, 2, 3}, {1, 2, 2}}));
  for (int64_t ranks : {1, 2, 3, 4, 6, 8, 12, 24})
    EXPECT_EQ(shardCount(shardingAxes(three, ranks)), ranks);
}

TEST(CompletePlan, ShardingRanksDivideTheReplicas) {
  EXPECT_TRUE(
      bool(completed(R"("mesh": {"data": 8, "model": 2}, "optimizer_sharding": 2, "optimizer_sharding_ranks": 4)")));
  EXPECT_EQ(message(R"("mesh": {"data": 8, "model": 2}, "optimizer_sharding": 2, "optimizer_sharding_ranks": 3)"),
            "p: optimizer_sharding_ranks is 3, which does not divide the 8 ranks of data, context and expert; give a "
            "divisor");
  EXPECT_EQ(
      message(
          R"("stages": [{"layers": [0, 1], "mesh": {"data": 4}}, {"layers": [2, 3], "mesh": {"data": 2, "model": 2}}],
                       "mesh": {"stage": 2}, "optimizer_sharding": 1, "optimizer_sharding_ranks": 4)"),
      "p: optimizer_sharding_ranks is 4, which does not divide the 2 ranks of data, context and expert of stage 1; "
      "give a divisor");
}

TEST(CompletePlan, MeshesOfStages) {
  auto made = completed(R"("mesh": {"stage": 2}, "global_batch": 16, "microbatch": 2, "stages": [
    {"layers": [0, 1], "mesh": {"data": 4, "model": 2}}, {"layers": [2, 3], "mesh": {"data": 2, "model": 4}}])");
  ASSERT_TRUE(bool(made)) << made.error().message;
  const Plan &plan = made->plan;
  EXPECT_EQ(plan.meshSizes.at("data"), 4); // the size in the first stage's mesh
  EXPECT_TRUE(plan.stages[0].mesh.empty());
  EXPECT_TRUE(stagesDiffer(plan));
  EXPECT_EQ(made->microbatches, 2);
  Plan second = planOfStage(plan, 1);
  EXPECT_EQ(second.meshSizes.at("data"), 2);
  EXPECT_EQ(second.meshSizes.at("model"), 4);
  EXPECT_EQ(second.microbatch, 4);
  EXPECT_EQ(planOfStage(plan, 0).meshSizes, plan.meshSizes);
  auto again = parsePlan(toJson(plan), "again");
  ASSERT_TRUE(bool(again)) << again.error().message;
  EXPECT_EQ(again->stages, plan.stages);
  // A stage mesh that equals the plan's is dropped, and the chunks of a stage share one mesh.
  auto chunks = completed(R"("mesh": {"stage": 2, "data": 4}, "schedule": {"chunks": 2}, "global_batch": 8, "stages": [
    {"layers": [0, 0], "mesh": {"data": 4}}, {"layers": [1, 1], "mesh": {"model": 4}},
    {"layers": [2, 2]}, {"layers": [3, 3]}])");
  ASSERT_TRUE(bool(chunks)) << chunks.error().message;
  EXPECT_TRUE(chunks->plan.stages[0].mesh.empty());
  EXPECT_EQ(chunks->plan.stages[3].mesh.at("model"), 4);
}

TEST(CompletePlan, PlansOfOtherMeshesDiffer) {
  auto plan = [](const std::string &second) {
    return *parsePlan(
        R"({"kerf": 1, "mesh": {"stage": 2, "data": 4}, "stages": [{"layers": [0, 1]}, {"layers": [2, 2])" + second +
            "}]}",
        "p");
  };
  std::vector<PlanDifference> found = differences(plan(""), plan(R"(, "mesh": {"data": 2, "model": 2})"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].one, "2 1 layers");
  EXPECT_EQ(found[0].other, "2 1 layers, stage 1: data 2 x model 2");
}

TEST(CompletePlan, MeshesOfStagesThatCannotBe) {
  auto stages = [](const std::string &first, const std::string &second, const std::string &more = "") {
    return message(
        R"("mesh": {"stage": 2, "data": 2, "model": 2}, "microbatch": 1, "stages": [{"layers": [0, 0], "mesh": )" +
        first + R"(}, {"layers": [1, 1], "mesh": )" + second + "}]" + more);
  };
  EXPECT_EQ(stages(R"({"data": 4})", R"({"data": 2})"), "p: the mesh of stage 1 has 2 ranks (data 2), the plan's mesh "
                                                        "4 for each stage (data 2 x model 2); all stages have as many");
  EXPECT_EQ(stages(R"({"data": 4})", R"({"model": 4})"),
            "p: a microbatch has 2 samples (1 for each of the 2 data x expert groups of the plan's mesh), which the 4 "
            "groups of stage "
            "0 (data 4) can't share; change microbatch or its mesh");
  EXPECT_EQ(stages(R"({"stage": 2})", R"({"model": 4})"),
            "p: stages[0].mesh has the axis \"stage\"; the ranks of a stage have data, context, expert and model");
  EXPECT_EQ(stages("{}", R"({"model": 4})"),
            "p: stages[0].mesh is {}; it has to be an object of axis sizes, like {\"data\": 2, \"model\": 4}");
  EXPECT_EQ(stages(R"({"model": 4})", R"({"model": 4})", R"(, "order": ["data", "stage", "model"])"),
            "p: order puts \"stage\" between other axes, and stages have meshes of their own; put \"stage\" first or "
            "last");
  EXPECT_EQ(message(R"("mesh": {"stage": 2}, "stages": [{"layers": [0, 0], "ranks": 4}, {"layers": [1, 1]}])"),
            "p: stages[0] has the key \"ranks\", but all stages have the same number of ranks; give the stage's "
            "\"mesh\" instead");
  EXPECT_EQ(
      message(R"("mesh": {"stage": 2}, "schedule": {"chunks": 2}, "stages": [{"layers": [0, 0], "mesh": {"data": 2}},
    {"layers": [1, 1]}, {"layers": [2, 2], "mesh": {"model": 2}}, {"layers": [3, 3]}])"),
      "p: stages: stage 0 has two meshes, data 2 and model 2; its chunks share one");
}

} // namespace
TEST(CompletePlan, MicrobatchesInFlight) {
  auto with = [](const char *schedule) {
    return R"("mesh": {"stage": 4, "data": 4}, "global_batch": 32, "microbatch": 1, "schedule": )" +
           std::string(schedule);
  };
  auto made = completed(with(R"({"name": "zero-bubble", "variant": "1p", "in_flight": [4, 3, 3, 2]})"));
  ASSERT_TRUE(bool(made)) << made.error().message;
  EXPECT_EQ(made->schedule.inFlight, (std::vector<int64_t>{4, 3, 3, 2}));
  EXPECT_EQ(message(with(R"({"name": "1f1b", "in_flight": 4})")),
            "p: schedule.in_flight is for the variants 1p, 2p and by-memory of zero-bubble, but the schedule is 1f1b; "
            "leave it "
            "out");
  EXPECT_EQ(message(with(R"({"name": "zero-bubble", "variant": "2p", "in_flight": [4, 3]})")),
            "p: schedule.in_flight has 2 values for 4 stages; give one, or one for each stage");
}

} // namespace kerf
