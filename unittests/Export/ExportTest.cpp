// SPDX-License-Identifier: Apache-2.0
// Compares exports of plans with expectations for each target, written by hand from the targets' documentation.
#include "Inputs.h"

#include <set>

using namespace kerf;
using namespace kerf::test;

namespace {

ExportResult exported(ExportTarget target, const ExportInput &input, const std::string &name = "file") {
  auto made = exportPlan(target, input, name);
  if (!made) {
    ADD_FAILURE() << made.error().message;
    return {};
  }
  return *made;
}

std::string withoutComments(const std::string &text) {
  std::string kept;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at) + 1;
    if (text[at] != '#')
      kept += text.substr(at, end - at);
    at = end;
  }
  return kept;
}

/// Returns the keys with decisions of kind Differs.
std::set<std::string> differing(const ExportResult &exported) {
  std::set<std::string> keys;
  for (const ExportDecision &decision : exported.decisions)
    if (decision.kind == ExportDecision::Kind::Differs)
      keys.insert(decision.key);
  return keys;
}

void expectHas(const std::string &text, std::initializer_list<const char *> lines) {
  for (const char *line : lines)
    EXPECT_NE(text.find(line), std::string::npos) << line << " is not in\n" << text;
}
void expectHasNot(const std::string &text, std::initializer_list<const char *> lines) {
  for (const char *line : lines)
    EXPECT_EQ(text.find(line), std::string::npos) << line << " is in\n" << text;
}

using Keys = std::set<std::string>;

const char *kInterleaved = R"({"kerf": 1, "mesh": {"stage": 8, "data": 2, "model": 8}, "global_batch": 64,
  "microbatch": 1, "schedule": {"name": "interleaved", "chunks": 4}, "recompute": "selective", "optimizer_sharding": 1,
  "sequence_parallel": true, "overlap": ["gradients", "parameters", "tensor", "stage"], "attention": "unfused"})";

TEST(Export, MegatronInterleaved) {
  ExportResult e = exported(ExportTarget::Megatron, inputOf(kInterleaved, gpt3()));
  EXPECT_EQ(
      e.config.substr(e.config.find("CUDA_DEVICE_MAX_CONNECTIONS")),
      R"(CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nnodes 16 --nproc-per-node 8 --node-rank "$NODE_RANK" --master-addr "$MASTER_ADDR" --master-port "${MASTER_PORT:-29500}" pretrain_gpt.py \
  --num-layers 96 \
  --hidden-size 12288 \
  --num-attention-heads 96 \
  --kv-channels 128 \
  --ffn-hidden-size 49152 \
  --vocab-size 51200 \
  --make-vocab-size-divisible-by 1 \
  --max-position-embeddings 2048 \
  --seq-length 2048 \
  --normalization LayerNorm \
  --norm-epsilon 1.0e-05 \
  --position-embedding-type learned_absolute \
  --attention-dropout 0.0 \
  --hidden-dropout 0.0 \
  --pipeline-model-parallel-size 8 \
  --tensor-model-parallel-size 8 \
  --context-parallel-size 1 \
  --global-batch-size 64 \
  --micro-batch-size 1 \
  --num-virtual-stages-per-pipeline-rank 4 \
  --recompute-granularity selective \
  --recompute-modules core_attn \
  --use-distributed-optimizer \
  --sequence-parallel \
  --overlap-grad-reduce \
  --overlap-param-gather \
  --accumulate-allreduce-grads-in-fp32 \
  --attention-backend unfused \
  --bf16 \
  --optimizer adam \
  --adam-beta1 0.9 \
  --adam-beta2 0.95 \
  --adam-eps 1.0e-08 \
  --weight-decay 0.1 \
  --clip-grad 1.0 \
  "$@"
)");
  EXPECT_EQ(differing(e), Keys({"optimizer.weight_decay"}));
  EXPECT_EQ(e.launch, "");
}

TEST(Export, NeMoInterleaved) {
  ExportResult e = exported(ExportTarget::NeMo, inputOf(kInterleaved, gpt3()), "conf/big.yaml");
  EXPECT_EQ(withoutComments(e.config), R"(model:
  num_layers: 96
  hidden_size: 12288
  num_attention_heads: 96
  num_query_groups: 96
  kv_channels: 128
  ffn_hidden_size: 49152
  make_vocab_size_divisible_by: 1
  max_position_embeddings: 2048
  encoder_seq_length: 2048
  normalization: "layernorm"
  layernorm_epsilon: 1.0e-05
  activation: "gelu"
  bias_activation_fusion: true
  position_embedding_type: "learned_absolute"
  transformer_block_type: "pre_ln"
  bias: true
  share_embeddings_and_output_weights: true
  hidden_dropout: 0.0
  attention_dropout: 0.0
  ffn_dropout: 0.0
  pipeline_model_parallel_size: 8
  mcore_gpt: true
  transformer_engine: true
  tensor_model_parallel_size: 8
  context_parallel_size: 1
  expert_model_parallel_size: 1
  global_batch_size: 64
  micro_batch_size: 1
  virtual_pipeline_model_parallel_size: 4
  activations_checkpoint_granularity: "selective"
  gradient_accumulation_fusion: true
  sequence_parallel: true
  optim:
    overlap_grad_sync: true
    overlap_param_sync: true
    grad_sync_dtype: "fp32"
    name: "distributed_fused_adam"
    betas: [0.9, 0.95]
    eps: 1.0e-08
    weight_decay: 0.1
  overlap_p2p_comm: true
  batch_p2p_comm: false
  use_flash_attention: false
  megatron_amp_O2: true
trainer:
  num_nodes: 16
  devices: 8
  accelerator: "gpu"
  precision: "bf16"
  gradient_clip_val: 1.0
)");
  EXPECT_EQ(differing(e), Keys({"optimizer.weight_decay"}));
  EXPECT_EQ(e.launch,
            "CUDA_DEVICE_MAX_CONNECTIONS=1 NVTE_FLASH_ATTN=0 NVTE_FUSED_ATTN=0 torchrun --nnodes 16 "
            "--nproc-per-node 8 --node-rank \"$NODE_RANK\" --master-addr \"$MASTER_ADDR\" --master-port "
            "\"${MASTER_PORT:-29500}\" examples/nlp/language_modeling/megatron_gpt_pretraining.py --config-path "
            "\"$PWD/conf\" --config-name big");
}

TEST(Export, TorchTitanInterleaved) {
  ExportInput input = inputOf(R"({"kerf": 1, "mesh": {"stage": 2, "data": 4, "model": 2}, "global_batch": 32,
    "microbatch": 2, "schedule": {"name": "interleaved", "chunks": 2}, "recompute": "full", "optimizer_sharding": 3,
    "sequence_parallel": true})",
                              llama31());
  ExportResult e = exported(ExportTarget::TorchTitan, input, "job.toml");
  EXPECT_EQ(withoutComments(e.config), R"(
[model]
name = "llama3"
flavor = "8B"

[training]
seq_len = 8192
global_batch_size = 32
local_batch_size = 8
mixed_precision_reduce = "float32"
mixed_precision_param = "bfloat16"
max_norm = 1.0

[parallelism]
pipeline_parallel_degree = 2
data_parallel_replicate_degree = 1
data_parallel_shard_degree = 4
tensor_parallel_degree = 2
context_parallel_degree = 1
pipeline_parallel_microbatch_size = 2
pipeline_parallel_schedule = "Interleaved1F1B"
module_fqns_per_model_part = [
  ["tok_embeddings", "layers.0", "layers.1", "layers.2", "layers.3", "layers.4", "layers.5", "layers.6", "layers.7"],
  ["layers.8", "layers.9", "layers.10", "layers.11", "layers.12", "layers.13", "layers.14", "layers.15"],
  ["layers.16", "layers.17", "layers.18", "layers.19", "layers.20", "layers.21", "layers.22", "layers.23"],
  ["layers.24", "layers.25", "layers.26", "layers.27", "layers.28", "layers.29", "layers.30", "layers.31", "norm", "output"],
]
fsdp_reshard_after_forward = "always"

[activation_checkpoint]
mode = "full"

[optimizer]
name = "AdamW"
beta1 = 0.9
beta2 = 0.95
eps = 1.0e-08
weight_decay = 0.1
)");
  EXPECT_EQ(differing(e), Keys());
  EXPECT_EQ(e.launch,
            "torchrun --nnodes 2 --nproc-per-node 8 --node-rank \"$NODE_RANK\" --master-addr \"$MASTER_ADDR\" "
            "--master-port \"${MASTER_PORT:-29500}\" -m torchtitan.train --job.config_file job.toml");
}

TEST(Export, DeepSpeedZeRO3) {
  ExportInput input = inputOf(R"({"kerf": 1, "mesh": {"data": 16}, "global_batch": 64, "microbatch": 2,
    "recompute": "full", "optimizer_sharding": 3, "gradient_dtype": "bf16"})",
                              llama3());
  ExportResult e = exported(ExportTarget::DeepSpeed, input, "ds.json");
  EXPECT_EQ(e.config, R"({
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 2,
  "zero_optimization": {
    "stage": 3,
    "overlap_comm": true
  },
  "data_types": {
    "grad_accum_dtype": "bf16"
  },
  "communication_data_type": "bf16",
  "bf16": {
    "enabled": true
  },
  "optimizer": {
    "type": "AdamW",
    "params": {
      "betas": [
        0.9,
        0.95
      ],
      "eps": 1e-08,
      "weight_decay": 0.1
    }
  },
  "gradient_clipping": 1.0
}
)");
  EXPECT_EQ(differing(e), Keys({"optimizer.weight_decay"}));
  EXPECT_EQ(
      e.launch,
      "torchrun --nnodes 2 --nproc-per-node 8 --node-rank \"$NODE_RANK\" --master-addr \"$MASTER_ADDR\" --master-port "
      "\"${MASTER_PORT:-29500}\" pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
      "--num-attention-heads 32 --num-key-value-heads 8 --kv-channels 128 --ffn-hidden-size 14336 --vocab-size "
      "128256 --make-vocab-size-divisible-by 1 --max-position-embeddings 8192 --seq-length 8192 --normalization "
      "rmsnorm --layernorm-epsilon 1.0e-05 --swiglu --use-rotary-position-embeddings "
      "--rotary-position-embeddings-theta 500000 --rotary-percent 1.0 --disable-bias-linear "
      "--untie-embeddings-and-output-weights --attention-dropout 0.0 --hidden-dropout 0.0 "
      "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 --no-pipeline-parallel "
      "--global-batch-size 64 --micro-batch-size 2 --recompute-granularity full --recompute-method uniform "
      "--recompute-num-layers 1 --zero-stage 3 --no-gradient-accumulation-fusion --use-flash-attn-v2 --bf16 "
      "--optimizer adam --adam-beta1 0.9 --adam-beta2 0.95 --adam-eps 1.0e-08 --weight-decay 0.1 --clip-grad "
      "1.0 --deepspeed --deepspeed_config ds.json");
}

TEST(Export, ZeRO3Elsewhere) {
  ExportInput input = inputOf(R"({"kerf": 1, "mesh": {"data": 16}, "global_batch": 64, "microbatch": 2,
    "optimizer_sharding": 3})",
                              llama3());
  ExportResult megatron = exported(ExportTarget::Megatron, input);
  expectHas(megatron.config, {"--use-distributed-optimizer", "--use-megatron-fsdp",
                              "--data-parallel-sharding-strategy optim_grads_params", "--ckpt-format fsdp_dtensor",
                              "--no-gradient-accumulation-fusion", "--overlap-grad-reduce", "--overlap-param-gather"});
  EXPECT_EQ(differing(megatron), Keys({"optimizer.weight_decay"}));
  input.model = llama31();
  ExportResult titan = exported(ExportTarget::TorchTitan, input);
  expectHas(titan.config, {"data_parallel_shard_degree = 16", "fsdp_reshard_after_forward = \"always\"",
                           "name = \"llama3\"", "flavor = \"8B\"", "local_batch_size = 2", "global_batch_size = 64"});
  EXPECT_EQ(differing(titan), Keys());
  ExportResult nemo = exported(ExportTarget::NeMo, input);
  expectHas(nemo.config, {"  fsdp: true\n", "  fsdp_sharding_strategy: \"full\"\n", "    name: \"fused_adam\"\n"});
}

TEST(Export, ProductsAndTheirCollectivesTakeTurns) {
  auto with = [](const char *sequence) {
    return inputOf(fmt::format(R"({{"kerf": 1, "mesh": {{"data": 2, "model": 2}}, "global_batch": 8,
      "sequence_parallel": {}, "overlap": ["gradients", "parameters", "tensor", "products"]}})",
                               sequence),
                   llama3());
  };
  ExportInput sharded = with("true"), whole = with("false");
  expectHas(exported(ExportTarget::Megatron, sharded).config, {"--tp-comm-overlap"});
  expectHas(exported(ExportTarget::NeMo, sharded).config, {"  ub_tp_comm_overlap: true\n"});
  ExportResult titan = exported(ExportTarget::TorchTitanPython, sharded);
  expectHas(titan.config, {"CompileConfig(enable=True, enable_async_tensor_parallel=True)"});
  EXPECT_FALSE(differing(titan).contains("overlap"));
  for (ExportTarget target : {ExportTarget::Megatron, ExportTarget::NeMo}) {
    ExportResult made = exported(target, whole);
    expectHasNot(made.config, {"tp-comm-overlap", "ub_tp_comm_overlap"});
    EXPECT_TRUE(differing(made).contains("overlap")) << toString(target);
  }
  EXPECT_TRUE(differing(exported(ExportTarget::DeepSpeed, sharded)).contains("overlap"));
}

TEST(Export, StatesSharedByPartOfTheRanks) {
  ExportInput input = inputOf(R"({"kerf": 1, "mesh": {"data": 8, "context": 2}, "global_batch": 64, "microbatch": 2,
    "optimizer_sharding": 3, "optimizer_sharding_ranks": 4})",
                              llama3());
  ExportResult megatron = exported(ExportTarget::Megatron, input);
  expectHas(megatron.config, {"--num-distributed-optimizer-instances 4"});
  ExportResult titan = exported(ExportTarget::TorchTitanPython, input);
  expectHas(titan.config, {"data_parallel_replicate_degree=4", "data_parallel_shard_degree=2"});
  for (const ExportResult &one : {megatron, titan})
    EXPECT_FALSE(differing(one).contains("optimizer_sharding_ranks"));
  for (ExportTarget target : {ExportTarget::DeepSpeed, ExportTarget::NeMo})
    EXPECT_TRUE(differing(exported(target, input)).contains("optimizer_sharding_ranks")) << toString(target);
}

/// In pipelines, only TorchTitan shards parameters.
TEST(Export, ZeRO3InAPipeline) {
  ExportInput input = inputOf(R"({"kerf": 1, "mesh": {"stage": 4, "data": 4}, "global_batch": 64, "microbatch": 2,
    "optimizer_sharding": 3})",
                              llama3());
  for (ExportTarget target : {ExportTarget::Megatron, ExportTarget::DeepSpeed, ExportTarget::NeMo})
    EXPECT_TRUE(differing(exported(target, input)).contains("optimizer_sharding")) << toString(target);
  EXPECT_FALSE(differing(exported(ExportTarget::TorchTitanPython, input)).contains("optimizer_sharding"));
  expectHas(exported(ExportTarget::DeepSpeed, input).config, {"\"stage\": 1"});
  expectHasNot(exported(ExportTarget::Megatron, input).config, {"fsdp_dtensor"});
}

TEST(Export, UnevenStages) {
  auto with = [](const char *stages) {
    return inputOf(fmt::format(R"({{"kerf": 1, "mesh": {{"stage": 4}}, "global_batch": 512, "stages": {}}})", stages),
                   llama3());
  };
  ExportInput ends = with(R"([{"layers": [0, 6]}, {"layers": [7, 15]}, {"layers": [16, 24]}, {"layers": [25, 31]}])");
  expectHas(exported(ExportTarget::Megatron, ends).config,
            {"--decoder-first-pipeline-num-layers 7 ", "--decoder-last-pipeline-num-layers 7 "});
  ExportInput any = with(R"([{"layers": []}, {"layers": [0, 12]}, {"layers": [13, 30]}, {"layers": [31, 31]}])");
  expectHas(exported(ExportTarget::Megatron, any).config, {"--pipeline-model-parallel-layout 'E|t*13|t*18|tL' "});
  expectHas(exported(ExportTarget::TorchTitanPython, any).config,
            {" [\"tok_embeddings\"],\n", "[\"layers.31\", \"norm\", \"lm_head\"],\n"});
  for (ExportTarget target : {ExportTarget::DeepSpeed, ExportTarget::NeMo})
    EXPECT_TRUE(differing(exported(target, any)).contains("stages")) << toString(target);
  // By default layers are divided evenly, and the first stages get one more: 32 layers on 3 stages are 11, 11, 10.
  ExportInput three = inputOf(R"({"kerf": 1, "mesh": {"stage": 3, "data": 1}, "global_batch": 6})", llama3());
  expectHas(exported(ExportTarget::Megatron, three).config, {"--decoder-last-pipeline-num-layers 10 "});
  // With chunks the layout has a part for each: part 4 c + s is chunk c of stage s.
  ExportInput chunks = inputOf(R"({"kerf": 1, "mesh": {"stage": 4}, "global_batch": 512, "schedule": {"name":
    "interleaved", "chunks": 2}, "stages": [{"layers": [0, 2]}, {"layers": [3, 6]}, {"layers": [7, 11]},
    {"layers": [12, 15]}, {"layers": [16, 19]}, {"layers": [20, 23]}, {"layers": [24, 27]}, {"layers": [28, 31]}]})",
                               llama3());
  std::string text = exported(ExportTarget::Megatron, chunks).config;
  expectHas(text, {"--pipeline-model-parallel-layout 'Et*3|t*4|t*5|t*4|t*4|t*4|t*4|t*4L' "});
  expectHasNot(text, {"--num-virtual-stages-per-pipeline-rank"});
}

TEST(Export, Experts) {
  ExportInput input = inputOf(R"({"kerf": 1, "mesh": {"stage": 2, "data": 2, "expert": 4, "model": 2},
    "global_batch": 64, "microbatch": 1, "optimizer_sharding": 1, "sequence_parallel": true})",
                              mixtral());
  input.expertCapacity = 1.25;
  std::string megatron = exported(ExportTarget::Megatron, input).config;
  expectHas(megatron,
            {"--expert-tensor-parallel-size 2 ", "--expert-model-parallel-size 4 ", "--num-experts 8 ",
             "--moe-router-topk 2 ", "--moe-ffn-hidden-size 14336 ", "--moe-token-dispatcher-type alltoall ",
             "--moe-grouped-gemm ", "--moe-expert-capacity-factor 1.25 ", "--moe-pad-expert-input-to-capacity "});
  expectHasNot(megatron, {"--moe-router-pre-softmax", "  --ffn-hidden-size"});
  auto beside = exportPlan(ExportTarget::TorchTitanPython, input, "");
  ASSERT_FALSE(beside);
  expectHas(beside.error().message, {"4 ranks of mesh.expert", "rule experts-beside-tensor-and-context"});
  ExportInput alone = inputOf(R"({"kerf": 1, "mesh": {"stage": 2, "data": 2, "expert": 4}, "global_batch": 64,
    "microbatch": 1, "optimizer_sharding": 1})",
                              mixtral());
  expectHas(exported(ExportTarget::TorchTitanPython, alone).config,
            {"data_parallel_shard_degree=8", "expert_parallel_degree=4", "num_experts=8", "top_k=2"});
  ExportInput flat = inputOf(R"({"kerf": 1, "mesh": {"data": 2, "expert": 4, "model": 2}, "global_batch": 64,
    "microbatch": 1, "optimizer_sharding": 0})",
                             mixtral());
  flat.expertCapacity = 1.25;
  ExportResult deepspeed = exported(ExportTarget::DeepSpeed, flat);
  expectHas(deepspeed.launch, {"--moe-expert-parallel-size 4", "--enable-expert-tensor-parallelism", "--num-experts 8",
                               "--topk 2", "--moe-train-capacity-factor 1.25"});
  auto piped = exportPlan(ExportTarget::DeepSpeed, input, "");
  ASSERT_FALSE(piped);
  expectHas(piped.error().message, {"DeepSpeed's pipelines have no layers with experts"});
  auto apex = exportPlan(ExportTarget::NeMo, input, "");
  ASSERT_FALSE(apex);
  expectHas(apex.error().message, {"Apex's distributed optimizer has no expert parallelism", "rule experts-with-apex"});
  flat.completed.plan.sequenceParallel = {true};
  expectHas(exported(ExportTarget::NeMo, flat).config,
            {"  expert_model_parallel_size: 4\n", "  num_moe_experts: 8\n", "  moe_router_topk: 2\n"});
  // Without experts, the axis expert is more data parallelism.
  ExportInput dense = inputOf(R"({"kerf": 1, "mesh": {"data": 4, "expert": 4}, "global_batch": 16})", llama3());
  expectHasNot(exported(ExportTarget::Megatron, dense).config, {"expert-model"});
  expectHas(exported(ExportTarget::TorchTitanPython, dense).config, {"data_parallel_replicate_degree=16"});
}

TEST(Export, RecomputationThatDiffersFromStageToStage) {
  ExportInput input = inputOf(R"({"kerf": 1, "mesh": {"stage": 4}, "global_batch": 512,
    "recompute": ["selective", "selective", "none", "none"]})",
                              llama3());
  ExportResult megatron = exported(ExportTarget::Megatron, input);
  expectHas(
      megatron.config,
      {"--recompute-granularity selective ",
       "#   recompute = [\"selective\",\"selective\",\"none\",\"none\"]: one value for all stages: \"selective\""});
  for (ExportTarget target :
       {ExportTarget::Megatron, ExportTarget::TorchTitanPython, ExportTarget::DeepSpeed, ExportTarget::NeMo})
    EXPECT_TRUE(differing(exported(target, input)).contains("recompute")) << toString(target);
  expectHas(exported(ExportTarget::TorchTitanPython, input).config, {"activation_checkpoint=SelectiveAC.Config()"});
  input.model = llama31();
  expectHas(exported(ExportTarget::TorchTitan, input).config, {"mode = \"selective\"", "selective_ac_option = \"op\""});
}

TEST(Export, LayersOfEachPartThatAreRecomputed) {
  std::string plan = R"({"kerf": 1, "mesh": {"stage": 4}, "global_batch": 512, "schedule": {"name": "1f1b"},
    "stages": [{"layers": [0, 7]}, {"layers": [8, 15]}, {"layers": [16, 23]}, {"layers": [24, 31]}], "recompute": )";
  ExportInput blocks =
      inputOf(plan + R"({"0-2": "full", "8-10": "full", "16-18": "full", "24-26": "full"}})", llama3());
  ExportResult megatron = exported(ExportTarget::Megatron, blocks);
  expectHas(megatron.config,
            {"--recompute-granularity full ", "--recompute-method block ", "--recompute-num-layers 3 "});
  EXPECT_FALSE(differing(megatron).contains("recompute"));
  ExportResult nemo = exported(ExportTarget::NeMo, blocks);
  expectHas(nemo.config, {"activations_checkpoint_method: \"block\"", "activations_checkpoint_num_layers: 3"});
  EXPECT_FALSE(differing(nemo).contains("recompute"));
  for (ExportTarget target : {ExportTarget::TorchTitanPython, ExportTarget::DeepSpeed})
    EXPECT_TRUE(differing(exported(target, blocks)).contains("recompute")) << toString(target);
  // Stages differ: every part recomputes as many layers as the part that recomputes most.
  ExportResult fewer = exported(ExportTarget::Megatron, inputOf(plan + R"({"0-4": "full", "8": "full"}})", llama3()));
  expectHas(fewer.config, {"--recompute-method block ", "--recompute-num-layers 5 ", "one number for all stages: 5"});
  // Layers other than the first of a part, or two modes: all layers recompute.
  for (const char *layers : {R"({"7": "full"}})", R"({"0": "full", "*": "selective"}})"}) {
    ExportResult all = exported(ExportTarget::Megatron, inputOf(plan + layers, llama3()));
    expectHas(all.config, {"--recompute-method uniform ", "one value for all layers: \"full\""});
  }
}

/// Zero bubbles, another order of the axes, Ulysses beside experts, pins.
TEST(Export, WhatCannotBeSaid) {
  ExportInput input = inputOf(R"({"kerf": 1, "mesh": {"stage": 4, "data": 2, "model": 2},
    "order": ["model", "data", "stage"], "global_batch": 64, "microbatch": 1,
    "schedule": {"name": "zero-bubble", "variant": "2p"},
    "optimizer_sharding": 3, "ops": {"*": {"strategy": {"m0": ["data"]}}}, "arguments": {"*": [["data"], []]},
    "notes": 5})",
                              llama3());
  for (ExportTarget target :
       {ExportTarget::Megatron, ExportTarget::TorchTitanPython, ExportTarget::DeepSpeed, ExportTarget::NeMo}) {
    Keys keys = differing(exported(target, input));
    for (const char *key : {"order", "schedule.name", "schedule.variant", "ops", "arguments", "notes"})
      EXPECT_EQ(keys.contains(key),
                target != ExportTarget::TorchTitanPython || !std::string_view(key).starts_with("schedule"))
          << toString(target) << " " << key;
  }
  ExportInput h1 = inputOf(R"({"kerf": 1, "mesh": {"stage": 4, "data": 2}, "global_batch": 64,
    "schedule": {"name": "zero-bubble", "variant": "h1"}})",
                           llama3());
  ExportResult deepspeed = exported(ExportTarget::DeepSpeed, h1);
  expectHas(deepspeed.launch, {"--enable-zbh1-pipeline"});
  EXPECT_FALSE(differing(deepspeed).contains("schedule.name"));
}

/// TorchTitan 0.3 reads an order that none of PyTorch's schedules has from a file, with the parts of PyTorch's numbers.
TEST(Export, OrdersThatTorchTitanReads) {
  auto with = [](const char *schedule, const char *more = "", const char *dtype = "bf16", int64_t batch = 3) {
    return inputOf(fmt::format(R"({{"kerf": 1, "mesh": {{"stage": 2, "data": 1}}, "global_batch": {}, "microbatch": 1,
      "optimizer_sharding": 3, "schedule": {}{}}})",
                               batch, schedule, more),
                   llama3(), dtype);
  };
  const char *plain = R"({"name": "1f1b"})", *twoChunks = R"({"name": "interleaved", "chunks": 2})",
             *h1 = R"({"name": "zero-bubble", "variant": "h1"})";
  const char *sends = R"(, "overlap": ["gradients", "parameters", "stage"])",
             *waits = R"(, "overlap": ["gradients", "parameters"])";
  ExportResult named = exported(ExportTarget::TorchTitanPython, with(plain, waits));
  EXPECT_EQ(named.schedule, "");
  expectHas(named.config, {"pipeline_parallel_schedule=\"1F1B\""});
  expectHasNot(named.config, {"schedule_csv", "SCHEDULE"});
  ExportResult read = exported(ExportTarget::TorchTitanPython, with(plain, sends), "jobs/my.py");
  EXPECT_EQ(read.schedule, "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
  expectHas(read.config, {"pipeline_parallel_schedule_csv=SCHEDULE", "\"my.schedule.csv\"",
                          "# It reads the order of the stages' tasks from my.schedule.csv"});
  expectHasNot(read.config, {"donated_buffer"});
  EXPECT_EQ(schedulePath("jobs/my.py"), "jobs/my.schedule.csv");
  auto dotted = exportPlan(ExportTarget::TorchTitanPython, with(plain, sends), "jobs/v0.3.py");
  ASSERT_FALSE(dotted);
  expectHas(dotted.error().message, {"'jobs/v0.3.py' cannot be imported", "torchtitan_job.py"});
  for (const char *overlap : {sends, waits})
    EXPECT_FALSE(differing(exported(ExportTarget::TorchTitanPython, with(plain, overlap))).contains("overlap"));
  // Fewer microbatches than stages, and rounds of different sizes, which PyTorch's own schedules refuse.
  EXPECT_EQ(exported(ExportTarget::TorchTitanPython, with(plain, waits, "bf16", 1)).schedule, "0F0,0B0\n1F0,1B0\n");
  EXPECT_EQ(exported(ExportTarget::TorchTitanPython, with(twoChunks, sends, "bf16", 4)).schedule, "");
  std::string odd = exported(ExportTarget::TorchTitanPython, with(twoChunks, sends, "bf16", 5)).schedule;
  EXPECT_TRUE(odd.starts_with("0F0,0F1,0F2,2F0,")) << odd;
  // A split backward: every microbatch has both halves.
  ExportResult split = exported(ExportTarget::TorchTitanPython, with(h1, sends));
  expectHas(split.config, {"torch._functorch.config.donated_buffer = False", "import torch._functorch.config\n",
                           "pipeline_parallel_schedule=\"1F1B\""});
  for (const char *task : {"0F0", "0I0", "0W0", "1F2", "1I2", "1W2"})
    EXPECT_NE(split.schedule.find(task), std::string::npos) << task;
  EXPECT_EQ(split.schedule.find('B'), std::string::npos);
  EXPECT_FALSE(differing(split).contains("schedule.name"));
  auto recomputed = exportPlan(ExportTarget::TorchTitanPython, with(h1, R"(, "recompute": "full")"), "");
  ASSERT_FALSE(recomputed);
  expectHas(recomputed.error().message, {"rule zero-bubble-without-recomputation", "is full"});
  auto compiled = exportPlan(ExportTarget::TorchTitanPython, with(h1, sends, "f8"), "");
  ASSERT_FALSE(compiled);
  expectHas(compiled.error().message, {"rule zero-bubble-without-compilation", "--dtype bf16"});
}

/// Megatron-LM's core has Muon, but only without FSDP and without overlap of gradients.
TEST(Export, MuonInMegatron) {
  auto with = [](const char *more) {
    ExportInput input = inputOf(fmt::format(R"({{"kerf": 1, "mesh": {{"data": 4, "model": 2}}, "global_batch": 8,
      {}}})",
                                            more),
                                llama3());
    input.optimizer = {
        "muon",
        {{"momentum", 0.95}, {"nesterov", 1}, {"ns-steps", 6}, {"match-rms", 1}, {"eps", 1e-7}, {"weight-decay", 0.1}},
        0,
        {}};
    return input;
  };
  const char *overlaps = R"("overlap": ["gradients", "parameters", "tensor"])";
  ExportInput whole = with(R"("optimizer_sharding": 0, "overlap": ["tensor"])");
  std::string script = exported(ExportTarget::Megatron, whole).config;
  expectHas(script, {"--optimizer muon ", "--muon-momentum 0.95 ", "--muon-use-nesterov ", "--muon-num-ns-steps 6 ",
                     "--muon-scale-mode spectral ", "--muon-extra-scale-factor 0.2 ", "--muon-tp-mode distributed ",
                     "--weight-decay 0.1 "});
  expectHasNot(script, {"--overlap-grad-reduce", "--use-distributed-optimizer", "--adam-beta1"});
  EXPECT_FALSE(differing(exported(ExportTarget::Megatron, whole)).contains("overlap"));
  ExportInput sharded = with(fmt::format(R"("optimizer_sharding": 1, {})", overlaps).c_str());
  ExportResult layers = exported(ExportTarget::Megatron, sharded);
  expectHas(layers.config, {"--optimizer dist_muon "});
  expectHasNot(layers.config, {"--overlap-grad-reduce", "--overlap-param-gather", "--use-distributed-optimizer"});
  EXPECT_TRUE(differing(layers).contains("overlap"));
  EXPECT_FALSE(differing(layers).contains("optimizer_sharding"));
  ExportInput fsdp = with(R"("optimizer_sharding": 3)");
  expectHasNot(exported(ExportTarget::Megatron, fsdp).config, {"--use-megatron-fsdp"});
  EXPECT_TRUE(differing(exported(ExportTarget::Megatron, fsdp)).contains("optimizer_sharding"));
  sharded.optimizer.settings["match-rms"] = 0;
  sharded.optimizer.settings["nesterov"] = 0;
  std::string bridge = exported(ExportTarget::MegatronBridge, sharded).config;
  expectHas(bridge, {"optimizer=\"dist_muon\"", "muon_momentum=0.95", "muon_scale_mode=\"shape_scaling\"",
                     "muon_num_ns_steps=6", "end_weight_decay=0.1"});
  expectHasNot(bridge, {"muon_use_nesterov", "muon_extra_scale_factor"});
  for (ExportTarget target : {ExportTarget::MsSwift, ExportTarget::NeMo}) // their versions do not have it
    expectHasNot(exported(target, whole).config, {"muon_momentum", "muon_num_ns_steps"});
  sharded.job.dtype = "f16";
  auto half = exportPlan(ExportTarget::Megatron, sharded, "");
  ASSERT_FALSE(half);
  expectHas(half.error().message, {"rule muon-in-f16"});
}

/// Megatron-LM keeps the last layer's activations on the device.
TEST(Export, OffloadOfAllButTheLastLayer) {
  auto with = [](const char *recompute) {
    return inputOf(
        fmt::format(R"({{"kerf": 1, "mesh": {{"data": 8}}, "global_batch": 8, "recompute": {}}})", recompute),
        llama3());
  };
  ExportResult exact = exported(ExportTarget::Megatron, with(R"({"0-30": "offload"})"));
  expectHas(exact.config, {"--cpu-offloading-num-layers 31"});
  EXPECT_FALSE(differing(exact).contains("recompute"));
  for (const char *other : {R"("offload")", R"({"0-29": "offload"})", R"({"0-30": "offload", "31": "full"})"}) {
    ExportResult made = exported(ExportTarget::Megatron, with(other));
    expectHas(made.config, {"--cpu-offloading-num-layers 31"});
    EXPECT_TRUE(differing(made).contains("recompute")) << other;
  }
}

/// Compares the arguments of a plan that was searched op by op with Megatron-LM's layout.
TEST(Export, ArgumentsAsMegatronCutsThem) {
  ModelSizes m = gpt3();
  using Dimension = MegatronSharding::Dimension;
  m.cuts = {{"wte.weight", Dimension::First},
            {"h.*.attn.c_attn.weight", Dimension::NotFirst},
            {"h.*.attn.c_attn.bias", Dimension::Any},
            {"h.*.attn.c_proj.weight", Dimension::NotLast}};
  auto decided = [&](const char *arguments) {
    ExportInput input = inputOf(fmt::format(R"({{"kerf": 1, "mesh": {{"data": 2, "model": 2}}, "global_batch": 2,
      "attention": "unfused", "arguments": {{{}}}}})",
                                            arguments),
                                m, "f32");
    ExportResult e = exported(ExportTarget::Megatron, input);
    for (const ExportDecision &decision : e.decisions)
      if (decision.key == "arguments")
        return std::string(decision.kind == ExportDecision::Kind::Expressed ? "same: " : "other: ") + decision.text;
    return std::string();
  };
  EXPECT_EQ(
      decided(R"("input_ids": [["data"], []], "wte.weight": [["model"], []], "exp_avg/wte.weight": [["model"], []],
    "h.*.attn.c_attn.weight": [[], [], ["model"], []], "h.*.attn.c_attn.bias": [[], ["model"], []],
    "h.*.attn.c_proj.weight": [["model"], [], []], "h.*.attn.c_proj.bias": [[]], "@layer#0": [["data"]], "step": [])"),
      "same: Megatron-LM's layout shards all 8 the same way");
  for (const char *other :
       {R"("wte.weight": [[], ["model"]])", R"("wte.weight": [["data"], []])",
        R"("wte.weight": [["model", "data"], []])", R"("wte.weight": [[], []])",
        R"("h.*.attn.c_attn.weight": [["model"], [], [], []])", R"("h.*.attn.c_proj.weight": [[], [], ["model"]])",
        R"("h.*.attn.c_proj.bias": [["model"]])", R"("input_ids": [[], ["data"]])", R"("input_ids": [["model"], []])"})
    expectHas(decided(other), {"other: ", "shards 1 of 1 differently, the first of them "});
}

TEST(Export, OrderOfTheRanks) {
  auto with = [](const char *order, const ModelSizes &model) {
    return inputOf(fmt::format(R"({{"kerf": 1, "mesh": {{"stage": 2, "data": 2, "context": 2, "model": 2}},
      "order": {}, "global_batch": 16}})",
                               order),
                   model);
  };
  ExportInput usual = with(R"(["stage", "data", "context", "model"])", llama3());
  ExportInput other = with(R"(["data", "stage", "context", "model"])", llama3());
  expectHasNot(exported(ExportTarget::Megatron, usual).config, {"--use-tp-pp-dp-mapping"});
  expectHas(exported(ExportTarget::Megatron, other).config, {"--use-tp-pp-dp-mapping ", "--cp-comm-type p2p "});
  EXPECT_FALSE(differing(exported(ExportTarget::Megatron, other)).contains("order"));
  EXPECT_TRUE(differing(exported(ExportTarget::NeMo, other)).contains("order"));
  // With both experts and context, Megatron-LM's groups of experts span the groups of context.
  ExportInput both =
      inputOf(R"({"kerf": 1, "mesh": {"data": 2, "context": 2, "expert": 2}, "global_batch": 16})", mixtral());
  EXPECT_TRUE(differing(exported(ExportTarget::Megatron, both)).contains("order"));
}

TEST(Export, ModelForms) {
  const char *plan = R"({"kerf": 1, "mesh": {"data": 8}, "global_batch": 8})";
  ModelSizes m = llama3();
  m.rotaryScaling = "llama3";
  m.rotaryFactor = 8;
  m.rotaryPositions = 8192;
  m.queryKeyValueBias = true;
  m.queryKeyNorm = "each-head";
  m.window = 4096;
  std::string text = exported(ExportTarget::Megatron, inputOf(plan, m)).config;
  expectHas(text, {"--swiglu ", "--group-query-attention ", "--num-query-groups 8 ", "--rotary-base 500000 ",
                   "--use-rope-scaling ", "--rope-scaling-factor 8.0 ", "--disable-bias-linear ", "--add-qkv-bias ",
                   "--qk-layernorm ", "--window-size 4095,0 ", "--untie-embeddings-and-output-weights ",
                   "--normalization RMSNorm "});
  ModelSizes strange = gpt3();
  strange.family = "bloom";
  strange.position = "alibi";
  strange.embeddingNorm = true;
  strange.residual = "parallel";
  strange.activation = "relu";
  auto refused = exportPlan(ExportTarget::Megatron, inputOf(plan, strange), "");
  ASSERT_FALSE(refused);
  expectHas(refused.error().message, {"Megatron-LM would train another model", "model.position is \"alibi\"",
                                      "model.embedding_norm", "model.residual", "model.activation"});
  ModelSizes deepseek = mixtral();
  deepseek.layers = 61;
  deepseek.denseLayers = 3;
  deepseek.mlpWidth = 18432;
  deepseek.expertWidth = deepseek.sharedExpertWidth = 2048;
  deepseek.keyValueLatent = 512;
  deepseek.queryLatent = 1536;
  deepseek.headSize = 192;
  deepseek.rotaryHeadSize = 64;
  deepseek.valueSize = 128;
  deepseek.router = "corrected-sigmoid";
  deepseek.expertGroups = 8;
  deepseek.groupsPerToken = 4;
  deepseek.routedScale = 2.5;
  expectHas(exported(ExportTarget::Megatron, inputOf(plan, deepseek)).config,
            {"--multi-latent-attention ", "--q-lora-rank 1536 ", "--kv-lora-rank 512 ", "--qk-head-dim 128 ",
             "--qk-pos-emb-head-dim 64 ", "--v-head-dim 128 ", "--moe-layer-freq '([0]*3+[1]*58)' ",
             "--moe-shared-expert-intermediate-size 2048 ", "--moe-router-score-function sigmoid ",
             "--moe-router-num-groups 8 ", "--moe-router-group-topk 4 ", "--moe-router-topk-scaling-factor 2.5 ",
             "--rope-type rope ", "--no-rope-fusion "});
  deepseek.rotaryScaling = "yarn";
  deepseek.rotaryFactor = 40;
  deepseek.rotaryPositions = 4096;
  deepseek.rotaryScale = deepseek.rotaryScaleAll = 0.707;
  std::string stretched = exported(ExportTarget::Megatron, inputOf(plan, deepseek)).config;
  expectHas(stretched,
            {"--rope-type yarn ", "--rotary-scaling-factor 40.0 ", "--mscale 0.707 ", "--mscale-all-dim 0.707 "});
  expectHasNot(stretched, {"--no-rope-fusion"});
}

TEST(Export, SizesOfAnExportAreNotKnown) {
  ExportInput input = inputOf(R"({"kerf": 1, "mesh": {"stage": 2, "data": 2}, "global_batch": 8})", {});
  for (ExportTarget target : {ExportTarget::Megatron, ExportTarget::DeepSpeed, ExportTarget::NeMo})
    EXPECT_TRUE(differing(exported(target, input)).contains("model.sizes")) << toString(target);
  expectHasNot(exported(ExportTarget::Megatron, input).config, {"  --num-layers"});
  for (ExportTarget target : {ExportTarget::TorchTitan, ExportTarget::TorchTitanPython}) { // they would take their own
    auto unknown = exportPlan(target, input, "");
    ASSERT_FALSE(unknown);
    expectHas(unknown.error().message, {"would train another model", "give the model's config.json"});
  }
}

TEST(Export, NodesThatArePartFull) {
  ExportInput input = inputOf(R"({"kerf": 1, "mesh": {"data": 12}, "global_batch": 12})", llama3());
  EXPECT_TRUE(differing(exported(ExportTarget::Megatron, input)).contains("mesh"));
}

TEST(Export, Refused) {
  ExportInput input = inputOf(R"({"kerf": 1, "mesh": {"stage": 2, "data": 2}, "global_batch": 8,
    "stages": [{"layers": [0, 3]}, {"layers": [4, 6]}]})",
                              llama3());
  auto wrong = exportPlan(ExportTarget::Megatron, input, "");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message,
            "plan.json: stages: the parts hold 7 layers, but config.json has 32; end the last part with layer 31");
  Cluster mixed = nodesOfEight(2);
  mixed.groups = {nodesOfEight(1), nodesOfEight(1)};
  input.completed.cluster = mixed;
  auto refused = exportPlan(ExportTarget::NeMo, input, "");
  ASSERT_FALSE(refused);
  expectHas(refused.error().message, {"test nodes is a mixed cluster (", "8 A100", "NeMo", "at most 8 ranks"});
}

} // namespace
