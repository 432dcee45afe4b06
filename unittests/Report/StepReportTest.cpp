// SPDX-License-Identifier: Apache-2.0
// Compares the parts of reports with the simulator's sums on random models, clusters and constraints, and tests the
// three forms of a report.
#include "kerf/Report/StepReport.h"
#include "RandomJobs.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::test;

namespace {

struct Reported {
  StepReport report;
  std::vector<PartsOfStep> parts; // by stage
  double tiedElements = 0;
};

/// Returns the best plan of a random job under constraints that vary with the seed, or nothing if no plan fits.
std::optional<Reported> reported(uint64_t seed) {
  RandomJob job = randomJob(seed);
  Plan &pins = job.options.constraints;
  pins.optimizerSharding = {static_cast<int64_t>(seed % 4)};
  pins.recompute = {kDeviceModes[seed / 4 % std::size(kDeviceModes)]};
  if (seed % 5 == 0)
    pins.overlap = std::vector<std::string>{};
  if (seed % 5 == 1)
    pins.overlap = {"gradients", "products"};
  if (seed % 7 == 0)
    job.job.trainer = findTrainer("deepspeed-2021");
  job.options.top = 3;
  auto found = searchPlans(job.cluster, job.job, job.source(), job.options);
  if (!found)
    return std::nullopt;
  auto completed = completePlan(found->plans.front().plan, "found", job.cluster, job.job);
  EXPECT_TRUE(completed) << completed.error().message;
  ModelWork model = job.work(layoutKeyOf(completed->plan));
  auto work = stepWork(*completed, job.job, model);
  EXPECT_TRUE(work) << work.error().message;
  StepPlan step = *stepPlan(*completed, job.job, model);
  auto pipeline = PipelineModel::make(completed->mesh, completed->cluster);
  EXPECT_TRUE(pipeline) << pipeline.error().message;
  auto simulation = simulate(*work, step, *pipeline, Trace::Yes);
  EXPECT_TRUE(simulation) << simulation.error().message;
  Reported all;
  for (int64_t stage = 0; stage < step.schedule.stages; ++stage)
    all.parts.push_back(partsOfStep(*work, step, *pipeline, stage));
  all.tiedElements = work->tiedElements;
  all.report = stepReport("<script>alert(1)</script>", job.cluster, completed->plan, *work, step, *pipeline,
                          std::move(*simulation));
  all.report.lowerBoundSeconds = found->lowerBoundSeconds;
  all.report.others.assign(found->plans.begin() + 1, found->plans.end());
  return all;
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max({std::abs(a), std::abs(b), 1e-12}); }

/// Returns the seconds of collectives by axes, with the keys of the breakdown.
std::map<std::string, double> byAxes(const PartsOfStep &parts) {
  std::map<std::string, double> seconds;
  for (const CollectiveOfStep &one : parts.collectives)
    if (!one.cause.starts_with("gradients of tied embeddings"))
      seconds[one.cause.ends_with(" by the receiver") ? "stage" : one.axes] += one.seconds;
  return seconds;
}

constexpr uint64_t kSeeds = 60;

} // namespace

TEST(StepReport, CollectivesAddUpToTheSimulators) {
  int compared = 0, withStages = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    auto all = reported(seed);
    if (!all)
      continue;
    ++compared;
    withStages += all->parts.size() > 1;
    std::map<std::string, double> expected = all->report.simulation.breakdown.collectives;
    std::erase_if(expected, [](const auto &entry) { return entry.second == 0; });
    bool isSome = false; // true if the stage is the busiest
    for (const PartsOfStep &parts : all->parts) {
      std::map<std::string, double> sums = byAxes(parts);
      bool same = sums.size() == expected.size();
      for (const auto &[axes, seconds] : expected)
        same = same && sums.contains(axes) && near(sums[axes], seconds);
      isSome |= same;
    }
    EXPECT_TRUE(isSome);
    // Every collective of every stage has a row.
    for (size_t stage = 0; stage < all->parts.size(); ++stage)
      for (const CollectiveOfStep &one : all->parts[stage].collectives)
        EXPECT_TRUE(std::any_of(all->report.collectives.begin(), all->report.collectives.end(), [&](const auto &row) {
          return row.kind == one.kind && row.pass == one.pass && row.bytes == one.bytes &&
                 row.seconds >= one.seconds * (1 - 1e-9) &&
                 std::find(row.stages.begin(), row.stages.end(), stage) != row.stages.end();
        })) << one.cause;
  }
  EXPECT_GT(compared, 20);
  EXPECT_GT(withStages, 5);
}

TEST(StepReport, MemoryOverTimeHasThePeakAndEndsAsItBegan) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    auto all = reported(seed);
    if (!all)
      continue;
    const Simulation &s = all->report.simulation;
    std::vector<double> most(s.memory.size()), last(s.memory.size());
    for (const TraceEvent &event : s.trace)
      if (event.task) {
        most[event.stage] = std::max(most[event.stage], event.bytesDuring);
        last[event.stage] = event.bytesAfter;
        EXPECT_LE(event.recompute + event.waiting, event.seconds * (1 + 1e-9));
      }
    for (size_t stage = 0; stage < most.size(); ++stage) {
      EXPECT_TRUE(near(most[stage], s.memory[stage].deviceBytes));
      EXPECT_GE(last[stage], s.memory[stage].weights + s.memory[stage].gradients + s.memory[stage].states - 1);
      EXPECT_LE(last[stage], s.memory[stage].deviceBytes);
    }
  }
}

TEST(StepReport, PageHoldsNoMarkupFromOutsideAndIsTheSameTwice) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    auto all = reported(seed);
    if (!all)
      continue;
    all->report.cluster.name = "<img src=x onerror=alert(2)>";
    for (const FoundPlan &other : all->report.others)
      all->report.pareto.push_back({other.plan.mesh().ranks(), 1e9 * static_cast<double>(seed), other});
    all->report.cluster.pricePerHour = 2;
    all->report.warnings = {"<b>careful</b>"};
    std::string page = toHtml(all->report);
    EXPECT_EQ(page, toHtml(all->report));
    for (const char *bad : {"<script", "<img", "<b>", "http:", "https:", "url(", "@import"})
      EXPECT_EQ(page.find(bad), std::string::npos) << bad;
    for (const char *id :
         {"summary", "mesh", "breakdown", "timeline", "memory", "collectives", "operators", "alternatives"})
      EXPECT_NE(page.find(std::string("<section id=\"") + id + "\""), std::string::npos) << id;
    EXPECT_EQ(page.find("<section id=\"pareto\"") != std::string::npos, !all->report.pareto.empty());
    EXPECT_EQ(page.find("nan"), std::string::npos);
    EXPECT_EQ(page.find("=\"-"), std::string::npos); // no negative coordinate or width
  }
}

TEST(StepReport, JsonHasEveryRow) {
  auto all = reported(3);
  ASSERT_TRUE(all);
  auto json = toJson(all->report);
  EXPECT_EQ(json["collectives"].size(), all->report.collectives.size());
  EXPECT_EQ(json["operators"].size(), all->report.kernels.size());
  EXPECT_EQ(json["alternatives"].size(), all->report.others.size());
  EXPECT_EQ(json["step_seconds"].get<double>(), all->report.simulation.stepSeconds);
  EXPECT_EQ(json["memory"].size(), all->report.simulation.memory.size());
  for (const auto &other : json["alternatives"]) { // the differences are the parts of the step's difference
    double sum = 0;
    for (const auto &part : other["differences"])
      sum += part["seconds"].get<double>();
    EXPECT_NEAR(sum, other["step_seconds"].get<double>() - all->report.simulation.stepSeconds,
                1e-6 * all->report.simulation.stepSeconds);
  }
}
