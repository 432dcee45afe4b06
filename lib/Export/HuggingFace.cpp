// SPDX-License-Identifier: Apache-2.0
// Export to Hugging Face's libraries: the YAML file of `accelerate launch`, and the JSON of Transformers'
// DistributedConfig. Both leave the model to its own config.json. The launch line has the settings of Trainer, as
// arguments of TrainingArguments.
#include "View.h"

namespace kerf::exporting {

namespace {

/// Returns the number of ranks that get different samples. Neither library trains with pipelines or has an axis of
/// experts, and Transformers has no context parallelism: the ranks of these axes become data-parallel ranks.
int64_t dataRanks(const View &view, bool hasContext) {
  return view.ranks / view.tensor / (hasContext ? view.context : 1);
}

/// Returns true if the batch of a step is a whole number of microbatches on every data-parallel rank.
bool batchDivides(const View &view, bool hasContext) {
  return view.plan.globalBatch % (dataRanks(view, hasContext) * view.plan.microbatch) == 0;
}

/// Number of copies of the states, and number of ranks over which each copy is sharded.
struct Shards {
  int64_t copies, shards;
};

/// FSDP 2 shards over data and context together; the numbers returned count data-parallel ranks only. Accelerate
/// combines copies that are not sharded with no other axis.
Shards shardsOf(const View &view, bool hasContext) {
  int64_t all = dataRanks(view, hasContext);
  bool alone = !hasContext || (view.tensor == 1 && view.context == 1);
  if (view.sharding == 0)
    return alone ? Shards{all, 1} : Shards{1, all};
  int64_t ranks = view.plan.optimizerShardingRanks;
  ranks = ranks % view.context == 0 && hasContext ? ranks / view.context : ranks;
  return ranks > 0 && all % ranks == 0 ? Shards{all / ranks, ranks} : Shards{1, all};
}

void noteAxis(int64_t size, const char *what, Draft &out) {
  if (size == 1)
    return out.idle("1");
  out.differs(fmt::format("there is no {}: these {} ranks are data-parallel ranks", what, size));
}

/// Returns the rows that both targets share. `hasContext` is true for Accelerate.
Table sharedTable(bool hasContext) {
  Table table = {
      {"model.sizes", [](const View &, Draft &out) { out.idle("a part of the model's own config.json"); }},
      {"model.task", [](const View &, Draft &out) { out.idle("the program that is started has its own task"); }},
      {"mesh.stage", [](const View &v, Draft &out) { noteAxis(v.pipeline, "pipeline parallelism in training", out); }},
      {"mesh.expert",
       [](const View &v, Draft &out) {
         if (v.expert > 1 && !v.experts())
           return out.expressed("the model has no experts: these are data-parallel ranks");
         noteAxis(v.expert, "axis of experts beside data", out);
       }},
      {"global_batch",
       [hasContext](const View &v, Draft &out) {
         int64_t samples = dataRanks(v, hasContext) * v.plan.microbatch;
         if (!batchDivides(v, hasContext))
           out.differs(fmt::format("{} samples are no multiple of {} ranks times {}: the batch is rounded down",
                                   v.plan.globalBatch, dataRanks(v, hasContext), v.plan.microbatch));
         out.argument("--gradient_accumulation_steps", std::max<int64_t>(1, v.plan.globalBatch / samples));
       }},
      {"microbatch",
       [](const View &v, Draft &out) { out.argument("--per_device_train_batch_size", v.plan.microbatch); }},
      {"schedule.name",
       [](const View &v, Draft &out) {
         v.pipeline == 1 ? out.idle("one stage") : out.differs("there are no pipelines in training");
       }},
      {"schedule.chunks", [](const View &, Draft &out) { out.idle("there are no pipelines: schedule.name"); }},
      {"schedule.variant", [](const View &, Draft &out) { out.idle("there are no pipelines: schedule.name"); }},
      {"schedule.in_flight", noteInFlight},
      {"stages", [](const View &, Draft &out) { out.idle("there are no pipelines: schedule.name"); }},
      {"recompute",
       [](const View &v, Draft &out) {
         noteMixedRecompute(v, out);
         if (v.recompute == "none")
           return out.expressed("no recomputation, the default");
         out.argument("--gradient_checkpointing", "True");
         if (v.recompute == "selective")
           out.differs("whole layers are recomputed, not the core of attention alone: less memory, more compute");
       }},
      {"sequence_parallel",
       [](const View &v, Draft &out) {
         if (v.tensor == 1)
           return out.idle("mesh.model is 1");
         v.sequenceParallel ? out.differs("activations between the blocks are whole on every rank: more memory")
                            : out.expressed("activations between the blocks are whole");
       }},
      {"layout", writeLayout},
      {"overlap",
       [](const View &v, Draft &out) {
         for (const char *what : {"gradients", "parameters"})
           if (!v.overlaps(what))
             out.differs(fmt::format("FSDP and DDP always overlap (the plan does not list \"{}\")", what));
         for (const char *what : {"tensor", "products"})
           if (v.tensor > 1 && v.overlaps(what))
             out.differs(fmt::format("collectives of tensor parallelism are waited for (the plan lists \"{}\")", what));
         out.expressed("the rest is the behaviour of FSDP and DDP");
       }},
      {"gradient_dtype",
       [](const View &v, Draft &out) {
         v.plan.gradientDtype == "f32" ? out.expressed("gradients are reduced in float32")
                                       : out.differs("gradients are reduced in float32");
       }},
      {"attention",
       [](const View &v, Draft &out) {
         if (v.plan.attention == AttentionKernels::Fused)
           return out.expressed("scaled_dot_product_attention, the default");
         out.differs("attention is fused, the default; load the model with attn_implementation=\"eager\"");
       }},
      {"optimizer.kind",
       [](const View &v, Draft &out) {
         noteOptimizer(v, out);
         out.argument("--optim", v.in.optimizer.kind == "sgd" ? "sgd" : "adamw_torch");
       }},
      {"optimizer.beta1", [](const View &v, Draft &out) { out.argument("--adam_beta1", v.in.optimizer["beta1"]); }},
      {"optimizer.beta2", [](const View &v, Draft &out) { out.argument("--adam_beta2", v.in.optimizer["beta2"]); }},
      {"optimizer.eps", [](const View &v, Draft &out) { out.argument("--adam_epsilon", v.in.optimizer["eps"]); }},
      {"optimizer.momentum",
       [](const View &v, Draft &out) {
         double momentum = v.in.optimizer["momentum"];
         momentum == 0 ? out.expressed("0, the default")
                       : out.argument("--optim_args", fmt::format("momentum={}", momentum));
       }},
      {"optimizer.weight_decay",
       [](const View &v, Draft &out) {
         out.argument("--weight_decay", v.in.optimizer["weight-decay"]);
         if (v.in.optimizer["weight-decay"] > 0 && v.in.optimizer.noDecay.empty())
           out.differs("Trainer decays neither biases nor norms");
       }},
      {"optimizer.no_decay",
       [](const View &, Draft &out) { out.differs("Trainer itself leaves out biases and norms, whatever the globs"); }},
      {"optimizer.clip_norm",
       [](const View &v, Draft &out) { out.argument("--max_grad_norm", v.in.optimizer.clipNorm); }},
  };
  return joinTables({table, modelTableOfTrainer("a part of the model's own config.json")});
}

/// Notes that FSDP shards more than planned, if it does.
void noteFsdp(const View &view, const Shards &shards, Draft &out) {
  noteMixedSharding(view, out);
  if (view.sharding == 0 && shards.shards > 1)
    out.differs(fmt::format("copies are not combined with other axes: states, gradients and parameters are sharded "
                            "over {} ranks",
                            shards.shards));
  if (view.sharding == 1 || view.sharding == 2)
    out.differs("FSDP 2 shards the parameters too and gathers them once a forward: less memory, a gather more");
}

void writeShardingRanks(const View &view, bool hasContext, Draft &out) {
  if (view.sharding == 0)
    return out.idle("optimizer_sharding is 0");
  int64_t planned = view.plan.optimizerShardingRanks;
  int64_t written = shardsOf(view, hasContext).shards * (hasContext ? view.context : 1);
  if (planned == 0 || planned == written)
    return out.expressed("the sizes of mesh.data");
  out.differs(fmt::format("states are sharded over {} ranks, not {}", written, planned));
}

void writeOrder(const View &view, std::initializer_list<const char *> order, const char *text, Draft &out) {
  if (view.axisOrderIs(order))
    return out.expressed(text);
  out.differs(
      fmt::format("ranks are numbered as {}, not as {}: groups use other links than planned", text, orderText(view)));
}

void writeAccelerateData(const View &view, Draft &out) {
  Shards shards = shardsOf(view, /*hasContext=*/true);
  out.file("num_processes", view.ranks);
  out.file("num_machines", (view.ranks + view.devicesPerNode - 1) / view.devicesPerNode);
  bool fsdp = shards.shards > 1 || view.tensor > 1 || view.context > 1;
  out.file("distributed_type", fsdp ? "FSDP" : view.ranks > 1 ? "MULTI_GPU" : "NO");
  if (!fsdp)
    return;
  out.file("fsdp_config.fsdp_version", 2);
  out.file("fsdp_config.fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
  out.file("fsdp_config.fsdp_reshard_after_forward", view.sharding == 3);
  out.file("parallelism_config.parallelism_config_dp_replicate_size", shards.copies);
  out.file("parallelism_config.parallelism_config_dp_shard_size", shards.shards);
  if (shards.shards == 1 && view.context == 1)
    out.differs("Accelerate refuses FSDP without ranks to shard over: start the program without the file's "
                "distributed_type, and cut the model by Transformers (--to transformers)");
}

void writeAccelerateContext(const View &view, Draft &out) {
  if (view.context == 1)
    return out.idle("1");
  bool ulysses = view.plan.contextStyle == ContextStyle::Ulysses;
  out.file(ulysses ? "parallelism_config.parallelism_config_sp_size" : "parallelism_config.parallelism_config_cp_size",
           view.context);
  if (ulysses)
    out.differs("Ulysses runs in DeepSpeed only: add a deepspeed_config in place of fsdp_config");
}

void writeReshard(const View &view, Draft &out) {
  out.file("fsdp_plan", nullptr); // the model's own rules, which gather again in the backward
  if (view.sharding != 3)
    out.differs("Transformers' own rules free parameters after the forward and gather them again: kerf.hf in Python "
                "writes rules that keep them");
}

} // namespace

const Table &accelerateTable() {
  static const Table table = [] {
    Table rows = sharedTable(/*hasContext=*/true);
    Table own = {
        {"model.sequence", [](const View &, Draft &out) { out.idle("the program cuts its samples itself"); }},
        {"model.expert_capacity", [](const View &, Draft &out) { out.idle("the model's own routing"); }},
        {"mesh.data", writeAccelerateData},
        {"mesh.context", writeAccelerateContext},
        {"mesh.model",
         [](const View &v, Draft &out) {
           if (v.tensor == 1)
             return out.idle("1");
           out.file("parallelism_config.parallelism_config_tp_size", v.tensor);
         }},
        {"order",
         [](const View &v, Draft &out) {
           writeOrder(v, {"data", "context", "model"}, "dp_replicate, dp_shard, cp, sp, tp (outermost first)", out);
         }},
        {"optimizer_sharding",
         [](const View &v, Draft &out) {
           noteFsdp(v, shardsOf(v, true), out);
           out.expressed("fsdp_config, or none where nothing is sharded");
         }},
        {"optimizer_sharding_ranks", [](const View &v, Draft &out) { writeShardingRanks(v, true, out); }},
        {"context_style",
         [](const View &v, Draft &out) {
           if (v.context == 1)
             return out.idle("mesh.context is 1");
           if (v.plan.contextStyle == ContextStyle::Ulysses)
             return out.expressed("parallelism_config_sp_size");
           out.file("parallelism_config.parallelism_config_cp_comm_strategy", "alltoall");
         }},
        {"dtype",
         [](const View &v, Draft &out) {
           const std::string &dtype = v.in.job.dtype;
           const char *theirs = dtype == "bf16" ? "bf16" : dtype == "f16" ? "fp16" : dtype == "f8" ? "fp8" : "no";
           out.file("mixed_precision", theirs);
           if (dtype == "f64")
             out.differs("there is no f64 here: load the model in it");
         }},
    };
    rows.insert(rows.end(), own.begin(), own.end());
    return rows;
  }();
  return table;
}

const Table &transformersTable() {
  static const Table table = [] {
    Table rows = sharedTable(/*hasContext=*/false);
    Table own = {
        {"model.sequence", [](const View &, Draft &out) { out.idle("the program cuts its samples itself"); }},
        {"model.expert_capacity", [](const View &, Draft &out) { out.idle("the model's own routing"); }},
        {"mesh.data",
         [](const View &v, Draft &out) {
           Shards shards = shardsOf(v, /*hasContext=*/false);
           out.file("dp_replicate_size", shards.copies);
           out.file("fsdp_size", shards.shards);
         }},
        {"mesh.context", [](const View &v, Draft &out) { noteAxis(v.context, "context parallelism", out); }},
        {"mesh.model",
         [](const View &v, Draft &out) {
           out.file("tp_size", v.tensor);
           if (v.tensor > 1) // the model's own rules, which are Megatron-LM's layout
             out.file("tp_plan", "auto");
         }},
        {"order",
         [](const View &v, Draft &out) {
           writeOrder(v, {"data", "model"}, "dp_replicate, fsdp, tp (outermost first)", out);
         }},
        {"optimizer_sharding",
         [](const View &v, Draft &out) {
           noteFsdp(v, shardsOf(v, false), out);
           if (v.sharding == 0)
             return out.expressed("dp_replicate_size: every data-parallel rank has all states");
           writeReshard(v, out);
         }},
        {"optimizer_sharding_ranks", [](const View &v, Draft &out) { writeShardingRanks(v, false, out); }},
        {"context_style",
         [](const View &v, Draft &out) {
           v.context == 1 ? out.idle("mesh.context is 1") : out.differs("there is no context parallelism");
         }},
        {"dtype",
         [](const View &v, Draft &out) {
           const std::string &dtype = v.in.job.dtype;
           out.file("fsdp_mixed_precision", dtype == "bf16");
           if (dtype == "f16" || dtype == "f64" || dtype == "f8")
             out.differs(
                 fmt::format("FSDP has bfloat16 only, not {}: load the model in the type that it can have", dtype));
         }},
    };
    rows.insert(rows.end(), own.begin(), own.end());
    return rows;
  }();
  return table;
}

} // namespace kerf::exporting
