// SPDX-License-Identifier: Apache-2.0
// Tests of multi-head latent attention (DeepSeek), and of models with two kinds of layers: FLOP, parameters,
// collectives and stages are compared with closed forms.
#include "kerf/Compiler/Simulate.h"
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace kerf;

namespace {

/// DeepSeek-V3 with fewer layers and another value size.
struct Latent {
  double layers = 4, dense = 1, hidden = 7168, heads = 128, queryRank = 1536, keyValueRank = 512, still = 128,
         turning = 64, value = 96, inner = 18432, expertInner = 2048, shared = 1, experts = 256, choices = 8,
         vocabulary = 129280, sequence = 4096;
};

struct LatentCase {
  int64_t data = 1, expert = 1, model = 1, stage = 1;
  bool sequenceParallel = false;
};

constexpr double kLatentBatch = 48;
const LatentCase kLatentCases[] = {{}, {4}, {1, 1, 4}, {1, 1, 2, 1, true}, {1, 4, 2}, {2, 1, 1, 2}, {1, 2, 2, 2, true}};

class SimulatedLatent : public testing::TestWithParam<LatentCase> {
protected:
  void SetUp() override {
    std::string path = std::filesystem::temp_directory_path() / fmt::format("kerf-simulate-latent-{}.json", getpid());
    std::ofstream(path) << fmt::format(
        R"({{"model_type": "deepseek_v3", "num_hidden_layers": {}, "first_k_dense_replace": {}, "hidden_size": {},
             "num_attention_heads": {}, "num_key_value_heads": {}, "q_lora_rank": {}, "kv_lora_rank": {},
             "qk_nope_head_dim": {}, "qk_rope_head_dim": {}, "v_head_dim": {}, "intermediate_size": {},
             "moe_intermediate_size": {}, "n_shared_experts": {}, "n_routed_experts": {}, "num_experts_per_tok": {},
             "n_group": 8, "topk_group": 4, "vocab_size": {}}})",
        m.layers, m.dense, m.hidden, m.heads, m.heads, m.queryRank, m.keyValueRank, m.still, m.turning, m.value,
        m.inner, m.expertInner, m.shared, m.experts, m.choices, m.vocabulary);
    const LatentCase &c = GetParam();
    auto cluster = readCluster(std::string(KERF_SOURCE_DIR) + "/clusters/dgx-a100.json");
    ASSERT_TRUE(cluster);
    Plan plan;
    plan.meshSizes = {{"data", c.data}, {"expert", c.expert}, {"model", c.model}, {"stage", c.stage}};
    plan.globalBatch = static_cast<int64_t>(kLatentBatch);
    plan.microbatch = 1;
    plan.sequenceParallel = {c.sequenceParallel};
    SimulateOptions options;
    options.dtype = "bf16";
    options.step.import.sequence = static_cast<int64_t>(m.sequence);
    auto context = createContext();
    auto result = simulatePlan(*context, path, plan, "the plan", *cluster, options);
    std::filesystem::remove(path);
    ASSERT_TRUE(result) << result.error().message;
    simulated = std::move(*result);
  }

  /// Returns the FLOP of matrix products over all ranks and microbatches of the step.
  double products(PassWork Segment::*pass) const {
    double flops = 0;
    for (const std::vector<int> &parts : simulated.work.part)
      for (int part : parts)
        for (const Segment &segment : simulated.work.parts[part].segments)
          for (const KernelWork &kernel : (segment.*pass).kernels)
            if (kernel.work.kernelClass == KernelClass::Product)
              flops += static_cast<double>(segment.repeat) * kernel.work.flops;
    return flops * static_cast<double>(GetParam().model) * kLatentBatch;
  }

  /// Returns the first layer-chain segment of that name.
  const Segment *segment(const std::string &name) const {
    for (const Part &part : simulated.work.parts)
      for (const Segment &segment : part.segments)
        if (segment.name == name)
          return &segment;
    return nullptr;
  }

  /// Returns the FLOP of a token in the forward pass.
  double latentProducts() const { return 2 * m.hidden * (m.queryRank + m.keyValueRank + m.turning); }
  double headProducts() const {
    return 2 * m.heads *
           (m.queryRank * (m.still + m.turning) + m.keyValueRank * (m.still + m.value) + m.value * m.hidden);
  }
  double denseProducts() const { return 6 * m.hidden * m.inner; }
  double expertProducts() const { return 6 * m.hidden * m.expertInner * (m.choices + m.shared); }
  double routerProducts() const { return 2 * m.hidden * m.experts; }

  Latent m;
  SimulatedPlan simulated;
};

TEST_P(SimulatedLatent, FlopsAreThoseOfBothKindsOfLayers) {
  const LatentCase &c = GetParam();
  double tokens = kLatentBatch * m.sequence, mixed = m.layers - m.dense;
  double attention = 2 * m.sequence * m.heads * (m.still + m.turning + m.value);
  double cut =
      m.layers * headProducts() + m.dense * denseProducts() + mixed * expertProducts() + 2 * m.hidden * m.vocabulary;
  double whole = mixed * routerProducts(), latents = m.layers * latentProducts();
  EXPECT_NEAR(simulated.work.modelFlops / (3 * tokens * (cut + whole + latents + m.layers * attention)), 1, 1e-12);
  // Every rank of "model" computes the latents of all tokens, or of its part of the sequence.
  double ranks = static_cast<double>(c.model);
  double expected = tokens * (cut + whole * ranks + latents * (c.sequenceParallel ? 1 : ranks));
  EXPECT_NEAR(products(&Segment::forward) / expected, 1, 1e-12);
  EXPECT_NEAR(products(&Segment::inputGradient) / expected, 1, 1e-12);
  EXPECT_NEAR(products(&Segment::weightGradient) / expected, 1, 1e-12);
}

/// Returns the attention FLOP for queries and keys of another size than values. In the backward pass, scores and the
/// gradients of queries and keys have the first size; the gradients of probabilities and values have the second.
TEST_P(SimulatedLatent, AttentionHasHeadsOfTwoSizes) {
  auto flops = [&](const PassWork &pass) {
    double sum = 0;
    for (const KernelWork &kernel : pass.kernels)
      sum += kernel.work.kernelClass == KernelClass::Attention ? kernel.work.flops : 0;
    return sum;
  };
  double pairs = m.heads / static_cast<double>(GetParam().model) * m.sequence * m.sequence, keys = m.still + m.turning;
  for (const char *name : {"dense_layer", "layer"}) {
    EXPECT_DOUBLE_EQ(flops(segment(name)->forward), pairs * (keys + m.value));
    EXPECT_DOUBLE_EQ(flops(segment(name)->inputGradient), pairs * (3 * keys + 2 * m.value));
  }
}

TEST_P(SimulatedLatent, ParametersOfHeadsAreCutAndThoseOfLatentsWhole) {
  double elements = 0;
  for (const char *name : {"dense_layer", "layer"})
    for (const ParameterGroup &group : segment(name)->parameters)
      if (group.name.find("self_attn") != std::string::npos)
        elements += group.elements;
  double latents = latentProducts() / 2 + m.queryRank + m.keyValueRank; // includes their norms
  EXPECT_DOUBLE_EQ(elements, 2 * (latents + headProducts() / 2 / static_cast<double>(GetParam().model)));
}

/// Checks the elements per token that ranks of "model" all-reduce: the stream after attention and after the MLP, its
/// gradient before the MLP only, and the gradients of the latents, summed over the heads of all ranks.
TEST_P(SimulatedLatent, ModelSumsTheStreamAndTheGradientsOfLatents) {
  const LatentCase &c = GetParam();
  auto sums = [&](const Segment &segment, PassWork Segment::*pass) {
    std::pair<int, double> found; // number of all-reduces of the stream, and elements of other all-reduces, without one
                                  // number for each routed token
    for (const PassCollective &collective : (segment.*pass).collectives) {
      double elements = collective.bytes / (2 * m.sequence);
      bool adds = collective.kind == Collective::AllReduce || collective.kind == Collective::ReduceScatter;
      if (adds && elements == m.hidden)
        ++found.first;
      else if (adds && elements != m.choices)
        found.second += elements;
    }
    return found;
  };
  using Sums = std::pair<int, double>;
  const Segment &dense = *segment("dense_layer"), &mixed = *segment("layer");
  bool cut = c.model > 1;
  EXPECT_EQ(sums(dense, &Segment::forward), (Sums{cut ? 2 : 0, 0}));
  EXPECT_EQ(sums(mixed, &Segment::forward), (Sums{!cut                 ? 0
                                                  : c.sequenceParallel ? 3
                                                                       : 2,
                                                  0})); // only those of the shared experts
  Sums backward = {cut, cut ? m.queryRank + m.keyValueRank + m.turning : 0};
  EXPECT_EQ(sums(dense, &Segment::inputGradient), backward);
  EXPECT_EQ(sums(mixed, &Segment::inputGradient), backward);
}

/// Four layers, of which the first has no experts, on two stages: one of each kind and two with experts.
TEST_P(SimulatedLatent, StagesHoldTheKindsOfTheirLayers) {
  std::vector<std::string> held;
  for (const std::vector<int> &parts : simulated.work.part) {
    std::string text;
    for (const Segment &segment : simulated.work.parts[parts[0]].segments)
      if (segment.recomputable)
        text += fmt::format("{}x{} ", segment.name, segment.repeat);
    held.push_back(text);
  }
  if (GetParam().stage == 1)
    EXPECT_EQ(held, (std::vector<std::string>{"dense_layerx1 layerx3 "}));
  else
    EXPECT_EQ(held, (std::vector<std::string>{"dense_layerx1 layerx1 ", "layerx2 "}));
}

INSTANTIATE_TEST_SUITE_P(Cases, SimulatedLatent, testing::ValuesIn(kLatentCases), [](const auto &info) {
  const LatentCase &c = info.param;
  return fmt::format("data{}expert{}model{}stage{}{}", c.data, c.expert, c.model, c.stage,
                     c.sequenceParallel ? "sequence" : "");
});

} // namespace
