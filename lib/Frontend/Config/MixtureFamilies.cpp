// SPDX-License-Identifier: Apache-2.0
// The families with mixture-of-experts layers: rows of the table in TransformerFamilies.cpp.
#include "Config/TransformerFamilies.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kerf::frontend {

namespace {

Family mixtral() {
  Family f = llamaLike("mixtral", "MixtralForCausalLM");
  f.keys.groups.fallback = 8;
  f.keys.inner.fallback = 14336;
  f.keys.maxPositions.fallback = 131072;
  f.keys.epsilon.fallback = 1e-5;
  f.fixed = {{"output_router_logits", false}, {"router_jitter_noise", 0}};
  f.model.choicesAddToOne = true;
  ModuleNames &n = f.model.names;
  n.router = "block_sparse_moe.gate";
  n.experts = "block_sparse_moe.experts";
  n.expertGate = "w1";
  n.expertUp = "w3";
  n.expertDown = "w2";
  f.refine = [](ConfigReader &config, TransformerModel &m, const StepSize &step) {
    readRotary(config, m, step, {.baseDefault = 1e6});
    readWindow(config, m, step, {std::nullopt, 0});
    readExperts(config, m, step, {{"num_local_experts|num_experts", 8}, {"", m.inner}, {"num_experts_per_tok", 2}});
  };
  return f;
}

/// Sets the module names of experts that Qwen's mixtures introduced and later families share.
void nameExperts(ModuleNames &n) {
  n.router = "mlp.gate";
  n.experts = "mlp.experts";
  n.expertGate = "gate_proj";
  n.expertUp = "up_proj";
  n.expertDown = "down_proj";
}

/// Reads the keys that both mixtures of Qwen share. Every layer must have experts.
Family qwenMixture(const char *modelType, const char *architecture) {
  Family f = llamaLike(modelType, architecture);
  f.keys.layers.fallback = 24;
  f.keys.hidden.fallback = 2048;
  f.keys.vocabulary.fallback = 151936;
  f.keys.maxPositions.fallback = 32768;
  f.fixed = {{"output_router_logits", false},
             {"decoder_sparse_step", 1},
             {"mlp_only_layers", nlohmann::json::array()},
             {"use_sliding_window", false}};
  nameExperts(f.model.names);
  return f;
}

Family qwen2Moe() {
  Family f = qwenMixture("qwen2_moe", "Qwen2MoeForCausalLM");
  f.keys.heads.fallback = 16;
  f.keys.groups.fallback = 16;
  f.keys.inner = {"shared_expert_intermediate_size", 5632};
  f.model.names.sharedExpert = "mlp.shared_expert";
  f.model.names.sharedGate = "mlp.shared_expert_gate";
  f.refine = [](ConfigReader &config, TransformerModel &m, const StepSize &step) {
    m.sharedInner = m.inner;
    m.queryKeyValueBias = config.flag("qkv_bias", true);
    m.choicesAddToOne = config.flag("norm_topk_prob", false);
    readRotary(config, m, step, {});
    readExperts(config, m, step, {{"num_experts", 60}, {"moe_intermediate_size", 1408}, {"num_experts_per_tok", 4}});
  };
  return f;
}

Family qwen3Moe() {
  Family f = qwenMixture("qwen3_moe", "Qwen3MoeForCausalLM");
  f.keys.groups.fallback = 4;
  f.keys.inner = {"moe_intermediate_size", 768};
  f.model.queryKeyNorm = HeadNorm::EachHead;
  f.model.names.queryNorm = "self_attn.q_norm";
  f.model.names.keyNorm = "self_attn.k_norm";
  f.refine = [](ConfigReader &config, TransformerModel &m, const StepSize &step) {
    m.queryKeyValueBias = m.outputBias = config.flag("attention_bias", false);
    m.choicesAddToOne = config.flag("norm_topk_prob", false);
    readRotary(config, m, step, {});
    readExperts(config, m, step, {{"num_experts|num_local_experts", 128}, {"", m.inner}, {"num_experts_per_tok", 8}});
  };
  return f;
}

Family olmoe() {
  Family f = llamaLike("olmoe", "OlmoeForCausalLM");
  f.keys.layers.fallback = 16;
  f.keys.hidden.fallback = 2048;
  f.keys.heads.fallback = 16;
  f.keys.inner.fallback = 2048;
  f.keys.vocabulary.fallback = 50304;
  f.keys.maxPositions.fallback = 4096;
  f.keys.epsilon.fallback = 1e-5;
  f.fixed = {{"output_router_logits", false}, {"clip_qkv", nullptr}};
  f.model.queryKeyNorm = HeadNorm::AllHeads;
  ModuleNames &n = f.model.names;
  n.queryNorm = "self_attn.q_norm";
  n.keyNorm = "self_attn.k_norm";
  nameExperts(n);
  f.refine = [](ConfigReader &config, TransformerModel &m, const StepSize &step) {
    m.queryKeyValueBias = m.outputBias = config.flag("attention_bias", false);
    m.choicesAddToOne = config.flag("norm_topk_prob", false);
    readRotary(config, m, step, {});
    readExperts(config, m, step, {{"num_experts|num_local_experts", 64}, {"", m.inner}, {"num_experts_per_tok", 8}});
  };
  return f;
}

/// Returns a family with the structure of DeepSeek's models: multi-head latent attention (DeepSeek-AI, DeepSeek-V2,
/// 2024), and routed and shared experts in all layers but the first ones.
Family deepseek(const char *modelType, const char *architecture) {
  Family f = llamaLike(modelType, architecture);
  f.keys.headSize = {"qk_rope_head_dim", 64}; // size of the rotated part; readLatents adds the other part
  f.model.projection = ProjectionForm::Latent;
  ModuleNames &n = f.model.names;
  n.queryLatent = "self_attn.q_a_proj";
  n.queryNorm = "self_attn.q_a_layernorm";
  n.keyValueLatent = "self_attn.kv_a_proj_with_mqa";
  n.keyNorm = "self_attn.kv_a_layernorm";
  n.key = "self_attn.kv_b_proj";
  n.value.clear();
  nameExperts(n);
  n.sharedExpert = "mlp.shared_experts";
  return f;
}

/// Reads the sizes of the latent vectors and of the heads.
void readLatents(ConfigReader &config, TransformerModel &m, const StepSize &step) {
  int64_t rotated = m.headSize;
  readRotary(config, m, step, {});
  if (int64_t count = 2 * int64_t(m.rotaryFrequencies.size()); count != rotated)
    config.fail(fmt::format("partial_rotary_factor rotates {} of the {} elements of qk_rope_head_dim, but only "
                            "rotating all of them is supported",
                            count, rotated));
  m.queryRank = config.integer("q_lora_rank", 1536, 1, kMaxSize).value_or(0);
  m.keyValueRank = config.integer("kv_lora_rank", 512, 1, kMaxSize).value_or(512);
  m.valueSize = config.integer("v_head_dim", 128, 1, kMaxHeadSize).value_or(128);
  m.headSize = rotated + config.integer("qk_nope_head_dim", 128, 1, kMaxHeadSize).value_or(128);
  if (m.groups != m.heads)
    config.fail(fmt::format(
        "num_key_value_heads is {}, but num_attention_heads is {}; with latent attention both must be equal", m.groups,
        m.heads));
  m.names.query = m.queryRank ? "self_attn.q_b_proj" : "self_attn.q_proj";
  m.queryKeyValueBias = m.outputBias = config.flag("attention_bias", false);
  // YaRN's second factor scales the attention scores (modeling_deepseek_v3.py of Transformers, yarn_apply_mscale).
  auto section = config.section("rope_parameters|rope_scaling");
  double all =
      section && section->text("rope_type|type", "default") != "default" ? section->number("mscale_all_dim", 0, -1) : 0;
  if (all == 0)
    return;
  if (!section->has("factor"))
    return config.fail(
        fmt::format("rope_parameters: mscale_all_dim is {}, but factor is missing; the scale needs both", all));
  m.scoreScale = std::pow(yarnScale(section->number("factor", 1, 0), all), 2);
}

struct DeepseekKeys {
  int64_t experts, inner, shared;
  std::optional<int64_t> choices;
  int64_t denseLayers;
};

void readDeepseekExperts(ConfigReader &config, TransformerModel &m, const StepSize &step, const DeepseekKeys &keys) {
  if (!keys.choices && !config.has("num_experts_per_tok"))
    return config.fail("num_experts_per_tok is missing, and its class has no default; published models have 6");
  readExperts(config, m, step,
              {{"n_routed_experts|num_experts|num_local_experts", keys.experts},
               {"moe_intermediate_size", keys.inner},
               {"num_experts_per_tok", keys.choices}});
  m.sharedInner = m.expertInner * config.integer("n_shared_experts", keys.shared, 1, kMaxLayers).value_or(0);
  m.denseLayers = std::min(
      m.layers, config.integer("first_k_dense_replace", keys.denseLayers, 0, kMaxLayers).value_or(keys.denseLayers));
}

/// Reads the number of expert groups, and of groups from which the experts of a token are chosen.
void readExpertGroups(ConfigReader &config, TransformerModel &m, std::optional<int64_t> groups,
                      std::optional<int64_t> chosen) {
  auto required = [&](const char *name, std::optional<int64_t> fallback) {
    auto value = config.integer(name, fallback, 1, kMaxExperts);
    if (!value)
      config.fail(fmt::format("{} is null, but choosing among groups of experts needs an integer", name));
    return value.value_or(1);
  };
  m.expertGroups = required("n_group", groups);
  m.chosenGroups = required("topk_group", chosen);
  if (m.experts % m.expertGroups != 0)
    return config.fail(fmt::format("n_group is {}, which does not divide {} experts", m.expertGroups, m.experts));
  if (m.chosenGroups > m.expertGroups)
    return config.fail(
        fmt::format("topk_group is {}, but there are {} groups (n_group); give a number from 1 to n_group",
                    m.chosenGroups, m.expertGroups));
  int64_t each = m.experts / m.expertGroups;
  if (m.choices > m.chosenGroups * each)
    config.fail(fmt::format("num_experts_per_tok is {}, but {} groups (topk_group) of {} experts have only {} experts",
                            m.choices, m.chosenGroups, each, m.chosenGroups * each));
  if (m.router == Router::CorrectedSigmoid && each < 2)
    config.fail(fmt::format(
        "n_group is {} for {} experts, but a group needs at least two experts, as its score is the sum of the two best",
        m.expertGroups, m.experts));
}

Family deepseekV2() {
  Family f = deepseek("deepseek_v2", "DeepseekV2ForCausalLM");
  f.keys.vocabulary.fallback = 102400;
  f.fixed = {{"norm_topk_prob", false}, {"scoring_func", "softmax"}, {"moe_layer_freq", 1}};
  f.model.rotaryPairs = true;
  f.refine = [](ConfigReader &config, TransformerModel &m, const StepSize &step) {
    m.mlpBias = config.flag("mlp_bias", false);
    readLatents(config, m, step);
    readDeepseekExperts(config, m, step, {64, 1407, 2, std::nullopt, 0});
    m.routedScale = config.number("routed_scaling_factor", 1, 0);
    std::string method = config.text("topk_method", "greedy");
    if (method == "group_limited_greedy")
      readExpertGroups(config, m, std::nullopt, std::nullopt);
    else if (method != "greedy")
      config.fail(fmt::format(
          "topk_method '{}' is not supported for 'deepseek_v2'; supported are greedy and group_limited_greedy",
          method));
  };
  return f;
}

Family deepseekV3() {
  Family f = deepseek("deepseek_v3", "DeepseekV3ForCausalLM");
  f.keys.layers.fallback = 61;
  f.keys.hidden.fallback = 7168;
  f.keys.heads.fallback = 128;
  f.keys.inner.fallback = 18432;
  f.keys.vocabulary.fallback = 129280;
  f.keys.maxPositions.fallback = 4096;
  f.fixed = {{"topk_method", "noaux_tc"}, {"scoring_func", "sigmoid"}, {"moe_layer_freq", 1}};
  f.model.router = Router::CorrectedSigmoid;
  f.refine = [](ConfigReader &config, TransformerModel &m, const StepSize &step) {
    m.rotaryPairs = config.flag("rope_interleave", true);
    readLatents(config, m, step);
    readDeepseekExperts(config, m, step, {256, 2048, 1, 8, 3});
    m.routedScale = config.number("routed_scaling_factor", 2.5, 0);
    m.choicesAddToOne = config.flag("norm_topk_prob", true);
    readExpertGroups(config, m, 8, 4);
  };
  return f;
}

} // namespace

std::vector<Family> mixtureFamilies() {
  return {mixtral(), qwen2Moe(), qwen3Moe(), olmoe(), deepseekV2(), deepseekV3()};
}

} // namespace kerf::frontend
