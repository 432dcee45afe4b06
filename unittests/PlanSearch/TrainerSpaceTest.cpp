// SPDX-License-Identifier: Apache-2.0
// For every trainer, the search finds a plan that the trainer can run, at the trainer's step time.
#include "RandomJobs.h"
#include "kerf/PlanSearch/TrainerPins.h"
#include <algorithm>
#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::test;

namespace {

template <typename Values, typename Value> bool has(const Values &values, const Value &value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

int64_t size(const Plan &plan, const char *axis) { return plan.meshSizes.at(axis); }

/// Returns whether the axes of size greater than 1 are in one of the trainer's orders.
bool inOrder(const TrainerSpace &can, const Plan &plan) {
  return can.meshOrders.empty() || std::any_of(can.meshOrders.begin(), can.meshOrders.end(), [&](const auto &order) {
           size_t next = 0;
           for (const MeshAxis &axis : plan.mesh().axes) {
             while (next < order.size() && order[next] != axis.name)
               ++next;
             if (next == order.size())
               return false;
           }
           return true;
         });
}

/// Returns the first and last layer of a part in the plan's `stages`; all layers for a plan without stages.
std::vector<std::pair<int64_t, int64_t>> partsOf(const Plan &plan, int64_t layers) {
  std::vector<std::pair<int64_t, int64_t>> parts;
  for (const StageLayers &run : plan.stages)
    parts.emplace_back(run.layers->first, run.layers->second);
  if (parts.empty())
    parts.emplace_back(0, layers - 1);
  return parts;
}

/// Returns whether every part recomputes the same number of its first layers in full, and no others.
bool inBlocks(const Plan &plan, int64_t layers) {
  std::vector<int64_t> counts;
  for (auto [first, last] : partsOf(plan, layers)) {
    int64_t count = 0;
    while (first + count <= last && recomputeModeOf(plan, 0, first + count, "") == Recompute::Full)
      ++count;
    for (int64_t layer = first + count; layer <= last; ++layer)
      if (recomputeModeOf(plan, 0, layer, "") != Recompute::None)
        return false;
    counts.push_back(count);
  }
  return std::all_of(counts.begin(), counts.end(), [&](int64_t count) { return count == counts.front(); });
}

void expectRuns(const Trainer &trainer, const Plan &plan, int64_t layers) {
  const TrainerSpace &can = trainer.space;
  bool pipeline = size(plan, "stage") > 1;
  EXPECT_TRUE(inOrder(can, plan));
  const ScheduleRecord *schedule = findSchedule(plan.schedule.name, plan.schedule.variant);
  ASSERT_NE(schedule, nullptr);
  EXPECT_TRUE(!pipeline || can.schedules.empty() || has(can.schedules, schedule->kind)) << schedule->name;
  EXPECT_TRUE(
      has(pipeline ? can.optimizerShardingsInPipelines : can.optimizerShardings, int(plan.optimizerSharding.front())))
      << plan.optimizerSharding.front();
  EXPECT_TRUE(can.zeroBubbleWithRecompute || !schedule->splitsBackward ||
              (plan.recompute == std::vector{Recompute::None} && plan.recomputeLayers.empty()));
  EXPECT_TRUE(can.solvedLayout || plan.layout == OpLayout::Megatron);
  EXPECT_TRUE(can.tensorWithoutSequence || size(plan, "model") == 1 || plan.sequenceParallel.front());
  EXPECT_TRUE(size(plan, "context") == 1 || has(can.contextStyles, *plan.contextStyle));
  EXPECT_TRUE(can.contextWithExperts || size(plan, "context") == 1 || size(plan, "expert") == 1);
  std::vector<int64_t> counts;
  for (auto [first, last] : partsOf(plan, layers))
    counts.push_back(last - first);
  EXPECT_TRUE(can.unevenStages || std::count(counts.begin(), counts.end(), counts.front()) == std::ssize(counts));
  bool alike = plan.recompute.size() == 1 && plan.recomputeLayers.empty();
  if (can.recomputeForm != RecomputeForm::ByStage) {
    EXPECT_TRUE(alike || (can.recomputeForm == RecomputeForm::FirstOfParts && inBlocks(plan, layers))) << toJson(plan);
  }
  for (Recompute mode : kDeviceModes)
    if (!has(can.recompute, mode)) {
      EXPECT_FALSE(has(plan.recompute, mode)) << toJson(plan);
      for (const LayerRecompute &rule : plan.recomputeLayers)
        EXPECT_NE(rule.mode, mode) << toJson(plan);
    }
  int sharding = static_cast<int>(plan.optimizerSharding.front());
  Overlap overlap = trainer.overlap({size(plan, "stage"), schedule->kind, sharding, plan.sequenceParallel.front()});
  overlap.experts = has(*plan.overlap, "experts");
  EXPECT_EQ(*plan.overlap, overlapWords(overlap));
  if (overlap.experts) {
    EXPECT_TRUE(can.overlapsExperts && size(plan, "expert") > 1 && size(plan, "model") == 1 && sharding <= 1);
    EXPECT_TRUE(!pipeline || plan.schedule.chunks > 1);
    for (int64_t layer = 0; layer < layers; ++layer)
      EXPECT_NE(recomputeModeOf(plan, 0, layer, ""), Recompute::Full);
  }
  OptimizerStates states = plan.optimizerStates.value_or(OptimizerStates::Device);
  EXPECT_TRUE(states == OptimizerStates::Device || (sharding == 1 && has(can.optimizerStates, states)));
  EXPECT_TRUE(keepsNumbers(states));
}

} // namespace

TEST(TrainerSpace, WhatIsFoundCanBeRun) {
  auto [first, last] = seedsOr(1, 40);
  for (const Trainer &trainer : trainers()) {
    int found = 0;
    for (uint64_t seed = first; seed <= last; ++seed) {
      SCOPED_TRACE(testing::Message() << trainer.name << " seed " << seed);
      RandomJob job = randomJob(seed);
      if (job.cluster.mixed() && !trainer.space.mixedClusters)
        continue;
      job.options.constraints = Plan();
      job.job.trainer = &trainer;
      auto plans = searchPlans(job.cluster, job.job, job.source(), job.options);
      if (!plans) // no plan fits into memory
        continue;
      ++found;
      const FoundPlan &best = plans->plans.front();
      expectRuns(trainer, best.plan, job.layers);
      // A search over all plans with the same costs finds a plan that is at least as fast.
      Trainer free = trainer;
      free.space = TrainerSpace();
      free.space.optimizerStates = trainer.space.optimizerStates;
      free.space.overlapsExperts = trainer.space.overlapsExperts;
      job.job.trainer = &free;
      auto more = searchPlans(job.cluster, job.job, job.source(), job.options);
      ASSERT_TRUE(more) << more.error().message;
      EXPECT_LE(more->plans.front().simulation.stepSeconds, best.simulation.stepSeconds * kRounding);
      EXPECT_LE(more->lowerBoundSeconds, best.simulation.stepSeconds * kRounding);
      EXPECT_LE(plans->lowerBoundSeconds, best.simulation.stepSeconds * kRounding);
    }
    EXPECT_GT(found, 0) << trainer.name;
  }
}

/// The search decides how states are kept and whether exchanges of tokens overlap: no pin of either gives a faster
/// plan, the pins of what it found give the same plan, and each way is the best one for some job.
TEST(TrainerSpace, StatesAndExchangesOfTokens) {
  Trainer trainer = ownTrainer();
  trainer.ownPrograms = false;
  trainer.space.optimizerStates = {OptimizerStates::Remainders, OptimizerStates::Bf16, OptimizerStates::Host};
  trainer.space.overlapsExperts = true;
  std::map<std::string, int> chosen;
  auto [first, last] = seedsOr(1, 60);
  for (uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomJob job = randomJob(seed);
    if (job.cluster.mixed())
      continue;
    job.cluster.device.hostBandwidth = 2.5e10;
    job.options.constraints = Plan();
    job.options.expertSizes = {1, 2};
    job.job.optimizerMoments = 2;
    job.job.trainer = &trainer;
    auto search = [&](const Plan &pins) {
      job.options.constraints = pins;
      auto plans = searchPlans(job.cluster, job.job, job.source(), job.options);
      return plans ? std::optional(plans->plans.front()) : std::nullopt;
    };
    auto best = search(Plan());
    Plan pins;
    for (OptimizerStates states : {OptimizerStates::Device, OptimizerStates::Remainders, OptimizerStates::Host}) {
      pins.optimizerStates = states;
      auto its = search(pins);
      ASSERT_TRUE(best || !its);
      if (its) {
        EXPECT_LE(best->simulation.stepSeconds, its->simulation.stepSeconds * kRounding) << toString(states);
      }
    }
    if (!best)
      continue;
    pins.optimizerStates = best->plan.optimizerStates.value_or(OptimizerStates::Device);
    pins.overlap = best->plan.overlap;
    EXPECT_EQ(search(pins)->simulation.stepSeconds, best->simulation.stepSeconds);
    ++chosen[std::string(toString(*pins.optimizerStates))];
    if (has(*best->plan.overlap, "experts"))
      ++chosen["experts"];
  }
  for (const char *way : {"device", "remainders", "host", "experts"})
    EXPECT_GT(chosen[way], 0) << way;
}

/// Where no two ranks hold the same parameters, sharding them changes nothing, whatever a trainer's gathers are.
TEST(TrainerSpace, ShardingWithoutCopies) {
  Trainer trainer = *findTrainer("torchtitan");
  trainer.space = TrainerSpace();
  auto [first, last] = seedsOr(75, 90);
  int compared = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomJob job = randomJob(seed);
    if (job.cluster.mixed())
      continue;
    job.job.trainer = &trainer;
    auto secondsAt = [&](int level) {
      job.options.constraints = Plan();
      job.options.constraints.meshSizes = {{"data", 1}, {"context", 1}, {"expert", 1}};
      job.options.constraints.optimizerSharding = {level};
      auto plans = searchPlans(job.cluster, job.job, job.source(), job.options);
      return plans ? plans->plans.front().simulation.stepSeconds : 0;
    };
    double whole = secondsAt(0);
    compared += whole > 0;
    EXPECT_EQ(secondsAt(3), whole);
  }
  EXPECT_GT(compared, 0);
}

TEST(TrainerSpace, PinsThatATrainerCannotRunAreRefused) {
  const Trainer &megatron = *findTrainer("megatron"), &titan = *findTrainer("torchtitan");
  auto refused = [](const Trainer &trainer, const char *pins) {
    Plan plan = *parsePlan(pins, "pins.json");
    EXPECT_TRUE(checkPins(ownTrainer(), plan, "pins.json"));
    Status status = checkPins(trainer, plan, "pins.json");
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(refused(megatron, R"({"kerf": 1, "schedule": {"name": "zero-bubble", "variant": "2p"}})"),
            "pins.json: schedule is zero-bubble 2p, which Megatron-LM does not run; it runs 1f1b, interleaved, or give "
            "<for> kerf");
  EXPECT_NE(refused(megatron, R"({"kerf": 1, "layout": "solved"})").find("layout is solved"), std::string::npos);
  EXPECT_NE(refused(megatron, R"({"kerf": 1, "ops": {"*": {"recompute": true}}})").find("single operators"),
            std::string::npos);
  EXPECT_NE(refused(megatron, R"({"kerf": 1, "recompute": "offload"})").find("recompute is offload"),
            std::string::npos);
  EXPECT_EQ(refused(megatron, R"({"kerf": 1, "recompute": {"0-6": "offload"}})"), "");
  EXPECT_NE(refused(titan, R"({"kerf": 1, "recompute": {"0-6": "offload"}})"), "");
  EXPECT_NE(refused(titan, R"({"kerf": 1, "optimizer_sharding": 1})").find("it has 0, 3"), std::string::npos);
  EXPECT_NE(refused(titan, R"({"kerf": 1, "context_style": "ulysses"})").find("it runs ring"), std::string::npos);
  EXPECT_NE(refused(titan, R"({"kerf": 1, "recompute": {"0-3": "full"}})").find("differs from layer to layer"),
            std::string::npos);
  EXPECT_EQ(refused(megatron, R"({"kerf": 1, "schedule": {"name": "1f1b"}, "overlap": [], "attention": "unfused"})"),
            "");
}

TEST(TrainerSpace, OffloadOfAllLayersButTheLast) {
  const Trainer &megatron = *findTrainer("megatron"), &titan = *findTrainer("torchtitan");
  auto adapted = [](const Trainer &trainer, const char *pins, int64_t layers) {
    Plan plan = *parsePlan(pins, "pins.json");
    Status status = adaptOffload(trainer, layers, plan, "pins.json");
    return status ? std::optional(plan) : std::nullopt;
  };
  const char *all = R"({"kerf": 1, "recompute": "offload"})";
  std::optional<Plan> changed = adapted(megatron, all, 8);
  ASSERT_TRUE(changed);
  EXPECT_TRUE(changed->recompute.empty());
  EXPECT_EQ(changed->recomputeLayers, (std::vector<LayerRecompute>{{"0-6", Recompute::Offload}}));
  EXPECT_EQ(adapted(megatron, all, 2)->recomputeLayers, (std::vector<LayerRecompute>{{"0", Recompute::Offload}}));
  EXPECT_TRUE(adapted(megatron, R"({"kerf": 1, "recompute": {"0-6": "offload"}})", 8));
  EXPECT_FALSE(adapted(megatron, R"({"kerf": 1, "recompute": {"0-5": "offload"}})", 8));
  EXPECT_FALSE(adapted(megatron, R"({"kerf": 1, "recompute": {"0-6": "offload", "7": "full"}})", 8));
  EXPECT_TRUE(adapted(megatron, R"({"kerf": 1, "recompute": {"0-5": "full"}})", 8));
  EXPECT_EQ(adapted(titan, all, 8)->recompute, std::vector{Recompute::Offload}) << "refused by checkPins";
}

TEST(TrainerSpace, MachinesTypesAndOptimizers) {
  Cluster cpu, gpu;
  cpu.name = "laptop";
  cpu.device.kind = "cpu";
  gpu.device.kind = "cuda";
  const Trainer &titan = *findTrainer("torchtitan");
  EXPECT_TRUE(checkTrainer(ownTrainer(), cpu, "f64", "sgd"));
  EXPECT_TRUE(checkTrainer(titan, gpu, "bf16", "adamw"));
  EXPECT_EQ(checkTrainer(titan, cpu, "bf16", "adamw").error().message,
            "TorchTitan does not train on CPUs, which 'laptop' has; give <cluster> with accelerators, or <for> kerf");
  EXPECT_EQ(checkTrainer(titan, gpu, "f16", "adamw").error().message,
            "TorchTitan does not train in f16; give <dtype> f32, bf16, f8");
  EXPECT_EQ(checkTrainer(titan, gpu, "bf16", "sgd").error().message,
            "plans for TorchTitan use the optimizer adamw, not sgd; give <optimizer> adamw");
}
