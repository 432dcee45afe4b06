// SPDX-License-Identifier: Apache-2.0
// Tests of the work of a GPT: FLOP and bytes of one rank times the number of ranks are compared with closed forms for
// each class of products, and the collectives with Megatron-LM's.
#include "kerf/Compiler/Simulate.h"
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace kerf;

namespace {

struct Gpt {
  double layers = 6, hidden = 128, heads = 4, inner = 512, vocabulary = 1024, sequence = 64;
};

struct GptCase {
  int64_t stage = 1, data = 1, model = 1, batch = 16, microbatch = 2;
  bool sequenceParallel = false;
  double ranks() const { return static_cast<double>(stage * data * model); }
  double microbatches() const { return static_cast<double>(batch / data / microbatch); }
};

const GptCase kGptCases[] = {
    {}, {1, 2, 1}, {1, 1, 4}, {2, 2, 2}, {3, 1, 4, 16, 2}, {1, 1, 4, 16, 2, true}, {2, 2, 2, 16, 1, true}};

class SimulatedGpt : public testing::TestWithParam<GptCase> {
protected:
  void SetUp() override {
    path = std::filesystem::temp_directory_path() / fmt::format("kerf-simulate-{}.json", getpid());
    std::ofstream(path) << fmt::format(
        "{{\"model_type\": \"gpt2\", \"n_layer\": {}, \"n_embd\": {}, \"n_head\": {}, \"n_inner\": {}, "
        "\"vocab_size\": {}, \"n_positions\": {}}}",
        gpt.layers, gpt.hidden, gpt.heads, gpt.inner, gpt.vocabulary, gpt.sequence);
    auto cluster = readCluster(std::string(KERF_SOURCE_DIR) + "/clusters/dgx-a100.json");
    ASSERT_TRUE(cluster) << cluster.error().message;
    const GptCase &c = GetParam();
    Plan plan;
    plan.meshSizes = {{"stage", c.stage}, {"data", c.data}, {"model", c.model}};
    plan.globalBatch = c.batch;
    plan.microbatch = c.microbatch;
    plan.attention = AttentionKernels::Unfused;
    plan.sequenceParallel = {c.sequenceParallel};
    SimulateOptions options;
    options.dtype = "bf16";
    auto context = createContext();
    auto result = simulatePlan(*context, path, plan, "the plan", *cluster, options);
    ASSERT_TRUE(result) << result.error().message;
    simulated = std::move(*result);
  }
  void TearDown() override { std::filesystem::remove(path); }

  /// Returns the sum of `of(segment)` over all segments, times their number of runs, over all ranks and microbatches of
  /// the step.
  double sum(const std::function<double(const Segment &)> &of) const {
    double total = 0;
    for (const auto &chunks : simulated.work.part)
      for (int part : chunks)
        for (const Segment &segment : simulated.work.parts[part].segments)
          total += static_cast<double>(segment.repeat) * of(segment);
    const GptCase &c = GetParam();
    return total * static_cast<double>(c.data * c.model) * c.microbatches();
  }
  static double products(const PassWork &pass, double k) {
    double flops = 0;
    for (const KernelWork &kernel : pass.kernels)
      if (kernel.work.kernelClass == KernelClass::Product && (kernel.work.batch > 1) == (k > 0))
        flops += kernel.work.flops;
    return flops;
  }

  Gpt gpt;
  std::string path;
  SimulatedPlan simulated;
};

TEST_P(SimulatedGpt, FlopsOfAllRanksAreTheClosedForms) {
  double tokens = GetParam().batch * gpt.sequence, h = gpt.hidden;
  double weights = 24 * tokens * h * h * gpt.layers; // 2 * 12 h^2 for each token and layer
  double head = 2 * tokens * h * gpt.vocabulary;
  double attention = 4 * tokens * gpt.sequence * h * gpt.layers; // scores and context
  constexpr double kPlain = 0, kBatched = 1;                     // the products of attention are batched over heads
  EXPECT_DOUBLE_EQ(sum([](const Segment &s) { return products(s.forward, kPlain); }), weights + head);
  EXPECT_DOUBLE_EQ(sum([](const Segment &s) { return products(s.inputGradient, kPlain); }), weights + head);
  EXPECT_DOUBLE_EQ(sum([](const Segment &s) { return products(s.weightGradient, kPlain); }), weights + head);
  EXPECT_DOUBLE_EQ(sum([](const Segment &s) { return products(s.forward, kBatched); }), attention);
  EXPECT_DOUBLE_EQ(sum([](const Segment &s) { return products(s.inputGradient, kBatched); }), 2 * attention);
  EXPECT_DOUBLE_EQ(sum([](const Segment &s) { return products(s.weightGradient, kBatched); }), 0);
  EXPECT_DOUBLE_EQ(simulated.work.modelFlops, 3 * (weights + head + attention));
  EXPECT_DOUBLE_EQ(simulated.work.tokens, tokens);
}

TEST_P(SimulatedGpt, ParametersOfAllRanksAreTheClosedForm) {
  const GptCase &c = GetParam();
  double h = gpt.hidden, t = static_cast<double>(c.model);
  double cut = gpt.layers * (12 * h * h + 7 * h) +
               gpt.vocabulary * h * (c.stage > 1 ? 2 : 1); // sharded parameters: products, biases over columns, tables
  double whole =
      gpt.layers * 6 * h + gpt.sequence * h + 2 * h; // replicated parameters: norms, biases over rows, positions
  double elements = sum([](const Segment &s) {
    double all = 0;
    for (const ParameterGroup &group : s.parameters)
      all += group.elements;
    return all;
  });
  EXPECT_DOUBLE_EQ(elements / c.microbatches(), static_cast<double>(c.data) * (cut + t * whole));
  EXPECT_DOUBLE_EQ(simulated.work.tiedElements, c.stage > 1 ? gpt.vocabulary * h / t : 0);
}

/// Shoeybi et al. 2019: a layer has two all-reduces of the stream in the forward pass and two in the backward pass.
/// Korthikanti et al. 2022: each all-reduce becomes a reduce-scatter and an all-gather, and the backward pass also
/// gathers two saved activations for weight gradients.
TEST_P(SimulatedGpt, CollectivesOfALayerAreMegatrons) {
  const GptCase &c = GetParam();
  const Segment *layer = nullptr;
  for (const Part &part : simulated.work.parts)
    for (const Segment &segment : part.segments)
      if (segment.recomputable)
        layer = &segment;
  ASSERT_TRUE(layer);
  double stream = 2 * static_cast<double>(c.microbatch) * gpt.sequence * gpt.hidden;
  auto count = [&](const PassWork &pass, Collective kind) {
    int found = 0;
    for (const PassCollective &collective : pass.collectives) {
      EXPECT_DOUBLE_EQ(collective.bytes, stream) << collective.name;
      found += collective.kind == kind;
    }
    return found;
  };
  bool cuts = c.model > 1, sequence = cuts && c.sequenceParallel;
  for (const PassWork *pass : {&layer->forward, &layer->inputGradient}) {
    EXPECT_EQ(count(*pass, Collective::AllReduce), cuts && !sequence ? 2 : 0);
    EXPECT_EQ(count(*pass, Collective::ReduceScatter), sequence ? 2 : 0);
    EXPECT_EQ(count(*pass, Collective::AllGather), sequence ? 2 : 0);
  }
  EXPECT_EQ(count(layer->weightGradient, Collective::AllGather), sequence ? 2 : 0);
  EXPECT_EQ(layer->weightGradient.collectives.size(), sequence ? 2u : 0u);
}

INSTANTIATE_TEST_SUITE_P(Plans, SimulatedGpt, testing::ValuesIn(kGptCases));

} // namespace
