// SPDX-License-Identifier: Apache-2.0
// Export to DeepSpeed: its JSON configuration, and the arguments of Megatron-DeepSpeed, which implements the model,
// tensor parallelism and pipelines.
#include "Megatron.h"

namespace kerf::exporting {

namespace {

/// Returns the ZeRO stage: the plan's optimizer sharding, but at most 1 in pipelines, which support no more.
int64_t zeroStage(const View &view) { return view.pipeline > 1 ? std::min<int64_t>(view.sharding, 1) : view.sharding; }

void writeStageAxis(const View &view, Draft &out) {
  out.argument("--pipeline-model-parallel-size", view.pipeline);
  if (view.pipeline == 1)
    return out.argument("--no-pipeline-parallel");
  if (view.tensor > 1) // each of the ranks that hold the same activations sends a part
    for (const char *what : {"pipeline.pipe_partitioned", "pipeline.grad_partitioned"})
      out.file(what, true);
}

void writeContext(const View &view, Draft &out) {
  if (view.context == 1)
    return out.idle("1");
  out.argument("--ds-sequence-parallel-size", view.context);
  if (view.pipeline > 1)
    out.differs(
        "the mesh of DeepSpeed's pipelines has the axes pipe, data and model alone: this plan does not run there");
  if (view.sequenceParallel && view.tensor > 1)
    out.differs("--ds-sequence-parallel-size can't be combined with --sequence-parallel, which is left out");
}

void writeExpert(const View &view, Draft &out) {
  if (view.expert > 1 && !view.experts())
    return out.expressed("the model has no experts: more data parallelism, from the number of ranks");
  if (!view.experts())
    return out.idle("1");
  out.argument("--moe-expert-parallel-size", view.expert);
  if (view.tensor > 1)
    out.argument("--enable-expert-tensor-parallelism");
}

void writeOrder(const View &view, Draft &out) {
  if (view.axisOrderIs({"stage", "data", "expert", "context", "model"}))
    return out.expressed("pipe, data, model (outermost first), the only order");
  runsOrder({"stage", "data", "expert", "context", "model"}, out);
  out.differs(
      fmt::format("ranks lie as pipe, data, sequence, model (outermost first), not as {}: groups use other links "
                  "than planned",
                  orderText(view)));
}

void writeSchedule(const View &view, Draft &out) {
  if (view.pipeline == 1)
    return out.idle("one stage");
  if (view.schedule == ScheduleKind::OneFOneB)
    return out.expressed("1F1B, DeepSpeed's schedule");
  if (view.schedule != ScheduleKind::ZeroBubbleH1) {
    runsPlain1F1B(out);
    return out.differs("1F1B runs instead: DeepSpeed has that one and zero-bubble h1");
  }
  out.argument("--enable-zbh1-pipeline");
  if (view.sequenceParallel)
    out.differs("Megatron-DeepSpeed refuses it together with --sequence-parallel, as untested");
}

void writeVariant(const View &view, Draft &out) {
  if (view.pipeline == 1 || view.schedule == ScheduleKind::ZeroBubbleH1)
    return out.expressed("--enable-zbh1-pipeline is h1");
  out.differs("there is no zero-bubble schedule but h1: 1F1B");
}

void writeChunks(const View &view, Draft &out) {
  if (view.chunks == 1)
    return out.idle("one chunk a stage");
  out.differs("DeepSpeed's stages have only one chunk: the bubble is larger, and fewer activations are sent");
}

void writeStages(const View &view, Draft &out) {
  if (view.pipeline == 1)
    return out.idle("one stage");
  if (view.evenCut && view.chunks == 1)
    return out.expressed("partition_method type:transformer: as many layers in each stage");
  out.runs.plan.stages.clear();
  out.differs("layers are divided evenly (partition_method type:transformer, which Megatron-DeepSpeed fixes)");
}

void writeRecompute(const View &view, Draft &out) {
  noteMixedRecompute(view, out);
  if (view.recompute == "none")
    return out.expressed("no recomputation, the default");
  out.argument("--recompute-granularity", view.recompute);
  if (view.recompute == "full") {
    out.argument("--recompute-method", "uniform");
    out.argument("--recompute-num-layers", 1);
  }
}

void writeSharding(const View &view, Draft &out) {
  noteMixedSharding(view, out);
  int64_t stage = zeroStage(view);
  out.file("zero_optimization.stage", stage);
  out.argument("--zero-stage", stage);
  out.argument("--no-gradient-accumulation-fusion"); // gradients are in DeepSpeed's buffers, not in Megatron's
  if (stage == view.sharding)
    return;
  out.runs.plan.optimizerSharding = {stage};
  out.differs(
      "ZeRO 2 and 3 are refused in pipelines: ZeRO 1 runs, gradients and parameters are replicated and take more "
      "memory");
}

/// Writes the groups over which states are sharded. DeepSpeed has groups for the parameters of ZeRO 3 alone: a second
/// partition in each group, from which the backward gathers.
void writeShardingRanks(const View &view, Draft &out) {
  noteShardingOverAllRanks(view, out);
  int64_t ranks = view.plan.optimizerShardingRanks;
  if (zeroStage(view) != 3 || ranks != view.devicesPerNode || replicaCount(view.in.completed.mesh) == ranks)
    return;
  out.file("zero_optimization.zero_hpz_partition_size", ranks);
}

void writeSequenceParallel(const View &view, Draft &out) {
  if (!view.sequenceParallel || view.tensor == 1)
    return out.expressed("off, the default");
  if (view.context > 1)
    out.runs.plan.sequenceParallel = {false};
  if (view.context > 1)
    return out.differs("left out beside --ds-sequence-parallel-size, with which it can't be combined");
  out.argument("--sequence-parallel");
}

void writeOverlap(const View &view, Draft &out) {
  int64_t stage = zeroStage(view);
  bool gradients = view.overlaps("gradients");
  runsOverlap("gradients", gradients && view.pipeline == 1 && stage >= 1, out);
  runsOverlap("parameters", view.overlaps("parameters") && stage == 3, out);
  runsOverlap("tensor", view.sequenceParallel && view.context == 1, out);
  runsOverlap("products", false, out);
  runsOverlap("stage", false, out);
  if (view.pipeline == 1 && stage >= 1)
    out.file("zero_optimization.overlap_comm", gradients);
  else if (gradients)
    out.differs("gradients are reduced after the backward: ZeRO 0 and pipelines do not overlap");
  if (stage == 3) {
    if (view.overlaps("parameters"))
      out.expressed("ZeRO 3 gathers ahead, zero_optimization.stage3_prefetch_bucket_size elements, the default");
    else
      out.file("zero_optimization.stage3_prefetch_bucket_size", 0);
  } else if (stage >= 1 && view.overlaps("parameters")) {
    out.differs("updated parameters are gathered at the end of a step, without overlap");
  }
  bool scatters = view.sequenceParallel && view.context == 1;
  if (view.tensor > 1 && view.overlaps("tensor") != scatters)
    out.differs(scatters ? "with --sequence-parallel sums of input gradients always run beside the weights' gradients"
                         : "sums of input gradients are not overlapped: DeepSpeed turns that off");
  if (view.tensor > 1 && view.overlaps("products"))
    out.differs("products wait for their collectives (\"products\")");
  if (view.pipeline > 1 && view.overlaps("stage"))
    out.differs("stages wait for their sends");
  out.expressed("what is not listed is off");
}

const char *longType(const std::string &type) { return type == "bf16" ? "bf16" : type == "f16" ? "fp16" : "fp32"; }

void writeGradientDtype(const View &view, Draft &out) {
  out.file("data_types.grad_accum_dtype", longType(view.plan.gradientDtype));
  out.file("communication_data_type", longType(view.plan.gradientDtype));
}

void writeContextStyle(const View &view, Draft &out) {
  if (view.context == 1)
    return out.idle("mesh.context is 1");
  if (view.plan.contextStyle == ContextStyle::Ulysses)
    return out.expressed("--ds-sequence-parallel-size is Ulysses");
  out.runs.plan.contextStyle = ContextStyle::Ulysses;
  out.differs("Ulysses runs instead: all-to-alls cut heads, of which there must be enough");
}

void writeDtype(const View &view, Draft &out) {
  const std::string &dtype = view.in.job.dtype;
  if (dtype == "f16") {
    out.file("fp16.enabled", true);
    return out.argument("--fp16");
  }
  if (dtype == "bf16" || dtype == "f8") {
    out.file("bf16.enabled", true);
    out.argument("--bf16");
  }
  if (dtype == "f8") {
    out.argument("--fp8-hybrid");
    return out.argument("--transformer-impl", "transformer_engine");
  }
  if (dtype == "f64")
    return out.differs("there is no f64: f32");
  if (dtype == "f32")
    out.expressed("f32, the default");
}

Table optimizerTable() {
  return {
      {"optimizer.kind",
       [](const View &v, Draft &out) {
         out.file("optimizer.type", v.in.optimizer.kind == "sgd" ? "SGD" : "AdamW");
         out.argument("--optimizer", v.in.optimizer.kind == "sgd" ? "sgd" : "adam");
         noteOptimizer(v, out);
       }},
      {"optimizer.beta1",
       [](const View &v, Draft &out) {
         const OptimizerSettings &o = v.in.optimizer;
         out.file("optimizer.params.betas", {o["beta1"], o["beta2"]});
         out.argument("--adam-beta1", o["beta1"]);
       }},
      {"optimizer.eps",
       [](const View &v, Draft &out) {
         out.file("optimizer.params.eps", v.in.optimizer["eps"]);
         out.argument("--adam-eps", v.in.optimizer["eps"]);
       }},
      {"optimizer.momentum",
       [](const View &v, Draft &out) {
         out.file("optimizer.params.momentum", v.in.optimizer["momentum"]);
         out.argument("--sgd-momentum", v.in.optimizer["momentum"]);
       }},
      {"optimizer.weight_decay",
       [](const View &v, Draft &out) {
         out.file("optimizer.params.weight_decay", v.in.optimizer["weight-decay"]);
         out.argument("--weight-decay", v.in.optimizer["weight-decay"]);
         if (v.in.optimizer["weight-decay"] > 0)
           out.differs("Megatron-DeepSpeed leaves biases and norms without decay, whatever the plan's optimizer does");
       }},
      {"optimizer.clip_norm",
       [](const View &v, Draft &out) {
         out.file("gradient_clipping", v.in.optimizer.clipNorm);
         out.argument("--clip-grad", v.in.optimizer.clipNorm);
       }},
  };
}

Table executionTable() {
  return {
      {"mesh.stage", writeStageAxis},
      {"mesh.data",
       [](const View &v, Draft &out) {
         out.expressed(fmt::format("{} ranks / (tp {} x sp {} x pp {})", v.ranks, v.tensor, v.context, v.pipeline));
       }},
      {"mesh.context", writeContext},
      {"mesh.expert", writeExpert},
      {"mesh.model",
       [](const View &v, Draft &out) {
         out.argument("--tensor-model-parallel-size", v.tensor);
         if (v.tensor > 1)
           out.environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "1";
       }},
      {"order", writeOrder},
      {"global_batch",
       [](const View &v, Draft &out) {
         out.file("train_batch_size", v.plan.globalBatch);
         out.argument("--global-batch-size", v.plan.globalBatch);
       }},
      {"microbatch",
       [](const View &v, Draft &out) {
         out.file("train_micro_batch_size_per_gpu", v.plan.microbatch);
         out.file("gradient_accumulation_steps", v.microbatches);
         out.argument("--micro-batch-size", v.plan.microbatch);
       }},
      {"schedule.name", writeSchedule},
      {"schedule.chunks", writeChunks},
      {"schedule.variant", writeVariant},
      {"schedule.in_flight", noteInFlight},
      {"stages", writeStages},
      {"recompute", writeRecompute},
      {"optimizer_sharding", writeSharding},
      {"optimizer_sharding_ranks", writeShardingRanks},
      {"sequence_parallel", writeSequenceParallel},
      {"overlap", writeOverlap},
      {"gradient_dtype", writeGradientDtype},
      {"layout", writeLayout},
      {"attention",
       [](const View &v, Draft &out) {
         if (v.plan.attention == AttentionKernels::Fused)
           return out.argument("--use-flash-attn-v2");
         out.expressed("unfused, the default");
       }},
      {"context_style", writeContextStyle},
      {"dtype", writeDtype},
  };
}

} // namespace

const Table &deepSpeedTable() {
  static const Table table =
      joinTables({executionTable(), optimizerTable(), megatronDeepSpeedModelTable(), megatronOptimizerTable()});
  return table;
}

} // namespace kerf::exporting
