// SPDX-License-Identifier: Apache-2.0
// Metamorphic tests: a change of the cluster or of the constraints leaves a result unchanged, or moves it one way only.
#include "RandomJobs.h"
#include "kerf/PlanSearch/Explain.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::test;

namespace {

constexpr uint64_t kChangedJobs = 25;

double bestOf(RandomJob &job) {
  auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
  return found ? found->plans.front().simulation.stepSeconds : std::numeric_limits<double>::infinity();
}

} // namespace

TEST(Metamorphic, MoreMemoryOrFasterLinksAreNeverSlower) {
  for (uint64_t seed = 1; seed <= kChangedJobs; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed);
    double best = bestOf(job);
    RandomJob roomy = randomJob(seed);
    for (Cluster *part : uniformGroups(roomy.cluster))
      part->device.memoryBytes *= 2;
    EXPECT_LE(bestOf(roomy), best);
    RandomJob faster = randomJob(seed);
    for (Cluster *part : uniformGroups(faster.cluster))
      for (Level &level : part->levels) {
        level.bandwidth *= 2;
        level.nodeBandwidth *= 2;
      }
    for (GroupLink &link : faster.cluster.groupLinks)
      link.bandwidth *= 2;
    EXPECT_LE(bestOf(faster), best * (1 + 1e-12));
  }
}

TEST(Metamorphic, APinnedPlanIsNeverFasterThanTheFreeOne) {
  for (uint64_t seed = 1; seed <= kChangedJobs; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed), pinned = randomJob(seed);
    if (pinned.options.constraints.optimizerSharding.empty()) // otherwise the pin would replace another one
      pinned.options.constraints.optimizerSharding = {static_cast<int64_t>(seed % 4)};
    pinned.options.constraints.meshSizes["model"] = 1;
    EXPECT_LE(bestOf(job), bestOf(pinned));
  }
}

TEST(Metamorphic, ThePlansNumbersAreTheSimulators) {
  for (uint64_t seed = 1; seed <= kChangedJobs; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed);
    auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
    if (!found)
      continue;
    auto read = parsePlan(toJson(found->plans.front().plan), "its text");
    ASSERT_TRUE(read) << read.error().message;
    auto completed = completePlan(*read, "its text", job.cluster, job.job);
    ASSERT_TRUE(completed) << completed.error().message;
    ModelWork model = job.work(layoutKeyOf(completed->plan));
    auto work = stepWork(*completed, job.job, model);
    ASSERT_TRUE(work) << work.error().message;
    auto pipeline = PipelineModel::make(completed->mesh, completed->cluster);
    ASSERT_TRUE(pipeline) << pipeline.error().message;
    auto again = simulate(*work, *stepPlan(*completed, job.job, model), *pipeline);
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

TEST(Metamorphic, TwiceTheTimesChangeNoDecision) {
  for (uint64_t seed = 1; seed <= kChangedJobs; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed), slow = randomJob(seed);
    Trainer trainer = *slow.job.trainer;
    trainer.prices.issueSeconds *= 2;
    slow.job.trainer = &trainer;
    for (Cluster *part : uniformGroups(slow.cluster)) {
      DeviceSpec &device = part->device;
      device.memoryBandwidth /= 2;
      for (auto &[dtype, flops] : device.peakFlops)
        flops /= 2;
      for (double *seconds :
           {&device.curves.launchSeconds, &device.curves.collectiveSeconds, &device.curves.productCallSeconds})
        *seconds *= 2;
      for (Level &level : part->levels) {
        level.bandwidth /= 2;
        level.nodeBandwidth /= 2;
        level.latency *= 2;
      }
    }
    for (GroupLink &link : slow.cluster.groupLinks) {
      link.bandwidth /= 2;
      link.latency *= 2;
    }
    auto a = searchPlans(job.cluster, job.job, job.source(), job.options),
         b = searchPlans(slow.cluster, slow.job, slow.source(), slow.options);
    ASSERT_EQ(static_cast<bool>(a), static_cast<bool>(b));
    if (!a)
      continue;
    Plan one = a->plans.front().plan, two = b->plans.front().plan;
    EXPECT_NEAR(two.predicted->stepSeconds, 2 * one.predicted->stepSeconds, 1e-12 * two.predicted->stepSeconds);
    one.predicted.reset();
    two.predicted.reset();
    EXPECT_EQ(toJson(one), toJson(two));
  }
}

TEST(Metamorphic, WhereTheSearchBeginsChangesNoValue) {
  for (uint64_t seed = 1; seed <= kChangedJobs; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed), other = randomJob(seed + 1);
    auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
    auto elsewhere = searchPlans(other.cluster, other.job, other.source(), other.options);
    if (!found || !elsewhere)
      continue;
    double best = found->plans.front().simulation.stepSeconds;
    for (const Plan &from : {found->plans.front().plan, elsewhere->plans.front().plan}) {
      job.options.startingPlan = from;
      auto again = searchPlans(job.cluster, job.job, job.source(), job.options);
      ASSERT_TRUE(again) << again.error().message;
      EXPECT_EQ(again->plans.front().simulation.stepSeconds, best);
    }
  }
}

TEST(Metamorphic, PlansThatDecideOtherwiseAreTheBestWithTheirPins) {
  int compared = 0;
  auto [from, to] = seedsOr(1, kChangedJobs);
  for (uint64_t seed = from; seed <= to; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed);
    auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
    if (!found)
      continue;
    const Plan best = found->plans.front().plan;
    std::vector<std::string> keys(std::begin(kDecisions), std::end(kDecisions));
    if (job.options.constraints.decidesRecompute())
      std::erase(keys, "recompute");
    if (!job.options.constraints.optimizerSharding.empty())
      std::erase(keys, "optimizer_sharding");
    auto others = searchAlternatives(job.cluster, job.job, job.source(), job.options, best, keys);
    ASSERT_TRUE(others) << others.error().message;
    for (const AlternativePlan &other : *others) {
      SCOPED_TRACE(other.key);
      EXPECT_TRUE(other.proven());
      if (!other.plan)
        continue;
      const Plan &plan = other.plan->plan;
      EXPECT_GE(other.plan->simulation.stepSeconds * kRounding, best.predicted->stepSeconds);
      EXPECT_NE(decisionText(plan, other.key), decisionText(best, other.key));
      PlanSearchOptions pinned = job.options;
      pinned.constraints = withPins(job.options.constraints, other.pins);
      auto again = searchPlans(job.cluster, job.job, job.source(), pinned);
      ASSERT_TRUE(again) << again.error().message << toJson(pinned.constraints);
      double seconds = again->plans.front().simulation.stepSeconds;
      EXPECT_NEAR(other.plan->simulation.stepSeconds, seconds, 1e-12 * seconds) << constraintsJson(other.pins);
      EXPECT_EQ(again->lowerBoundSeconds, seconds);
      ++compared;
    }
  }
  EXPECT_GT(compared, static_cast<int>(to - from + 1));
  if (std::getenv("KERF_TELL"))
    std::printf("%d alternatives compared\n", compared);
}

TEST(Pins, TheSmallestSetThatConflictsIsNamed) {
  RandomJob job = randomJob(3);
  job.options.constraints = {};
  job.cluster.device.memoryBytes = int64_t{1} << 40;
  job.job.globalBatch = 12;
  job.options.constraints.gradientDtype = "f32"; // conflicts with nothing
  job.options.constraints.microbatch = 6;
  job.options.constraints.meshSizes = {{"data", job.cluster.ranks() == 1 ? 1 : 4}, {"model", 1}};
  if (job.cluster.ranks() < 4)
    GTEST_SKIP() << "the job of the seed has " << job.cluster.ranks() << " ranks";
  auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
  ASSERT_FALSE(found); // a model replica has 3 samples, which the pinned microbatch does not divide
  EXPECT_NE(found.error().message.find("mesh.data = 4, microbatch = 6"), std::string::npos) << found.error().message;
  EXPECT_EQ(found.error().message.find("gradient_dtype"), std::string::npos) << found.error().message;
  EXPECT_EQ(found.error().message.find("mesh.model"), std::string::npos) << found.error().message;
}

TEST(Stopping, TheBestSoFarIsKept) {
  RandomJob job = randomJob(2);
  int asked = 0;
  job.options.stop = [&] { return ++asked > 3; };
  auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_LE(found->lowerBoundSeconds, found->plans.front().simulation.stepSeconds);
  EXPECT_GT(found->lowerBoundSeconds, 0);
}
