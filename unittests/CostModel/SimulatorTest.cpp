// SPDX-License-Identifier: Apache-2.0
// Tests of the simulator with steps that can be computed by hand.
#include "kerf/CostModel/Simulator.h"
#include "StepsByHand.h"
#include "kerf/CostModel/Compute.h"
#include "kerf/CostModel/StepMemory.h"
#include <chrono>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>

using namespace kerf;

namespace {

double sum(const Breakdown &b) {
  double exposed = std::accumulate(b.exposed.begin(), b.exposed.end(), 0.0,
                                   [](double all, const auto &entry) { return all + entry.second; });
  return b.forward + b.backward + b.recompute + b.optimizer + exposed + b.bubble;
}

} // namespace

TEST(Simulator, OneStageIsTheSumOfItsKernels) {
  Step s = pipeline(1, 5, 3);
  Simulation result = s.run();
  EXPECT_NEAR(result.stepSeconds, 5 * 3 * (1 + 2), kEps);
  EXPECT_NEAR(result.breakdown.forward, 15, kEps);
  EXPECT_NEAR(result.breakdown.backward, 30, kEps);
  EXPECT_NEAR(result.breakdown.bubble, 0, kEps);
  EXPECT_NEAR(result.tokensPerSecond, 100 / 45.0, kEps);
  EXPECT_NEAR(result.modelFlopsUtilization, 1e3 / 45 / 1e3, kEps);
}

// SC21: a pipeline idles for p - 1 forwards and backwards of a microbatch; v chunks divide this by v.
TEST(Simulator, BubbleOfOneFOneB) {
  EXPECT_NEAR(pipeline(4, 8).run().stepSeconds, (8 + 3) * 3, kEps);
  EXPECT_NEAR(pipeline(4, 8).run().breakdown.bubble, 3 * 3, kEps);
  EXPECT_NEAR(pipeline(4, 8, 1, 2).run().stepSeconds, 8 * 2 * 3 + 3 * 3, kEps);
}

TEST(Simulator, PointwiseRecomputation) {
  // 60 of a layer's 100 bytes are dropped. A product of 0.75 s computes them in the forward pass, and a kernel of 0.5 s
  // in the backward pass. The other 40 bytes are results of attention in one kernel; the layer's input has 10 bytes.
  Step s = pipeline(1, 2, 4);
  Segment &layer = s.work.parts[0].segments[0];
  layer.saved[0].recomputedBy = RecomputeModes::Pointwise;
  layer.forward.kernels.push_back(kernel("alone", 0.5, without(RecomputeModes::Pointwise, RecomputeModes::Others)));
  layer.forward.kernels.back().onlyRecomputes = true;
  auto expect = [&](Recompute mode, double seconds, double bytes) {
    s.plan.recompute = mode;
    Simulation simulation = s.run();
    EXPECT_NEAR(simulation.breakdown.recompute, 2 * 4 * seconds, kEps) << toString(mode);
    EXPECT_NEAR(simulation.stepSeconds, 2 * 4 * (3 + seconds), kEps) << toString(mode);
    EXPECT_NEAR(simulation.memory[0].activations, 4 * bytes, kEps) << toString(mode);
  };
  expect(Recompute::None, 0, 100);
  expect(Recompute::Selective, 0.25, 60);
  expect(Recompute::Pointwise, 0.5, 40);
  expect(Recompute::ExceptAttention, 0.75, 50);
  expect(Recompute::Full, 1, 10);
}

TEST(Simulator, RecomputedTensorsWaitForTheWeightGradient) {
  // A layer saves 60 bytes that its weight gradient reads and 40 that it does not; its input has 10 bytes.
  Segment layer = pipeline(1, 2, 4).work.parts[0].segments[0];
  auto expect = [&](Recompute mode, double untilInputGradient, double untilWeightGradient, double recomputed) {
    LayerActivationBytes bytes = layerActivationBytes(layer, mode);
    EXPECT_EQ(bytes.untilInputGradient, untilInputGradient) << toString(mode);
    EXPECT_EQ(bytes.untilWeightGradient, untilWeightGradient) << toString(mode);
    EXPECT_EQ(bytes.duringBackward - bytes.workspace, recomputed) << toString(mode);
  };
  expect(Recompute::None, 100, 60, 0);
  expect(Recompute::Selective, 60, 60, 40);
  expect(Recompute::ExceptAttention, 50, 70, 60);
  expect(Recompute::Full, 10, 70, 100);
}

TEST(Simulator, Recomputation) {
  Step s = pipeline(1, 2, 4);
  s.plan.recompute = Recompute::Full;
  Simulation full = s.run();
  EXPECT_NEAR(full.breakdown.recompute, 2 * 4 * 1, kEps);
  EXPECT_NEAR(full.stepSeconds, 2 * 4 * 4, kEps);
  EXPECT_NEAR(full.memory[0].activations, 4 * 10, kEps);
  EXPECT_NEAR(full.memory[0].workspace, 100, kEps) << "one layer at a time";
  s.plan.recompute = Recompute::Selective;
  Simulation selective = s.run();
  EXPECT_NEAR(selective.breakdown.recompute, 2 * 4 * 0.25, kEps);
  EXPECT_NEAR(selective.memory[0].activations, 4 * 60, kEps);
  s.plan.recompute = Recompute::None;
  EXPECT_NEAR(s.run().memory[0].activations, 4 * 100, kEps);
  s.plan.recompute = Recompute::Offload;
  Simulation offload = s.run();
  EXPECT_NEAR(offload.breakdown.recompute, 0, kEps);
  EXPECT_NEAR(offload.memory[0].activations, 0, kEps);
  EXPECT_NEAR(offload.memory[0].workspace, 2 * 100, kEps) << "two layers at a time";
  EXPECT_NEAR(offload.stepSeconds, 2 * 4 * 3, 1e-6);
  for (SavedTensor &tensor : s.work.parts[0].segments[0].saved)
    tensor.bytes *= 25e9 * 1.5 / 100; // 1.5 s each way, overlapped with 1 s of forward and 2 s of backward
  Simulation slow = s.run();
  EXPECT_NEAR(slow.stepSeconds, 2 * 4 * 3.5, kEps);
  EXPECT_NEAR(slow.breakdown.exposed["host"], 2 * 4 * 0.5, kEps);
  Cluster unknown = slowCluster(1, 1e3);
  unknown.device.hostBandwidth = 0;
  Result<Simulation> refused = simulate(s.work, s.plan, {s.mesh, unknown});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("give device.host_bandwidth"), std::string::npos) << refused.error().message;
}

TEST(Simulator, SendsHoldUpBothEndsOrNobody) {
  Step s = pipeline(2, 1);
  s.work.message.bytes = 400;
  double send = s.collectives().seconds(Collective::Send, s.work.message.axes, 400);
  s.plan.overlap.stage = false;
  EXPECT_NEAR(s.run().stepSeconds, 6 + 2 * send, kEps);
  EXPECT_NEAR(s.run().breakdown.exposed["stage"], send, kEps);
  s.plan.overlap.stage = true;
  EXPECT_NEAR(s.run().stepSeconds, 6 + 2 * send, kEps) << "nothing else to run";
  s.plan.schedule.microbatches = 8;
  double beside = s.run().stepSeconds;
  s.plan.overlap.stage = false;
  EXPECT_LT(beside, s.run().stepSeconds);
}

TEST(Simulator, TensorCollectivesWaitUnlessIndependent) {
  Step s = pipeline(1, 2, 3);
  s.mesh.axes[2].size = 2;
  PassCollective waiting{"sum", Collective::AllReduce, s.axis(2), 300, RecomputeModes::Others, false};
  PassCollective gradient = waiting;
  gradient.independent = true;
  s.work.parts[0].segments[0].forward.collectives = {waiting};
  s.work.parts[0].segments[0].inputGradient.collectives = {gradient};
  double each = s.collectives().seconds(Collective::AllReduce, s.axis(2), 300);
  ASSERT_LT(each, 0.5); // fits beside the gradients of weights
  Simulation waits = s.run();
  EXPECT_NEAR(waits.stepSeconds, 18 + 2 * 3 * 2 * each, kEps);
  EXPECT_NEAR(waits.breakdown.exposed["model"], 12 * each, kEps);
  s.plan.overlap.tensor = true;
  Simulation beside = s.run();
  EXPECT_NEAR(beside.breakdown.collectives["model"], 12 * each, kEps);
  EXPECT_NEAR(beside.breakdown.exposed["model"], 6 * each, kEps) << "forward's has nothing beside it";
  EXPECT_LT(beside.stepSeconds, waits.stepSeconds);
}

TEST(Simulator, IndependentCollectivesRunBesideTheOtherHalfOfTheBackward) {
  Step s = pipeline(1, 2, 3);
  s.mesh.axes[2].size = 2;
  s.plan.overlap.tensor = true;
  PassCollective sum{"sum", Collective::AllReduce, s.axis(2), 900, RecomputeModes::Others, true};
  PassCollective gather{"gather", Collective::AllGather, s.axis(2), 900, RecomputeModes::Others, true};
  double sumSeconds = s.collectives().seconds(Collective::AllReduce, s.axis(2), 900),
         gatherSeconds = s.collectives().seconds(Collective::AllGather, s.axis(2), 900);
  ASSERT_GT(sumSeconds, 0.5);    // longer than the gradients of weights
  ASSERT_LT(gatherSeconds, 1.5); // fits beside the input gradients
  Segment &layer = s.work.parts[0].segments[0];
  layer.inputGradient.collectives = {sum};
  layer.weightGradient.collectives = {gather};
  EXPECT_NEAR(s.run().breakdown.exposed["model"], 2 * 3 * (sumSeconds - 0.5), kEps);
  // A task of a split backward has no kernels of the other half.
  Step split = pipeline(2, 4);
  split.mesh.axes[2].size = 2;
  split.plan.overlap.tensor = true;
  split.plan.schedule.kind = ScheduleKind::ZeroBubbleH1;
  split.work.parts[0].segments[0].inputGradient.collectives = {sum};
  split.work.parts[0].segments[0].weightGradient.collectives = {gather};
  Simulation waits = split.run();
  EXPECT_NEAR(waits.breakdown.exposed["model"], 4 * (sumSeconds + gatherSeconds), kEps);
  split.plan.overlap.tensor = false;
  EXPECT_NEAR(waits.stepSeconds, split.run().stepSeconds, kEps);
}

TEST(Simulator, ProductsAndTheirCollectivesTakeTurns) {
  Step s = pipeline(1, 2, 3);
  s.mesh.axes[2].size = 2;
  Segment &layer = s.work.parts[0].segments[0];
  PassCollective sum{"sum", Collective::AllReduce, s.axis(2), 700, RecomputeModes::Others, false};
  sum.overlapsProduct = true;
  layer.forward.collectives = {sum};
  for (double product : {0.1, 10.0}) { // fewer and more bytes than three quarters of the sum need
    layer.forward.kernels[0].work.kernelClass = KernelClass::Product;
    layer.forward.kernels[0].work.bytes = product;
    double seconds = computeSeconds(s.collectives().cluster().device, layer.forward.kernels[0].work),
           piece = s.collectives().seconds(Collective::AllReduce, s.axis(2), 700.0 / 4),
           hidden = std::min(seconds, 3 * piece);
    EXPECT_EQ(hidden == seconds, product < 1);
    s.plan.overlap.products = false;
    Simulation waits = s.run();
    s.plan.overlap.products = true;
    Simulation turns = s.run();
    EXPECT_NEAR(turns.breakdown.collectives["model"], 6 * 4 * piece, kEps);
    EXPECT_NEAR(turns.breakdown.exposed["model"], 6 * (4 * piece - hidden), kEps);
    double slower = turns.breakdown.forward - waits.breakdown.forward;
    EXPECT_GT(slower, 0) << "compute beside a collective is a little slower";
    EXPECT_LE(slower, 0.35 * 6 * hidden);
  }
}

TEST(Simulator, GradientsAreReducedAtTheEndOrBesideTheLastBackward) {
  Step s = pipeline(1, 3, 4);
  s.mesh.axes[1].size = 2;
  s.work.parts[0].segments[0].parameters = {{"w", 100, s.axis(1)}};
  s.plan.bytes = {0, 8, 0};
  CollectiveModel model = s.collectives();
  s.plan.overlap.gradients = false;
  Simulation last = s.run();
  double whole = model.seconds(Collective::AllReduce, s.axis(1), 4 * 100 * 8);
  EXPECT_NEAR(last.breakdown.exposed["data"], whole, kEps);
  double withoutOptimizer = last.stepSeconds - last.breakdown.optimizer;
  EXPECT_NEAR(withoutOptimizer, 36 + whole, kEps);
  // Three reductions overlap with layers of the last backward (4 x 2 s), and one remains.
  s.plan.overlap.gradients = true;
  double one = model.seconds(Collective::AllReduce, s.axis(1), 100 * 8);
  ASSERT_LT(one, 2);
  Simulation beside = s.run();
  double slower = beside.breakdown.backward - 24;
  EXPECT_GT(slower, 0);
  EXPECT_LE(slower, 0.35 * 4 * one) << "compute beside a collective is a little slower";
  EXPECT_NEAR(beside.stepSeconds - beside.breakdown.optimizer, 36 + slower + one, kEps);
}

TEST(Simulator, ReductionsOfChunksWaitForEachOther) {
  Step s = pipeline(2, 2, 1, 2);
  s.mesh.axes[1].size = 2;
  s.bandwidth = 1e-3;
  double compute = s.run().stepSeconds;
  s.work.parts[0].segments[0].parameters = {{"weights", 1, s.axis(1)}};
  s.plan.bytes.gradient = 4;
  Simulation reduced = s.run();
  double one = s.collectives().seconds(Collective::AllReduce, s.axis(1), 4);
  ASSERT_GT(one, 10 * compute);
  EXPECT_GE(reduced.stepSeconds - reduced.breakdown.optimizer, 2 * one);
  EXPECT_LE(reduced.stepSeconds - reduced.breakdown.optimizer, 2 * one + 2 * compute);
}

TEST(Simulator, ShardedParametersAreFetchedOneLayerAhead) {
  Step s = pipeline(1, 1, 4);
  s.mesh.axes[1].size = 2;
  s.work.parts[0].segments[0].parameters = {{"w", 100, s.axis(1)}};
  s.plan.bytes = {2, 0, 0};
  s.plan.optimizerSharding = 3;
  s.plan.overlap = {false, false, false, true};
  double gather = s.collectives().seconds(Collective::AllGather, s.axis(1), 200);
  double reduce = s.collectives().seconds(Collective::ReduceScatter, s.axis(1), 200);
  ASSERT_LT(gather, 1);
  double serial = 12 + 4 * (2 * gather + reduce);
  Simulation before = s.run();
  EXPECT_NEAR(before.stepSeconds - before.breakdown.optimizer, serial, kEps);
  s.plan.overlap.parameters = true;
  Simulation ahead = s.run();
  EXPECT_NEAR(ahead.breakdown.collectives["data"], 4 * (2 * gather + reduce), kEps);
  // Only the first layer of each pass waits.
  double slower = ahead.breakdown.forward + ahead.breakdown.backward - 12;
  EXPECT_NEAR(ahead.stepSeconds - ahead.breakdown.optimizer, 12 + slower + 2 * gather + 4 * reduce, kEps);
  s.plan.trainer = findTrainer("deepspeed-2021")->prices;
  s.plan.trainer.issueSeconds = 0;
  EXPECT_NEAR(s.run().breakdown.collectives["data"], 0, kEps) << "100 elements stay whole";
}

TEST(Simulator, StatesSharedByPartOfTheRanks) {
  Step s = pipeline(1, 3, 4);
  s.mesh.axes[1].size = 8;
  s.work.parts[0].segments[0].parameters = {{"w", 100, s.axis(1)}};
  s.plan.bytes = {2, 4, 12};
  s.plan.overlap = {false, false, false, true};
  const std::vector<AxisRef> inner = {{1, 4, 2}}, outer = {{1, 1, 4}};
  s.plan.shardingAxes = inner;
  CollectiveModel model = s.collectives();
  double gather = model.seconds(Collective::AllGather, inner, 200),
         scatter = model.seconds(Collective::ReduceScatter, inner, 200),
         sumShares = model.seconds(Collective::AllReduce, outer, 400 / 2);
  ASSERT_GT(std::min({gather, scatter, sumShares}), 0);
  for (int level = 1; level <= 3; ++level) {
    s.plan.optimizerSharding = level;
    Simulation result = s.run();
    const StageMemory &memory = result.memory[0];
    EXPECT_NEAR(memory.states, 400 * 12.0 / 2, kEps);
    EXPECT_NEAR(memory.gradients, 400 * 4.0 / (level >= 2 ? 2 : 1), kEps);
    EXPECT_NEAR(memory.weights, 400 * 2.0 / (level >= 3 ? 2 : 1), kEps);
    // Gradient shards are summed once per step, sharded gradients are reduced for each of the 3 microbatches, and
    // sharded parameters are gathered for each of its passes.
    double expected = level == 1 ? model.seconds(Collective::ReduceScatter, inner, 1600) +
                                       model.seconds(Collective::AllReduce, outer, 800) +
                                       model.seconds(Collective::AllGather, inner, 800)
                                 : 4 * (3 * scatter + sumShares) +
                                       (level == 2 ? model.seconds(Collective::AllGather, inner, 800) : 4 * 6 * gather);
    EXPECT_NEAR(result.breakdown.collectives["data"], expected, kEps) << "level " << level;
    EXPECT_NEAR(result.breakdown.exposed["data"], expected, kEps) << "level " << level;
  }
}

TEST(Simulator, MemoryInFlightAndStates) {
  Step s = pipeline(4, 8, 2);
  s.mesh.axes[1].size = 2;
  s.work.parts[0].segments[0].parameters = {{"w", 1000, s.axis(1)}};
  s.plan.bytes = stateBytes("bf16", "f32", 2);
  for (int sharding = 0; sharding <= 3; ++sharding) {
    s.plan.optimizerSharding = sharding;
    Simulation result = s.run();
    for (int64_t stage = 0; stage < 4; ++stage) {
      const StageMemory &memory = result.memory[stage];
      EXPECT_NEAR(memory.activations, double(4 - stage) * 2 * 100, kEps) << "1F1B: p - s microbatches";
      EXPECT_NEAR(memory.weights, 2000 * 2.0 / (sharding >= 3 ? 2 : 1), kEps);
      EXPECT_NEAR(memory.gradients, 2000 * 4.0 / (sharding >= 2 ? 2 : 1), kEps);
      EXPECT_NEAR(memory.states, 2000 * 12.0 / (sharding >= 1 ? 2 : 1), kEps);
      EXPECT_NEAR(memory.peakBytes,
                  memory.weights + memory.gradients + memory.states + memory.activations + memory.workspace, kEps);
      EXPECT_GE(memory.reservedBytes, memory.peakBytes);
      EXPECT_EQ(memory.largest.front().first, "optimizer states");
    }
    EXPECT_EQ(result.memory[0].moment, "forward of microbatch 3");
  }
  s.work.parts[0].segments[0].saved[0].bytes = 1e6;
  EXPECT_FALSE(s.run().fits);
}

// ZeRO (Rajbhandari et al. 2020), section 3.1: 16 bytes with 16-bit gradients. Korthikanti et al. 2022: 18 bytes with
// 32-bit ones.
TEST(Simulator, StateBytes) {
  auto all = [](StateBytes b) { return b.weight + b.gradient + b.states; };
  EXPECT_EQ(all(stateBytes("f16", "f16", 2)), 16);
  EXPECT_EQ(all(stateBytes("bf16", "f32", 2)), 18);
  EXPECT_EQ(all(stateBytes("f32", "f32", 2)), 16);
  EXPECT_EQ(all(stateBytes("f32", "f32", 1)), 12);
  EXPECT_EQ(all(stateBytes("f64", "f64", 0)), 16);
  EXPECT_EQ(all(stateBytes("bf16", "f32", 2, OptimizerStates::Remainders)), 16) << "2 bytes of a master weight";
  EXPECT_EQ(all(stateBytes("bf16", "f32", 2, OptimizerStates::Bf16)), 12);
  EXPECT_EQ(all(stateBytes("bf16", "bf16", 2, OptimizerStates::Bf16)), 10);
  EXPECT_EQ(all(stateBytes("bf16", "f32", 2, OptimizerStates::Host)), 6);
  EXPECT_EQ(stateBytes("bf16", "f32", 2, OptimizerStates::Host).hostStates, 12);
}

/// The bytes that an update on the device reads and writes, with four accesses to the f32 gradient and two more for
/// loss scaling; and the seconds of an update in the host's memory.
TEST(Simulator, UpdatesOfStatesThatAreKeptOtherwise) {
  Step s = pipeline(1, 2);
  s.work.parts[0].segments[0].parameters = {{"w", 1, {}}};
  s.plan.trainer.update = {.gradientAccesses = 4, .scaleAccesses = 2, .widensGradients = true};
  auto seconds = [&](const char *gradients, OptimizerStates states) {
    s.plan.bytes = stateBytes("bf16", gradients, 2, states);
    return s.run().breakdown.optimizer;
  };
  EXPECT_NEAR(seconds("f32", OptimizerStates::Device), 6 * 4 + 2 * 12 + 2 + 4, kEps);
  EXPECT_NEAR(seconds("f32", OptimizerStates::Remainders), 6 * 4 + 2 * 10 + 2 + 2, kEps);
  EXPECT_NEAR(seconds("bf16", OptimizerStates::Device), (2 + 4) + 6 * 4 + 2 * 12 + 2 + 4, kEps);
  EXPECT_NEAR(seconds("bf16", OptimizerStates::Bf16), 6 * 2 + 2 * 6 + 2 + 2, kEps);
  EXPECT_NEAR(seconds("f32", OptimizerStates::Host), 6 * 4 + 2 + 2, 1e-6) << "and little on the host";
  StateBytes host = stateBytes("bf16", "f32", 2, OptimizerStates::Host);
  DeviceSpec device = slowCluster(1, 1).device;
  EXPECT_NEAR(hostUpdateSeconds(device, 1e9, host), 1e9 * (2 * 12 + 14) / 23e9, kEps) << "the host's memory";
  device.hostBandwidth = 1e9;
  EXPECT_NEAR(hostUpdateSeconds(device, 1e9, host), 1e9 * (4 + 2) / 1e9, kEps) << "the link to the host";
  EXPECT_EQ(hostUpdateSeconds(device, 1e9, stateBytes("bf16", "f32", 2)), 0);
}

/// Exchanges of tokens hide behind the kernels of the other pass for all microbatches that have a partner, and the
/// activations of one more microbatch are held.
TEST(Simulator, ExchangesOfTokensBesideTheOtherPass) {
  EXPECT_EQ(pairedShare({.stages = 1, .microbatches = 8}), 7.0 / 8);
  EXPECT_EQ(pairedShare({.kind = ScheduleKind::Interleaved, .stages = 4, .microbatches = 16, .chunks = 2}), 21.0 / 32);
  EXPECT_EQ(pairedShare({.stages = 4, .microbatches = 2}), 0);
  Step s = pipeline(1, 8);
  s.mesh.axes[1].size = 2;
  Segment &layer = s.work.parts[0].segments[0];
  PassCollective exchange{"tokens", Collective::AllToAll, s.axis(1), 1000};
  exchange.exchangesTokens = true;
  layer.forward.collectives.push_back(exchange);
  layer.inputGradient.collectives.push_back(exchange);
  Simulation waits = s.run();
  s.plan.overlap.experts = true;
  Simulation hides = s.run();
  double whole = waits.breakdown.exposed["data"], left = hides.breakdown.exposed["data"];
  ASSERT_GT(whole, 0);
  EXPECT_LT(left, whole);
  EXPECT_GE(left, whole / 8 - kEps) << "the first forward and the last backward have no partner";
  EXPECT_LT(hides.stepSeconds, waits.stepSeconds);
  EXPECT_GT(hides.memory[0].activations, waits.memory[0].activations);
}

TEST(Simulator, ZeroBubbleSplitsTheBackward) {
  Step s = pipeline(4, 16);
  s.work.parts[0].segments[0].pendingBytes = 5;
  double oneFOneB = s.run().stepSeconds;
  s.plan.schedule.kind = ScheduleKind::ZeroBubbleH1;
  double byHand = s.run().stepSeconds;
  s.plan.schedule.kind = ScheduleKind::ZeroBubble2P;
  Simulation searched = s.run();
  EXPECT_NEAR(byHand, 16 * 3 + 3 * (1 + 1.5 - 0.5), kEps) << "(p - 1)(F + I - W)";
  EXPECT_LT(byHand, oneFOneB);
  EXPECT_LT(searched.stepSeconds, byHand);
  EXPECT_LE(searched.memory[0].activations, 8 * 100 + kEps);
}

/// A trainer whose stages update together takes the whole timeline, and one that keeps everything between the halves of
/// a backward needs the memory of a whole microbatch for longer.
TEST(Simulator, SplitBackwardsOfOtherTrainers) {
  Step s = pipeline(4, 16);
  s.plan.schedule.kind = ScheduleKind::ZeroBubble2P;
  Simulation alone = s.run();
  s.plan.trainer.update.waitsForAllStages = true;
  Simulation together = s.run();
  ScheduleTimes times = runSchedule(
      together.schedule,
      [](int64_t, const Task &task) {
        return task.kind == TaskKind::Forward ? 1 : task.kind == TaskKind::InputGradient ? 1.5 : 0.5;
      },
      [](StageChunk, const Task &) { return 0.0; });
  EXPECT_NEAR(together.stepSeconds, times.makespan, kEps);
  EXPECT_GT(together.stepSeconds, alone.stepSeconds + kEps);
  s.plan.schedule.kind = ScheduleKind::ZeroBubbleH1;
  double some = s.run().memory[1].activations;
  s.plan.trainer.memory.keepsAllForWeightGradient = true;
  EXPECT_GT(s.run().memory[1].activations, some);
}

TEST(Simulator, FewMicrobatchesShowWhereMemoryPeaks) {
  auto situations = [](const ScheduleOptions &options, int64_t stage) {
    std::set<std::tuple<int64_t, bool, std::vector<int64_t>, std::vector<int64_t>>> all;
    for (const PeakCandidate &one : peakCandidates(*makeSchedule(options), stage))
      all.emplace(one.chunk, one.inBackward, one.beforeInputGradient, one.beforeWeightGradient);
    return all;
  };
  int left = 0; // schedules with fewer microbatches
  for (const ScheduleRecord &record : schedules())
    for (int64_t stages = 1; stages <= 6; ++stages)
      for (int64_t chunks : record.chunked ? std::vector<int64_t>{2, 3, 5} : std::vector<int64_t>{1})
        for (int64_t microbatches = 1; microbatches <= 45; ++microbatches) {
          if (record.searched || (stages == 1 && record.singleStage == SingleStage::Never))
            continue;
          ScheduleOptions options{record.kind, stages, microbatches, chunks};
          const ScheduleOptions few = withFewMicrobatches(options);
          left += few.microbatches < microbatches;
          for (int64_t s = 0; few.microbatches < microbatches && s < stages; ++s)
            EXPECT_EQ(situations(options, s), situations(few, s))
                << record.name << " " << record.variant << " of " << stages << " stages, " << chunks << " chunks and "
                << microbatches << " microbatches, stage " << s;
        }
  EXPECT_GT(left, 100);
}

TEST(Simulator, TheHostThatCannotKeepUp) {
  Step s = pipeline(1, 1, 10);
  Cluster cluster = slowCluster(1, 1);
  s.plan.trainer.issueSeconds = 2; // 2 + 1 + 1 kernels a layer
  Result<Simulation> result = simulate(s.work, s.plan, {s.mesh, cluster});
  EXPECT_NEAR(result->stepSeconds, 10 * (4 + 4), kEps);
}

TEST(Simulator, MoreBandwidthNeverSlowsAPlan) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    auto coin = [&] { return random() % 2 == 0; };
    int64_t stages = 1 + random() % 3, chunks = stages > 1 && coin() ? 2 : 1;
    Step s = pipeline(stages, 1 + random() % 5, 1 + random() % 3, chunks);
    s.mesh.axes[1].size = 1 + random() % 3;
    s.mesh.axes[2].size = 1 + random() % 3;
    Segment &layer = s.work.parts[0].segments[0];
    layer.parameters = {{"w", double(random() % 5000), s.axis(1)}};
    if (s.mesh.axes[2].size > 1) {
      layer.forward.collectives = {{"sum", Collective::AllReduce, s.axis(2), double(random() % 5000)}};
      layer.inputGradient.collectives = {
          {"sum", Collective::AllReduce, s.axis(2), double(random() % 5000), RecomputeModes::Others, coin()}};
    }
    s.work.message.bytes = double(random() % 3000);
    s.plan.recompute = Recompute(random() % 3);
    s.plan.optimizerSharding = int(random() % 4);
    s.plan.overlap = {coin(), coin(), coin(), coin()};
    s.plan.bytes = stateBytes("bf16", "f32", 2);
    if (chunks == 1 && coin())
      s.plan.schedule.kind = ScheduleKind::ZeroBubbleH1;
    s.bandwidth = 200 + double(random() % 2000);
    double slow = s.run().stepSeconds;
    EXPECT_NEAR(sum(s.run().breakdown), slow, 1e-6 * slow);
    s.bandwidth *= 1 + double(random() % 100) / 50;
    EXPECT_LE(s.run().stepSeconds, slow * (1 + 1e-12));
  }
}

TEST(Simulator, TraceIsJsonOfEveryTask) {
  Step s = pipeline(2, 3);
  auto trace = nlohmann::json::parse(chromeTrace(s.run(Trace::Yes)));
  int compute = 0;
  for (const auto &event : trace["traceEvents"])
    compute += event["ph"] == "X" && event["tid"] == 0 && event["name"] != "optimizer";
  EXPECT_EQ(compute, 2 * 2 * 3);
}

TEST(Simulator, RefusesWhatContradicts) {
  auto message = [](const Step &s) {
    Result<Simulation> result = simulate(s.work, s.plan, s.collectives());
    return result ? std::string() : result.error().message;
  };
  Step s = pipeline(2, 3);
  s.plan.schedule.stages = 3;
  EXPECT_EQ(message(s), "the plan has 3 stages, but the model is cut into 2; give the plan 2 stages");
  s = pipeline(2, 3);
  s.work.part[1] = {7};
  EXPECT_EQ(message(s), "stage 1 has part 7, but the model has only 1 part; number the parts from 0");
  s = pipeline(2, 3);
  s.plan.optimizerSharding = 4;
  EXPECT_EQ(message(s), "optimizer sharding is 4; give 0 to 3");
}

TEST(Simulator, ThousandsOfRanksAreFast) {
  Step s = pipeline(64, 512, 2);
  s.mesh.axes[1].size = 6;
  s.mesh.axes[2].size = 8;
  s.work.parts[0].segments[0].parameters = {{"w", 1e3, s.axis(1)}};
  auto start = std::chrono::steady_clock::now();
  s.run();
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 0.5);
}
