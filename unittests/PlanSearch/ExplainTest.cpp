// SPDX-License-Identifier: Apache-2.0
// Explanations and Pareto plans are checked against the simulator and against searches with pins.
#include "kerf/PlanSearch/Explain.h"
#include "RandomJobs.h"
#include "kerf/PlanSearch/Pareto.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::test;

namespace {

constexpr uint64_t kSeeds = 12;

double secondsOf(const Plan &plan, const Cluster &cluster, RandomJob &job) {
  auto simulated = simulatePlan(plan, cluster, job.job, job.source());
  return simulated ? simulated->simulation.stepSeconds : std::numeric_limits<double>::infinity();
}

} // namespace

TEST(Explain, AlternativesAreNoFasterAndWinWhereItSays) {
  int breakEvens = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed);
    auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
    if (!found)
      continue;
    const FoundPlan &best = found->plans.front();
    auto explanation = explainPlan(job.cluster, job.job, job.source(), job.options, best);
    ASSERT_TRUE(explanation) << explanation.error().message;
    if (explanation->moreMemory.plan) {
      EXPECT_LE(explanation->moreMemory.plan->simulation.stepSeconds, best.simulation.stepSeconds);
    }
    if (explanation->lessMemory.plan) {
      EXPECT_GE(explanation->lessMemory.plan->simulation.stepSeconds, best.simulation.stepSeconds);
    }
    for (const Alternative &alternative : explanation->alternatives) {
      SCOPED_TRACE(alternative.key);
      if (!alternative.plan)
        continue;
      const Plan &other = alternative.plan->plan;
      EXPECT_GE(alternative.plan->simulation.stepSeconds * kRounding, best.simulation.stepSeconds);
      EXPECT_NE(decisionText(other, alternative.key), decisionText(best.plan, alternative.key));
      for (const BreakEven &point : alternative.breakEvens) {
        if (point.quantity == "global_batch")
          continue;
        ++breakEvens;
        Cluster there = job.cluster;
        ASSERT_TRUE(scaleQuantity(there, point.quantity, point.factor));
        EXPECT_LT(secondsOf(other, there, job), secondsOf(best.plan, there, job)) << point.quantity << point.factor;
      }
    }
  }
  EXPECT_GT(breakEvens, 0);
}

TEST(Explain, SensitivitiesAreTheSimulators) {
  RandomJob job = randomJob(2);
  auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
  ASSERT_TRUE(found);
  auto explanation = explainPlan(job.cluster, job.job, job.source(), job.options, found->plans.front());
  ASSERT_TRUE(explanation);
  EXPECT_EQ(explanation->sensitivities.size(), scalableQuantities(job.cluster).size());
  for (const Sensitivity &one : explanation->sensitivities) {
    bool latency = one.quantity.ends_with(".latency");
    EXPECT_TRUE(latency ? one.secondsPerPercent >= 0 : one.secondsPerPercent <= 0) << one.quantity;
  }
  EXPECT_EQ(explanation->sensitivities.front().quantity, "device.flops"); // kernels dominate a small step
}

TEST(Explain, NothingThatIsPinnedHasAnAlternative) {
  RandomJob job = randomJob(2);
  job.options.constraints = {};
  job.options.constraints.microbatch = 1;
  job.options.constraints.meshSizes = {{"model", 1}};
  auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
  ASSERT_TRUE(found) << found.error().message;
  auto explanation = explainPlan(job.cluster, job.job, job.source(), job.options, found->plans.front());
  ASSERT_TRUE(explanation);
  for (const Alternative &alternative : explanation->alternatives)
    EXPECT_TRUE(alternative.key != "microbatch" && alternative.key != "mesh.model") << alternative.key;
}

TEST(Explain, DifferencesNameWhatIsDecidedOtherwise) {
  auto one = parsePlan(R"({"kerf": 1, "mesh": {"data": 4, "model": 2}, "order": ["data", "model"], "microbatch": 1,
                           "schedule": {"name": "interleaved", "chunks": 2}, "recompute": "none"})",
                       "one"),
       other = parsePlan(R"({"kerf": 1, "mesh": {"data": 2, "model": 2}, "order": ["model", "data"], "microbatch": 1,
                             "schedule": {"name": "1f1b"}, "gradient_dtype": "bf16"})",
                         "other");
  ASSERT_TRUE(one && other);
  std::string text;
  for (const PlanDifference &difference : differences(*one, *other))
    text += difference.key + ": " + difference.one + " -> " + difference.other + "\n";
  EXPECT_EQ(text, "mesh.data: 4 -> 2\norder: data model -> model data\nschedule: interleaved of 2 chunks -> 1f1b\n"
                  "recompute: none -> -\ngradient_dtype: - -> bf16\n");
  EXPECT_TRUE(differences(*one, *one).empty());
}

TEST(Pareto, NoPlanBeatsAnother) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed);
    auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
    if (!found)
      continue;
    const FoundPlan &best = found->plans.front();
    std::vector<ParetoPlan> plans = paretoPlans(job.cluster, job.job, job.source(), job.options, best);
    ASSERT_FALSE(plans.empty());
    EXPECT_EQ(plans.front().plan.simulation.stepSeconds, best.simulation.stepSeconds);
    for (size_t i = 0; i < plans.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        EXPECT_LE(plans[j].plan.simulation.stepSeconds, plans[i].plan.simulation.stepSeconds);
        EXPECT_TRUE(plans[i].ranks < plans[j].ranks || plans[i].deviceBytes < plans[j].deviceBytes) << i << " " << j;
      }
    for (const ParetoPlan &plan : plans) {
      EXPECT_EQ(secondsOf(plan.plan.plan, job.cluster, job), plan.plan.simulation.stepSeconds);
      EXPECT_LE(plan.ranks, job.cluster.ranks());
    }
  }
}
