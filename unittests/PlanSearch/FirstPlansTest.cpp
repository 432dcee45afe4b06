// SPDX-License-Identifier: Apache-2.0
// Tests of searches that end before they explore the tree, and of models that are too large for any plan.
#include "RandomJobs.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <gtest/gtest.h>
#include <limits>

using namespace kerf;
using namespace kerf::test;

namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

/// Returns the seconds of a step; infinite when the plan is not possible or does not fit.
double secondsOf(RandomJob &job, const Plan &plan) {
  auto completed = completePlan(plan, "the plan", job.cluster, job.job);
  if (!completed || !RandomJob::possible(layoutKeyOf(completed->plan)))
    return kNone;
  ModelWork model = job.work(layoutKeyOf(completed->plan));
  auto work = stepWork(*completed, job.job, model);
  auto step = work ? stepPlan(*completed, job.job, model) : Result<StepPlan>(work.error());
  auto pipeline = PipelineModel::make(completed->mesh, completed->cluster);
  if (!step || !pipeline)
    return kNone;
  auto simulation = simulate(*work, *step, *pipeline);
  return simulation && simulation->fits ? simulation->stepSeconds : kNone;
}

/// Returns the seconds of the fastest plan of a simple rule: "model" inside of a node, then stages, both powers of two,
/// and "data" takes the other ranks; 1F1B, one sample in a microbatch, sharded optimizer states, all layers alike.
double bestByRule(RandomJob &job) {
  const int64_t ranks = job.job.ranks.value_or(job.cluster.ranks());
  double best = kNone;
  for (int64_t stage = 1; stage <= job.layers; stage *= 2)
    for (int64_t model : job.options.modelSizes) {
      const int64_t data = ranks / (stage * model);
      if (model > job.cluster.levels.front().size || (model & (model - 1)) || stage * model * data != ranks)
        continue;
      for (Recompute mode : {Recompute::Selective, Recompute::Full}) {
        Plan plan;
        plan.meshSizes = {{"stage", stage}, {"data", data}, {"model", model}};
        plan.order = {"stage", "data", "model"};
        plan.microbatch = 1;
        plan.schedule = {"1f1b", 1, "", {}};
        plan.recompute = {mode};
        plan.optimizerSharding = {data > 1 ? 1 : 0};
        plan.sequenceParallel = {model > 1};
        best = std::min(best, secondsOf(job, plan));
      }
    }
  return best;
}

} // namespace

TEST(FirstPlans, ASearchWithoutBudgetIsNotSlowerThanASimpleRule) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed);
    job.options.constraints = Plan();
    if (job.cluster.mixed())
      continue;
    double best = bestByRule(job);
    if (best == kNone)
      continue;
    job.options.workBudget = 1;
    auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_LE(found->plans.front().simulation.stepSeconds, best * kRounding);
    ++compared;
  }
  EXPECT_GT(compared, 40);
}

TEST(FirstPlans, AModelThatIsTooLargeForAllDevicesIsRefusedByItsSize) {
  RandomJob job = randomJob(3);
  job.options.constraints = Plan();
  job.options.findLeastMemory = false;
  for (RandomJob::Link &link : job.links)
    link.parameters = 1e12;
  int layouts = 0;
  LayoutSource source = job.source();
  auto counted = [&](const LayoutKey &key) {
    ++layouts;
    return source(key);
  };
  auto found = searchPlans(job.cluster, job.job, counted, job.options);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().status, ExitStatus::Infeasible);
  EXPECT_NE(found.error().message.find("weights, gradients and optimizer states take"), std::string::npos)
      << found.error().message;
  EXPECT_NE(found.error().message.find("; take at least "), std::string::npos) << found.error().message;
  EXPECT_EQ(layouts, 1); // the refusal comes before the search
}

TEST(FirstPlans, ASearchThatFoundNoPlanSaysWhatTheSmallestOneNeeds) {
  int told = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job = randomJob(seed);
    job.options.constraints = Plan();
    if (job.cluster.mixed())
      continue;
    job.stream = 1e13; // bytes of one sample between two layers, which every plan has to keep
    job.options.workBudget = 1;
    auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().status, ExitStatus::Infeasible);
    told += found.error().message.find("smallest found needs") != std::string::npos;
  }
  EXPECT_GT(told, 10);
}
