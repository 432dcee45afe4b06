// SPDX-License-Identifier: Apache-2.0
// Export to NeMo: the configuration of megatron_gpt_pretraining.py. NeMo passes keys of "model" that are fields of
// Megatron Core's TransformerConfig on to that class by name.
#include "View.h"

#include <cmath>

namespace kerf::exporting {

namespace {

/// Returns true if the plan runs with PyTorch's FSDP, which does not support pipelines.
bool fsdp(const View &view) { return view.sharding >= 2 && view.pipeline == 1; }
bool distributedAdam(const View &view) { return view.sharding >= 1 && !fsdp(view) && view.in.optimizer.kind != "sgd"; }

template <typename Value> Row size(const char *key, const char *path, Value ModelSizes::*member) {
  return {key, [path, member](const View &view, Draft &out) { out.file(path, view.model.*member); }};
}

Row without(const char *key, const char *text) {
  return {key, [text](const View &, Draft &out) { out.differs(text); }};
}

void writeActivation(const View &view, Draft &out) {
  const ModelSizes &m = view.model;
  if (m.gated && m.activation == "silu")
    return out.file("model.activation", "fast-swiglu");
  bool gelu = m.activation == "gelu" || m.activation == "gelu-tanh";
  out.file("model.activation", m.gated ? gelu ? "geglu" : "fast-swiglu" : "gelu");
  out.file("model.bias_activation_fusion", !m.gated && m.activation == "gelu-tanh"); // the fused GELU uses tanh
  if (!gelu || m.gated)
    out.differs("there is no such activation: the nearest");
}

void writePosition(const View &view, Draft &out) {
  const std::string &kind = view.model.position;
  out.file("model.position_embedding_type", kind == "rotary"    ? "rope"
                                            : kind == "learned" ? "learned_absolute"
                                                                : "none");
  if (kind != "rotary" && kind != "learned")
    out.differs(fmt::format("Megatron Core has no {} positions here: none", kind));
}

void writeRotaryScaling(const View &view, Draft &out) {
  if (view.model.rotaryScaling == "linear")
    return out.file("model.seq_len_interpolation_factor", view.model.rotaryFactor);
  if (view.model.rotaryScaling == "yarn")
    return out.differs("rotary positions are not stretched");
  out.file("model.scale_positional_embedding", true);
  if (view.model.rotaryFactor != 8)
    out.differs("long waves are stretched by 8, LLaMA 3.1's factor");
}

void writeBiases(const View &view, Draft &out) {
  const ModelSizes &m = view.model;
  bool all = m.queryKeyValueBias && m.outputBias && m.mlpBias && !m.experts; // experts would get biases too
  out.file("model.bias", all);
  if (!all && m.queryKeyValueBias)
    out.file("model.add_qkv_bias", true);
  if (!all && (m.outputBias || m.mlpBias))
    out.differs("only all products, only queries, keys and values, or no product can have biases: the other biases are "
                "left out");
}

void writeDropout(const View &view, Draft &out) {
  if (view.model.dropout)
    return out.differs("the model's probabilities are not exported: NeMo's defaults");
  for (const char *path : {"model.hidden_dropout", "model.attention_dropout", "model.ffn_dropout"})
    out.file(path, 0.0);
}

void writeExperts(const View &view, Draft &out) {
  out.file("model.num_moe_experts", view.model.experts);
  out.file("model.moe_token_dispatcher_type", "alltoall");
  out.file("model.moe_grouped_gemm", view.in.job.dtype == "bf16");
}

void writeCapacity(const View &view, Draft &out) {
  if (!view.in.expertCapacity || std::isinf(*view.in.expertCapacity))
    return out.expressed("no token is dropped, the default");
  out.file("model.moe_expert_capacity_factor", *view.in.expertCapacity);
  out.file("model.moe_pad_expert_input_to_capacity", true);
}

void writeOrder(const View &view, Draft &out) {
  bool both = view.expert > 1 && view.context > 1 && view.experts();
  if (!both && view.axisOrderIs({"stage", "data", "expert", "context", "model"}))
    return out.expressed("tp-cp-ep-dp-pp (innermost first), the only order");
  runsOrder({"stage", "data", "expert", "context", "model"}, out);
  out.differs(
      fmt::format("ranks lie as tp-cp-ep-dp-pp (innermost first), not as {} (outermost first): groups use other "
                  "links than planned",
                  orderText(view)));
}

void writeSchedule(const View &view, Draft &out) {
  if (view.pipeline == 1)
    return out.idle("one stage");
  if (view.schedule == ScheduleKind::OneFOneB || view.schedule == ScheduleKind::Interleaved)
    return out.expressed("1F1B, interleaved with virtual stages");
  runsPlain1F1B(out);
  out.differs("1F1B runs instead");
}

void writeStages(const View &view, Draft &out) {
  if (view.pipeline == 1)
    return out.idle("one stage");
  if (view.evenCut)
    return out.expressed("the same number of layers in each part, the only way");
  out.runs.plan.stages.clear();
  out.differs("stages must have the same number of layers: NeMo divides them evenly, or refuses what does not divide");
}

void writeRecompute(const View &view, Draft &out) {
  noteMixedBlock(view, out);
  if (view.recompute == "none")
    return out.file("model.activations_checkpoint_granularity", nullptr);
  out.file("model.activations_checkpoint_granularity", view.recompute);
  if (view.recompute == "selective")
    return;
  out.file("model.activations_checkpoint_method", view.recomputeBlock ? "block" : "uniform");
  out.file("model.activations_checkpoint_num_layers", view.recomputeBlock.value_or(1));
}

void writeSharding(const View &view, Draft &out) {
  noteMixedSharding(view, out);
  out.file("model.gradient_accumulation_fusion", !fsdp(view)); // FSDP does not support the fusion
  if (view.sharding == 0)
    return out.expressed("model.optim.name is no distributed optimizer");
  if (fsdp(view)) {
    out.file("model.fsdp", true);
    return out.file("model.fsdp_sharding_strategy", view.sharding == 3 ? "full" : "grad");
  }
  out.expressed("model.optim.name = \"distributed_fused_adam\"");
  out.runs.plan.optimizerSharding = {1};
  if (view.sharding >= 2)
    out.differs("FSDP has no pipelines: the distributed optimizer shards only the states; gradients and parameters are "
                "replicated and take more memory");
}

void writeOverlap(const View &view, Draft &out) {
  bool gradients = view.overlaps("gradients"), parameters = view.overlaps("parameters");
  runsOverlap("gradients", fsdp(view) || (distributedAdam(view) && gradients), out);
  runsOverlap("parameters", fsdp(view) || (distributedAdam(view) && gradients && parameters), out);
  runsOverlap("tensor", true, out);
  runsOverlap("products", view.overlaps("products") && view.sequenceParallel, out);
  runsOverlap("stage", view.overlaps("stage") && view.chunks > 1, out);
  if (distributedAdam(view)) {
    out.file("model.optim.overlap_grad_sync", gradients);
    out.file("model.optim.overlap_param_sync", gradients && parameters);
    if (parameters && !gradients)
      out.differs("gathers of parameters overlap only together with gradients: they do not");
  } else if (fsdp(view)) {
    if (!gradients || !parameters)
      out.differs("FSDP always overlaps both its reductions and its gathers");
  } else if (gradients) {
    out.file("model.async_grad_allreduce", false);
    out.differs("without a distributed optimizer gradients are reduced after the backward, as products add them up");
  } else {
    out.file("model.async_grad_allreduce", false);
  }
  if (view.tensor > 1 && !view.overlaps("tensor"))
    out.differs("sums of input gradients always run beside the weights' gradients (the plan does not list \"tensor\")");
  if (view.tensor > 1 && view.overlaps("products")) {
    if (view.sequenceParallel)
      out.file("model.ub_tp_comm_overlap", true);
    else
      out.differs("products and their collectives take turns with sequence_parallel only (\"products\"): they do not");
  }
  if (view.pipeline > 1 && view.chunks > 1) {
    out.file("model.overlap_p2p_comm", view.overlaps("stage"));
    out.file("model.batch_p2p_comm", !view.overlaps("stage"));
  } else if (view.pipeline > 1 && view.overlaps("stage")) {
    out.differs("sends between stages overlap with compute only with virtual stages: here stages wait");
  }
  out.expressed("what is not listed is off");
}

void writeGradientDtype(const View &view, Draft &out) {
  const std::string &type = view.plan.gradientDtype;
  bool is16 = type == "bf16" || type == "f16";
  if (fsdp(view)) {
    out.file("model.fsdp_grad_reduce_dtype", type == "bf16" ? Json("bf16") : type == "f16" ? Json(16) : Json(32));
    return;
  }
  if (distributedAdam(view))
    return out.file("model.optim.grad_sync_dtype", type == "bf16" ? "bf16" : type == "f16" ? "fp16" : "fp32");
  if (!is16 || view.in.job.dtype == "f16")
    return out.expressed("float32, the default");
  out.differs("without a distributed optimizer gradients are reduced in float32");
}

void writeAttention(const View &view, Draft &out) {
  bool fused = view.plan.attention == AttentionKernels::Fused;
  out.file("model.use_flash_attention", fused);
  if (!fused) // Transformer Engine uses the first kernel that is allowed
    for (const char *variable : {"NVTE_FLASH_ATTN", "NVTE_FUSED_ATTN"})
      out.environment[variable] = "0";
}

void writeDtype(const View &view, Draft &out) {
  const std::string &dtype = view.in.job.dtype;
  bool b16 = dtype == "bf16" || dtype == "f8";
  out.file("trainer.precision", b16 ? Json("bf16") : Json(dtype == "f16" ? 16 : 32));
  out.file("model.megatron_amp_O2", b16); // parameters of 2 bytes with 4-byte copies in the optimizer
  if (dtype == "f8") {
    out.file("model.fp8", true);
    out.file("model.fp8_hybrid", true);
  }
  if (dtype == "f16")
    out.differs("parameters stay 4 bytes wide under automatic casting: O2 is for bf16");
  if (dtype == "f64")
    out.differs("there is no f64: f32");
}

void writeOptimizer(const View &view, Draft &out) {
  noteOptimizer(view, out);
  if (view.in.optimizer.kind != "sgd")
    return out.file("model.optim.name", distributedAdam(view) ? "distributed_fused_adam" : "fused_adam");
  out.file("model.optim.name", "sgd");
  if (view.sharding >= 1 && !fsdp(view))
    out.differs("the distributed optimizer is Adam: states of SGD are whole on every rank");
}

Table modelTable() {
  return {
      without("model.sizes",
              "model.num_layers, model.hidden_size, model.num_attention_heads, model.encoder_seq_length and "
              "the model's forms are left out, add them: sizes are not known of an export"),
      {"model.family", [](const View &, Draft &out) { out.idle("expressed by the model's sizes and forms"); }},
      {"model.task", noteTask},
      size("model.layers", "model.num_layers", &ModelSizes::layers),
      without("model.decoder_layers", "the program has no encoder beside a decoder: these layers are left out"),
      size("model.hidden_size", "model.hidden_size", &ModelSizes::hidden),
      size("model.heads", "model.num_attention_heads", &ModelSizes::heads),
      size("model.kv_heads", "model.num_query_groups", &ModelSizes::keyValueHeads),
      size("model.head_size", "model.kv_channels", &ModelSizes::headSize),
      size("model.ffn_size", "model.ffn_hidden_size", &ModelSizes::mlpWidth),
      {"model.vocabulary",
       [](const View &, Draft &out) {
         out.file("model.make_vocab_size_divisible_by", 1);
         out.expressed("the tokenizer's number of words, which must be the model's");
       }},
      {"model.positions",
       [](const View &v, Draft &out) {
         out.file("model.max_position_embeddings", std::max(v.model.positions, v.model.sequence));
       }},
      size("model.sequence", "model.encoder_seq_length", &ModelSizes::sequence),
      {"model.norm",
       [](const View &v, Draft &out) {
         out.file("model.normalization", v.model.norm == "layer" ? "layernorm" : "rmsnorm");
         if (v.model.norm == "rms-plus-one")
           out.differs("an RMS norm's scale is its weight, not 1 + weight");
       }},
      size("model.norm_epsilon", "model.layernorm_epsilon", &ModelSizes::epsilon),
      {"model.activation", writeActivation},
      {"model.position", writePosition},
      {"model.rotary_base",
       [](const View &v, Draft &out) { out.file("model.rotary_base", int64_t(v.model.rotaryBase)); }},
      size("model.rotary_fraction", "model.rotary_percentage", &ModelSizes::rotaryFraction),
      {"model.rotary_scaling", writeRotaryScaling},
      {"model.window",
       [](const View &v, Draft &out) { out.file("model.window_size", Json::array({v.model.window - 1, 0})); }},
      {"model.residual",
       [](const View &v, Draft &out) {
         if (v.model.residual == "pre")
           return out.file("model.transformer_block_type", "pre_ln");
         out.differs("norms stand before attention and MLP, one after the other");
       }},
      {"model.biases", writeBiases},
      {"model.query_key_norm",
       [](const View &v, Draft &out) {
         out.file("model.qk_layernorm", true);
         if (v.model.queryKeyNorm == "all-heads")
           out.differs("queries and keys are normalized head by head, not over all heads together");
       }},
      size("model.tied_embeddings", "model.share_embeddings_and_output_weights", &ModelSizes::tiedEmbeddings),
      without("model.embedding_norm", "there is no norm after the embedding"),
      {"model.scaled_embedding", [](const View &, Draft &out) { out.file("model.apply_embedding_scaling", true); }},
      {"model.experts", writeExperts},
      size("model.experts_per_token", "model.moe_router_topk", &ModelSizes::expertsPerToken),
      size("model.expert_ffn_size", "model.ffn_hidden_size", &ModelSizes::expertWidth),
      {"model.expert_weights_add_to_one",
       [](const View &v, Draft &out) {
         if (v.model.normalizedExpertWeights)
           return out.expressed("softmax over the chosen experts");
         out.differs("softmax over the chosen experts: weights of a token's choices add to one");
       }},
      without("model.latent_attention", "there is no latent attention: keys and values of all heads are stored whole"),
      without("model.shared_expert_ffn_size", "no expert is shared by all tokens: it is left out"),
      without("model.dense_layers", "every layer has experts"),
      without("model.router", "experts are chosen and weighted by a softmax"),
      without("model.expert_groups", "experts are chosen among all"),
      without("model.expert_weights_scale", "weights of a token's choices are not scaled"),
      {"model.expert_capacity", writeCapacity},
      {"model.dropout", writeDropout},
  };
}

Table executionTable() {
  return {
      {"mesh.stage", [](const View &v, Draft &out) { out.file("model.pipeline_model_parallel_size", v.pipeline); }},
      {"mesh.data",
       [](const View &v, Draft &out) {
         out.file("trainer.num_nodes", (v.ranks + v.devicesPerNode - 1) / v.devicesPerNode);
         out.file("trainer.devices", v.devicesPerNode);
         out.file("trainer.accelerator", "gpu");
         out.file("model.mcore_gpt", true);
         out.file("model.transformer_engine", true);
       }},
      {"mesh.context", [](const View &v, Draft &out) { out.file("model.context_parallel_size", v.context); }},
      {"mesh.expert",
       [](const View &v, Draft &out) {
         if (v.expert > 1 && !v.experts())
           return out.expressed("the model has no experts: more data parallelism, from the number of ranks");
         out.file("model.expert_model_parallel_size", v.expert);
       }},
      {"mesh.model",
       [](const View &v, Draft &out) {
         out.file("model.tensor_model_parallel_size", v.tensor);
         if (v.tensor > 1 && !fsdp(v))
           out.environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "1";
       }},
      {"order", writeOrder},
      {"global_batch", [](const View &v, Draft &out) { out.file("model.global_batch_size", v.plan.globalBatch); }},
      {"microbatch", [](const View &v, Draft &out) { out.file("model.micro_batch_size", v.plan.microbatch); }},
      {"schedule.name", writeSchedule},
      {"schedule.chunks",
       [](const View &v, Draft &out) {
         out.file("model.virtual_pipeline_model_parallel_size", v.chunks > 1 ? Json(v.chunks) : Json());
       }},
      {"schedule.variant", noteNoZeroBubble},
      {"schedule.in_flight", noteInFlight},
      {"stages", writeStages},
      {"recompute", writeRecompute},
      {"optimizer_sharding", writeSharding},
      {"optimizer_sharding_ranks", noteShardingOverAllRanks},
      {"sequence_parallel",
       [](const View &v, Draft &out) { out.file("model.sequence_parallel", v.sequenceParallel && v.tensor > 1); }},
      {"overlap", writeOverlap},
      {"gradient_dtype", writeGradientDtype},
      {"layout", writeLayout},
      {"attention", writeAttention},
      {"context_style",
       [](const View &v, Draft &out) {
         if (v.context == 1)
           return out.idle("mesh.context is 1");
         if (v.plan.contextStyle == ContextStyle::Ring)
           return out.expressed("ring attention of Transformer Engine");
         out.runs.plan.contextStyle = ContextStyle::Ring;
         out.differs("ring attention runs instead: keys and values pass round");
       }},
      {"dtype", writeDtype},
      {"optimizer.kind", writeOptimizer},
      {"optimizer.beta1",
       [](const View &v, Draft &out) {
         out.file("model.optim.betas", Json::array({v.in.optimizer["beta1"], v.in.optimizer["beta2"]}));
       }},
      {"optimizer.beta2", [](const View &, Draft &out) { out.expressed("the second of model.optim.betas"); }},
      {"optimizer.eps", [](const View &v, Draft &out) { out.file("model.optim.eps", v.in.optimizer["eps"]); }},
      {"optimizer.momentum",
       [](const View &v, Draft &out) { out.file("model.optim.momentum", v.in.optimizer["momentum"]); }},
      {"optimizer.weight_decay",
       [](const View &v, Draft &out) {
         out.file("model.optim.weight_decay", v.in.optimizer["weight-decay"]);
         if (v.in.optimizer["weight-decay"] > 0)
           out.differs("biases and norms have no decay, whatever the plan's optimizer does");
       }},
      without("optimizer.no_decay", "which parameters have no decay is NeMo's choice: biases and norms"),
      {"optimizer.clip_norm",
       [](const View &v, Draft &out) { out.file("trainer.gradient_clip_val", v.in.optimizer.clipNorm); }},
  };
}

} // namespace

const Table &nemoTable() {
  static const Table table = joinTables({executionTable(), modelTable()});
  return table;
}

} // namespace kerf::exporting
