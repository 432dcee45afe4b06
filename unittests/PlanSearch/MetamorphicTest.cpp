// SPDX-License-Identifier: Apache-2.0
// What must not change, or only in one direction, when a cluster or the constraints do.
#include "RandomJobs.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::test;

namespace {

constexpr uint64_t kSeeds = 25;

double bestOf(RandomJob &job) {
  auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
  return found ? found->plans.front().simulation.stepSeconds : std::numeric_limits<double>::infinity();
}

} // namespace

TEST(Metamorphic, MoreMemoryOrFasterLinksAreNeverSlower) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed);
    double best = bestOf(job);
    RandomJob roomy = randomJob(seed);
    roomy.cluster.device.memoryBytes *= 2;
    EXPECT_LE(bestOf(roomy), best);
    RandomJob faster = randomJob(seed);
    for (Level &level : faster.cluster.levels) {
      level.bandwidth *= 2;
      level.nodeBandwidth *= 2;
    }
    EXPECT_LE(bestOf(faster), best * (1 + 1e-12));
  }
}

TEST(Metamorphic, APinnedPlanIsNeverFasterThanTheFreeOne) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed), pinned = randomJob(seed);
    pinned.options.constraints.optimizerSharding = {static_cast<int64_t>(seed % 4)};
    pinned.options.constraints.meshSizes["model"] = 1;
    EXPECT_LE(bestOf(job), bestOf(pinned));
  }
}

TEST(Metamorphic, ThePlansNumbersAreTheSimulators) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed);
    auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
    if (!found)
      continue;
    auto read = parsePlan(toJson(found->plans.front().plan), "its text");
    ASSERT_TRUE(read) << read.error().message;
    auto completed = completePlan(*read, "its text", job.cluster, job.job);
    ASSERT_TRUE(completed) << completed.error().message;
    auto work = stepWork(*completed, job.job, job.work(layoutOf(completed->plan)));
    ASSERT_TRUE(work) << work.error().message;
    auto again = simulate(*work, stepPlan(*completed, job.job), CollectiveModel(completed->mesh, completed->cluster));
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->stepSeconds, found->plans.front().plan.predicted->stepSeconds);
  }
}

TEST(Metamorphic, TheSamePlanEveryTime) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    RandomJob first = randomJob(seed), second = randomJob(seed);
    auto a = searchPlans(first.cluster, first.job, first.source(), first.options),
         b = searchPlans(second.cluster, second.job, second.source(), second.options);
    ASSERT_EQ(static_cast<bool>(a), static_cast<bool>(b));
    if (a) {
      EXPECT_EQ(toJson(a->plans.front().plan), toJson(b->plans.front().plan));
    }
  }
}

TEST(Metamorphic, SeveralPlansAreProvenTheBest) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed);
    auto one = searchPlans(job.cluster, job.job, job.source(), job.options);
    job.options.top = 4;
    auto four = searchPlans(job.cluster, job.job, job.source(), job.options);
    if (!one)
      continue;
    ASSERT_TRUE(four);
    EXPECT_EQ(one->plans.front().simulation.stepSeconds, four->plans.front().simulation.stepSeconds);
    for (size_t i = 1; i < four->plans.size(); ++i)
      EXPECT_LE(four->plans[i - 1].simulation.stepSeconds, four->plans[i].simulation.stepSeconds);
  }
}
