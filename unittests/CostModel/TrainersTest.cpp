// SPDX-License-Identifier: Apache-2.0
// Tests of the trainers' records: they are complete, name their sources, and have the intended effect on a step.
#include "kerf/CostModel/Collectives.h"
#include "kerf/CostModel/Trainer.h"
#include <gtest/gtest.h>
#include <set>

using namespace kerf;

TEST(Trainers, EveryRecordHasItsWordsAndSources) {
  std::set<std::string_view> names;
  for (const Trainer &trainer : trainers()) {
    SCOPED_TRACE(trainer.name);
    EXPECT_TRUE(names.insert(trainer.name).second) << "two records of one name";
    EXPECT_EQ(findTrainer(trainer.name), &trainer);
    EXPECT_FALSE(trainer.title.empty());
    EXPECT_FALSE(trainer.summary.empty());
    ASSERT_NE(trainer.overlap, nullptr);
    EXPECT_GT(trainer.prices.issueSeconds, 0);
    EXPECT_GE(trainer.prices.update.gradientAccesses, 1) << "the update reads the gradient";
    std::set<std::string_view> told;
    for (const auto &[what, source] : trainer.sources) {
      EXPECT_FALSE(source.empty()) << what;
      EXPECT_TRUE(told.insert(what).second) << what << " has two sources";
    }
    const TrainerMemory &memory = trainer.prices.memory;
    bool holdsMore = memory.updateBytes + memory.wideGradientBytes + memory.lossBytes + memory.bufferBytes > 0;
    EXPECT_EQ(told.erase("memory"), holdsMore ? 1u : 0u);
    EXPECT_EQ(told, (std::set<std::string_view>{"issue", "update", "gathers", "accumulation", "sends", "buckets",
                                                "overlap", "space"}));
  }
  EXPECT_EQ(findTrainer("megatrn"), nullptr);
  EXPECT_EQ(ownTrainer().name, "kerf");
  EXPECT_TRUE(ownTrainer().ownPrograms);
  EXPECT_EQ(trainerNames().size(), names.size());
}

/// The search needs these two fields before it decides schedule and optimizer sharding.
TEST(Trainers, OverlapOfCollectivesInALayerDependsOnTheLayoutAlone) {
  for (const Trainer &trainer : trainers())
    for (bool sequence : {false, true}) {
      StepShape open;
      open.sequenceParallel = sequence;
      for (int64_t stages : {1, 4})
        for (const ScheduleRecord &schedule : schedules())
          for (int sharding = 0; sharding <= 3; ++sharding) {
            Overlap decided = trainer.overlap({stages, schedule.kind, sharding, sequence});
            EXPECT_EQ(decided.tensor, trainer.overlap(open).tensor) << trainer.name;
            EXPECT_EQ(decided.products, trainer.overlap(open).products) << trainer.name;
          }
    }
}

TEST(Trainers, SpacesHoldWhatASearchCanFind) {
  for (const Trainer &trainer : trainers()) {
    SCOPED_TRACE(trainer.name);
    const TrainerSpace &can = trainer.space;
    auto has = [](const auto &values, auto value) {
      return std::find(values.begin(), values.end(), value) != values.end();
    };
    EXPECT_TRUE(can.schedules.empty() || has(can.schedules, ScheduleKind::OneFOneB)) << "one stage runs under it";
    EXPECT_TRUE(has(can.recompute, Recompute::None));
    EXPECT_FALSE(can.optimizerShardings.empty());
    EXPECT_FALSE(can.optimizerShardingsInPipelines.empty());
    for (int level : can.optimizerShardingsInPipelines)
      EXPECT_TRUE(has(can.optimizerShardings, level)) << level;
    for (const auto &order : can.meshOrders)
      EXPECT_TRUE(has(order, std::string_view("model")) && has(order, std::string_view("data")));
  }
}

TEST(Trainers, IssuingTakesTheHostOfAccelerators) {
  TrainerPrices prices{.issueSeconds = 5e-6};
  DeviceSpec gpu, cpu;
  gpu.kind = "cuda";
  cpu.kind = "cpu";
  EXPECT_EQ(issueSeconds(prices, gpu), 5e-6);
  EXPECT_EQ(issueSeconds(prices, cpu), 0);
}

/// Small gradients share the latency of a bucket; large ones fill several buckets.
TEST(Trainers, ReductionsInBuckets) {
  Cluster cluster;
  cluster.device.kind = "cuda";
  cluster.device.curves.collectiveSeconds = 1e-5;
  cluster.levels = {{"link", 4, 1e9, 1e-5, 1e9, 0}};
  cluster.usedRanks = 4;
  Mesh mesh{{{"data", 4}}};
  CollectiveModel model(mesh, cluster);
  std::vector<AxisRef> axes = {wholeAxis(mesh, 0)};
  auto seconds = [&](double bytes, double bucket) {
    return bucketedReductionSeconds(model, Collective::AllReduce, axes, bytes, bucket);
  };
  double alone = model.seconds(Collective::AllReduce, axes, 1e4),
         bucket = model.seconds(Collective::AllReduce, axes, 1e6);
  EXPECT_EQ(seconds(1e4, 0), alone);
  EXPECT_NEAR(seconds(1e4, 1e6), bucket / 100, 1e-15);
  EXPECT_LT(seconds(1e4, 1e6), alone);
  EXPECT_EQ(seconds(1e6, 1e4), bucket) << "more than a bucket";
  EXPECT_EQ(seconds(0, 0), 0);
}
