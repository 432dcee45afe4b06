// SPDX-License-Identifier: Apache-2.0
#include "RandomProblems.h"

#include <chrono>
#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace kerf::compression;

namespace {

double log10Uniform(std::mt19937 &random, double low, double high) {
  return std::pow(10, std::uniform_real_distribution(std::log10(low), std::log10(high))(random));
}

/// Returns the least seconds over all choices.
double bruteForce(const PlanProblem &problem) {
  OptionIndices choice(problem.gradients.size(), 0);
  double least = finishSeconds(problem, choice);
  while (true) {
    size_t t = 0;
    while (t < choice.size() && choice[t] + 1 == static_cast<int>(problem.gradients[t].options.size()))
      choice[t++] = 0;
    if (t == choice.size())
      return least;
    ++choice[t];
    least = std::min(least, finishSeconds(problem, choice));
  }
}

/// A random pass on random machines.
PlanProblem randomProblem(std::mt19937 &random, int gradients, const CodecLimits &limits) {
  TestMachines machines{std::uniform_int_distribution<int64_t>(2, 8)(random),
                        int64_t(1) << std::uniform_int_distribution(0, 3)(random), log10Uniform(random, 0.1, 100)};
  double perElement = log10Uniform(random, 1e-11, 1e-7);
  double bucket = std::uniform_int_distribution(0, 1)(random) ? 1 << 20 : 0;
  return problemOf(randomShapes(random, gradients), perElement, machines.network(), limits, bucket);
}

TEST(Planner, IsWithinThreePercentOfBruteForce) {
  std::mt19937 random(7);
  int compressed = 0;
  for (int i = 0; i < 60; ++i) {
    PlanProblem problem = randomProblem(random, 3 + i % 6, limitsOf({"bf16", "int8", "int4"}));
    for (PlanGradient &gradient : problem.gradients)
      gradient.options.resize(std::min<size_t>(6, gradient.options.size()));
    if (problem.gradients.size() > 7) // keeps the test short
      for (PlanGradient &gradient : problem.gradients)
        gradient.options.resize(std::min<size_t>(4, gradient.options.size()));
    PlannedGradients planned = planGradients(problem);
    double best = bruteForce(problem);
    EXPECT_LE(planned.seconds, 1.03 * best) << "case " << i;
    EXPECT_LE(finishLowerBound(problem), best * (1 + 1e-12)) << "case " << i;
    EXPECT_DOUBLE_EQ(planned.seconds, finishSeconds(problem, planned.choice));
    compressed += compressedShare(problem, planned.choice) > 0;
  }
  EXPECT_GT(compressed, 20);
  EXPECT_LT(compressed, 60);
}

TEST(Planner, IsNeverWorseThanAllNoneOrAThreshold) {
  std::mt19937 random(11);
  CodecLimits limits = limitsOf({"bf16", "int8", "int4", "onebit", "topk-sampled", "powersgd"});
  double gapSum = 0;
  const int cases = 40;
  for (int i = 0; i < cases; ++i) {
    PlanProblem problem = randomProblem(random, 100, limits);
    PlannedGradients planned = planGradients(problem);
    double allowed = planned.seconds * (1 - 1e-9);
    EXPECT_GE(finishSeconds(problem, OptionIndices(100, 0)), allowed);
    EXPECT_GE(planByEspresso(problem).seconds, allowed);
    for (const PlanGradient &gradient : problem.gradients)
      for (size_t o = 1; o < gradient.options.size(); ++o)
        for (double least : {0.0, 65536.0, 1e6, 16e6})
          ASSERT_GE(finishSeconds(problem, chooseBySize(problem, gradient.options[o].choice, least)), allowed)
              << "case " << i;
    double bound = finishLowerBound(problem);
    EXPECT_LE(bound, planned.seconds * (1 + 1e-9));
    gapSum += planned.seconds / bound - 1;
  }
  EXPECT_LT(gapSum / cases, 0.05) << "the mean gap to the lower bound";
}

TEST(Planner, LeavesGradientsUncompressedThatTheBackwardHides) {
  // The first three gradients are sent beside long layers; only the last one can delay the step.
  TestMachines machines{4, 1, 1};
  std::vector<std::vector<int64_t>> shapes(4, {1024, 1024});
  PlanProblem problem = problemOf(shapes, 200e-9, machines.network(), limitsOf({"int8"}));
  PlannedGradients planned = planGradients(problem);
  EXPECT_EQ(planned.choice[0], 0);
  EXPECT_EQ(planned.choice[1], 0);
  EXPECT_EQ(planned.choice[2], 0);
  EXPECT_NE(planned.choice[3], 0);
  EXPECT_EQ(planByEspresso(problem).choice, planned.choice);
}

TEST(Planner, CompressesNothingWhereItSavesTooLittle) {
  TestMachines machines{4, 1, 1};
  PlanProblem problem = problemOf({{1024, 1024}, {1024, 1024}}, 200e-9, machines.network(), limitsOf({"int8"}));
  PlannedGradients planned = planGradients(problem);
  double gain = planned.plainSeconds - planned.seconds;
  ASSERT_GT(gain, 0);
  EXPECT_EQ(compressedShare(problem, planGradients(problem, {.leastGain = gain * 1.01}).choice), 0);
  EXPECT_GT(compressedShare(problem, planGradients(problem, {.leastGain = gain * 0.99}).choice), 0);
}

TEST(Planner, CompressesMoreAsBandwidthFalls) {
  std::mt19937 random(3);
  std::vector<std::vector<int64_t>> shapes = randomShapes(random, 60);
  for (const CodecLimits &limits : {limitsOf({"int8"}), limitsOf({"bf16", "int8", "int4"})}) {
    double before = 0;
    std::vector<double> shares;
    for (double gigabits = 100; gigabits >= 0.099; gigabits /= std::pow(10, 0.25)) {
      PlanProblem problem = problemOf(shapes, 5e-9, TestMachines{4, 1, gigabits}.network(), limits);
      double plain = finishSeconds(problem, OptionIndices(shapes.size(), 0));
      double share = compressedShare(problem, planGradients(problem, {.leastGain = 0.01 * plain}).choice);
      EXPECT_GE(share, before - 1e-9) << gigabits << " Gbit/s";
      shares.push_back(before = share);
    }
    EXPECT_EQ(shares.front(), 0);
    EXPECT_GT(shares.back(), 0.9);
  }
}

TEST(Planner, MixesCodecsAndLeavesVectorsAlone) {
  TestMachines machines{4, 1, 1};
  std::vector<std::vector<int64_t>> shapes = {{50257, 768}, {768}, {768, 3072}, {3072}, {64, 300}, {768, 768}};
  CodecLimits limits = limitsOf({"int8", "powersgd"});
  PlanProblem problem = problemOf(shapes, 2e-10, machines.network(), limits);
  PlannedGradients planned = planGradients(problem);
  std::set<std::string_view> codecsUsed;
  for (size_t t = 0; t < shapes.size(); ++t) {
    const CodecRecord *codec = problem.gradients[t].options[planned.choice[t]].choice.codec;
    EXPECT_TRUE(shapes[t].size() > 1 || !codec) << t;
    if (codec)
      codecsUsed.insert(codec->name);
  }
  EXPECT_EQ(codecsUsed.size(), 2u);
}

TEST(Planner, KeepsTheLimitsOfTheUser) {
  TestMachines machines{4, 1, 0.1};
  std::vector<std::vector<int64_t>> shapes(8, {1024, 1024});
  CodecLimits limits = limitsOf({"bf16", "int8", "int4", "onebit"});
  limits.largestRatio = 4;
  limits.firstStep = 100;
  PlanProblem problem = problemOf(shapes, 1e-10, machines.network(), limits);
  PlannedGradients planned = planGradients(problem);
  for (size_t t = 0; t < shapes.size(); ++t) {
    const SyncOption &option = problem.gradients[t].options[planned.choice[t]];
    ASSERT_NE(option.choice.codec, nullptr);
    EXPECT_EQ(option.choice.codec->name, "int8"); // int4 and onebit have larger ratios
    EXPECT_EQ(option.choice.firstStep, 100);
  }
  for (const CodecRecord *codec : usualCodecs())
    EXPECT_FALSE(codec->biased || codec->momentumFirst) << codec->name;
}

TEST(Planner, CodesOnlyTheSlowHop) {
  // Two islands of two ranks: 10 Gbit/s inside, 1 Gbit/s between them.
  TestMachines machines{2, 2, 1, 1.25e9};
  std::vector<std::vector<int64_t>> shapes(6, {2048, 2048});
  PlanProblem problem = problemOf(shapes, 1e-10, machines.network(), limitsOf({"bf16", "int8", "int4"}));
  PlannedGradients planned = planGradients(problem);
  for (size_t t = 0; t < shapes.size(); ++t) {
    const SyncChoice &choice = problem.gradients[t].options[planned.choice[t]].choice;
    EXPECT_TRUE(choice.codec && choice.hierarchy) << t;
  }
  EXPECT_LT(2 * planned.seconds, planned.plainSeconds);
}

TEST(Planner, CompressesNothingOnNvlink) {
  SyncNetwork nvlink = linkNetwork(1, 8, {300e9, 2e-6}, {300e9, 2e-6}, 300e9);
  auto curve = [](const CodecRecord &codec) { return memoryBoundCurve(codec, 0.8 * 2.0e12, 2e-6); };
  CodecLimits limits;
  limits.codecs = usualCodecs();
  PlanProblem problem;
  for (int l = 0; l < 32; ++l) {
    PlanGradient gradient;
    gradient.gradient = {{4096, 4096}, 2, false, 0};
    gradient.bytes = 2 * 4096.0 * 4096;
    gradient.layer = problem.layers.size();
    gradient.options = withoutBeaten(allOptions(gradient.gradient, nvlink, limits, curve));
    problem.layers.emplace_back().body = 1e-3;
    problem.gradients.push_back(gradient);
  }
  EXPECT_EQ(compressedShare(problem, planGradients(problem).choice), 0);
}

TEST(Planner, AlwaysCompressesEvenWhereItCosts) {
  SyncNetwork fast = linkNetwork(1, 8, {300e9, 2e-6}, {300e9, 2e-6}, 300e9);
  PlanProblem problem;
  for (int l = 0; l < 4; ++l) {
    PlanGradient gradient;
    gradient.gradient.shape = {512, 512};
    gradient.bytes = 4.0 * 512 * 512;
    gradient.layer = problem.layers.size();
    gradient.options = allOptions(gradient.gradient, fast, limitsOf({"int8"}), curveOnCore);
    problem.layers.emplace_back().body = 1e-3;
    problem.gradients.push_back(gradient);
  }
  EXPECT_EQ(compressedShare(problem, planGradients(problem).choice), 0);
  EXPECT_EQ(compressedShare(problem, chooseAlways(problem)), 1);
}

TEST(Planner, PlansThreeHundredGradientsOfTwentyOptionsQuickly) {
  std::mt19937 random(5);
  CodecLimits limits;
  for (const CodecRecord &codec : codecs())
    limits.codecs.push_back(&codec);
  TestMachines machines{4, 4, 1};
  PlanProblem problem = problemOf(randomShapes(random, 300), 2e-9, machines.network(), limits);
  for (PlanGradient &gradient : problem.gradients) { // variants of the options, so that none is beaten
    size_t own = gradient.options.size();
    for (size_t o = 1; gradient.options.size() < 20; ++o) {
      SyncOption variant = gradient.options[1 + o % std::max<size_t>(1, own - 1) % own % gradient.options.size()];
      double shift = 1 + 0.01 * static_cast<double>(o);
      variant.cost.wire *= shift;
      variant.cost.before /= shift;
      gradient.options.push_back(variant);
      if (own == 1)
        break;
    }
  }
  auto start = std::chrono::steady_clock::now();
  PlannedGradients planned = planGradients(problem);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(planned.seconds, planned.plainSeconds);
  std::printf("300 gradients x 20 options: %.1f ms, %lld timelines, gap %.2f %%\n", 1e3 * seconds.count(),
              static_cast<long long>(planned.evaluations), 100 * (planned.seconds / finishLowerBound(problem) - 1));
  EXPECT_LT(planned.evaluations, 70'000); // 0.2 s on one core; the seconds are printed, as tests share their machine
}

/// The worked example of docs/compression-planning.md.
TEST(Planner, WorkedExample) {
  // Three layers of 40 ms, each with a matrix of 4 MiB, on four machines with 1 Gbit/s and one core each.
  TestMachines machines{4, 1, 1};
  std::vector<std::vector<int64_t>> shapes(3, {1024, 1024});
  PlanProblem problem = problemOf(shapes, 40e-3 / (1024 * 1024), machines.network(), limitsOf({"int8"}));
  const SyncCost &plain = problem.gradients[0].options[0].cost;
  ASSERT_EQ(problem.gradients[0].options.size(), 2u);
  const SyncOption &coded = problem.gradients[0].options[1];
  EXPECT_EQ(coded.choice.scheme, SyncScheme::TwoStage);
  const double ms = 1e-3, half = 0.005 * ms; // the page rounds to 0.01 ms
  EXPECT_NEAR(plain.wire, 50.45 * ms, half);
  EXPECT_EQ(coded.choice.pieces, 4);
  EXPECT_NEAR(coded.cost.before, 0.94 * ms, half);
  EXPECT_NEAR(coded.cost.wire, 13.35 * ms, half);
  EXPECT_NEAR(coded.cost.after, 0.49 * ms, half);
  EXPECT_NEAR(finishSeconds(problem, {0, 0, 0}), 191.35 * ms, half);
  EXPECT_NEAR(finishSeconds(problem, {1, 1, 1}), 135.99 * ms, half);
  EXPECT_NEAR(finishSeconds(problem, {0, 0, 1}), 154.28 * ms, half);
  EXPECT_NEAR(finishSeconds(problem, {0, 1, 1}), 134.56 * ms, half);
  EXPECT_EQ(planGradients(problem).choice, (OptionIndices{0, 1, 1}));
}

} // namespace
