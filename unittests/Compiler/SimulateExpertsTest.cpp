// SPDX-License-Identifier: Apache-2.0
// Tests of expert parallelism: FLOP, parameters and all-to-alls of all ranks are compared with closed forms for
// balanced routing.
#include "kerf/Compiler/Simulate.h"
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace kerf;

namespace {

struct Mixture {
  double layers = 4, hidden = 64, heads = 4, inner = 96, vocabulary = 512, sequence = 32, experts = 8, choices = 2;
};

struct MixtureCase {
  int64_t data = 1, expert = 1, model = 1, microbatch = 1;
  bool sequenceParallel = false;
  std::optional<double> capacity = {};
  int64_t context = 1;
};

constexpr double kMixtureBatch = 48;
const MixtureCase kMixtureCases[] = {{},
                                     {1, 8, 1},
                                     {2, 4, 1, 2},
                                     {1, 2, 4},
                                     {2, 2, 2, 2},
                                     {2, 4, 2, 1, true},
                                     {1, 4, 1, 1, false, kExactExperts},
                                     {1, 4, 2, 1, false, {}, 2}};

class SimulatedMixture : public testing::TestWithParam<MixtureCase> {
protected:
  void SetUp() override {
    path = std::filesystem::temp_directory_path() / fmt::format("kerf-simulate-experts-{}.json", getpid());
    std::ofstream(path) << fmt::format(
        "{{\"model_type\": \"mixtral\", \"num_hidden_layers\": {}, \"hidden_size\": {}, \"num_attention_heads\": {}, "
        "\"num_key_value_heads\": {}, \"intermediate_size\": {}, \"vocab_size\": {}, \"num_local_experts\": {}, "
        "\"num_experts_per_tok\": {}}}",
        m.layers, m.hidden, m.heads, m.heads, m.inner, m.vocabulary, m.experts, m.choices);
    auto result = simulate(GetParam());
    ASSERT_TRUE(result) << result.error().message;
    simulated = std::move(*result);
    for (const Part &part : simulated.work.parts)
      for (const Segment &segment : part.segments)
        if (segment.recomputable)
          layer = &segment;
    ASSERT_TRUE(layer);
  }
  void TearDown() override { std::filesystem::remove(path); }

  Result<SimulatedPlan> simulate(const MixtureCase &c) const {
    auto cluster = readCluster(std::string(KERF_SOURCE_DIR) + "/clusters/dgx-a100.json");
    if (!cluster)
      return cluster.error();
    Plan plan;
    plan.meshSizes = {{"data", c.data}, {"expert", c.expert}, {"context", c.context}, {"model", c.model}};
    plan.globalBatch = static_cast<int64_t>(kMixtureBatch);
    plan.microbatch = c.microbatch;
    plan.sequenceParallel = {c.sequenceParallel};
    SimulateOptions options;
    options.dtype = "bf16";
    options.step.import.sequence = static_cast<int64_t>(m.sequence);
    options.step.import.expertCapacity = c.capacity;
    auto context = createContext();
    return simulatePlan(*context, path, plan, "the plan", *cluster, options);
  }

  /// Returns the FLOP of matrix products over all ranks and microbatches of the step.
  double products(PassWork Segment::*pass) const {
    double flops = 0;
    for (const Segment &segment : simulated.work.parts.front().segments)
      for (const KernelWork &kernel : (segment.*pass).kernels)
        if (kernel.work.kernelClass == KernelClass::Product)
          flops += static_cast<double>(segment.repeat) * kernel.work.flops;
    return flops * static_cast<double>(GetParam().model * GetParam().context) * kMixtureBatch /
           static_cast<double>(GetParam().microbatch);
  }

  Mixture m;
  std::string path;
  SimulatedPlan simulated;
  const Segment *layer = nullptr;
};

TEST_P(SimulatedMixture, FlopsOfAllRanksAreThoseOfTheTokensOwnExperts) {
  const MixtureCase &c = GetParam();
  double tokens = kMixtureBatch * m.sequence, h = m.hidden;
  double experts = 6 * m.choices * h * m.inner, router = 2 * h * m.experts;
  double rest = 8 * h * h * m.layers + 2 * h * m.vocabulary, attention = 4 * m.sequence * h * m.layers;
  EXPECT_DOUBLE_EQ(simulated.work.modelFlops, 3 * tokens * (m.layers * (experts + router) + rest + attention));
  EXPECT_DOUBLE_EQ(simulated.work.tokens, tokens);
  double slots = c.capacity ? m.experts / m.choices : 1; // slots for each routed token
  double expected = tokens * (m.layers * (slots * experts + router * static_cast<double>(c.model)) + rest);
  EXPECT_DOUBLE_EQ(products(&Segment::forward), expected);
  EXPECT_DOUBLE_EQ(products(&Segment::inputGradient), expected);
  EXPECT_DOUBLE_EQ(products(&Segment::weightGradient), expected);
}

TEST_P(SimulatedMixture, ExpertsAreCutAndTheirGradientsSummedOverDataAlone) {
  const MixtureCase &c = GetParam();
  double h = m.hidden, ofExperts = 0, others = 0;
  for (const Segment &segment : simulated.work.parts.front().segments)
    for (const ParameterGroup &group : segment.parameters) {
      int64_t copies = shardCount(group.reduceAxes);
      EXPECT_TRUE(copies == c.data * c.context || copies == c.data * c.context * c.expert) << group.name;
      (copies == c.data * c.context && c.expert > 1 ? ofExperts : others) +=
          static_cast<double>(segment.repeat) * group.elements;
    }
  double experts = m.layers * 3 * m.experts * h * m.inner / static_cast<double>(c.expert * c.model);
  double cut = (m.layers * 4 * h * h + 2 * m.vocabulary * h) / static_cast<double>(c.model);
  double whole = m.layers * (m.experts * h + 2 * h) + h; // replicated parameters: routers and norms
  EXPECT_DOUBLE_EQ(ofExperts, c.expert > 1 ? experts : 0);
  EXPECT_DOUBLE_EQ(others, cut + whole + (c.expert > 1 ? 0 : experts));
}

/// Each routed token is sent to its expert and back, in the forward and in the backward pass. Its probability is sent
/// to the expert, and the gradient of the probability back.
TEST_P(SimulatedMixture, SlotsChangeHandsFourTimesALayer) {
  const MixtureCase &c = GetParam();
  double tokens = static_cast<double>(c.microbatch) * m.sequence / static_cast<double>(c.context);
  double slots = c.capacity ? m.experts : m.choices; // slots for each token
  int expert = simulated.mesh.find("expert");
  auto count = [&](const PassWork &pass) {
    int found = 0, numbers = 0; // all-to-alls of tokens, and of their probabilities
    for (const PassCollective &collective : pass.collectives) {
      bool overExperts = std::any_of(collective.axes.begin(), collective.axes.end(),
                                     [&](const AxisRef &axis) { return axis.axis == expert; });
      EXPECT_EQ(overExperts, collective.kind == Collective::AllToAll) << collective.name;
      if (!overExperts)
        continue;
      EXPECT_EQ(collective.axes.size(), 1u) << collective.name;
      bool ofProbabilities = collective.bytes < 2 * slots * tokens * m.hidden;
      EXPECT_DOUBLE_EQ(collective.bytes, 2 * slots * tokens * (ofProbabilities ? 1 : m.hidden)) << collective.name;
      (ofProbabilities ? numbers : found) += 1;
    }
    EXPECT_EQ(numbers, found / 2);
    return found;
  };
  int expected = c.expert > 1 ? 2 : 0;
  EXPECT_EQ(count(layer->forward), expected);
  EXPECT_EQ(count(layer->inputGradient), expected);
  EXPECT_EQ(count(layer->weightGradient), 0);
}

/// The all-reduces of the residual stream: one for attention and one for the experts in each pass.
TEST_P(SimulatedMixture, ModelSumsTheStreamAsWithoutExperts) {
  const MixtureCase &c = GetParam();
  double stream = 2 * static_cast<double>(c.microbatch) * m.sequence / static_cast<double>(c.context) * m.hidden;
  for (const PassWork *pass : {&layer->forward, &layer->inputGradient}) {
    int sums = 0;
    for (const PassCollective &collective : pass->collectives)
      if (collective.kind == (c.sequenceParallel ? Collective::ReduceScatter : Collective::AllReduce))
        sums += collective.bytes == stream;
    EXPECT_EQ(sums, c.model > 1 ? 2 : 0);
  }
}

TEST_P(SimulatedMixture, RefusesExpertsThatItDoesNotDivide) {
  auto result = simulate({1, 3, 1, 1});
  ASSERT_FALSE(result);
  for (const char *word : {"mesh.expert", "3", "8"})
    EXPECT_NE(result.error().message.find(word), std::string::npos) << result.error().message;
}

/// Over slow links between nodes, each rank of `model` exchanges its share of the hidden dimension, and gathers the
/// rest inside the node.
TEST(SimulatedMixtral, ExchangesSharesBetweenNodes) {
  std::string path = std::filesystem::temp_directory_path() / fmt::format("kerf-simulate-mixtral-{}.json", getpid());
  std::ofstream(path) << R"({"model_type": "mixtral", "num_hidden_layers": 1})";
  auto cluster = readCluster(std::string(KERF_SOURCE_DIR) + "/clusters/dgx-a100.json");
  ASSERT_TRUE(cluster) << cluster.error().message;
  constexpr double kSequence = 4096, kHidden = 4096, kChoices = 2, kModel = 4, kBytes = 2;
  Plan plan;
  plan.meshSizes = {{"data", 1}, {"expert", 8}, {"model", static_cast<int64_t>(kModel)}};
  plan.globalBatch = 8;
  plan.microbatch = 1;
  SimulateOptions options;
  options.dtype = "bf16";
  options.step.import.sequence = static_cast<int64_t>(kSequence);
  auto context = createContext();
  auto result = simulatePlan(*context, path, plan, "the plan", *cluster, options);
  std::filesystem::remove(path);
  ASSERT_TRUE(result) << result.error().message;
  double exchanged = 0;
  for (const Segment &segment : result->work.parts.front().segments)
    for (const PassCollective &collective : segment.forward.collectives)
      if (collective.kind == Collective::AllToAll)
        exchanged += collective.bytes;
  constexpr double kTokens = kBytes * kChoices * kSequence * kHidden, kProbabilities = kBytes * kChoices * kSequence;
  EXPECT_DOUBLE_EQ(exchanged, 2 * kTokens / kModel + kProbabilities);
}

INSTANTIATE_TEST_SUITE_P(Plans, SimulatedMixture, testing::ValuesIn(kMixtureCases));

} // namespace
