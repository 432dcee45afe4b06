// SPDX-License-Identifier: Apache-2.0
// Export to TorchTitan: the TOML file of a job. The file does not describe models, which are registered in Python under
// the name of a flavor.
#include "TorchTitanModel.h"

namespace kerf::exporting {

namespace {

void writeFamily(const View &view, Draft &out) {
  if (const TitanFlavor *flavor = titanFlavorOf(view.model)) {
    out.file("model.name", flavor->module);
    return out.file("model.flavor", flavor->name);
  }
  out.differs("TorchTitan 0.2 takes models by the names of its flavors, none of which has exactly these sizes and "
              "forms; export --to torchtitan-0.3, whose file describes the model itself");
}

/// Returns a row for a size that is a part of the model that the file names.
Row ofFlavor(const char *key) {
  return {key, [](const View &, Draft &out) { out.expressed("a part of the model: model.family"); }};
}

/// Returns true if parameters are replicated (DDP). TorchTitan combines DDP with no other parallelism: with tensor,
/// context, expert or pipeline parallelism it shards parameters (FSDP).
bool replicates(const View &view) {
  return view.sharding == 0 && view.tensor == 1 && view.context == 1 && view.pipeline == 1 &&
         (view.expert == 1 || !view.experts());
}

/// Returns the number of data-parallel ranks over which FSDP shards states, in addition to all ranks of context.
/// Returns nothing if the plan's groups of ranks are not of this form.
std::optional<int64_t> shardDegree(const View &view) {
  int64_t ranks = view.plan.optimizerShardingRanks;
  if (replicates(view))
    return 1;
  if (view.sharding == 0 || ranks == 0)
    return view.dataParallelRanks();
  return ranks % view.context == 0 ? std::optional(ranks / view.context) : std::nullopt;
}

void writeData(const View &view, Draft &out) {
  int64_t shards = shardDegree(view).value_or(view.dataParallelRanks());
  out.file("parallelism.data_parallel_replicate_degree", view.dataParallelRanks() / shards);
  out.file("parallelism.data_parallel_shard_degree", shards);
}

void writeExpert(const View &view, Draft &out) {
  if (view.expert == 1)
    return out.idle("1");
  if (!view.experts())
    return out.expressed("the model has no experts: part of data_parallel_shard_degree");
  if (view.expert % view.context != 0) {
    out.runs.plan.meshSizes["data"] *= view.expert;
    out.runs.plan.meshSizes["expert"] = 1;
    return out.differs(fmt::format("expert parallelism spans the {} ranks of context and must be a multiple of them: "
                                   "off, every rank has all experts",
                                   view.context));
  }
  out.file("parallelism.expert_parallel_degree", view.expert);
  if (view.tensor > 1)
    out.file("parallelism.expert_tensor_parallel_degree", view.tensor);
  if (view.context > 1)
    out.differs("groups of experts span the ranks of context: they use other links than planned");
}

void writeOrder(const View &view, Draft &out) {
  if (view.axisOrderIs({"stage", "data", "expert", "context", "model"}))
    return out.expressed("pp, dp, cp, tp (outermost first), the only order");
  runsOrder({"stage", "data", "expert", "context", "model"}, out);
  out.differs(
      fmt::format("ranks lie as pp, dp, cp, tp (outermost first), not as {}: groups use other links than planned",
                  orderText(view)));
}

void writeMicrobatch(const View &view, Draft &out) {
  if (view.pipeline == 1)
    return out.file("training.local_batch_size", view.plan.microbatch);
  out.file("training.local_batch_size", view.plan.globalBatch / view.dataParallelRanks());
  out.file("parallelism.pipeline_parallel_microbatch_size", view.plan.microbatch);
}

void writeSchedule(const View &view, Draft &out) {
  if (view.pipeline == 1)
    return out.idle("one stage");
  out.file("parallelism.pipeline_parallel_schedule", titanSchedule(view));
  if (!recordOf(view.schedule).splitsBackward)
    return;
  runsPlain1F1B(out);
  out.differs("1F1B runs instead: PyTorch's zero-bubble schedules want two chunks or more a stage; export --to "
              "torchtitan-0.3, which reads any order from a file");
}

void writeStages(const View &view, Draft &out) {
  if (view.pipeline == 1)
    return out.idle("one stage");
  if (view.cut.empty())
    return out.differs("modules of the stages can't be listed without knowing the layers: TorchTitan divides them, one "
                       "layer less in the first and in the last stage");
  Json parts = Json::array();
  for (size_t p = 0; p < view.cut.size(); ++p) {
    Json modules = Json::array();
    if (p == 0)
      modules.push_back("tok_embeddings");
    for (int64_t layer = view.cut[p].first; layer < view.cut[p].second; ++layer)
      modules.push_back(fmt::format("layers.{}", layer));
    if (p + 1 == view.cut.size())
      for (const char *module : {"norm", "output"})
        modules.push_back(module);
    parts.push_back(modules);
  }
  out.file("parallelism.module_fqns_per_model_part", parts);
}

void writeRecompute(const View &view, Draft &out) {
  noteMixedRecompute(view, out);
  out.file("activation_checkpoint.mode", view.recompute);
  if (view.recompute != "selective")
    return;
  out.file("activation_checkpoint.selective_ac_option", "op");
  out.differs("attention's core is what is kept: results of attention and of every second product stay, all else is "
              "recomputed");
}

void writeSharding(const View &view, Draft &out) {
  noteMixedSharding(view, out);
  if (replicates(view))
    return out.expressed("data_parallel_replicate_degree: every rank has all states");
  out.file("parallelism.fsdp_reshard_after_forward", view.sharding == 3 ? "always" : "never");
  if (view.sharding < 3)
    out.runs.plan.optimizerSharding = {2}; // FSDP that keeps gathered parameters has the memory of ZeRO 2
  if (view.sharding == 0)
    out.differs("DDP stands alone: beside other axes FSDP shards parameters, gradients and states, and gathers the "
                "parameters once a forward");
  if (view.sharding == 1 || view.sharding == 2)
    out.differs("FSDP shards the parameters too and gathers them once a forward: less memory, a gather more");
}

void writeShardingRanks(const View &view, Draft &out) {
  if (!shardDegree(view))
    return noteShardingOverAllRanks(view, out);
  if (int64_t instances = shardInstances(view, out); instances > 1)
    out.expressed(fmt::format("data_parallel_shard_degree, beside data_parallel_replicate_degree {}", instances));
}

void writeSequenceParallel(const View &view, Draft &out) {
  if (view.tensor == 1)
    return out.idle("mesh.model is 1");
  if (view.sequenceParallel)
    return out.expressed("a part of tensor parallelism, always");
  out.runs.plan.sequenceParallel = {true};
  out.differs("tensor parallelism always comes with sequence parallelism");
}

/// Returns whether sends between stages overlap under the named schedules: Schedule1F1B of torch.distributed.pipelining
/// waits for each batch of sends and receives, the others do not.
bool sendsOverlap(const View &view) {
  return view.schedule == ScheduleKind::GPipe || view.schedule == ScheduleKind::Interleaved;
}

void writeDtype(const View &view, Draft &out) {
  const std::string &dtype = view.in.job.dtype;
  bool whole = dtype == "f32" || dtype == "f64";
  out.file("training.mixed_precision_param", whole ? "float32" : "bfloat16");
  if (dtype == "f8")
    out.file("model.converters", Json::array({"quantize.linear.float8"}));
  if (dtype == "f16" || dtype == "f64")
    out.differs(fmt::format("there is no {}: {}", dtype, whole ? "float32" : "bfloat16"));
}

void writeClipNorm(const View &view, Draft &out) {
  double norm = view.in.optimizer.clipNorm;
  out.file("training.max_norm", norm > 0 ? norm : 1e30); // gradients are always clipped: at a norm that none has
}

} // namespace

const char *titanSchedule(const View &view) {
  return view.schedule == ScheduleKind::GPipe         ? "GPipe"
         : view.schedule == ScheduleKind::Interleaved ? "Interleaved1F1B"
                                                      : "1F1B";
}

void writeTitanOverlap(const View &view, Draft &out, bool sends) {
  bool fsdp = !replicates(view);
  runsOverlap("gradients", true, out);
  if (fsdp)
    runsOverlap("parameters", true, out);
  if (!view.overlaps("gradients"))
    out.differs("reductions of gradients always run beside the backward (the plan does not list \"gradients\")");
  if (fsdp && !view.overlaps("parameters"))
    out.differs("FSDP always gathers one layer ahead (the plan does not list \"parameters\")");
  bool tensor = view.overlaps("tensor"), products = view.overlaps("products");
  if (view.tensor > 1 && products) {
    out.file("parallelism.enable_async_tensor_parallel", true);
    out.file("compile.enable", true); // asynchronous tensor parallelism works on compiled models
  } else if (view.tensor > 1 && tensor) {
    runsOverlap("tensor", false, out);
    out.differs("sums of input gradients are waited for; asynchronous tensor parallelism (\"products\") overlaps the "
                "forward's collectives too");
  }
  if (view.pipeline > 1)
    runsOverlap("stage", sends, out);
  if (view.pipeline > 1 && view.overlaps("stage") != sends)
    out.differs(sends ? "sends between stages always overlap under this schedule (the plan does not list \"stage\")"
                      : "PyTorch's 1F1B waits for its sends between stages");
  out.expressed("the rest is FSDP's behaviour");
}

const Table &torchTitanTable() {
  static const Table table = {
      {"model.sizes",
       [](const View &, Draft &out) {
         out.differs("sizes are not known of an exported graph, and without a model's name TorchTitan trains "
                     "llama3/debugmodel; give the model's config.json");
       }},
      {"model.family", writeFamily},
      {"model.task", noteTask},
      ofFlavor("model.layers"),
      ofFlavor("model.decoder_layers"),
      ofFlavor("model.hidden_size"),
      ofFlavor("model.heads"),
      ofFlavor("model.kv_heads"),
      ofFlavor("model.head_size"),
      ofFlavor("model.ffn_size"),
      ofFlavor("model.vocabulary"),
      ofFlavor("model.positions"),
      {"model.sequence", [](const View &v, Draft &out) { out.file("training.seq_len", v.model.sequence); }},
      ofFlavor("model.norm"),
      ofFlavor("model.norm_epsilon"),
      ofFlavor("model.activation"),
      ofFlavor("model.position"),
      ofFlavor("model.rotary_base"),
      ofFlavor("model.rotary_fraction"),
      ofFlavor("model.rotary_scaling"),
      ofFlavor("model.window"),
      ofFlavor("model.residual"),
      ofFlavor("model.biases"),
      ofFlavor("model.query_key_norm"),
      ofFlavor("model.tied_embeddings"),
      ofFlavor("model.embedding_norm"),
      ofFlavor("model.scaled_embedding"),
      ofFlavor("model.experts"),
      ofFlavor("model.experts_per_token"),
      ofFlavor("model.expert_ffn_size"),
      ofFlavor("model.expert_weights_add_to_one"),
      ofFlavor("model.shared_expert_ffn_size"),
      ofFlavor("model.dense_layers"),
      ofFlavor("model.router"),
      ofFlavor("model.expert_groups"),
      ofFlavor("model.expert_weights_scale"),
      ofFlavor("model.latent_attention"),
      {"model.expert_capacity",
       [](const View &v, Draft &out) {
         if (!v.in.expertCapacity || *v.in.expertCapacity > 1e300)
           return out.expressed("no token is dropped, the only way");
         out.differs("experts take all their tokens: none is dropped, and memory follows the routing");
       }},
      {"model.dropout",
       [](const View &v, Draft &out) {
         v.model.dropout ? out.differs("there is no dropout") : out.expressed("there is none");
       }},
      {"mesh.stage", [](const View &v, Draft &out) { out.file("parallelism.pipeline_parallel_degree", v.pipeline); }},
      {"mesh.data", writeData},
      {"mesh.context", [](const View &v, Draft &out) { out.file("parallelism.context_parallel_degree", v.context); }},
      {"mesh.expert", writeExpert},
      {"mesh.model", [](const View &v, Draft &out) { out.file("parallelism.tensor_parallel_degree", v.tensor); }},
      {"order", writeOrder},
      {"global_batch", [](const View &v, Draft &out) { out.file("training.global_batch_size", v.plan.globalBatch); }},
      {"microbatch", writeMicrobatch},
      {"schedule.name", writeSchedule},
      {"schedule.chunks",
       [](const View &v, Draft &out) {
         if (v.chunks == 1)
           return out.idle("one chunk a stage");
         if (!v.cut.empty())
           return out.expressed("parallelism.module_fqns_per_model_part has a part for each chunk");
         out.differs("two chunks a stage, the default: parts can't be listed without knowing the layers");
       }},
      {"schedule.variant",
       [](const View &v, Draft &out) {
         v.pipeline == 1 ? out.idle("one stage") : out.differs("there is no such zero-bubble schedule: 1F1B");
       }},
      {"schedule.in_flight", noteInFlight},
      {"stages", writeStages},
      {"recompute", writeRecompute},
      {"optimizer_sharding", writeSharding},
      {"optimizer_sharding_ranks", writeShardingRanks},
      {"sequence_parallel", writeSequenceParallel},
      {"overlap", [](const View &v, Draft &out) { writeTitanOverlap(v, out, sendsOverlap(v)); }},
      {"gradient_dtype",
       [](const View &v, Draft &out) {
         out.file("training.mixed_precision_reduce", "float32");
         out.runs.plan.gradientDtype = "f32";
         if (v.plan.gradientDtype != "f32")
           out.differs("gradients are reduced in float32, the only type");
       }},
      {"layout", writeLayout},
      {"attention",
       [](const View &v, Draft &out) {
         if (v.plan.attention == AttentionKernels::Fused)
           return out.expressed("scaled_dot_product_attention, the only one");
         out.runs.plan.attention = AttentionKernels::Fused;
         out.differs("attention is fused (scaled_dot_product_attention): less memory than planned");
       }},
      {"context_style",
       [](const View &v, Draft &out) {
         if (v.context == 1)
           return out.idle("mesh.context is 1");
         out.file("parallelism.context_parallel_rotate_method", "alltoall");
         out.runs.plan.contextStyle = ContextStyle::Ring;
         if (v.plan.contextStyle == ContextStyle::Ulysses)
           out.differs("ring attention runs instead: keys and values pass round");
       }},
      {"dtype", writeDtype},
      {"optimizer.kind",
       [](const View &v, Draft &out) {
         out.file("optimizer.name", "AdamW");
         noteOptimizer(v, out);
         out.runs.optimizer = "adamw";
         if (v.in.optimizer.kind == "sgd")
           out.differs("there is no SGD: AdamW, whose states take memory that the plan does not count");
       }},
      {"optimizer.beta1", [](const View &v, Draft &out) { out.file("optimizer.beta1", v.in.optimizer["beta1"]); }},
      {"optimizer.beta2", [](const View &v, Draft &out) { out.file("optimizer.beta2", v.in.optimizer["beta2"]); }},
      {"optimizer.eps", [](const View &v, Draft &out) { out.file("optimizer.eps", v.in.optimizer["eps"]); }},
      {"optimizer.momentum", [](const View &, Draft &out) { out.differs("there is no SGD: AdamW's own decays"); }},
      {"optimizer.weight_decay",
       [](const View &v, Draft &out) { out.file("optimizer.weight_decay", v.in.optimizer["weight-decay"]); }},
      {"optimizer.no_decay", [](const View &, Draft &out) { out.differs("all parameters have weight decay"); }},
      {"optimizer.clip_norm", writeClipNorm},
  };
  return table;
}

} // namespace kerf::exporting
