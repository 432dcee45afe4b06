// SPDX-License-Identifier: Apache-2.0
// Export to Nanotron: the YAML file of run_train.py. Nanotron has data, context, tensor and pipeline parallelism, and
// shards optimizer states over data-parallel ranks (ZeRO-1).
#include "View.h"

#include <algorithm>

namespace kerf::exporting {

namespace {

/// A row with a value of the model's configuration.
template <typename Value> Row size(const char *key, const char *name, Value ModelSizes::*member) {
  return {key, [name, member](const View &view, Draft &out) {
            out.file(std::string("model.model_config.") + name, view.model.*member);
          }};
}

/// A row for a form of the model: expressed where `holds`, and otherwise a note with what Nanotron's models have.
Row form(const char *key, bool (*holds)(const ModelSizes &), const char *has) {
  return {key, [holds, has](const View &view, Draft &out) {
            holds(view.model) ? out.expressed(has) : out.differs(fmt::format("Nanotron's models have {}", has));
          }};
}

Row without(const char *key, const char *text) {
  return {key, [text](const View &, Draft &out) { out.differs(text); }};
}

void writeFamily(const View &view, Draft &out) {
  const std::string &family = view.model.family;
  bool qwen = view.model.experts || view.model.queryKeyValueBias;
  out.file(qwen ? "model.model_config.is_qwen2_config" : "model.model_config.is_llama_config", true);
  out.file("model.model_config.rope_interleaved", false);
  if (family != "llama" && family != "qwen2")
    out.differs(fmt::format("Nanotron has no {}: the file describes its {} with the sizes of the model", family,
                            qwen ? "Qwen2" : "LLaMA"));
}

void writeBiases(const View &view, Draft &out) {
  const ModelSizes &m = view.model;
  out.file("model.model_config.attention_bias", m.queryKeyValueBias);
  if (m.outputBias || m.mlpBias)
    out.differs("only queries, keys and values can have biases: the others are left out");
}

Table modelTable() {
  return {
      {"model.sizes",
       [](const View &, Draft &out) {
         out.differs("sizes are not known of an export: add model.model_config and tokens.sequence_length");
       }},
      {"model.family", writeFamily},
      {"model.task", noteTask},
      size("model.layers", "num_hidden_layers", &ModelSizes::layers),
      without("model.decoder_layers", "there are no decoders with cross-attention: these layers are left out"),
      size("model.hidden_size", "hidden_size", &ModelSizes::hidden),
      size("model.heads", "num_attention_heads", &ModelSizes::heads),
      size("model.kv_heads", "num_key_value_heads", &ModelSizes::keyValueHeads),
      form(
          "model.head_size", [](const ModelSizes &m) { return m.headSize * m.heads == m.hidden; },
          "heads that share the hidden size evenly"),
      size("model.ffn_size", "intermediate_size", &ModelSizes::mlpWidth),
      size("model.vocabulary", "vocab_size", &ModelSizes::vocabulary),
      {"model.positions",
       [](const View &v, Draft &out) {
         out.file("model.model_config.max_position_embeddings", std::max(v.model.positions, v.model.sequence));
       }},
      {"model.sequence", [](const View &v, Draft &out) { out.file("tokens.sequence_length", v.model.sequence); }},
      form(
          "model.norm", [](const ModelSizes &m) { return m.norm == "rms"; }, "RMS norms"),
      size("model.norm_epsilon", "rms_norm_eps", &ModelSizes::epsilon),
      form(
          "model.activation", [](const ModelSizes &m) { return m.gated && m.activation == "silu"; }, "gated SiLU"),
      form(
          "model.position", [](const ModelSizes &m) { return m.position == "rotary"; }, "rotary positions"),
      size("model.rotary_base", "rope_theta", &ModelSizes::rotaryBase),
      form(
          "model.rotary_fraction", [](const ModelSizes &m) { return m.rotaryFraction == 1; },
          "rotations of whole heads"),
      without("model.rotary_scaling", "rotary positions are not stretched"),
      without("model.window", "a token attends to all tokens before it"),
      form(
          "model.residual", [](const ModelSizes &m) { return m.residual == "pre"; },
          "norms before attention and MLP, one after the other"),
      {"model.biases", writeBiases},
      without("model.query_key_norm", "queries and keys are not normalized"),
      without("model.latent_attention", "there is no latent attention"),
      size("model.tied_embeddings", "tie_word_embeddings", &ModelSizes::tiedEmbeddings),
      without("model.embedding_norm", "there is no norm after the embedding"),
      without("model.scaled_embedding", "the embedding is not scaled"),
      {"model.experts",
       [](const View &v, Draft &out) { out.file("model.model_config.moe_config.num_experts", v.model.experts); }},
      {"model.experts_per_token",
       [](const View &v, Draft &out) { out.file("model.model_config.moe_config.top_k", v.model.expertsPerToken); }},
      {"model.expert_ffn_size",
       [](const View &v, Draft &out) { out.file("model.model_config.intermediate_size", v.model.expertWidth); }},
      form(
          "model.expert_weights_add_to_one", [](const ModelSizes &m) { return !m.normalizedExpertWeights; },
          "weights of a token's experts that are not normalized again"),
      without("model.shared_expert_ffn_size", "the shared expert is left out"),
      without("model.dense_layers", "every layer has experts"),
      without("model.router", "experts are chosen and weighted by a softmax"),
      without("model.expert_groups", "experts are chosen among all"),
      without("model.expert_weights_scale", "weights of a token's experts are not scaled"),
      {"model.expert_capacity",
       [](const View &v, Draft &out) {
         v.in.expertCapacity ? out.differs("no token is dropped") : out.expressed("no token is dropped");
       }},
      form(
          "model.dropout", [](const ModelSizes &m) { return !m.dropout; }, "no dropout"),
  };
}

void writeData(const View &view, Draft &out) {
  int64_t ranks = view.dataParallelRanks();
  out.file("parallelism.dp", ranks);
  out.file("tokens.batch_accumulation_per_replica", view.microbatches);
}

void writeContext(const View &view, Draft &out) {
  if (view.context == 1)
    return out.idle("1");
  out.file("parallelism.context_parallel_size", view.context);
  out.differs("context parallelism needs a ring attention as _attn_implementation of the model: add it");
}

void writeSchedule(const View &view, Draft &out) {
  out.file("parallelism.pp_engine", view.schedule == ScheduleKind::GPipe ? "afab" : "1f1b");
  if (view.pipeline > 1 && view.schedule != ScheduleKind::GPipe && view.schedule != ScheduleKind::OneFOneB)
    out.differs("1F1B runs instead");
}

void writeStages(const View &view, Draft &out) {
  if (view.pipeline == 1)
    return out.idle("one stage");
  out.differs(
      "Nanotron cuts the model itself, by the compute of its blocks: stages may hold other layers than planned");
}

void writeRecompute(const View &view, Draft &out) {
  noteMixedRecompute(view, out);
  out.file("parallelism.recompute_layer", view.recompute != "none");
  if (view.recompute == "selective")
    out.differs("whole layers are recomputed, not the core of attention alone: less memory, more compute");
}

void writeSharding(const View &view, Draft &out) {
  noteMixedSharding(view, out);
  out.file("optimizer.zero_stage", std::min<int64_t>(view.sharding, 1));
  if (view.sharding > 1)
    out.differs("ZeRO-1 shards optimizer states only: gradients and parameters are whole and take more memory");
}

void writeSequenceParallel(const View &view, Draft &out) {
  bool on = view.sequenceParallel && view.tensor > 1;
  out.file("parallelism.tp_mode", on ? "REDUCE_SCATTER" : "ALL_REDUCE");
}

void writeOverlap(const View &view, Draft &out) {
  bool cut = view.sequenceParallel && view.tensor > 1;
  bool tensor = view.overlaps("tensor") || view.overlaps("products");
  out.file("parallelism.tp_linear_async_communication", cut && tensor);
  if (view.tensor > 1 && !cut && tensor)
    out.differs("collectives of tensor parallelism run beside products with REDUCE_SCATTER only: here they are waited "
                "for");
  if (view.dataParallelRanks() > 1 && !view.overlaps("gradients"))
    out.differs("gradients are always reduced beside the backward (the plan does not list \"gradients\")");
  if (view.sharding > 0 && view.overlaps("parameters"))
    out.differs("gathers of parameters after the update are waited for (the plan lists \"parameters\")");
  if (view.pipeline > 1 && view.overlaps("stage"))
    out.differs("sends between stages are waited for (the plan lists \"stage\")");
}

void writeOptimizer(const View &view, Draft &out) {
  noteOptimizer(view, out);
  bool sgd = view.in.optimizer.kind == "sgd";
  out.file("optimizer.optimizer_factory.name", sgd ? "sgd" : "adamW");
  if (!sgd)
    out.file("optimizer.optimizer_factory.torch_adam_is_fused", true);
}

Row adam(const char *key, const char *setting, const char *name) {
  return {key, [setting, name](const View &v, Draft &out) {
            out.file(std::string("optimizer.optimizer_factory.") + name, v.in.optimizer[setting]);
          }};
}

void writeDtype(const View &view, Draft &out) {
  const std::string &dtype = view.in.job.dtype;
  out.file("model.dtype", dtype == "f16"                     ? "float16"
                          : dtype == "bf16" || dtype == "f8" ? "bfloat16"
                          : dtype == "f64"                   ? "float64"
                                                             : "float32");
  if (dtype == "f8")
    out.differs("there is no f8: bf16");
}

void writeGradientDtype(const View &view, Draft &out) {
  bool f32 = view.plan.gradientDtype == "f32";
  out.file("optimizer.accumulate_grad_in_fp32", f32);
  if (!f32 && view.plan.gradientDtype != view.in.job.dtype)
    out.differs(fmt::format("gradients are f32 or of the parameters' type: {}", view.in.job.dtype));
}

Table executionTable() {
  return {
      {"mesh.stage", [](const View &v, Draft &out) { out.file("parallelism.pp", v.pipeline); }},
      {"mesh.data", writeData},
      {"mesh.context", writeContext},
      {"mesh.expert",
       [](const View &v, Draft &out) {
         if (v.expert == 1)
           return out.idle("1");
         if (!v.experts())
           return out.expressed("the model has no experts: these are data-parallel ranks");
         out.differs(fmt::format("versions of Nanotron count ranks of experts differently: these {} ranks are "
                                 "data-parallel ranks with all experts",
                                 v.expert));
       }},
      {"mesh.model", [](const View &v, Draft &out) { out.file("parallelism.tp", v.tensor); }},
      {"order",
       [](const View &v, Draft &out) {
         if (v.axisOrderIs({"stage", "data", "expert", "context", "model"}))
           return out.expressed("pp, dp, cp, tp (outermost first)");
         out.differs(fmt::format("ranks are numbered as pp, dp, cp, tp (outermost first), not as {}: groups use other "
                                 "links than planned",
                                 orderText(v)));
       }},
      {"global_batch",
       [](const View &, Draft &out) { out.expressed("dp, micro_batch_size and batch_accumulation_per_replica"); }},
      {"microbatch", [](const View &v, Draft &out) { out.file("tokens.micro_batch_size", v.plan.microbatch); }},
      {"schedule.name", writeSchedule},
      {"schedule.chunks",
       [](const View &v, Draft &out) {
         v.chunks == 1 ? out.idle("one chunk a stage") : out.differs("a stage holds one run of layers");
       }},
      {"schedule.variant", noteNoZeroBubble},
      {"schedule.in_flight", noteInFlight},
      {"stages", writeStages},
      {"recompute", writeRecompute},
      {"optimizer_sharding", writeSharding},
      {"optimizer_sharding_ranks", noteShardingOverAllRanks},
      {"sequence_parallel", writeSequenceParallel},
      {"overlap", writeOverlap},
      {"gradient_dtype", writeGradientDtype},
      {"layout", writeLayout},
      {"attention",
       [](const View &v, Draft &out) {
         bool fused = v.plan.attention == AttentionKernels::Fused;
         fused ? out.expressed("flash_attention_2, the default") : out.differs("attention is flash_attention_2");
       }},
      {"context_style",
       [](const View &v, Draft &out) {
         if (v.context == 1)
           return out.idle("mesh.context is 1");
         bool ring = v.plan.contextStyle == ContextStyle::Ring;
         ring ? out.expressed("ring attention") : out.differs("there is no Ulysses: ring attention");
       }},
      {"dtype", writeDtype},
      {"optimizer.kind", writeOptimizer},
      adam("optimizer.beta1", "beta1", "adam_beta1"),
      adam("optimizer.beta2", "beta2", "adam_beta2"),
      adam("optimizer.eps", "eps", "adam_eps"),
      {"optimizer.momentum",
       [](const View &v, Draft &out) {
         v.in.optimizer["momentum"] == 0 ? out.expressed("0") : out.differs("SGD has no momentum");
       }},
      {"optimizer.weight_decay",
       [](const View &v, Draft &out) { out.file("optimizer.weight_decay", v.in.optimizer["weight-decay"]); }},
      without("optimizer.no_decay",
              "the globs are left out: optimizer.weight_decay_exclude_named_params takes regular expressions"),
      {"optimizer.clip_norm",
       [](const View &v, Draft &out) {
         double norm = v.in.optimizer.clipNorm;
         out.file("optimizer.clip_grad", norm == 0 ? Json(nullptr) : Json(norm));
       }},
  };
}

} // namespace

const Table &nanotronTable() {
  static const Table table = joinTables({executionTable(), modelTable()});
  return table;
}

} // namespace kerf::exporting
