// SPDX-License-Identifier: Apache-2.0
// The records of the trainers. Each number has its source, and estimates are marked as such. docs/adding-a-trainer.md
// shows how to add a trainer.
#include "kerf/CostModel/TrainerFor.h"
#include <algorithm>

using namespace kerf;

namespace {

using enum ScheduleKind;

// Eager PyTorch, Python included: vTrain's rows of hidden size 1,024 and microbatch 1 take 3.4 to 3.6 ms per layer
// whatever their size, which is 62 kernels in forward, recomputation and backward (docs/cost-model.md, "Who runs it").
constexpr double kEagerIssue = 56e-6;
constexpr std::string_view kEagerSource =
    "fitted: vTrain's rows of hidden 1,024 and microbatch 1, Megatron-DeepSpeed in eager PyTorch";
constexpr std::string_view kEagerLikewise = "eager PyTorch; taken from Megatron-LM, not measured separately";
// Megatron Core with Transformer Engine, whose modules run more Python for each kernel.
constexpr double kModuleIssue = 97e-6;
// With CUDA_LAUNCH_BLOCKING=1 a launch also waits for the end of the kernel and its notice to the host.
constexpr double kBlockingIssue = 100e-6;

// DeepSpeed's pipelines with ZeRO 1: 16-bit and f32 gradients of a rank's shard, 16-bit gradients beside accumulated
// f32 ones, and two buckets of 5e8 elements of 16 bits.
constexpr TrainerMemory kDeepSpeedPipelines = {
    .updateBytes = 6, .wideGradientBytes = 2, .bufferBytes = 2e9, .keepsStageOutputs = true};
constexpr std::string_view kDeepSpeedMemory =
    "deepspeed/runtime/zero/stage_1_and_2.py of 2022 keeps a 16-bit and an f32 gradient of a rank's shard until the "
    "update; bf16_optimizer.py keeps 16-bit gradients beside f32 ones; reduce_bucket_size and allgather_bucket_size "
    "5e8; pipe/engine.py keeps inputs and outputs of a stage in pipe_buffers";

/// The recomputation modes of trainers that recompute the core of attention or a whole layer.
const std::vector<Recompute> kCoreOrLayer = {Recompute::None, Recompute::Selective, Recompute::Full};

/// Returns the plans that the arguments of pretrain_gpt.py can express.
TrainerSpace megatronSpace() {
  TrainerSpace space;
  space.schedules = {OneFOneB, Interleaved};
  space.meshOrders = {{"stage", "data", "expert", "context", "model"}, {"data", "stage", "context", "model"}};
  space.optimizerShardingsInPipelines = {0, 1};
  space.solvedLayout = false;
  space.unevenHeads = false;
  space.contextWithExperts = false;
  space.recompute = kCoreOrLayer;
  space.recomputeForm = RecomputeForm::FirstOfParts;
  space.partialNodes = false;
  space.mixedClusters = false;
  space.dtypes = {"f32", "bf16", "f16", "f8"};
  space.optimizers = {"adamw", "sgd"};
  return space;
}

/// Returns the plans that Megatron-LM of today can run: --cpu-offloading-num-layers is smaller than --num-layers.
TrainerSpace megatronOf2025Space() {
  TrainerSpace space = megatronSpace();
  space.offloadsAllButLast = true;
  space.optimizers.emplace_back("muon");
  space.optimizerStates = {OptimizerStates::Remainders, OptimizerStates::Bf16, OptimizerStates::Host};
  space.overlapsExperts = true;
  return space;
}

TrainerSpace torchTitanSpace() {
  TrainerSpace space;
  space.schedules = {OneFOneB, Interleaved, GPipe};
  space.meshOrders = {{"stage", "data", "expert", "context", "model"}};
  space.optimizerShardings = {0, 3};
  space.optimizerShardingsInPipelines = {3};
  space.subgroupsCutContext = false;
  space.replicatesBesideOtherAxes = false;
  space.solvedLayout = false;
  space.unevenHeads = false;
  space.tensorWithoutSequence = false;
  space.contextStyles = {ContextStyle::Ring};
  space.contextWithExperts = false;
  space.recompute = {Recompute::None, Recompute::Full};
  space.recomputeForm = RecomputeForm::AllAlike;
  space.partialNodes = false;
  space.mixedClusters = false;
  space.dtypes = {"f32", "bf16", "f8"};
  space.optimizers = {"adamw"};
  return space;
}

/// Returns the plans that TorchTitan 0.3 can run: sequence parallelism may be off, and it reads the order of the tasks
/// of any schedule from a file.
TrainerSpace torchTitan03Space() {
  TrainerSpace space = torchTitanSpace();
  space.tensorWithoutSequence = true;
  space.schedules = {};
  space.zeroBubbleWithRecompute = false;
  return space;
}

TrainerSpace deepSpeedSpace() {
  TrainerSpace space;
  space.schedules = {OneFOneB, ZeroBubbleH1};
  space.meshOrders = {{"stage", "data", "expert", "context", "model"}};
  space.optimizerShardingsInPipelines = {0, 1};
  space.shardsOverSubgroups = false;
  space.solvedLayout = false;
  space.unevenHeads = false;
  space.sequenceWithContext = false;
  space.zeroBubbleWithSequence = false;
  space.contextStyles = {ContextStyle::Ulysses};
  space.contextInPipelines = false;
  space.expertsInPipelines = false;
  space.unevenStages = false;
  space.recompute = kCoreOrLayer;
  space.recomputeForm = RecomputeForm::AllAlike;
  space.partialNodes = false;
  space.mixedClusters = false;
  space.dtypes = {"f32", "bf16", "f16", "f8"};
  space.optimizers = {"adamw", "sgd"};
  return space;
}

TrainerSpace nemoSpace() {
  TrainerSpace space = megatronSpace();
  space.meshOrders = {{"stage", "data", "expert", "context", "model"}};
  space.shardsOverSubgroups = false;
  space.contextStyles = {ContextStyle::Ring};
  space.unevenStages = false;
  space.dtypes = {"f32", "bf16", "f8"};
  space.optimizers = {"adamw"};
  return space;
}

/// MindSpeed is Megatron-LM without its FSDP and its layouts of single parts, on NPUs, which lack f8.
TrainerSpace mindSpeedSpace() {
  TrainerSpace space = megatronSpace();
  space.optimizerShardings = {0, 1};
  space.contextStyles = {ContextStyle::Ring};
  space.unevenStages = false;
  space.dtypes = {"f32", "bf16", "f16"};
  return space;
}

Overlap nothing(const StepShape &) { return {false, false, false, false, false}; }

constexpr std::string_view kMegatronUpdate =
    "megatron/core/optimizer: separate passes copy the gradients to f32, unscale and check them, compute their norm, "
    "clip them and update the weights";
constexpr UpdateKernel kMegatronPasses = {.gradientAccesses = 4, .scaleAccesses = 2, .widensGradients = true};

constexpr std::string_view kTorchMemory =
    "torch's cross_entropy in f32 holds the log-probabilities and two gradients of them; ring attention: "
    "repeat_kv of torchtitan's models, context_parallel_rotate_method allgather, and "
    "_templated_ring_attention_backward of torch.distributed.tensor, which sums gradients in f32";

Trainer torchTitan() {
  return {.name = "torchtitan",
          .title = "TorchTitan",
          .summary = "TorchTitan 0.2: FSDP2, tensor parallelism and PyTorch's pipelines",
          .prices = {.issueSeconds = kEagerIssue,
                     .update = {.gradientAccesses = 4},
                     .gathers = {.onceInPipelines = true},
                     .accumulatesInProducts = false,
                     .sends = StageSends::Scattered,
                     .bucketBytes = 0,
                     .memory = {.lossBytes = 6, .ring = {.gathers = true, .repeatsHeads = true, .wideGradients = true}},
                     .interpreted = true},
          .overlap = [](const StepShape &shape) { return Overlap{.stage = shape.schedule != OneFOneB}; },
          .space = torchTitanSpace(),
          .sources = {
              {"issue", kEagerLikewise},
              {"update", "clip_grad_norm_ reads the gradient, then reads and writes it; AdamW's fused kernel reads it"},
              {"gathers", "FSDP2 wraps transformer layers; fsdp_reshard_after_forward default: pipelines keep "
                          "the gathered parameters of a stage, and reduce gradients after the last microbatch"},
              {"memory", kTorchMemory},
              {"accumulation", "autograd adds gradients by a separate kernel"},
              {"sends", "tensor parallelism always comes with sequence parallelism: a rank sends its share"},
              {"buckets", "FSDP2 reduces a layer's gradients at once"},
              {"overlap", "FSDP2's own; torch.distributed.pipelining: Schedule1F1B waits for its batched sends and "
                          "receives, the others do not"},
              {"space", "torchtitan/config/job_config.py of the 0.2 releases"}}};
}

constexpr std::string_view kTorchMemory03 =
    "as of TorchTitan 0.2; torch/distributed/pipelining/_backward.py, stage_backward_input: retain_graph=True";

/// Returns the record of TorchTitan 0.3: that of 0.2, but sequence parallelism may be off, and all schedules run by
/// PyTorch's runtime for orders that are read from a file, whose sends overlap.
Trainer torchTitan03() {
  Trainer trainer = torchTitan();
  trainer.name = "torchtitan-0.3";
  trainer.title = "TorchTitan 0.3";
  trainer.summary = "TorchTitan 0.3, configured in Python";
  trainer.prices.sends = StageSends::Full;
  trainer.prices.update.waitsForAllStages = true;
  trainer.prices.memory.keepsAllForWeightGradient = true;
  trainer.overlap = [](const StepShape &) { return Overlap(); };
  trainer.space = torchTitan03Space();
  for (auto &[topic, source] : trainer.sources)
    if (topic == "sends")
      source = "with sequence parallelism, the default, a rank sends its share, else whole activations";
    else if (topic == "overlap")
      source = "FSDP2's own; torch.distributed.pipelining: _PipelineScheduleRuntime, which runs orders from a file, "
               "waits for messages only before a task needs them";
    else if (topic == "memory")
      source = kTorchMemory03;
    else if (topic == "update")
      source = "clip_grad_norm_ reads the gradient, then reads and writes it, and sums its norm over the stages; "
               "AdamW's fused kernel reads it";
    else if (topic == "space")
      source = "torchtitan/config/configs.py and torchtitan/distributed/parallel_dims.py of TorchTitan 0.3.0";
  return trainer;
}

const std::vector<Trainer> &records() {
  static const std::vector<Trainer> table = {
      {.name = "kerf",
       .title = "Kerf",
       .summary = "Kerf's own runtime",
       .ownPrograms = true,
       .prices =
           {.issueSeconds = 4e-6, .update = {.gradientAccesses = 1}, .sends = StageSends::Full, .bucketBytes = 1 << 20},
       .overlap = [](const StepShape &) { return Overlap{.tensor = true}; },
       .space = {},
       .sources = {{"issue", "estimate: kernels launched from C++, overlapped with running ones, 3.8 us each on a V100 "
                             "(NVIDIA, Getting Started with CUDA Graphs, 2019)"},
                   {"update",
                    "docs/passes.md, kerf-add-optimizer: the update is one kernel, which reads the gradient once"},
                   {"gathers", "docs/runtime.md, Buckets: one gather for a layer's parameters, one layer ahead"},
                   {"accumulation", "docs/runtime.md, Microbatches and stages: products add to the sums of gradients"},
                   {"sends", "docs/pipelines.md: a rank sends to the rank in its own position"},
                   {"buckets", "include/kerf/Steps/Steps.h, kBucketBytes"},
                   {"overlap", "docs/plan.md, What is compiled"},
                   {"space", "docs/search.md, The space"}}},
      {.name = "megatron",
       .title = "Megatron-LM",
       .summary = "Megatron-LM of 2025, pretrain_gpt.py",
       .prices = {.issueSeconds = kModuleIssue,
                  .update = kMegatronPasses,
                  .sends = StageSends::Full,
                  .bucketBytes = 160e6,
                  .interpreted = true},
       .overlap =
           [](const StepShape &shape) { return Overlap{.tensor = true, .stage = shape.schedule == Interleaved}; },
       .space = megatronOf2025Space(),
       .sources = {{"issue", "fitted: BERT of 24 layers of 1,024 in Megatron-LM's own tests (2026), 5.3 to 5.6 ms per "
                             "layer and microbatch on a DGX A100 whatever the tensor parallelism"},
                   {"update", kMegatronUpdate},
                   {"gathers", "Megatron FSDP's units are transformer layers"},
                   {"accumulation", "--no-gradient-accumulation-fusion is off unless given"},
                   {"sends", "megatron/core/pipeline_parallel: whole activations, or with sequence parallelism the "
                             "rank's share"},
                   {"buckets", "DistributedDataParallelConfig: max(40,000,000, 1,000,000 x data ranks) elements, taken "
                               "as 40,000,000 of 4 bytes"},
                   {"overlap", "--overlap-grad-reduce and --overlap-param-gather, which kerf export writes; sums of "
                               "input gradients always; sends under the interleaved schedule alone"},
                   {"space", "megatron/training/arguments.py of 2025 (commit 000c4ac24f61)"}}},
      torchTitan(),
      torchTitan03(),
      {.name = "deepspeed",
       .title = "DeepSpeed",
       .summary = "DeepSpeed with Megatron-DeepSpeed's models",
       .prices =
           {.issueSeconds = kEagerIssue,
            .update = {.gradientAccesses = 4, .scaleAccesses = 1, .widensGradients = true, .waitsForAllStages = true},
            .gathers = {.wholeLayers = false, .replicatedBelowElements = 1e5},
            .accumulatesInProducts = false,
            .sends = StageSends::Scattered,
            .bucketBytes = 1e9,
            .interpreted = true,
            .unmeasured = true},
       .overlap =
           [](const StepShape &shape) {
             return Overlap{.gradients = shape.stages == 1 && shape.optimizerSharding >= 1,
                            .parameters = shape.optimizerSharding == 3,
                            .tensor = shape.sequenceParallel,
                            .stage = false};
           },
       .space = deepSpeedSpace(),
       .sources = {{"issue", kEagerLikewise},
                   {"update", "deepspeed/runtime/zero/stage_1_and_2.py, step: overflow check, copy to f32, norm, "
                              "which is summed over the stages, unscale_and_clip, update"},
                   {"gathers", "configuration JSON: stage3_param_persistence_threshold 1e5; stage3_max_reuse_distance "
                               "1e9 keeps what was recomputed for its backward"},
                   {"accumulation", "gradients lie in DeepSpeed's buffers and are added by a kernel"},
                   {"sends", "pipeline.pipe_partitioned, which kerf export writes"},
                   {"buckets", "configuration JSON: reduce_bucket_size 5e8 elements, of 2 bytes"},
                   {"overlap", "overlap_comm with ZeRO 1 to 3, not in pipelines; stage3_prefetch_bucket_size"},
                   {"space", "DeepSpeed's configuration JSON; megatron/arguments.py of Megatron-DeepSpeed (commit "
                             "207b2d5aad1e)"}}},
      {.name = "nemo",
       .title = "NeMo",
       .summary = "NeMo 1 (framework 24.07), megatron_gpt_pretraining.py",
       .prices = {.issueSeconds = kEagerIssue,
                  .update = {.gradientAccesses = 2},
                  .sends = StageSends::Full,
                  .bucketBytes = 100.0 * (1 << 20),
                  .interpreted = true,
                  .vendorAttention = true,
                  .unmeasured = true},
       .overlap =
           [](const StepShape &shape) {
             bool shards = shape.optimizerSharding >= 1;
             return Overlap{
                 .gradients = shards, .parameters = shards, .tensor = true, .stage = shape.schedule == Interleaved};
           },
       .space = nemoSpace(),
       .sources = {{"issue", kEagerLikewise},
                   {"update", "Apex distributed_fused_adam: a norm, then one kernel that scales, clips and updates"},
                   {"gathers", "FSDP wraps transformer layers"},
                   {"accumulation", "model.gradient_accumulation_fusion, which kerf export writes"},
                   {"sends", "Megatron Core's"},
                   {"buckets", "Apex distributed_fused_adam: bucket_cap_mb 100"},
                   {"overlap", "model.optim.overlap_grad_sync and overlap_param_sync; without a distributed optimizer "
                               "gradients are reduced after the backward"},
                   {"space",
                    "examples/nlp/language_modeling/megatron_gpt_pretraining.py of NeMo 1 (framework 24.07)"}}},
      {.name = "mindspeed",
       .title = "MindSpeed",
       .summary = "MindSpeed of 2025 on Megatron-LM core_r0.12.0, for Ascend NPUs",
       .prices = {.issueSeconds = kModuleIssue,
                  .update = kMegatronPasses,
                  .sends = StageSends::Full,
                  .bucketBytes = 160e6,
                  .interpreted = true,
                  .unmeasured = true},
       .overlap =
           [](const StepShape &shape) { return Overlap{.tensor = true, .stage = shape.schedule == Interleaved}; },
       .space = mindSpeedSpace(),
       .sources = {{"issue", "estimate: that of Megatron-LM on GPUs, whose Python it runs"},
                   {"update", kMegatronUpdate},
                   {"gathers", "it cuts no parameters"},
                   {"accumulation", "mindspeed/ops/npu_matmul_add.py: a product adds to the f32 gradients"},
                   {"sends", "that of Megatron-LM: megatron/core/pipeline_parallel of core_r0.12.0"},
                   {"buckets", "that of Megatron-LM: DistributedDataParallelConfig, taken as 40,000,000 elements of 4 "
                               "bytes"},
                   {"overlap", "that of Megatron-LM, which kerf export writes"},
                   {"space", "mindspeed/features_manager of MindSpeed (commit 010c43dfee81) on Megatron-LM "
                             "core_r0.12.0 (README of commit 005894b8e999)"}}},
      {.name = "megatron-2020",
       .title = "Megatron-LM of 2020",
       .summary = "Megatron-LM before interleaving and scattered sends",
       .historical = true,
       .prices = {.issueSeconds = kEagerIssue,
                  .update = kMegatronPasses,
                  .accumulatesInProducts = false,
                  .sends = StageSends::Full,
                  .interpreted = true},
       .overlap = nothing,
       .space = megatronSpace(),
       .sources = {{"issue", kEagerSource},
                   {"update", kMegatronUpdate},
                   {"gathers", "this version does not shard parameters"},
                   {"accumulation", "megatron/model/distributed.py: a separate kernel adds to the main gradients"},
                   {"sends", "Narayanan et al. 2021 (SC21), section 4.1: before the scatter/gather optimization"},
                   {"buckets", "each parameter is reduced separately"},
                   {"overlap", "DDP-impl=local: no communication overlaps with compute"},
                   {"space", "that of today's Megatron-LM, which can run more plans"}}},
      {.name = "megatron-2021",
       .title = "Megatron-LM of 2021",
       .summary = "Megatron-LM of SC21, and what was forked from it (Megatron-DeepSpeed)",
       .historical = true,
       .prices = {.issueSeconds = kEagerIssue,
                  .update = kMegatronPasses,
                  .accumulatesInProducts = false,
                  .sends = StageSends::Scattered,
                  .interpreted = true},
       .overlap = nothing,
       .space = megatronSpace(),
       .sources = {{"issue", kEagerSource},
                   {"update", kMegatronUpdate},
                   {"gathers", "this version does not shard parameters"},
                   {"accumulation", "megatron/model/distributed.py: a separate kernel adds to the main gradients"},
                   {"sends", "Narayanan et al. 2021 (SC21), section 4.1: scatter/gather optimization"},
                   {"buckets", "each parameter is reduced separately"},
                   {"overlap", "DDP-impl=local: no communication overlaps with compute"},
                   {"space", "that of today's Megatron-LM, which can run more plans"}}},
      {.name = "megatron-2022",
       .title = "Megatron-LM of 2022",
       .summary = "Megatron-LM of Korthikanti et al.",
       .historical = true,
       .prices = {.issueSeconds = kEagerIssue,
                  .update = kMegatronPasses,
                  .sends = StageSends::Scattered,
                  .interpreted = true},
       .overlap = [](const StepShape &) { return Overlap{false, false, true, false, false}; },
       .space = megatronSpace(),
       .sources = {{"issue", kEagerSource},
                   {"update", kMegatronUpdate},
                   {"gathers", "this version does not shard parameters"},
                   {"accumulation", "fused_weight_gradient_mlp_cuda: the product adds to the accumulated gradient"},
                   {"sends", "Narayanan et al. 2021 (SC21), section 4.1: scatter/gather optimization"},
                   {"buckets", "each parameter is reduced separately"},
                   {"overlap", "Korthikanti et al. 2022: sums of input gradients beside the weights' gradients"},
                   {"space", "that of today's Megatron-LM, which can run more plans"}}},
      {.name = "deepspeed-2021",
       .title = "DeepSpeed of 2021",
       .summary = "DeepSpeed ZeRO-3 as SC21 compares with it",
       .historical = true,
       .prices = {.issueSeconds = kEagerIssue,
                  .update = kMegatronPasses,
                  .gathers = {.wholeLayers = false,
                              .regathersForBackward = true,
                              .replicatedBelowElements = 1e5,
                              .copySeconds = 10e-6},
                  .accumulatesInProducts = false,
                  .sends = StageSends::Scattered,
                  .interpreted = true},
       .overlap = nothing,
       .space = deepSpeedSpace(),
       .sources = {{"issue", kEagerLikewise},
                   {"update", "assumed to be that of Megatron-LM; not checked in DeepSpeed's sources"},
                   {"gathers", "stage3_param_persistence_threshold 1e5; torch.distributed.all_gather into a list, of "
                               "which each piece is copied out by a kernel of its own, 10 us of the host each "
                               "(estimate)"},
                   {"accumulation", "gradients of every microbatch are reduced"},
                   {"sends", "no pipelines"},
                   {"buckets", "each parameter is reduced separately"},
                   {"overlap", "the rows of SC21's table 2 were run without overlap_comm (estimate)"},
                   {"space", "that of today's DeepSpeed"}}},
      {.name = "megatron-deepspeed-2021",
       .title = "Megatron-DeepSpeed of 2021",
       .summary = "Megatron-LM's layers in DeepSpeed's pipelines with ZeRO 1 (BigScience, AMP)",
       .historical = true,
       .prices = {.issueSeconds = kEagerIssue,
                  .update = kMegatronPasses,
                  .accumulatesInProducts = false,
                  .sends = StageSends::Scattered,
                  .memory = kDeepSpeedPipelines,
                  .interpreted = true},
       .overlap = nothing,
       .space = deepSpeedSpace(),
       .sources = {{"issue", kEagerLikewise},
                   {"update", "assumed to be that of Megatron-LM; not checked in DeepSpeed's sources"},
                   {"gathers", "ZeRO 1 shards no parameters"},
                   {"accumulation", "gradients lie in DeepSpeed's buffers and are added by a kernel"},
                   {"sends", "pipe_partitioned: each rank sends its share"},
                   {"buckets", "each parameter is reduced separately"},
                   {"memory", kDeepSpeedMemory},
                   {"overlap", "pipelines of DeepSpeed overlap nothing"},
                   {"space", "that of today's DeepSpeed"}}},
      {.name = "bloom-2022",
       .title = "Megatron-DeepSpeed of BLOOM",
       .summary = "BigScience's Megatron-DeepSpeed of February 2022, with CUDA_LAUNCH_BLOCKING=1",
       .historical = true,
       .prices = {.issueSeconds = kBlockingIssue,
                  .update = kMegatronPasses,
                  .accumulatesInProducts = false,
                  .sends = StageSends::Scattered,
                  .memory = kDeepSpeedPipelines,
                  .waitsForKernels = true,
                  .interpreted = true},
       .overlap = nothing,
       .space = deepSpeedSpace(),
       .sources = {{"issue",
                    "fitted: BLOOM's rows on A100 (benchmarks/published), run with CUDA_LAUNCH_BLOCKING=1: the "
                    "host waits for the end of each kernel"},
                   {"update", "assumed to be that of Megatron-LM; not checked in DeepSpeed's sources"},
                   {"gathers", "ZeRO 1 shards no parameters"},
                   {"accumulation", "gradients lie in DeepSpeed's buffers and are added by a kernel"},
                   {"sends", "pipe_partitioned: each rank sends its share"},
                   {"buckets", "each parameter is reduced separately"},
                   {"memory", kDeepSpeedMemory},
                   {"overlap", "pipelines of DeepSpeed overlap nothing"},
                   {"space", "that of today's DeepSpeed"}}},
      {.name = "alpa-2022",
       .title = "Alpa of 2022",
       .summary = "Alpa as its OSDI paper measures it: XLA programs on GPUs",
       .historical = true,
       .prices = {.issueSeconds = 5e-6,
                  .update = {.gradientAccesses = 1},
                  .accumulatesInProducts = false,
                  .sends = StageSends::Scattered,
                  .unmeasured = true},
       .overlap = nothing,
       .space = {.unevenHeads = false, .recompute = kCoreOrLayer},
       .sources = {{"issue", "estimate: XLA's compiled programs launch kernels from C++"},
                   {"update", "estimate: XLA fuses the update into one kernel for each parameter"},
                   {"gathers", "it cuts no parameters for single layers"},
                   {"accumulation", "estimate: an addition for each parameter and microbatch"},
                   {"sends", "Zheng et al. 2022, section 6: the local all-gather of cross-mesh resharding"},
                   {"buckets", "estimate: each parameter is reduced separately"},
                   {"overlap", "XLA of 2022 runs collectives on the stream of the kernels"},
                   {"space", "its search covers operators and pipelines; taken as Kerf's, with equal shards"}}},
  };
  return table;
}

/// Returns Megatron-LM's record for Muon, which goes without FSDP and shards states over all ranks
/// (megatron/training/arguments.py, validate_args, and megatron/core/optimizer/layer_wise_optimizer.py of
/// core_v0.19.2).
Trainer megatronForMuon() {
  Trainer trainer = *findTrainer("megatron");
  trainer.space.optimizerShardings = {0, 1};
  trainer.space.shardsOverSubgroups = false;
  return trainer;
}

} // namespace

const Trainer &kerf::trainerFor(const Trainer &trainer, std::string_view optimizer) {
  static const Trainer megatron = megatronForMuon();
  return trainer.name == megatron.name && optimizer == "muon" ? megatron : trainer;
}

double kerf::bucketedReductionSeconds(const CollectiveModel &collectives, Collective kind,
                                      const std::vector<AxisRef> &axes, double bytes, double bucketBytes) {
  double together = std::max(bytes, bucketBytes);
  return together > 0 ? collectives.seconds(kind, axes, together) * (bytes / together) : 0;
}

std::span<const Trainer> kerf::trainers() { return records(); }

const Trainer *kerf::findTrainer(std::string_view name) {
  auto found = std::find_if(records().begin(), records().end(), [&](const Trainer &one) { return one.name == name; });
  return found == records().end() ? nullptr : &*found;
}

std::vector<std::string> kerf::trainerNames() {
  std::vector<std::string> names;
  for (const Trainer &one : records())
    names.emplace_back(one.name);
  return names;
}
