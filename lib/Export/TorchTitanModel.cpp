// SPDX-License-Identifier: Apache-2.0
#include "TorchTitanModel.h"

namespace kerf::exporting {

namespace {

// torchtitan/models/llama3/__init__.py and torchtitan/models/qwen3/__init__.py of TorchTitan 0.2.2 and 0.3.0. The
// flavors of llama3 have LLaMA 3.1's scaling of rotary positions.
constexpr TitanFlavor kFlavors[] = {
    {"llama3", "8B", 4096, 32, 32, 8, 128, 14336, 128256, 1e-5, 500000, false, 0, 0, 0},
    {"llama3", "70B", 8192, 80, 64, 8, 128, 28672, 128256, 1e-5, 500000, false, 0, 0, 0},
    {"llama3", "405B", 16384, 126, 128, 8, 128, 53248, 128256, 1e-5, 500000, false, 0, 0, 0},
    {"qwen3", "0.6B", 1024, 28, 16, 8, 128, 3072, 151936, 1e-6, 1e6, true, 0, 0, 0},
    {"qwen3", "1.7B", 2048, 28, 16, 8, 128, 6144, 151936, 1e-6, 1e6, true, 0, 0, 0},
    {"qwen3", "4B", 2560, 36, 32, 8, 128, 9728, 151936, 1e-6, 1e6, true, 0, 0, 0},
    {"qwen3", "8B", 4096, 36, 32, 8, 128, 12288, 151936, 1e-6, 1e6, false, 0, 0, 0},
    {"qwen3", "14B", 5120, 40, 40, 8, 128, 17408, 151936, 1e-6, 1e6, false, 0, 0, 0},
    {"qwen3", "32B", 5120, 64, 64, 8, 128, 25600, 151936, 1e-6, 1e6, false, 0, 0, 0},
    {"qwen3", "30B-A3B", 2048, 48, 32, 4, 128, 0, 151936, 1e-6, 1e6, false, 128, 8, 768},
    {"qwen3", "235B-A22B", 4096, 94, 64, 4, 128, 0, 151936, 1e-6, 5e6, false, 128, 8, 1536},
};

bool scalesAsLlama31(const ModelSizes &m) {
  return m.rotaryScaling == "llama3" && m.rotaryFactor == 8 && m.rotaryLow == 1 && m.rotaryHigh == 4 &&
         m.rotaryPositions == 8192;
}

/// Returns a decimal number as Python reads a float: 500000 as "500000.0".
std::string real(double value) { return Json(value).dump(); }

/// The text of a function for one layer with grouped-query attention, and of the model of such layers.
constexpr const char *kGroupedModel = R"(
def model_spec():
    """The model of the plan, size by size."""
    weights = {{"weight": partial(nn.init.normal_, std=0.02), "bias": nn.init.zeros_}}

    def norm(width):
        return RMSNorm.Config(normalized_shape=width, eps={epsilon}, param_init={{"weight": nn.init.ones_}})

    def layer():
        attention = make_gqa_config(
            dim={hidden}, n_heads={heads}, n_kv_heads={groups}, head_dim={head}, fuse_qkv=True,
            wqkv_param_init=weights, wo_param_init=weights, inner_attention=get_attention_config("flex"),
            rope={rope},
            qk_norm={headnorm})
        attention.qkv_linear.wqkv.bias = {qkvbias}
        attention.wo.bias = {outbias}
{mlp}
        return {block}.Config(attention_norm=norm({hidden}), ffn_norm=norm({hidden}), attention=attention, {kind}=mlp)

    model = {model}.Config(
        dim={hidden}, vocab_size={vocabulary}, norm=norm({hidden}), layers=[layer() for _ in range({layers})],
        enable_weight_tying={tied},
        tok_embeddings=Embedding.Config(num_embeddings={vocabulary}, embedding_dim={hidden}, param_init={embedding}),
        lm_head=Linear.Config(in_features={hidden}, out_features={vocabulary}, param_init=weights))
)";

constexpr const char *kDenseMlp =
    R"(        mlp = make_ffn_config(dim={hidden}, hidden_dim={inner}, w1_param_init=weights, w2w3_param_init=weights)
        for product in (mlp.w1, mlp.w2, mlp.w3):
            product.bias = {bias})";

constexpr const char *kExpertMlp = R"(        mlp = make_moe_config(
            num_experts={experts}, load_balance_coeff=None,
            router=make_router_config(dim={hidden}, num_experts={experts}, gate_param_init=weights, top_k={choices},
                                      score_func="softmax", route_norm={norm}),
            routed_experts=make_routed_experts_config(
                dim={hidden}, hidden_dim={width}, num_experts={experts}, top_k={choices}, comm_backend="standard",
                param_init=dict.fromkeys(("w1_EFD", "w2_EDF", "w3_EFD"), weights["weight"]))))";

constexpr const char *kLatentModel = R"(
def model_spec():
    """The model of the plan, size by size."""
    weights = {{"weight": partial(nn.init.normal_, std=0.02), "bias": nn.init.zeros_}}
    ones = {{"weight": nn.init.ones_}}
    experts = dict.fromkeys(("w1_EFD", "w2_EDF", "w3_EFD"), weights["weight"])
    layers = build_mla_moe_layers(
        n_layers={layers}, n_dense_layers={dense}, dim={hidden}, n_heads={heads}, q_lora_rank={querylatent},
        kv_lora_rank={latent}, qk_nope_head_dim={plain}, qk_rope_head_dim={rotated}, v_head_dim={value},
        mscale={mscale}, dense_hidden_dim={inner}, moe_hidden_dim={width}, num_experts={experts},
        num_shared_experts={shared}, router_top_k={choices}, router_score_func="{score}",
        router_num_expert_groups={expertgroups}, router_num_limited_groups={chosengroups},
        router_route_scale={scale}, router_route_norm={norm}, attn_backend="flex", moe_comm_backend="standard",
        non_blocking_capacity_factor=None, linear_init=weights, norm_init=ones, depth_init=lambda layer: weights,
        depth_experts_init=lambda layer: experts,
        rope={rope})
    for layer in layers:
        layer.attention_norm.eps = layer.ffn_norm.eps = {epsilon}
        layer.attention.q_norm.eps = layer.attention.kv_norm.eps = 1e-06
        if layer.moe is not None:
            layer.moe.load_balance_coeff = {balance}
    model = DeepSeekV3Model.Config(
        dim={hidden}, vocab_size={vocabulary}, layers=layers, mtp_layers=[],
        norm=RMSNorm.Config(normalized_shape={hidden}, eps={epsilon}, param_init=ones),
        tok_embeddings=Embedding.Config(num_embeddings={vocabulary}, embedding_dim={hidden}, param_init=weights),
        lm_head=Linear.Config(in_features={hidden}, out_features={vocabulary}, param_init=weights))
)";

constexpr const char *kSpec =
    R"({convert}    return ModelSpec(name="{module}", flavor="{family}", model=model, parallelize_fn={parallelize},
                     pipelining_fn=pipeline_llm, post_optimizer_build_fn={hook},
                     state_dict_adapter={adapter})
)";

constexpr const char *kConvert = R"(    for converter in {converters}:
        model = converter.build().convert(model)
)";

const char *flag(bool value) { return value ? "True" : "False"; }

std::string ropeText(const ModelSizes &m, int64_t size) {
  int64_t positions = std::max(m.positions, m.sequence);
  std::string start = fmt::format("dim={}, max_seq_len={}, theta={}", size, positions, real(m.rotaryBase));
  if (m.rotaryScaling == "llama3")
    return fmt::format("ComplexRoPE.Config({}, scaling=\"llama\", scaling_factor={},\n                                "
                       "    low_freq_factor={}, high_freq_factor={}, original_max_position_embeddings={})",
                       start, real(m.rotaryFactor), real(m.rotaryLow), real(m.rotaryHigh), int64_t(m.rotaryPositions));
  if (m.rotaryScaling == "yarn")
    return fmt::format("ComplexRoPE.Config({}, scaling=\"yarn\", rope_factor={},\n                                "
                       "beta_fast={}, beta_slow={}, original_seq_len={})",
                       start, real(m.rotaryFactor), real(m.rotaryFast), real(m.rotarySlow), int64_t(m.rotaryPositions));
  return fmt::format("{}.Config({})", m.keyValueLatent ? "ComplexRoPE" : "CosSinRoPE", start);
}

std::string mlpText(const ModelSizes &m) {
  using namespace fmt::literals;
  if (!m.experts)
    return fmt::format(fmt::runtime(kDenseMlp), "hidden"_a = m.hidden, "inner"_a = m.mlpWidth,
                       "bias"_a = flag(m.mlpBias));
  return fmt::format(fmt::runtime(kExpertMlp), "hidden"_a = m.hidden, "experts"_a = m.experts,
                     "choices"_a = m.expertsPerToken, "norm"_a = flag(m.normalizedExpertWeights),
                     "width"_a = m.expertWidth);
}

/// The names of TorchTitan's module for a model.
struct Module {
  std::string name, model, block, parallelize, adapter;
};

Module moduleOf(const ModelSizes &m) {
  if (m.keyValueLatent)
    return {"deepseek_v3", "DeepSeekV3Model", "", "parallelize_deepseekv3", "DeepSeekV3StateDictAdapter"};
  // llama3 reads checkpoints whose rotated pairs are neighbours; qwen3 is Transformers' own order, and has experts.
  if (m.rotaryScaling == "llama3" && !m.experts && m.queryKeyNorm.empty())
    return {"llama3", "Llama3Model", "Llama3TransformerBlock", "parallelize_llama", "Llama3StateDictAdapter"};
  return {"qwen3", "Qwen3Model", "Qwen3TransformerBlock", "parallelize_qwen3", "Qwen3StateDictAdapter"};
}

/// Returns whether a correction of each expert's score balances the experts.
bool balances(const ModelSizes &m) { return m.router == "corrected-sigmoid"; }

std::string importsOf(const ModelSizes &m, const Module &module) {
  std::string text = "from functools import partial\n\nimport torch.nn as nn\n"
                     "from torchtitan.distributed.pipeline_parallel import pipeline_llm\n"
                     "from torchtitan.models.common import ComplexRoPE, CosSinRoPE, Embedding, Linear, RMSNorm\n";
  if (balances(m))
    text += "from torchtitan.components.optimizer import register_moe_load_balancing_hook\n";
  if (m.keyValueLatent)
    text += "from torchtitan.models.deepseek_v3 import build_mla_moe_layers\n";
  else
    text += fmt::format("from torchtitan.models.common.config_utils import (get_attention_config, make_ffn_config, "
                        "make_gqa_config,\n                                                     make_moe_config, "
                        "make_routed_experts_config, make_router_config)\n"
                        "from torchtitan.models.{}.model import {}\n",
                        module.name, module.block);
  return text + fmt::format("from torchtitan.models.{0}.model import {1}\n"
                            "from torchtitan.models.{0}.parallelize import {2}\n"
                            "from torchtitan.models.{0}.state_dict_adapter import {3}\n"
                            "from torchtitan.protocols.model_spec import ModelSpec\n",
                            module.name, module.model, module.parallelize, module.adapter);
}

std::string groupedText(const ModelSizes &m, const Module &module) {
  using namespace fmt::literals;
  return fmt::format(fmt::runtime(kGroupedModel), "epsilon"_a = real(m.epsilon), "hidden"_a = m.hidden,
                     "heads"_a = m.heads, "groups"_a = m.keyValueHeads, "head"_a = m.headSize,
                     "rope"_a = ropeText(m, m.headSize),
                     "headnorm"_a = m.queryKeyNorm.empty() ? "None" : fmt::format("norm({})", m.headSize),
                     "qkvbias"_a = flag(m.queryKeyValueBias), "outbias"_a = flag(m.outputBias), "mlp"_a = mlpText(m),
                     "block"_a = module.block, "kind"_a = m.experts ? "moe" : "feed_forward", "model"_a = module.model,
                     "vocabulary"_a = m.vocabulary, "layers"_a = m.layers, "tied"_a = flag(m.tiedEmbeddings),
                     "embedding"_a = m.tiedEmbeddings ? "{\"weight\": skip_param_init}" : "weights");
}

std::string latentText(const ModelSizes &m) {
  using namespace fmt::literals;
  return fmt::format(fmt::runtime(kLatentModel), "layers"_a = m.layers, "dense"_a = m.denseLayers,
                     "hidden"_a = m.hidden, "heads"_a = m.heads, "querylatent"_a = m.queryLatent,
                     "latent"_a = m.keyValueLatent, "plain"_a = m.headSize - m.rotaryHeadSize,
                     "rotated"_a = m.rotaryHeadSize, "value"_a = m.valueSize, "mscale"_a = real(m.rotaryScaleAll),
                     "inner"_a = m.mlpWidth, "width"_a = m.expertWidth, "experts"_a = m.experts,
                     "shared"_a = m.sharedExpertWidth / m.expertWidth, "choices"_a = m.expertsPerToken,
                     "score"_a = balances(m) ? "sigmoid" : "softmax",
                     "expertgroups"_a = m.expertGroups > 1 ? std::to_string(m.expertGroups) : "None",
                     "chosengroups"_a = m.expertGroups > 1 ? std::to_string(m.groupsPerToken) : "None",
                     "scale"_a = real(m.routedScale), "norm"_a = flag(m.normalizedExpertWeights),
                     "rope"_a = ropeText(m, m.rotaryHeadSize), "epsilon"_a = real(m.epsilon),
                     "balance"_a = balances(m) ? "0.001" : "None", "vocabulary"_a = m.vocabulary);
}

/// Returns what the module for latent attention lacks.
std::string latentLacks(const ModelSizes &m) {
  if (!m.experts)
    return "latent attention without experts";
  if (m.tiedEmbeddings || m.queryKeyValueBias || m.outputBias || m.mlpBias)
    return "biases and tied embeddings beside latent attention";
  if (m.sharedExpertWidth == 0 || m.sharedExpertWidth % m.expertWidth != 0)
    return fmt::format("shared experts whose width {} is no multiple of the experts' {}", m.sharedExpertWidth,
                       m.expertWidth);
  if (m.router == "softmax" && m.expertGroups > 1)
    return "groups of experts that are chosen by their best expert (it adds up the two best)";
  if (m.rotaryScaling == "yarn" && (m.rotaryScale != m.rotaryScaleAll || m.rotaryScaleAll == 0))
    return fmt::format("YaRN with mscale {} and mscale_all_dim {} (it has equal ones)", m.rotaryScale,
                       m.rotaryScaleAll);
  return "";
}

} // namespace

const TitanFlavor *titanFlavorOf(const ModelSizes &m) {
  if (!titanLacks(m).empty() || m.keyValueLatent || m.queryKeyValueBias || m.outputBias || m.mlpBias)
    return nullptr;
  for (const TitanFlavor &f : kFlavors) {
    bool llama = std::string_view(f.module) == "llama3";
    if (m.hidden == f.hidden && m.layers == f.layers && m.heads == f.heads && m.keyValueHeads == f.groups &&
        m.headSize == f.headSize && m.mlpWidth == f.inner && m.vocabulary == f.vocabulary && m.epsilon == f.epsilon &&
        m.rotaryBase == f.rotaryBase && m.tiedEmbeddings == f.tied && m.experts == f.experts &&
        m.expertsPerToken == f.expertsPerToken && m.expertWidth == f.expertWidth &&
        (llama ? scalesAsLlama31(m) : m.rotaryScaling.empty()) && m.queryKeyNorm == (llama ? "" : "each-head") &&
        (!m.experts || m.normalizedExpertWeights))
      return &f;
  }
  return nullptr;
}

std::string titanLacks(const ModelSizes &m) {
  if (m.task != "causal")
    return fmt::format("models that are trained otherwise than causally ({}, {})", m.family, m.task);
  if (m.norm != "rms")
    return m.norm == "layer" ? "layer norms" : "norms with a scale of 1 + weight";
  if (!m.gated || m.activation != "silu")
    return fmt::format("MLPs with {}{}", m.gated ? "gated " : "", m.activation);
  if (m.position != "rotary")
    return m.position + " positions";
  if (m.residual != "pre")
    return "norms and branches in another place than before attention and MLP";
  if (m.rotaryFraction != 1)
    return fmt::format("rotary positions on {} of a head", m.rotaryFraction);
  if (m.rotaryScaling == "linear" || (m.rotaryScaling == "yarn" && !m.keyValueLatent))
    return fmt::format("rotary positions with {} scaling", m.rotaryScaling);
  if (m.window && m.window < m.sequence)
    return fmt::format("attention to a window of {} tokens", m.window);
  if (m.queryKeyNorm == "all-heads")
    return "norms of queries and keys over all heads together";
  if (m.embeddingNorm || m.scaledEmbedding)
    return "a norm or a scale of the embedding";
  if (m.keyValueLatent)
    return latentLacks(m);
  if (m.sharedExpertWidth)
    return "shared experts with a gate";
  if (m.denseLayers || m.router == "corrected-sigmoid" || m.expertGroups > 1 || m.routedScale != 1)
    return "such a router beside grouped-query attention";
  return "";
}

std::string titanModelText(const ModelSizes &m, const std::string &converters) {
  using namespace fmt::literals;
  if (const TitanFlavor *flavor = titanFlavorOf(m))
    return fmt::format("from torchtitan.models.{} import model_registry\n\n\ndef model_spec():\n    return "
                       "model_registry(\"{}\"{})\n",
                       flavor->module, flavor->name, converters.empty() ? "" : ", converters=" + converters);
  Module module = moduleOf(m);
  std::string convert = converters.empty() ? "" : fmt::format(fmt::runtime(kConvert), "converters"_a = converters);
  // The adapter reads checkpoints of its own family.
  bool own = m.family == "llama" || m.family == "mistral" || m.family.starts_with("qwen3") || m.family == "deepseek_v3";
  std::string text = importsOf(m, module);
  if (m.tiedEmbeddings)
    text += "from torchtitan.models.common.param_init import skip_param_init\n";
  text += "\n" + (m.keyValueLatent ? latentText(m) : groupedText(m, module));
  return text + fmt::format(fmt::runtime(kSpec), "convert"_a = convert, "module"_a = module.name, "family"_a = m.family,
                            "parallelize"_a = module.parallelize,
                            "hook"_a = balances(m) ? "register_moe_load_balancing_hook" : "None",
                            "adapter"_a = own ? module.adapter : "None");
}

} // namespace kerf::exporting
