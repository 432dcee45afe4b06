// SPDX-License-Identifier: Apache-2.0
// Compares whole exports of plans and models with expectations for each target, written by hand from the targets'
// documentation.
#include "Exported.h"

using namespace kerf;
using namespace kerf::test;

namespace {

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
    "sequence_parallel": true, "overlap": ["gradients", "parameters", "stage"]})",
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
  deepseek.expertsPerToken = 8; // Megatron Core sums as many of a group as come from it, DeepSeek the best two
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
