// SPDX-License-Identifier: Apache-2.0
// The model's sizes and the optimizer as arguments of Megatron-LM and of Megatron-DeepSpeed, which have most in common.
#include "Megatron.h"

#include <cmath>

namespace kerf::exporting {

namespace {

/// A row that is one argument with a member of the sizes.
template <typename Value> Row size(const char *key, const char *name, Value ModelSizes::*member) {
  return {key, [name, member](const View &view, Draft &out) { out.argument(name, view.model.*member); }};
}

/// Returns a row for a key that the program cannot express; `text` says what the program does instead.
Row without(const char *key, const char *text) {
  return {key, [text](const View &, Draft &out) { out.differs(text); }};
}

void writeKvHeads(const View &view, Draft &out) {
  if (view.model.keyValueHeads == view.model.heads)
    return out.expressed("as many as heads, the default");
  out.argument("--group-query-attention");
  out.argument("--num-query-groups", view.model.keyValueHeads);
}

void writePositions(const View &view, Draft &out) {
  // The size of the table of positions or, without a table, a limit that must not be below the sequence length.
  out.argument("--max-position-embeddings", std::max(view.model.positions, view.model.sequence));
}

void writeVocabulary(const View &view, Draft &out) {
  out.argument("--vocab-size", view.model.vocabulary);
  out.argument("--make-vocab-size-divisible-by",
               1); // pad only to a multiple of the tensor-parallel ranks, as Kerf does
}

void writeNorm(const View &view, Draft &out) {
  out.argument("--normalization", view.model.norm == "layer" ? "LayerNorm" : "RMSNorm");
  if (view.model.norm == "rms-plus-one")
    out.argument("--apply-layernorm-1p");
}

/// Writes the activation. Megatron-LM fuses a bias only with the tanh form of GELU; without fusion, GELU uses erf.
void writeActivation(const View &view, Draft &out) {
  const ModelSizes &m = view.model;
  if (m.gated && m.activation == "silu")
    return out.argument("--swiglu");
  if (!m.gated && m.activation == "gelu")
    return out.argument("--no-bias-gelu-fusion");
  if (!m.gated && m.activation == "gelu-tanh" && m.mlpBias)
    return out.expressed("GELU by tanh, fused with the bias, the default");
  out.differs(fmt::format("there is no such activation: {}", m.gated ? "SwiGLU (--swiglu) is the nearest" : "GELU"));
  if (m.gated)
    out.argument("--swiglu");
}

void writePosition(const View &view, Draft &out) {
  const std::string &kind = view.model.position;
  if (kind == "learned")
    return out.argument("--position-embedding-type", "learned_absolute");
  if (kind == "rotary")
    return out.argument("--position-embedding-type", "rope");
  out.argument("--position-embedding-type", "none");
  out.differs(fmt::format("there are no {} positions for this program: none", kind));
}

void writeRotaryScaling(const View &view, Draft &out) {
  const ModelSizes &m = view.model;
  double factor = m.rotaryFactor;
  if (m.rotaryScaling == "llama3") {
    out.argument("--use-rope-scaling");
    out.argument("--rope-scaling-factor", factor);
    if (m.rotaryLow != 1 || m.rotaryHigh != 4 || m.rotaryPositions != 8192)
      out.differs(fmt::format("waves are scaled by LLaMA 3.1's numbers, from 8192 positions with factors 1 and 4, not "
                              "from {} with {} and {}",
                              m.rotaryPositions, m.rotaryLow, m.rotaryHigh));
    return;
  }
  if (m.rotaryScaling == "yarn") {
    out.argument("--rope-type", "yarn");
    out.argument("--rotary-scaling-factor", factor);
    if (factor > 1) {
      out.argument("--mscale", yarnWeight(m, m.rotaryScaleAll));
      out.argument("--mscale-all-dim", m.rotaryScaleAll);
    }
    if (!m.keyValueLatent)
      out.differs("YaRN is for latent attention here");
    if (!m.rotaryRounds)
      out.differs("the range of frequencies that are scaled in part has whole ends, but truncate is false");
    if (m.rotaryPositions != 4096 || m.rotaryFast != 32 || m.rotarySlow != 1)
      out.differs(fmt::format("waves are scaled from 4096 positions with beta 32 and 1, the defaults, not from {} with "
                              "{} and {}",
                              m.rotaryPositions, m.rotaryFast, m.rotarySlow));
    return;
  }
  if (factor != std::floor(factor))
    return out.differs(fmt::format("only whole factors: positions are not stretched by {}", factor));
  out.argument("--rotary-seq-len-interpolation-factor", int64_t(factor));
}

void writeResidual(const View &view, Draft &out) {
  if (view.model.residual == "pre")
    return out.expressed("norms before attention and MLP, the default");
  out.differs("norms stand before attention and MLP, one after the other");
}

/// Writes biases. Megatron-LM's switch for all of them gives experts biases as well, which none of Kerf's models has,
/// and latent attention biases of its output alone.
void writeBiases(const View &view, Draft &out) {
  const ModelSizes &m = view.model;
  bool alike = !m.experts && !m.keyValueLatent;
  if (alike && m.queryKeyValueBias && m.outputBias && m.mlpBias)
    return out.expressed("all products have one, the default");
  out.argument("--disable-bias-linear");
  if (m.queryKeyValueBias && !m.keyValueLatent)
    out.argument("--add-qkv-bias");
  if (m.outputBias || m.mlpBias || (m.queryKeyValueBias && m.keyValueLatent))
    out.differs(alike ? "only all products, only queries, keys and values, or no product can have biases: the other "
                        "biases are left out"
                      : "beside experts and latent attention only queries, keys and values can have biases, and "
                        "latent ones cannot: the other biases are left out");
}

void writeTied(const View &view, Draft &out) {
  if (view.model.tiedEmbeddings)
    return out.expressed("tied, the default");
  out.argument("--untie-embeddings-and-output-weights");
}

void writeDropout(const View &view, Draft &out) {
  if (view.model.dropout)
    return out.differs(
        "the model's probabilities are not exported: the default, 0.1 for attention and for hidden states");
  out.argument("--attention-dropout", 0.0);
  out.argument("--hidden-dropout", 0.0);
}

void writeExperts(const View &view, Draft &out) {
  out.argument("--num-experts", view.model.experts);
  out.argument("--moe-token-dispatcher-type", "alltoall");
  if (view.in.job.dtype == "bf16" || view.in.job.dtype == "f8")
    out.argument("--moe-grouped-gemm"); // computes the products of all experts of a rank in one call; for bf16 only
}

void writeExpertWeights(const View &view, Draft &out) {
  const ModelSizes &m = view.model;
  if (m.router == "corrected-sigmoid") { // moe_utils.py, topk_routing_with_score_function
    if (m.normalizedExpertWeights == (m.expertsPerToken > 1))
      return out.expressed("what sigmoid scores do");
    return out.differs("sigmoid scores of several chosen experts are divided by their sum, a single one is not");
  }
  if (m.normalizedExpertWeights)
    return out.expressed("softmax over the chosen experts, the default");
  out.argument("--moe-router-pre-softmax");
}

void writeSharedExpert(const View &view, Draft &out) {
  out.argument("--moe-shared-expert-intermediate-size", view.model.sharedExpertWidth);
  if (view.model.sharedExpertGate)
    out.argument("--moe-shared-expert-gate");
}

/// Writes which layers have experts, as a Python expression: ([0]*3+[1]*58).
void writeDenseLayers(const View &view, Draft &out) {
  int64_t dense = view.model.denseLayers;
  out.argument("--moe-layer-freq", fmt::format("([0]*{}+[1]*{})", dense, view.model.layers - dense));
}

void writeRouter(const View &view, Draft &out) {
  out.argument("--moe-router-score-function", "sigmoid");
  out.argument("--moe-router-enable-expert-bias");
}

void writeExpertGroups(const View &view, Draft &out) {
  out.argument("--moe-router-num-groups", view.model.expertGroups);
  out.argument("--moe-router-group-topk", view.model.groupsPerToken);
  // megatron/core/transformer/moe/moe_utils.py, group_limited_topk
  int64_t wanted = view.model.router == "softmax" ? 1 : 2,
          summed = view.model.expertsPerToken / view.model.groupsPerToken;
  if (summed != wanted)
    out.differs(
        fmt::format("groups are chosen by the sum of their {} best experts' scores ({} experts of a token in {} "
                    "groups), not of {}",
                    summed, view.model.expertsPerToken, view.model.groupsPerToken, wanted));
}

void writeLatent(const View &view, Draft &out) {
  const ModelSizes &m = view.model;
  out.argument("--multi-latent-attention");
  out.argument("--qk-layernorm"); // norm of the latents
  if (m.queryLatent)
    out.argument("--q-lora-rank", m.queryLatent);
  out.argument("--kv-lora-rank", m.keyValueLatent);
  out.argument("--qk-head-dim", m.headSize - m.rotaryHeadSize);
  out.argument("--qk-pos-emb-head-dim", m.rotaryHeadSize);
  out.argument("--v-head-dim", m.valueSize);
  if (m.rotaryScaling == "yarn")
    return;
  out.argument("--rope-type", "rope"); // the default of latent attention is YaRN by 40
  out.argument("--no-rope-fusion");    // the fused kernel is for YaRN
}

void writeCapacity(const View &view, Draft &out) {
  if (!view.in.expertCapacity || std::isinf(*view.in.expertCapacity))
    return out.expressed("no token is dropped, the default");
  out.argument("--moe-expert-capacity-factor", *view.in.expertCapacity);
  out.argument("--moe-pad-expert-input-to-capacity");
}

void writeOptimizer(const View &view, Draft &out) {
  out.argument("--optimizer", view.in.optimizer.kind == "sgd" ? "sgd" : "adam");
  noteOptimizer(view, out);
  if (view.in.optimizer.kind == "sgd" && view.sharding > 0)
    out.differs("the distributed optimizer is for Adam: SGD is refused there");
}

void writeWeightDecay(const View &view, Draft &out) {
  out.argument("--weight-decay", view.in.optimizer["weight-decay"]);
  if (view.in.optimizer["weight-decay"] > 0)
    out.differs("biases and norms have no decay, whatever the plan's optimizer does");
}

Table sharedModelTable() {
  return {
      {"model.sizes",
       [](const View &, Draft &out) {
         out.differs("sizes are not known of an export: --num-layers, --hidden-size, --num-attention-heads, "
                     "--seq-length, --max-position-embeddings and the model's forms are left out, add them");
       }},
      {"model.family", [](const View &, Draft &out) { out.idle("expressed by the model's sizes and forms"); }},
      {"model.task", noteTask},
      size("model.layers", "--num-layers", &ModelSizes::layers),
      without("model.decoder_layers", "the program has no encoder beside a decoder: these layers are left out"),
      size("model.hidden_size", "--hidden-size", &ModelSizes::hidden),
      size("model.heads", "--num-attention-heads", &ModelSizes::heads),
      size("model.head_size", "--kv-channels", &ModelSizes::headSize),
      size("model.ffn_size", "--ffn-hidden-size", &ModelSizes::mlpWidth),
      {"model.vocabulary", writeVocabulary},
      {"model.positions", writePositions},
      size("model.sequence", "--seq-length", &ModelSizes::sequence),
      {"model.activation", writeActivation},
      size("model.rotary_fraction", "--rotary-percent", &ModelSizes::rotaryFraction),
      {"model.residual", writeResidual},
      {"model.tied_embeddings", writeTied},
      without("model.embedding_norm", "there is no norm after the embedding"),
      without("model.scaled_embedding", "the embedding is not scaled by the square root of the hidden size"),
      {"model.dropout", writeDropout},
  };
}

} // namespace

double yarnWeight(const ModelSizes &model, double all) {
  double perWeight = 0.1 * std::log(model.rotaryFactor);
  double weight = (model.rotaryAttention * (1 + perWeight * all) - 1) / perWeight;
  return std::round(weight * 1e12) / 1e12; // 0.7, not 0.7000000000000002
}

Table megatronModelTable() {
  Table table = sharedModelTable();
  Table core = {
      {"model.kv_heads", writeKvHeads},
      {"model.norm", writeNorm},
      size("model.norm_epsilon", "--norm-epsilon", &ModelSizes::epsilon),
      {"model.position", writePosition},
      {"model.rotary_base",
       [](const View &view, Draft &out) { out.argument("--rotary-base", int64_t(view.model.rotaryBase)); }},
      {"model.rotary_scaling", writeRotaryScaling},
      {"model.window",
       [](const View &view, Draft &out) {
         out.argument("--window-size",
                      fmt::format("{},0", view.model.window - 1)); // tokens before the token, tokens after the token
       }},
      {"model.biases", writeBiases},
      {"model.query_key_norm",
       [](const View &view, Draft &out) {
         out.argument("--qk-layernorm");
         if (view.model.queryKeyNorm == "all-heads")
           out.differs("queries and keys are normalized head by head, not over all heads together");
       }},
      {"model.latent_attention", writeLatent},
      {"model.experts", writeExperts},
      size("model.experts_per_token", "--moe-router-topk", &ModelSizes::expertsPerToken),
      size("model.expert_ffn_size", "--moe-ffn-hidden-size", &ModelSizes::expertWidth),
      {"model.expert_weights_add_to_one", writeExpertWeights},
      {"model.shared_expert_ffn_size", writeSharedExpert},
      {"model.dense_layers", writeDenseLayers},
      {"model.router", writeRouter},
      {"model.expert_groups", writeExpertGroups},
      size("model.expert_weights_scale", "--moe-router-topk-scaling-factor", &ModelSizes::routedScale),
      {"model.expert_capacity", writeCapacity},
  };
  table.insert(table.end(), core.begin(), core.end());
  return table;
}

Table ofPretrainGpt(Table rows) {
  for (Row &row : rows)
    if (std::string_view(row.key) == "model.rotary_scaling")
      row.write = [write = row.write](const View &view, Draft &out) {
        write(view, out);
        const ModelSizes &m = view.model;
        if (m.rotaryScaling == "llama3" && m.rotaryFactor != 8) // argument_utils.py, gpt_config_from_args
          out.differs(fmt::format("pretrain_gpt.py does not read --rope-scaling-factor, and divides waves by 8, not by "
                                  "{}; Megatron Bridge reads it",
                                  m.rotaryFactor));
      };
  return rows;
}

Table megatronDeepSpeedModelTable() {
  Table table = sharedModelTable();
  Table fork = {
      size("model.kv_heads", "--num-key-value-heads", &ModelSizes::keyValueHeads),
      {"model.norm",
       [](const View &view, Draft &out) {
         out.argument("--normalization", view.model.norm == "layer" ? "layernorm" : "rmsnorm");
         if (view.model.norm == "rms-plus-one")
           out.differs("an RMS norm's scale is its weight, not 1 + weight");
       }},
      size("model.norm_epsilon", "--layernorm-epsilon", &ModelSizes::epsilon),
      {"model.position",
       [](const View &view, Draft &out) {
         if (view.model.position == "learned")
           return out.expressed("a table of positions, the default");
         if (view.model.position == "rotary")
           return out.argument("--use-rotary-position-embeddings");
         out.argument("--no-position-embedding");
         out.differs(fmt::format("there are no {} positions for this program: none", view.model.position));
       }},
      {"model.rotary_base",
       [](const View &view, Draft &out) {
         out.argument("--rotary-position-embeddings-theta", int64_t(view.model.rotaryBase));
       }},
      without("model.rotary_scaling", "rotary positions are not stretched"),
      without("model.window", "a token sees all before it"),
      {"model.biases",
       [](const View &view, Draft &out) {
         const ModelSizes &m = view.model;
         if (m.queryKeyValueBias && m.outputBias && (m.mlpBias || m.experts))
           return out.expressed("all products have one, the default");
         out.argument("--disable-bias-linear");
         if (m.queryKeyValueBias || m.outputBias || m.mlpBias)
           out.differs("all products have a bias or none: none");
       }},
      without("model.query_key_norm", "queries and keys are not normalized"),
      {"model.experts",
       [](const View &view, Draft &out) {
         out.argument("--num-experts", view.model.experts);
         out.argument("--expert-interval", 1);
         out.argument("--create-moe-param-group");
         if (view.pipeline > 1)
           out.differs("DeepSpeed's pipelines have no layers with experts: this plan does not run there");
       }},
      {"model.experts_per_token",
       [](const View &view, Draft &out) { out.argument("--topk", view.model.expertsPerToken); }},
      {"model.expert_ffn_size",
       [](const View &view, Draft &out) { out.argument("--ffn-hidden-size", view.model.expertWidth); }},
      {"model.expert_weights_add_to_one",
       [](const View &view, Draft &out) {
         if (view.model.normalizedExpertWeights)
           return out.expressed("the gate normalizes the weights of a token's choices");
         out.differs("the gate normalizes the weights of a token's choices");
       }},
      without("model.latent_attention", "there is no latent attention: keys and values of all heads are stored whole"),
      without("model.shared_expert_ffn_size", "no expert is shared by all tokens: it is left out"),
      without("model.dense_layers", "every layer has experts"),
      without("model.router", "experts are chosen and weighted by a softmax"),
      without("model.expert_groups", "experts are chosen among all"),
      without("model.expert_weights_scale", "weights of a token's choices are not scaled"),
      {"model.expert_capacity",
       [](const View &view, Draft &out) {
         if (!view.in.expertCapacity || std::isinf(*view.in.expertCapacity))
           return out.argument("--disable-moe-token-dropping");
         out.argument("--moe-train-capacity-factor", *view.in.expertCapacity);
       }},
  };
  table.insert(table.end(), fork.begin(), fork.end());
  return table;
}

Table megatronOptimizerTable() {
  return {
      {"optimizer.kind", writeOptimizer},
      {"optimizer.beta1", [](const View &v, Draft &out) { out.argument("--adam-beta1", v.in.optimizer["beta1"]); }},
      {"optimizer.beta2", [](const View &v, Draft &out) { out.argument("--adam-beta2", v.in.optimizer["beta2"]); }},
      {"optimizer.eps", [](const View &v, Draft &out) { out.argument("--adam-eps", v.in.optimizer["eps"]); }},
      {"optimizer.momentum",
       [](const View &v, Draft &out) { out.argument("--sgd-momentum", v.in.optimizer["momentum"]); }},
      {"optimizer.weight_decay", writeWeightDecay},
      without("optimizer.no_decay", "which parameters have no decay is the program's choice: biases and norms"),
      {"optimizer.clip_norm", [](const View &v, Draft &out) { out.argument("--clip-grad", v.in.optimizer.clipNorm); }},
  };
}

} // namespace kerf::exporting
