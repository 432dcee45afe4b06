// SPDX-License-Identifier: Apache-2.0
// Tests of lower bounds of steps, and of the limits of orders that are searched.
#include "StepsByHand.h"
#include "kerf/CostModel/StepMemory.h"
#include <gtest/gtest.h>

using namespace kerf;

namespace {

/// Returns the lower bound of a step, which has to be at most a tenth below the step's seconds.
double boundNearTheStep(const Step &s) {
  const double step = s.run().stepSeconds;
  CollectiveModel collectives = s.collectives();
  PipelineModel network(collectives);
  const double least = StepBounds(s.work, s.plan, network).seconds();
  EXPECT_LE(least, step * (1 + kEps));
  EXPECT_GT(least, 0.9 * step);
  return least;
}

} // namespace

/// Reductions of 64 s per layer, far longer than the compute that they could overlap with, so that a lower bound that
/// misses some of them would be noticed.
TEST(StepBounds, LeastStepSecondsHoldsWhatIsLeftOfReductions) {
  struct Case {
    ScheduleKind kind;
    int64_t stages, chunks;
  };
  for (auto [kind, stages, chunks] :
       {Case{ScheduleKind::OneFOneB, 1, 1}, Case{ScheduleKind::OneFOneB, 3, 1}, Case{ScheduleKind::GPipe, 3, 1},
        Case{ScheduleKind::Interleaved, 2, 2}, Case{ScheduleKind::ZeroBubbleH1, 3, 1}})
    for (int sharding : {0, 1, 2})
      for (bool beside : {false, true}) {
        SCOPED_TRACE(testing::Message() << recordOf(kind).name << ", sharding " << sharding << ", beside " << beside);
        Step s = pipeline(stages, 4, 2, chunks);
        s.mesh.axes[1].size = 2;
        s.work.parts[0].segments[0].parameters = {{"w", 8000, s.axis(1)}};
        s.plan.schedule.kind = kind;
        s.plan.optimizerSharding = sharding;
        s.plan.overlap.gradients = beside;
        s.plan.bytes = stateBytes("f32", "f32", 0);
        s.bandwidth = 500;
        boundNearTheStep(s);
      }
}

TEST(StepBounds, BoundsCountTheMicrobatchesInFlight) {
  // A message takes about as long as a microbatch on a stage, so that round trips and not tasks make the step.
  for (ScheduleKind kind : {ScheduleKind::OneFOneB, ScheduleKind::ZeroBubbleH1}) {
    SCOPED_TRACE(recordOf(kind).variant);
    Step s = pipeline(4, 32);
    s.plan.schedule.kind = kind;
    s.plan.overlap.stage = true;
    s.work.message.bytes = 3000;
    EXPECT_GT(boundNearTheStep(s), 2 * 32 * 3); // all tasks of a stage take 32 * 3 s
  }
}

TEST(StepBounds, BoundsOfSearchedOrdersCountTheMicrobatchesThatFit) {
  Step s = pipeline(4, 32);
  s.plan.schedule.kind = ScheduleKind::ZeroBubble2P;
  s.plan.overlap.stage = true;
  CollectiveModel collectives = s.collectives();
  PipelineModel network(collectives);
  const DeviceSpec &device = network.device(0);
  const double four = deviceBytes(4.5 * 100, device); // a microbatch has 100 bytes on a stage
  EXPECT_EQ(maxInFlightThatFit(s.work, s.plan, device, 0, four), 4);
  // A microbatch is on the first stage for the forwards and input gradients of all stages, 4 * (1 + 1.5) s, and two of
  // them at once are too few to keep it busy.
  const double two = deviceBytes(2.5 * 100, device);
  StepBounds bounds(s.work, s.plan, network);
  EXPECT_LT(bounds.seconds(), 32 * 3 * 1.2);
  EXPECT_GE(bounds.seconds(std::vector<double>(4, two)), 32 * 10 / 2 * (1 - kEps));
}

/// A simulation that may end early gives the step without this limit, or fails where the step takes as long.
TEST(StepBounds, SearchedOrdersBelowATime) {
  int found = 0, none = 0;
  for (int64_t stages : {1, 2, 4, 7})
    for (int64_t microbatches : {1, 5, 32})
      for (bool overlap : {false, true})
        for (double bytes : {0.0, 700.0, 3000.0})
          for (double share : {0.9, 0.99, 1.0, 1.01, 1.2}) {
            Step s = pipeline(stages, microbatches);
            s.plan.schedule.kind = ScheduleKind::ZeroBubble1P;
            s.plan.overlap.stage = overlap;
            s.work.message.bytes = bytes;
            CollectiveModel collectives = s.collectives();
            const double all = simulate(s.work, s.plan, collectives)->stepSeconds, below = share * all;
            Result<Simulation> result = simulate(s.work, s.plan, PipelineModel(collectives), Trace::No, below);
            ASSERT_TRUE(result || all >= below);
            if (result) {
              EXPECT_EQ(result->stepSeconds, all);
            }
            ++(result ? found : none);
          }
  EXPECT_GT(found, 100);
  EXPECT_GT(none, 50);
}

/// Orders that keep to inFlightThatFits fit, and are no slower than orders that hold as few as the schedule promises.
TEST(StepBounds, OrdersThatFit) {
  Step s = pipeline(4, 32);
  s.plan.schedule.kind = ScheduleKind::ZeroBubble2P;
  CollectiveModel collectives = s.collectives();
  PipelineModel network(collectives);
  const double most = maxDeviceBytes(*simulate(s.work, s.plan, network));
  EXPECT_TRUE(inFlightThatFits(s.work, s.plan, network, std::vector<double>(4, most)).empty());
  double before = simulate(s.work, s.plan, network)->stepSeconds;
  for (int64_t microbatches = 7; microbatches >= 4; --microbatches) { // each has 100 bytes on a stage
    const double limit = most - static_cast<double>(8 - microbatches) * 100;
    s.plan.schedule.inFlight = {};
    s.plan.schedule.inFlight = inFlightThatFits(s.work, s.plan, network, std::vector<double>(4, limit));
    EXPECT_EQ(s.plan.schedule.inFlight, std::vector<int64_t>(4, microbatches));
    Result<Simulation> result = simulate(s.work, s.plan, network);
    EXPECT_LE(maxDeviceBytes(*result), limit);
    EXPECT_GE(result->stepSeconds, before * (1 - kEps));
    before = result->stepSeconds;
  }
}
