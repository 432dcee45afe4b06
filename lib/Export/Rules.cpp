// SPDX-License-Identifier: Apache-2.0
#include "Rules.h"
#include "Megatron.h"
#include "TorchTitanModel.h"

#include <algorithm>

namespace kerf::exporting {

namespace {

using enum ExportTarget;

// Versions of the sources: Megatron Core 0.19.2 (core_r0.12.0 where older cores have another rule), TorchTitan 0.3.0,
// PyTorch 2.13, DeepSpeed 0.19.8, Megatron-DeepSpeed commit 207b2d5aad1e.
const std::vector<ExportTarget> kMegatronCore = {Megatron, NeMo, MsSwift, MegatronBridge, MindSpeed};
const std::vector<ExportTarget> kTorchTitans = {TorchTitan, TorchTitanPython};

std::vector<ExportTarget> both(std::vector<ExportTarget> some, std::initializer_list<ExportTarget> others) {
  some.insert(some.end(), others);
  return some;
}

/// The trainers on the newest Megatron Core, and those on older ones.
const std::vector<ExportTarget> kNewestCore = {Megatron, MegatronBridge};
const std::vector<ExportTarget> kOlderCores = {NeMo, MsSwift, MindSpeed};

/// The trainers whose fused attention is FlashAttention's or cuDNN's.
const std::vector<ExportTarget> kFlashTargets = both(kMegatronCore, {DeepSpeed});

bool divides(int64_t part, int64_t whole) { return part > 0 && whole % part == 0; }

/// Returns whether FlashAttention and cuDNN's fused attention lack a kernel for a type on a device: they compute in 16
/// bits on GPUs of compute capability 8.0 or newer, which are those with bf16.
bool lacksFlashAttention(const DeviceSpec &device, const std::string &dtype) {
  return dtype == "f32" || dtype == "f64" || (device.kind == "cuda" && !device.peakFlops.contains("bf16"));
}

bool lacksFlashAttention(const View &v) { return lacksFlashAttention(v.in.completed.cluster.device, v.in.job.dtype); }

bool biasedExperts(const View &v) { return v.experts() && v.model.queryKeyValueBias && v.model.outputBias; }

/// Returns whether the plan shards parameters or gradients without a pipeline, for which NeMo takes PyTorch's FSDP.
bool shardsMoreThanStates(const View &v) { return v.sharding >= 2 && v.pipeline == 1; }

/// Returns why Megatron-LM's core cannot overlap exchanges of tokens in this plan; empty if it can, or need not.
std::string whyTokensWait(const View &v) {
  if (!v.overlaps("experts") || !v.experts() || v.expert == 1)
    return "";
  const std::string &dtype = v.in.job.dtype;
  if (v.pipeline > 1 && v.chunks == 1)
    return fmt::format("{} stages without chunks; pin the schedule interleaved", v.pipeline);
  if (v.recompute == "full" || v.recompute == "offload")
    return fmt::format("recompute {}; pin \"recompute\": \"none\" or \"selective\"", v.recompute);
  if (v.tensor > 1 || v.context > 1)
    return fmt::format(
        "{} ranks of mesh.model and {} of mesh.context, whose collectives need a single connection of the "
        "device; pin both to 1",
        v.tensor, v.context);
  if (v.sharding > 1)
    return fmt::format("optimizer_sharding {}; pin 0 or 1", v.sharding);
  return dtype == "f32" ? "the type f32; give <dtype> bf16" : "";
}

bool splitsBackward(const View &v) { return v.pipeline > 1 && recordOf(v.schedule).splitsBackward; }

std::string parts(const char *what, int64_t whole, const char *axis, int64_t size) {
  return fmt::format("{} {} cannot be divided among the {} ranks of mesh.{}; pin a size of mesh.{} that divides {}",
                     whole, what, size, axis, axis, whole);
}

std::string fewer(const View &v, const char *what, int64_t unit) {
  return fmt::format("a step has {} microbatches, but {} takes {} {}; pin another \"microbatch\", or another schedule",
                     v.microbatches, what, v.microbatches < unit ? "at least" : "multiples of", unit);
}

std::vector<TargetRule> headRules() {
  return {
      {"heads", both(kMegatronCore, {TorchTitan, TorchTitanPython, DeepSpeed, Nanotron, Accelerate, Transformers}),
       [](const View &v) { return v.model.heads && !divides(v.tensor, v.model.heads); },
       [](const View &v) { return parts("attention heads", v.model.heads, "model", v.tensor); },
       "megatron/core/transformer/transformer_config.py, num_attention_heads; torchtitan/models/common/decoder.py, "
       "n_heads"},
      {"key-value-heads", kMegatronCore,
       [](const View &v) {
         return v.model.heads && !divides(v.tensor, v.model.keyValueHeads) && !divides(v.model.keyValueHeads, v.tensor);
       },
       [](const View &v) { return parts("key/value heads", v.model.keyValueHeads, "model", v.tensor); },
       "megatron/core/transformer/transformer_config.py, num_query_groups: a multiple or divisor of the ranks"},
      {"key-value-heads", both(kTorchTitans, {DeepSpeed, Nanotron, Accelerate, Transformers}),
       [](const View &v) { return v.model.heads && !divides(v.tensor, v.model.keyValueHeads); },
       [](const View &v) { return parts("key/value heads", v.model.keyValueHeads, "model", v.tensor); },
       "torchtitan/models/common/decoder.py, n_kv_heads; Megatron-DeepSpeed, megatron/model/transformer.py"},
      {"mlp-width", both(kMegatronCore, {DeepSpeed}),
       [](const View &v) { return !divides(v.tensor, v.model.mlpWidth) || !divides(v.tensor, v.model.expertWidth); },
       [](const View &v) {
         bool dense = !divides(v.tensor, v.model.mlpWidth);
         return parts(dense ? "columns of the MLP" : "columns of an expert's MLP",
                      dense ? v.model.mlpWidth : v.model.expertWidth, "model", v.tensor);
       },
       "megatron/core/tensor_parallel/layers.py: divide(output_size, world_size)"},
      {"heads-of-all-to-all", both(kMegatronCore, {DeepSpeed}),
       [](const View &v) {
         return v.context > 1 && v.plan.contextStyle == ContextStyle::Ulysses && v.model.heads &&
                !divides(v.tensor * v.context, v.model.heads);
       },
       [](const View &v) {
         return fmt::format("{} attention heads cannot be divided among {} x {} ranks of mesh.model and mesh.context, "
                            "as all-to-alls of heads need; pin smaller sizes, or \"context_style\": \"ring\"",
                            v.model.heads, v.tensor, v.context);
       },
       "Transformer Engine, AttnFuncWithCPAndQKVOA2A; deepspeed/sequence/layer.py"},
      {"norm-of-queries", kNewestCore, [](const View &v) { return v.model.keyValueLatent && !v.model.queryLatent; },
       [](const View &) {
         return std::string("Megatron Core 0.19 adds a norm before the projection of queries where latent attention "
                            "does not compress them (q_lora_rank is null), which is another model; give another "
                            "target");
       },
       "megatron/core/transformer/mla_qk_norm_config.py, _resolve_mla_qk_layernorm: linear_q_proj is the linear layer "
       "with a norm"},
  };
}

std::vector<TargetRule> sequenceRules() {
  return {
      {"sequence-by-context", both(kMegatronCore, {Accelerate}),
       [](const View &v) { return v.context > 1 && !divides(2 * v.context, v.model.sequence); },
       [](const View &v) {
         return fmt::format("a sequence of {} tokens is no multiple of 2 x {} ranks of mesh.context; give another "
                            "--sequence, or pin another mesh.context",
                            v.model.sequence, v.context);
       },
       "megatron/training/arguments.py: seq-length should be a multiple of 2 * context-parallel-size"},
      {"sequence-by-context",
       {DeepSpeed},
       [](const View &v) { return !divides(v.context, v.model.sequence); },
       [](const View &v) {
         return fmt::format("a sequence of {} tokens is no multiple of the {} ranks of mesh.context; give another "
                            "--sequence, or pin another mesh.context",
                            v.model.sequence, v.context);
       },
       "Megatron-DeepSpeed, pretrain_gpt.py, get_batch"},
      {"sequence-by-tensor", both(kMegatronCore, {DeepSpeed, Nanotron}),
       [](const View &v) { return v.sequenceParallel && !divides(v.tensor * v.context, v.model.sequence); },
       [](const View &v) {
         return fmt::format("a sequence of {} tokens is no multiple of {} x {} ranks of mesh.model and mesh.context, "
                            "which sequence parallelism needs; give another --sequence, or pin \"sequence_parallel\": "
                            "false",
                            v.model.sequence, v.tensor, v.context);
       },
       "megatron/core/tensor_parallel/mappings.py: the first dimension is divisible by the tensor ranks"},
      {"sequence-by-tensor-and-context", kTorchTitans,
       [](const View &v) { return !divides(2 * v.tensor * v.context, v.model.sequence); },
       [](const View &v) {
         return fmt::format("a sequence of {} tokens is no multiple of 2 x {} x {} (ranks of mesh.model and "
                            "mesh.context); give another --sequence, or pin other sizes of the mesh",
                            v.model.sequence, v.tensor, v.context);
       },
       "torchtitan/distributed/parallel_dims.py, seq_len_divisor"},
  };
}

std::vector<TargetRule> scheduleRules() {
  return {
      {"microbatches-of-interleaving", kNewestCore,
       [](const View &v) { return v.pipeline > 1 && v.chunks > 1 && !interleavedGroup(v); },
       [](const View &v) {
         if (v.microbatches < v.pipeline)
           return fewer(v, "the interleaved schedule", v.pipeline);
         int64_t groups = v.microbatches / v.pipeline, size = v.microbatches / groups;
         return fmt::format("{} microbatches pass the chunks in {} groups of {} and {}, but only the last group of the "
                            "interleaved schedule can be smaller; pin another \"microbatch\" (multiples of {} always "
                            "go), or another schedule",
                            v.microbatches, groups, size + 1, size, v.pipeline);
       },
       "megatron/core/pipeline_parallel/schedules.py, forward_backward_pipelining_with_interleaving: groups of "
       "microbatches are alike but for the last, and have one for each stage at least"},
      {"microbatches-of-interleaving", kOlderCores,
       [](const View &v) { return v.pipeline > 1 && v.chunks > 1 && !divides(v.pipeline, v.microbatches); },
       [](const View &v) { return fewer(v, "the interleaved schedule", v.pipeline); },
       "megatron/core/pipeline_parallel/schedules.py of core_r0.12.0: the remainder of the microbatches by the stages "
       "is 0"},
      {"microbatches-of-interleaving",
       {TorchTitan},
       [](const View &v) {
         return v.pipeline > 1 && v.chunks > 1 && v.schedule == ScheduleKind::Interleaved &&
                !divides(std::max<int64_t>(1, v.microbatches / v.pipeline), v.microbatches);
       },
       [](const View &v) { return fewer(v, "Interleaved1F1B", std::max<int64_t>(1, v.microbatches / v.pipeline)); },
       "torch/distributed/pipelining/schedules.py, ScheduleInterleaved1F1B: a multiple of the number of rounds"},
      {"offload-in-pipelines", kNewestCore, [](const View &v) { return v.pipeline > 1 && v.recompute == "offload"; },
       [](const View &v) {
         return fmt::format("activations go to the host's memory without pipelines only, but the plan has {} stages; "
                            "pin mesh.stage 1, or another \"recompute\"",
                            v.pipeline);
       },
       "megatron/core/transformer/transformer_config.py: no support for pipeline parallelism with CPU offloading"},
      {"microbatches-of-1f1b",
       {TorchTitan, Nanotron},
       [](const View &v) {
         return v.pipeline > 1 && v.chunks == 1 && v.schedule != ScheduleKind::GPipe && v.microbatches < v.pipeline;
       },
       [](const View &v) { return fewer(v, "1F1B", v.pipeline); },
       "torch/distributed/pipelining/schedules.py, Schedule1F1B; nanotron/parallel/pipeline_parallel/engine.py"},
      {"tied-embeddings-in-pipelines", kTorchTitans,
       [](const View &v) { return v.pipeline > 1 && v.model.tiedEmbeddings; },
       [](const View &v) {
         return fmt::format("the model's output head shares the embedding's weight, which cannot lie in the first and "
                            "the last of {} stages; pin mesh.stage 1",
                            v.pipeline);
       },
       "torchtitan/models/common/decoder.py: weight tying is not supported with pipeline parallel"},
      {"zero-bubble-without-recomputation",
       {TorchTitanPython},
       [](const View &v) { return splitsBackward(v) && v.recompute != "none"; },
       [](const View &v) {
         return fmt::format(
             "PyTorch recomputes layers anew for each half of a split backward, and twice for the second "
             "one, but \"recompute\" is {}; pin \"recompute\": \"none\", or the schedule 1f1b",
             v.recompute);
       },
       "torch/distributed/pipelining/_backward.py of PyTorch 2.13: each half calls torch.autograd.grad"},
      {"zero-bubble-without-compilation",
       {TorchTitanPython},
       [](const View &v) {
         bool async = v.tensor > 1 && v.overlaps("products");
         return splitsBackward(v) && (async || v.in.job.dtype == "f8");
       },
       [](const View &v) {
         return fmt::format("the backward of compiled layers cannot be split, but {} compiled; {}, or pin the schedule "
                            "1f1b",
                            v.in.job.dtype == "f8" ? "layers in f8 are" : "layers with asynchronous collectives are",
                            v.in.job.dtype == "f8" ? "give --dtype bf16" : "pin \"overlap\" without \"products\"");
       },
       "torch/distributed/pipelining/schedules.py, _check_torch_compile_compatibility"},
      {"flavors-without-pipelines",
       {TorchTitan},
       [](const View &v) {
         const TitanFlavor *flavor = titanFlavorOf(v.model);
         return v.pipeline > 1 && flavor && std::string_view(flavor->module) == "qwen3";
       },
       [](const View &v) {
         return fmt::format("its qwen3 has no pipelines in version 0.2, but the plan has {} stages; pin mesh.stage 1, "
                            "or export --to torchtitan-0.3",
                            v.pipeline);
       },
       "torchtitan/models/qwen3/__init__.py of TorchTitan 0.2.2: pipelining_fn=None"},
      {"context-in-pipelines",
       {DeepSpeed},
       [](const View &v) { return v.pipeline > 1 && v.context > 1; },
       [](const View &v) {
         return fmt::format("the mesh of its pipelines has the axes pipe, data and model alone, but the plan has {} "
                            "stages and {} ranks of context; pin one of the two to 1",
                            v.pipeline, v.context);
       },
       "deepspeed/runtime/pipe/topology.py, PipeModelDataParallelTopology"},
      {"experts-in-pipelines",
       {DeepSpeed},
       [](const View &v) { return v.pipeline > 1 && v.experts(); },
       [](const View &v) {
         return fmt::format("its pipelines have no layers with experts, but the plan has {} stages; pin mesh.stage 1",
                            v.pipeline);
       },
       "Megatron-DeepSpeed, megatron/model/gpt_model.py, GPTModelPipe"},
      {"zero-bubble-with-sequence-parallelism",
       {DeepSpeed},
       [](const View &v) {
         return v.pipeline > 1 && v.schedule == ScheduleKind::ZeroBubbleH1 && v.sequenceParallel && v.tensor > 1;
       },
       [](const View &) {
         return std::string("--enable-zbh1-pipeline is refused together with --sequence-parallel; pin "
                            "\"sequence_parallel\": false, or the schedule 1f1b");
       },
       "Megatron-DeepSpeed, megatron/arguments.py, validate_args"},
  };
}

std::vector<TargetRule> expertRules() {
  return {
      {"experts", both(kMegatronCore, {TorchTitan, TorchTitanPython, DeepSpeed}),
       [](const View &v) { return v.experts() && !divides(v.expert, v.model.experts); },
       [](const View &v) { return parts("experts", v.model.experts, "expert", v.expert); },
       "megatron/training/arguments.py: the number of experts is a multiple of the expert-parallel size"},
      {"biased-experts",
       {MsSwift},
       [](const View &v) { return biasedExperts(v) && v.tensor > 1; },
       [](const View &v) {
         return fmt::format("experts with biases cannot be cut, but mesh.model is {}; pin mesh.model 1", v.tensor);
       },
       "megatron/core/transformer/transformer_config.py: experts have biases without tensor parallelism only"},
      {"experts-with-tensor-parallelism", kMegatronCore,
       [](const View &v) { return v.experts() && v.tensor > 1 && !v.sequenceParallel; },
       [](const View &v) {
         return fmt::format("experts on {} ranks of mesh.model need sequence parallelism; pin \"sequence_parallel\": "
                            "true, or mesh.model 1",
                            v.tensor);
       },
       "megatron/core/transformer/moe/moe_layer.py, forward: training with tensor ranks needs sequence parallelism"},
      {"experts-beside-tensor-and-context",
       {TorchTitanPython},
       [](const View &v) { return v.experts() && v.expert > 1 && (v.tensor > 1 || v.context > 1); },
       [](const View &v) {
         return fmt::format(
             "its groups of experts take neighbouring ranks of mesh.model and mesh.context first, so the "
             "{} ranks of mesh.expert would not be those of the plan; pin mesh.model and mesh.context "
             "1, or mesh.expert 1",
             v.expert);
       },
       "torchtitan/distributed/parallel_dims.py of TorchTitan 0.3.0: the sparse mesh (efsdp, ep) unfolds dp, cp and "
       "tp"},
      {"experts-in-f16", kOlderCores,
       [](const View &v) { return v.experts() && v.expert > 1 && v.in.job.dtype == "f16"; },
       [](const View &v) {
         return fmt::format("expert parallelism does not train in f16, but mesh.expert is {}; give --dtype bf16, or "
                            "pin mesh.expert 1",
                            v.expert);
       },
       "megatron/training/arguments.py of core_r0.12.0: no expert parallelism in fp16"},
      {"overlap-of-experts", kNewestCore, [](const View &v) { return !whyTokensWait(v).empty(); },
       [](const View &v) {
         return fmt::format("exchanges of tokens (\"experts\" of \"overlap\") do not overlap with {}",
                            whyTokensWait(v));
       },
       "megatron/core/transformer/transformer_config.py and megatron/training/arguments.py, "
       "overlap_moe_expert_parallel_comm"},
      {"experts-with-apex",
       {NeMo},
       [](const View &v) { return v.experts() && v.expert > 1 && v.sharding >= 1 && !shardsMoreThanStates(v); },
       [](const View &v) {
         return fmt::format("Apex's distributed optimizer has no expert parallelism, but mesh.expert is {} and "
                            "optimizer_sharding is {}; pin \"optimizer_sharding\": 0, or export --to megatron",
                            v.expert, v.sharding);
       },
       "NeMo 24.07, nemo/collections/nlp/modules/common/megatron/megatron_init.py"},
  };
}

std::vector<TargetRule> typeRules() {
  return {
      {"fused-attention", kFlashTargets,
       [](const View &v) { return v.plan.attention == AttentionKernels::Fused && lacksFlashAttention(v); },
       [](const View &v) {
         return fmt::format("fused attention has kernels for 16-bit types on GPUs of compute capability 8.0 or newer, "
                            "but the job computes in {} on '{}'; pin \"attention\": \"unfused\"",
                            v.in.job.dtype, v.in.completed.cluster.device.name);
       },
       "Transformer Engine, get_attention_backend: FlashAttention and cuDNN need sm80 and fp16 or bf16"},
      {"fused-attention-only",
       {Nanotron},
       [](const View &v) { return lacksFlashAttention(v); },
       [](const View &v) {
         return fmt::format("its attention is FlashAttention alone, for 16-bit types on GPUs of compute capability 8.0 "
                            "or newer, but the job computes in {} on '{}'",
                            v.in.job.dtype, v.in.completed.cluster.device.name);
       },
       "nanotron/nn/attention.py"},
      {"types", both(kMegatronCore, {DeepSpeed, Nanotron, Accelerate, Transformers}),
       [](const View &v) { return v.in.job.dtype == "f64"; },
       [](const View &) { return std::string("it has no f64; give --dtype f32, f16 or bf16"); },
       "megatron/training/arguments.py, --fp16 and --bf16; TrainingArguments of Transformers"},
      {"types", kTorchTitans, [](const View &v) { return v.in.job.dtype == "f64" || v.in.job.dtype == "f16"; },
       [](const View &v) { return fmt::format("it has no {}; give --dtype bf16 or f32", v.in.job.dtype); },
       "torchtitan/config/configs.py, mixed_precision_param: bfloat16 or float32"},
      {"f8-with-fsdp",
       {NeMo},
       [](const View &v) { return v.in.job.dtype == "f8" && shardsMoreThanStates(v); },
       [](const View &v) {
         return fmt::format("PyTorch's FSDP does not gather FP8 parameters, but optimizer_sharding is {}; pin "
                            "\"optimizer_sharding\": 1, or give --dtype bf16",
                            v.sharding);
       },
       "NeMo 24.07, nemo/collections/nlp/parts/nlp_overrides.py, NLPFSDPStrategy"},
  };
}

std::vector<TargetRule> optimizerRules() {
  return {
      {"muon-in-f16", kNewestCore,
       [](const View &v) { return v.in.optimizer.kind == "muon" && v.in.job.dtype == "f16"; },
       [](const View &) { return std::string("Muon does not train in f16; give --dtype bf16 or f32"); },
       "megatron/core/optimizer/__init__.py, _get_megatron_emerging_optimizer: no emerging optimizer in fp16"},
  };
}

std::vector<TargetRule> ascendRules() {
  return {
      {"npus",
       {MindSpeed, MindSpore},
       [](const View &v) { return v.in.completed.cluster.device.kind != "ascend"; },
       [](const View &v) {
         return fmt::format("it trains on Ascend NPUs, but the cluster has '{}'; give --cluster with a file of NPUs, "
                            "such as clusters/ascend-910b.json",
                            v.in.completed.cluster.device.name);
       },
       "mindspeed/megatron_adaptor.py; mindspore/parallel/auto_parallel.py, Supported Platforms"},
      {"f8-on-npus",
       {MindSpeed},
       [](const View &v) { return v.in.job.dtype == "f8"; },
       [](const View &) { return std::string("910B and 910C have no 8-bit floats; give --dtype bf16"); },
       "mindspeed/features_manager/npu_enhancement/npu_enhancement.py"},
      {"mc2-without-experts",
       {MindSpeed},
       [](const View &v) { return v.experts() && v.tensor > 1 && v.sequenceParallel && v.overlaps("products"); },
       [](const View &) {
         return std::string("products and collectives do not overlap (--use-ascend-mc2) in models with experts; pin "
                            "\"overlap\" without \"products\"");
       },
       "mindspeed/features_manager/tensor_parallel/mc2.py"},
      {"no-context-axis",
       {MindSpore},
       [](const View &v) { return v.context > 1; },
       [](const View &v) {
         return fmt::format("the exported layouts have the axes data, expert, model and stage, but mesh.context is {}; "
                            "pin it to 1",
                            v.context);
       },
       "lib/Export/MindSpore.cpp"},
      {"microbatches-of-stages",
       {MindSpore},
       [](const View &v) { return v.microbatches < v.pipeline; },
       [](const View &v) {
         return fmt::format("the number of microbatches, {}, must not be below the number of stages, {}; pin a smaller "
                            "\"microbatch\"",
                            v.microbatches, v.pipeline);
       },
       "mindspore/parallel/nn/parallel_cell_wrapper.py, PipelineCell"},
  };
}

} // namespace

const std::vector<TargetRule> &targetRules() {
  static const std::vector<TargetRule> all = [] {
    std::vector<TargetRule> rules;
    for (auto part :
         {headRules(), sequenceRules(), scheduleRules(), expertRules(), typeRules(), optimizerRules(), ascendRules()})
      rules.insert(rules.end(), part.begin(), part.end());
    return rules;
  }();
  return all;
}

} // namespace kerf::exporting

bool kerf::lacksFusedAttention(ExportTarget target, const DeviceSpec &device, const std::string &dtype) {
  using namespace exporting;
  return std::find(kFlashTargets.begin(), kFlashTargets.end(), target) != kFlashTargets.end() &&
         lacksFlashAttention(device, dtype);
}
