// SPDX-License-Identifier: Apache-2.0
// Tests of intervals with steps whose spread can be computed by hand, and of messages that stay inside a node.
#include "kerf/CostModel/Uncertainty.h"
#include "StepsByHand.h"
#include "kerf/CostModel/Simulator.h"
#include "kerf/CostModel/Trainer.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace kerf;

namespace {

/// Nodes of 8 devices that read 1 byte/s, with links of 100 bytes/s inside and 10 bytes/s between nodes.
Cluster nodesOf(int64_t nodes) {
  Cluster cluster;
  cluster.device.kind = "cuda";
  cluster.device.memoryBytes = 1'000'000;
  cluster.device.memoryBandwidth = 1;
  cluster.device.peakFlops = {{"bf16", 1}};
  cluster.device.curves.processors = 2;
  cluster.levels = {{"inside", 8, 100, 0, 800, 0}, {"between", nodes, 10, 0, 80, 0}};
  cluster.usedRanks = 8 * nodes;
  return cluster;
}

/// A step of one rank with `memorySeconds` of a pointwise kernel and `productSeconds` of a product.
StepWork oneRank(double memorySeconds, double productSeconds) {
  KernelWork pointwise, product;
  pointwise.work.kernelClass = KernelClass::Pointwise;
  pointwise.work.bytes = memorySeconds;
  product.work.kernelClass = KernelClass::Product;
  product.work.flops = productSeconds;
  product.work.dtype = "bf16";
  Segment layer;
  layer.name = "layer";
  layer.forward.kernels = {pointwise, product};
  layer.saved = {{"x", 100}};
  StepWork work;
  work.parts = {{"all", {layer}}};
  work.part = {{0}};
  return work;
}

Uncertainty uncertaintyOfStep(const StepWork &work, int64_t stages = 1, int64_t nodes = 1, bool unmeasured = false) {
  StepPlan plan;
  plan.trainer.unmeasured = unmeasured;
  plan.schedule.stages = stages;
  Mesh mesh{{{"stage", stages}, {"data", 1}}};
  auto make = [&](const Cluster &on) { return PipelineModel::make(mesh, on); };
  Cluster cluster = nodesOf(nodes);
  auto pipeline = make(cluster);
  EXPECT_TRUE(pipeline);
  auto simulation = simulate(work, plan, *pipeline);
  EXPECT_TRUE(simulation);
  auto result = uncertaintyOf(work, plan, cluster, make, *simulation);
  EXPECT_TRUE(result);
  return result ? *result : Uncertainty();
}

double at(const ByWorkKind &values, WorkKind kind) { return values[static_cast<size_t>(kind)]; }

} // namespace

TEST(Uncertainty, AStepOfOneKindHasTheSpreadOfThisKindAndWhatNoKindExplains) {
  Uncertainty memory = uncertaintyOfStep(oneRank(10, 0)), product = uncertaintyOfStep(oneRank(0, 10));
  EXPECT_NEAR(at(memory.changes, WorkKind::Memory), at(spreadOfKinds(), WorkKind::Memory), 1e-9);
  EXPECT_NEAR(at(memory.changes, WorkKind::Products), 0, 1e-12);
  EXPECT_NEAR(at(product.changes, WorkKind::Products), at(spreadOfKinds(), WorkKind::Products), 1e-9);
  double common = std::hypot(kSpreadOfPlan, kSpreadOfJob);
  EXPECT_NEAR(memory.spread, std::hypot(at(spreadOfKinds(), WorkKind::Memory), common), 1e-9);
  EXPECT_NEAR(memory.stepSeconds.low, 10 * std::exp(-kEightyPercent * memory.spread), 1e-6);
  EXPECT_NEAR(memory.stepSeconds.high, 10 * std::exp(kEightyPercent * memory.spread), 1e-6);
}

TEST(Uncertainty, IndependentKindsAddUpLessThanTheirSum) {
  Uncertainty both = uncertaintyOfStep(oneRank(5, 5));
  // Each kind is half of the step, so that its factor moves the step by about half of its spread.
  EXPECT_NEAR(at(both.changes, WorkKind::Memory), at(spreadOfKinds(), WorkKind::Memory) / 2, 2e-3);
  EXPECT_NEAR(at(both.changes, WorkKind::Products), at(spreadOfKinds(), WorkKind::Products) / 2, 2e-3);
  EXPECT_LT(both.spread,
            at(both.changes, WorkKind::Memory) + at(both.changes, WorkKind::Products) + kSpreadOfPlan + kSpreadOfJob);
}

TEST(Uncertainty, ATrainerToWhoseRunsNothingWasFittedIsLessSure) {
  Uncertainty known = uncertaintyOfStep(oneRank(5, 5)), unknown = uncertaintyOfStep(oneRank(5, 5), 1, 1, true);
  EXPECT_NEAR(unknown.spread, std::hypot(known.spread, kSpreadOfTrainer), 1e-9);
  EXPECT_TRUE(findTrainer("alpa-2022")->prices.unmeasured);
  EXPECT_FALSE(findTrainer("megatron")->prices.unmeasured);
}

TEST(Uncertainty, StepsOfManyMicrobatchesArePredictedFromFewerOnes) {
  // Slower memory, against a prediction of the whole step. Part 0 takes longer than the others, and messages take time.
  for (auto [kind, chunks, microbatches] : {std::tuple(ScheduleKind::OneFOneB, 1, 301),
                                            {ScheduleKind::GPipe, 1, 301},
                                            {ScheduleKind::ZeroBubbleH1, 1, 302},
                                            {ScheduleKind::Interleaved, 2, 400},
                                            {ScheduleKind::Interleaved, 2, 303}}) {
    Step step = pipeline(4, microbatches, 1, chunks);
    step.plan.schedule.kind = kind;
    step.work.parts.push_back(step.work.parts.front());
    step.work.parts.back().segments.front().repeat = 3;
    step.work.part[0][0] = 1;
    step.work.message.bytes = 3000;
    Cluster cluster = slowCluster(4, 1e3);
    auto make = [&](const Cluster &on) { return PipelineModel::make(step.mesh, on); };
    auto simulation = simulate(step.work, step.plan, *make(cluster));
    ASSERT_TRUE(simulation);
    auto result = uncertaintyOf(step.work, step.plan, cluster, make, *simulation);
    ASSERT_TRUE(result);
    std::array<double, 2> seconds;
    for (int slower : {0, 1}) {
      double factor = std::exp((slower ? 1 : -1) * at(spreadOfKinds(), WorkKind::Memory));
      auto pipelineOn = make(withScaledWork(cluster, WorkKind::Memory, factor));
      seconds[slower] = simulate(step.work, step.plan, *pipelineOn)->stepSeconds;
    }
    EXPECT_NEAR(at(result->changes, WorkKind::Memory), std::log(seconds[1] / seconds[0]) / 2, 1e-4)
        << recordOf(kind).name << " " << microbatches;
  }
}

TEST(Uncertainty, QuantilesOfAnInterval) {
  Interval interval{8, 12.5}; // median 10
  EXPECT_NEAR(exceededAtRisk(interval, 0.5), 10, 1e-9);
  EXPECT_NEAR(exceededAtRisk(interval, 0.1), 12.5, 1e-3);
  EXPECT_NEAR(exceededAtRisk(interval, 0.9), 8, 1e-3);
}

TEST(Uncertainty, ErrorsOfTheSameKindDoNotSeparatePlans) {
  Uncertainty fast = uncertaintyOfStep(oneRank(10, 0)), slow = uncertaintyOfStep(oneRank(11.5, 0)),
              other = uncertaintyOfStep(oneRank(0, 11.5));
  // 15 % more of the same kernels is more than the plans' own spread, but less than that of two kinds.
  EXPECT_FALSE(isTie(fast, slow));
  EXPECT_TRUE(isTie(fast, other));
  EXPECT_TRUE(isTie(fast, fast));
}

TEST(Uncertainty, MemoryOfProgramsForCpusIsExact) {
  StageMemory memory;
  memory.weights = 100;
  memory.activations = 50;
  memory.peakBytes = 150;
  memory.deviceBytes = 170;
  DeviceSpec cpu, gpu;
  cpu.kind = "cpu";
  gpu.kind = "cuda";
  gpu.curves.contextBytes = 20;
  auto [exact, exactDevice] = memoryIntervals(memory, cpu);
  EXPECT_EQ(exact, (Interval{150, 150}));
  EXPECT_EQ(exactDevice, (Interval{170, 170}));
  auto [peak, device] = memoryIntervals(memory, gpu);
  EXPECT_LT(peak.low, 150);
  EXPECT_GT(peak.high, 150);
  EXPECT_GT(device.high / device.low, peak.high / peak.low) << "the allocator and the libraries add to the spread";
}

TEST(Uncertainty, ScaledWorkTakesThatMuchLonger) {
  Cluster slower = withScaledWork(nodesOf(2), WorkKind::LinksBetween, 2);
  EXPECT_EQ(slower.levels[0].bandwidth, 100);
  EXPECT_EQ(slower.levels[1].bandwidth, 5);
  EXPECT_EQ(slower.levels[1].nodeBandwidth, 40);
  slower = withScaledWork(nodesOf(2), WorkKind::LinksInside, 2);
  EXPECT_EQ(slower.levels[0].bandwidth, 50);
  EXPECT_EQ(slower.levels[1].bandwidth, 10);
}

TEST(Pipeline, MessagesInsideANodeDoNotCrossTheNetwork) {
  Mesh mesh{{{"stage", 8}, {"data", 2}}};
  auto pipeline = PipelineModel::make(mesh, nodesOf(2)); // stages 0 to 3 are node 0, stages 4 to 7 node 1
  ASSERT_TRUE(pipeline);
  EXPECT_TRUE(pipeline->messagesDiffer());
  std::vector<AxisRef> axes = {wholeAxis(mesh, 0)};
  double inside = pipeline->sendSeconds(0, 1, axes, 100), across = pipeline->sendSeconds(3, 4, axes, 100);
  EXPECT_EQ(pipeline->sendSeconds(6, 5, axes, 100), inside);
  EXPECT_EQ(pipeline->sendSeconds(7, 0, axes, 100), across) << "an interleaved schedule sends back to the first stage";
  EXPECT_GT(across, 5 * inside);
  // In one node, or where a stage fills a node, all messages are alike.
  Mesh whole{{{"stage", 2}, {"data", 8}}};
  EXPECT_FALSE(PipelineModel::make(whole, nodesOf(2))->messagesDiffer());
  Mesh one{{{"stage", 4}, {"data", 2}}};
  EXPECT_FALSE(PipelineModel::make(one, nodesOf(1))->messagesDiffer());
}
