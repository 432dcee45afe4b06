// SPDX-License-Identifier: Apache-2.0
// Where plans are judged by their programs, the plan found was lowered, fits by its program's memory, and
// has its program's figures.
#include "RandomJobs.h"
#include "kerf/PlanSearch/Explain.h"
#include <algorithm>
#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::test;

namespace {

constexpr uint64_t kLoweredSteps = 12;

/// Simulates programs that take twice the seconds and `more` times the memory of the estimate.
void lowerTo(RandomJob &job, double more, int *lowered) {
  job.job.refineWithProgram = [more, lowered](const Plan &, const Cluster &, Simulation &simulation) -> Status {
    ++*lowered;
    simulation.stepSeconds *= 2;
    for (StageMemory &stage : simulation.memory) {
      stage.deviceBytes *= more;
      stage.peakBytes = stage.deviceBytes;
    }
    return ok();
  };
}

} // namespace

TEST(SearchLowered, ThePlanFoundHasTheFiguresOfItsProgramAndFits) {
  int fitting = 0;
  for (uint64_t seed = 1; seed <= kLoweredSteps; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed);
    if (job.cluster.mixed())
      continue;
    auto estimated = searchPlans(job.cluster, job.job, job.source(), job.options);
    int lowered = 0;
    lowerTo(job, 1.5, &lowered);
    job.options.findLeastMemory = false;
    auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
    if (!found)
      continue;
    EXPECT_GT(lowered, 0);
    ++fitting;
    const FoundPlan &best = found->plans.front();
    EXPECT_LE(maxDeviceBytes(best.simulation), static_cast<double>(job.cluster.device.memoryBytes));
    EXPECT_EQ(best.plan.predicted->stepSeconds, best.simulation.stepSeconds);
    EXPECT_EQ(best.plan.predicted->lowerBoundSeconds, 0);
    ASSERT_TRUE(static_cast<bool>(estimated));
    EXPECT_GE(best.simulation.stepSeconds * kRounding, 2 * estimated->plans.front().simulation.stepSeconds);
    auto again = simulatePlan(best.plan, job.cluster, job.job, job.source());
    ASSERT_TRUE(static_cast<bool>(again));
    EXPECT_DOUBLE_EQ(again->simulation.stepSeconds, best.simulation.stepSeconds);
  }
  EXPECT_GT(fitting, 3);
}

TEST(SearchLowered, AnEstimateThatIsTooLargeRefusesNoPlan) {
  for (uint64_t seed = 1; seed <= kLoweredSteps; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed);
    if (job.cluster.mixed())
      continue;
    auto free = searchPlans(job.cluster, job.job, job.source(), job.options);
    if (!free)
      continue;
    // Programs need half of their estimates; devices have three quarters of the best plan's estimate.
    int lowered = 0;
    lowerTo(job, 0.5, &lowered);
    job.options.memoryLimitBytes = static_cast<int64_t>(0.75 * maxDeviceBytes(free->plans.front().simulation));
    job.options.findLeastMemory = false;
    auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
    ASSERT_TRUE(static_cast<bool>(found)) << found.error().message;
    EXPECT_LE(maxDeviceBytes(found->plans.front().simulation), static_cast<double>(*job.options.memoryLimitBytes));
  }
}

TEST(SearchLowered, APlanThatCannotBeLoweredIsNotFound) {
  RandomJob job = randomJob(1);
  for (uint64_t seed = 2; job.cluster.mixed() || !searchPlans(job.cluster, job.job, job.source(), job.options); ++seed)
    job = randomJob(seed);
  job.job.refineWithProgram = [](const Plan &, const Cluster &, Simulation &) -> Status {
    return Error{"not this one"};
  };
  auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
  ASSERT_FALSE(static_cast<bool>(found));
  EXPECT_EQ(found.error().message, "not this one");
}

TEST(SearchLowered, AllRanksAreUsedWhereTheyAreAskedFor) {
  for (uint64_t seed = 1; seed <= kLoweredSteps; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed);
    job.options.allRanks = true;
    job.options.findLeastMemory = false;
    auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
    if (found) {
      EXPECT_EQ(found->plans.front().plan.mesh().ranks(), job.cluster.ranks());
    }
  }
}
