#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Edge plans: each is written with the right arguments, or refused with a sentence that names the rule, before anything is
written. Scripts and launch lines are read with the argument rules of trainer_arguments.py."""
import json
import os
import re
import shlex

from support import CLUSTERS, KerfTest, kerf, main
from trainer_arguments import MEGATRON_DEEPSPEED, MEGATRON_LM, check_megatron_lm, parser_of

LLAMA = {"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4,
         "intermediate_size": 5504, "vocab_size": 32000, "max_position_embeddings": 65536, "rms_norm_eps": 1e-5}
ODD = dict(LLAMA, hidden_size=1600, num_attention_heads=25, num_key_value_heads=25)
TIED = dict(LLAMA, tie_word_embeddings=True)
BIASED = {"model_type": "qwen3_moe", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
          "intermediate_size": 1024, "moe_intermediate_size": 256, "num_experts": 6, "num_experts_per_tok": 2, "norm_topk_prob": True,
          "attention_bias": True, "vocab_size": 32000, "max_position_embeddings": 4096}
MIXTRAL = {"model_type": "mixtral", "num_hidden_layers": 4, "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 8,
           "intermediate_size": 1792, "vocab_size": 32000, "num_local_experts": 8, "max_position_embeddings": 4096}
GPT2 = {"model_type": "gpt2", "n_layer": 4, "n_embd": 512, "n_head": 8}
T5 = {"model_type": "t5", "d_model": 512, "d_ff": 2048, "num_layers": 4, "num_heads": 8}
VIT = {"model_type": "vit", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 2048}
BERT = {"model_type": "bert", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 2048}
YARN = dict(LLAMA, rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16384})
LLAMA32 = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
GEMMA = {"model_type": "gemma", "num_hidden_layers": 4, "hidden_size": 1024, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 256,
         "intermediate_size": 4096, "vocab_size": 32000}
QWEN2_MOE = {"model_type": "qwen2_moe", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8,
             "moe_intermediate_size": 256, "shared_expert_intermediate_size": 512, "num_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000}
DEEPSEEK = {"model_type": "deepseek_v3", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8,
            "q_lora_rank": 128, "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "intermediate_size": 1024,
            "moe_intermediate_size": 256, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
            "first_k_dense_replace": 1, "vocab_size": 32000, "max_position_embeddings": 16384,
            "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.7, "mscale_all_dim": 0.7,
                             "original_max_position_embeddings": 4096}}

# A row is (name, model, mesh and further keys of the plan, cluster and options, target, status, words of the file or of the message).
A100, V100, T4, H100, ASCEND = "dgx-a100", "dgx-v100", "t4-nodes", "dgx-h100", "ascend-910b"
BF16, F16, F32, F8 = "bf16", "f16", "f32", "f8"
EDGES = [
    ("25 heads on 2 ranks", ODD, {"mesh": {"data": 2, "model": 2}}, A100, BF16, 2048, "megatron", 1, ["25 attention heads", "2 ranks", "rule heads"]),
    ("25 heads on 2 ranks", ODD, {"mesh": {"data": 2, "model": 2}}, A100, BF16, 2048, "torchtitan-0.3", 1, ["25 attention heads", "rule heads"]),
    ("25 heads on 5 ranks", ODD, {"mesh": {"model": 5}}, A100, BF16, 2080, "megatron", 1, ["5504 columns of the MLP", "5 ranks", "rule mlp-width"]),
    ("4 key/value heads on 8 ranks", LLAMA, {"mesh": {"model": 8}}, A100, BF16, 2048, "megatron", 0, ["--num-query-groups 4", "--tensor-model-parallel-size 8"]),
    ("4 key/value heads on 8 ranks", LLAMA, {"mesh": {"model": 8}}, A100, BF16, 2048, "torchtitan-0.3", 1, ["4 key/value heads", "rule key-value-heads"]),
    ("6 microbatches, 4 stages of 2 chunks", LLAMA, {"mesh": {"stage": 4}, "global_batch": 6, "microbatch": 1,
                                                     "schedule": {"name": "interleaved", "chunks": 2}}, A100, BF16, 2048, "megatron", 0,
     ["--microbatch-group-size-per-virtual-pipeline-stage 6"]),
    ("11 microbatches, 4 stages of 2 chunks", LLAMA, {"mesh": {"stage": 4}, "global_batch": 11, "microbatch": 1,
                                                      "schedule": {"name": "interleaved", "chunks": 2}}, A100, BF16, 2048, "megatron-bridge", 0,
     ["microbatch_group_size_per_vp_stage=6"]),
    ("13 microbatches, 4 stages of 2 chunks", LLAMA, {"mesh": {"stage": 4}, "global_batch": 13, "microbatch": 1,
                                                      "schedule": {"name": "interleaved", "chunks": 2}}, A100, BF16, 2048, "megatron", 1,
     ["13 microbatches", "3 groups of 5 and 4", "multiples of 4", "rule microbatches-of-interleaving"]),
    ("3 microbatches, 4 stages of 2 chunks", LLAMA, {"mesh": {"stage": 4}, "global_batch": 3, "microbatch": 1,
                                                     "schedule": {"name": "interleaved", "chunks": 2}}, A100, BF16, 2048, "megatron", 1,
     ["3 microbatches", "at least 4", "rule microbatches-of-interleaving"]),
    ("6 microbatches, 4 stages of 2 chunks", LLAMA, {"mesh": {"stage": 4}, "global_batch": 6, "microbatch": 1,
                                                     "schedule": {"name": "interleaved", "chunks": 2}}, A100, BF16, 2048, "nemo", 1,
     ["6 microbatches", "multiples of 4", "rule microbatches-of-interleaving"]),
    ("8 microbatches, 4 stages of 2 chunks", LLAMA, {"mesh": {"stage": 4}, "global_batch": 8, "microbatch": 1,
                                                     "schedule": {"name": "interleaved", "chunks": 2}}, A100, BF16, 2048, "megatron", 0,
     ["--num-virtual-stages-per-pipeline-rank 2"]),
    ("2 microbatches, 4 stages", LLAMA, {"mesh": {"stage": 4}, "global_batch": 2, "microbatch": 1}, A100, BF16, 2048, "torchtitan-0.3", 0,
     ["pipeline_parallel_schedule_csv=SCHEDULE"]),
    ("2 microbatches, 4 stages", LLAMA, {"mesh": {"stage": 4}, "global_batch": 2, "microbatch": 1}, A100, BF16, 2048, "nanotron", 1,
     ["2 microbatches", "at least 4", "rule microbatches-of-1f1b"]),
    ("zero-bubble", LLAMA, {"mesh": {"stage": 4}, "schedule": {"name": "zero-bubble"}}, A100, BF16, 2048, "torchtitan-0.3", 0,
     ["pipeline_parallel_schedule_csv=SCHEDULE", "donated_buffer = False"]),
    ("zero-bubble and recomputation", LLAMA, {"mesh": {"stage": 4}, "schedule": {"name": "zero-bubble"}, "recompute": "full"}, A100, BF16, 2048,
     "torchtitan-0.3", 1, ["rule zero-bubble-without-recomputation", '"recompute" is full']),
    ("zero-bubble in f8", LLAMA, {"mesh": {"stage": 4}, "schedule": {"name": "zero-bubble"}}, H100, F8, 2048, "torchtitan-0.3", 1,
     ["rule zero-bubble-without-compilation"]),
    ("2 microbatches, 4 stages", LLAMA, {"mesh": {"stage": 4}, "global_batch": 2, "microbatch": 1}, A100, BF16, 2048, "megatron", 0,
     ["--pipeline-model-parallel-size 4"]),
    ("tied embeddings in 2 stages", TIED, {"mesh": {"stage": 2}, "global_batch": 8, "microbatch": 1}, A100, BF16, 2048, "torchtitan-0.3", 1,
     ["2 stages", "rule tied-embeddings-in-pipelines"]),
    ("32768 tokens on 4 ranks", LLAMA, {"mesh": {"context": 4}, "microbatch": 1}, H100, BF16, 32768, "megatron", 0, ["--context-parallel-size 4", "--cp-comm-type p2p"]),
    ("4100 tokens on 4 ranks", LLAMA, {"mesh": {"context": 4}}, A100, BF16, 4100, "megatron", 1, ["4100 tokens", "2 x 4", "rule sequence-by-context"]),
    ("2047 tokens on 2 ranks", LLAMA, {"mesh": {"model": 2}, "sequence_parallel": False}, A100, BF16, 2047, "torchtitan-0.3", 1,
     ["2047 tokens", "rule sequence-by-tensor-and-context"]),
    ("16 heads for all-to-alls of 32", LLAMA, {"mesh": {"context": 8, "model": 4}, "context_style": "ulysses"}, A100, BF16, 4096, "megatron", 1,
     ["16 attention heads", "4 x 8", "rule heads-of-all-to-all"]),
    ("V100, fused attention", LLAMA, {"mesh": {"data": 8}, "attention": "fused"}, V100, F16, 1024, "megatron", 1, ["V100", "rule fused-attention", '"attention": "unfused"']),
    ("V100, unfused attention", LLAMA, {"mesh": {"data": 8}, "attention": "unfused", "microbatch": 1}, V100, F16, 1024, "megatron", 0,
     ["--fp16", "--attention-backend unfused"]),
    ("V100 in bf16", LLAMA, {"mesh": {"data": 8}}, V100, BF16, 1024, "megatron", 1, ["V100", "does not compute in bf16"]),
    ("T4 in bf16", LLAMA, {"mesh": {"data": 4}}, T4, BF16, 1024, "deepspeed", 1, ["T4", "does not compute in bf16"]),
    ("f32, fused attention", LLAMA, {"mesh": {"data": 8}, "attention": "fused"}, A100, F32, 1024, "megatron", 1, ["computes in f32", "rule fused-attention"]),
    ("f32, unfused attention", LLAMA, {"mesh": {"data": 8}, "attention": "unfused"}, A100, F32, 1024, "deepspeed", 0, ["train_batch_size"]),
    ("f16 in TorchTitan", LLAMA, {"mesh": {"data": 8}}, A100, F16, 1024, "torchtitan-0.3", 1, ["it has no f16", "rule types"]),
    ("f8 on A100", LLAMA, {"mesh": {"data": 8}}, A100, F8, 1024, "megatron", 1, ["does not compute in f8"]),
    ("f8 on H100", LLAMA, {"mesh": {"data": 8}}, H100, F8, 1024, "megatron", 0, ["--fp8-format hybrid", "--bf16"]),
    ("f8 on H100", LLAMA, {"mesh": {"data": 8}}, H100, F8, 1024, "torchtitan-0.3", 0, ["Float8LinearConverter.Config", "enable=True"]),
    ("f8 and FSDP in NeMo", LLAMA, {"mesh": {"data": 8}, "optimizer_sharding": 3}, H100, F8, 1024, "nemo", 1, ["PyTorch's FSDP", "rule f8-with-fsdp"]),
    ("offload", LLAMA, {"mesh": {"data": 8}, "recompute": "offload"}, A100, BF16, 1024, "megatron", 0,
     ["--cpu-offloading-num-layers 7", "the last layer's activations stay on the device"]),
    ("offload of all layers but the last", LLAMA, {"mesh": {"data": 8}, "recompute": {"0-6": "offload"}}, A100, BF16, 1024, "megatron", 0,
     ["--cpu-offloading-num-layers 7"]),
    ("offload", LLAMA, {"mesh": {"data": 8}, "recompute": "offload"}, A100, BF16, 1024, "megatron-bridge", 0,
     ["cpu_offloading=True", "cpu_offloading_num_layers=7"]),
    ("offload", LLAMA, {"mesh": {"data": 8}, "recompute": "offload"}, A100, BF16, 1024, "deepspeed", 0, ["activations are not offloaded to host memory"]),
    ("offload in 2 stages", LLAMA, {"mesh": {"stage": 2}, "recompute": "offload"}, A100, BF16, 1024, "megatron", 1, ["2 stages", "rule offload-in-pipelines"]),
    ("shards in a node", LLAMA, {"mesh": {"data": 16}, "optimizer_sharding": 3, "optimizer_sharding_ranks": 8}, A100, BF16, 1024, "deepspeed", 0,
     ['"zero_hpz_partition_size": 8', "sharded over all 16 ranks"]),
    ("shards in half a node", LLAMA, {"mesh": {"data": 16}, "optimizer_sharding": 3, "optimizer_sharding_ranks": 4}, A100, BF16, 1024, "deepspeed", 0,
     ["sharded over all 16 ranks"]),
    ("experts cut by ranks of model", MIXTRAL, {"mesh": {"model": 2, "expert": 2}, "sequence_parallel": True}, A100, BF16, 1024, "megatron", 0,
     ["--expert-tensor-parallel-size 2"]),
    ("remainders of bf16 weights", LLAMA, {"mesh": {"data": 8}, "optimizer_sharding": 1, "optimizer_states": "remainders"}, A100, BF16, 1024, "megatron", 0,
     ["--use-precision-aware-optimizer"]),
    ("moments in bf16", LLAMA, {"mesh": {"data": 8}, "optimizer_sharding": 1, "optimizer_states": "bf16"}, A100, BF16, 1024, "megatron", 0,
     ["--exp-avg-dtype bf16", "--exp-avg-sq-dtype bf16"]),
    ("moments and gradients in bf16", LLAMA, {"mesh": {"data": 8}, "optimizer_sharding": 1, "optimizer_states": "bf16", "gradient_dtype": "bf16"}, A100, BF16,
     1024, "megatron", 0, ["--main-grads-dtype bf16", "--grad-reduce-in-bf16"]),
    ("states on the host", LLAMA, {"mesh": {"data": 8}, "optimizer_sharding": 1, "optimizer_states": "host"}, A100, BF16, 1024, "megatron", 0,
     ["--optimizer-cpu-offload", "--optimizer-offload-fraction 1.0", "--use-precision-aware-optimizer"]),
    ("states on the host", LLAMA, {"mesh": {"data": 8}, "optimizer_sharding": 1, "optimizer_states": "host"}, A100, BF16, 1024, "megatron-bridge", 0,
     ["optimizer_cpu_offload=True", "use_precision_aware_optimizer=True"]),
    ("states on the host", LLAMA, {"mesh": {"data": 8}, "optimizer_sharding": 1, "optimizer_states": "host"}, A100, BF16, 1024, "deepspeed", 0,
     ["all states are in f32 on the device"]),
    ("states on the host of every rank", LLAMA, {"mesh": {"data": 8}, "optimizer_sharding": 0, "optimizer_states": "host"}, A100, BF16, 1024, "megatron", 1,
     ["optimizer_states is host", "optimizer_sharding is 0"]),
    ("states of FSDP on the host", LLAMA, {"mesh": {"data": 8}, "optimizer_sharding": 3, "optimizer_states": "host"}, A100, BF16, 1024, "megatron", 1,
     ["optimizer_states is host", "optimizer_sharding is 3"]),
    ("remainders of f32 weights", LLAMA, {"mesh": {"data": 8}, "optimizer_sharding": 1, "optimizer_states": "remainders", "attention": "unfused"}, A100, F32,
     1024, "megatron", 1, ["optimizer_states is remainders", "--dtype is f32"]),
    ("exchanges of tokens that overlap", MIXTRAL, {"mesh": {"expert": 4}, "microbatch": 1, "overlap": ["gradients", "experts"]}, A100, BF16, 1024, "megatron", 0,
     ["--overlap-moe-expert-parallel-comm", "--delay-wgrad-compute", "CUDA_DEVICE_MAX_CONNECTIONS=32"]),
    ("exchanges of tokens that overlap", MIXTRAL, {"mesh": {"expert": 4}, "microbatch": 1, "overlap": ["gradients", "experts"]}, A100, BF16, 1024,
     "megatron-bridge", 0, ["overlap_moe_expert_parallel_comm=True", "delay_wgrad_compute=True"]),
    ("exchanges of tokens that overlap", MIXTRAL, {"mesh": {"expert": 4}, "microbatch": 1, "overlap": ["gradients", "experts"]}, A100, BF16, 1024, "nemo", 0,
     ["exchanges of tokens with experts run between kernels"]),
    ("exchanges that overlap under 1F1B", MIXTRAL, {"mesh": {"expert": 4, "stage": 2}, "microbatch": 1, "overlap": ["experts"]}, A100, BF16, 1024, "megatron", 1,
     ["rule overlap-of-experts", "2 stages without chunks"]),
    ("exchanges that overlap in chunks", MIXTRAL, {"mesh": {"expert": 4, "stage": 2}, "microbatch": 1, "overlap": ["gradients", "tensor", "stage", "experts"],
                                                   "schedule": {"name": "interleaved", "chunks": 2}}, A100, BF16, 1024, "megatron", 0,
     ["--overlap-moe-expert-parallel-comm", "--num-virtual-stages-per-pipeline-rank 2"]),
    ("exchanges that overlap and full recomputation", MIXTRAL, {"mesh": {"expert": 4}, "recompute": "full", "overlap": ["experts"]}, A100, BF16, 1024,
     "megatron", 1, ["rule overlap-of-experts", "recompute full"]),
    ("exchanges that overlap beside tensor parallelism", MIXTRAL, {"mesh": {"expert": 2, "model": 2}, "sequence_parallel": True, "overlap": ["experts"]}, A100,
     BF16, 1024, "megatron", 1, ["rule overlap-of-experts", "2 ranks of mesh.model"]),
    ("exchanges that overlap in f32", MIXTRAL, {"mesh": {"expert": 4}, "attention": "unfused", "overlap": ["experts"]}, A100, F32, 1024, "megatron", 1,
     ["rule overlap-of-experts", "the type f32"]),
    ("exchanges that overlap in f16", MIXTRAL, {"mesh": {"expert": 4}, "overlap": ["experts"]}, A100, F16, 1024, "megatron", 0,
     ["--overlap-moe-expert-parallel-comm", "--fp16"]),
    ("biased experts on 2 ranks", BIASED, {"mesh": {"model": 2, "data": 2}, "sequence_parallel": True}, A100, BF16, 1024, "megatron-bridge", 1,
     ["another model", "the other biases are left out"]),
    ("biased experts on 2 ranks", BIASED, {"mesh": {"model": 2, "data": 2}, "sequence_parallel": True}, A100, BF16, 1024, "ms-swift", 1,
     ["experts with biases", "rule biased-experts"]),
    ("biased experts", BIASED, {"mesh": {"data": 4}}, A100, BF16, 1024, "nemo", 1, ["another model", "the other biases are left out"]),
    ("biases of latent attention", {**DEEPSEEK, "attention_bias": True}, {"mesh": {"expert": 4}}, A100, BF16, 1024, "megatron", 1,
     ["another model", "the other biases are left out"]),
    ("6 experts on 4 ranks", dict(BIASED, attention_bias=False), {"mesh": {"expert": 4}}, A100, BF16, 1024, "torchtitan-0.3", 1,
     ["6 experts", "4 ranks", "rule experts"]),
    ("experts without sequence parallelism", MIXTRAL, {"mesh": {"model": 2, "data": 2}, "sequence_parallel": False}, A100, BF16, 1024, "megatron", 1,
     ["rule experts-with-tensor-parallelism", "sequence parallelism"]),
    ("experts in f16", MIXTRAL, {"mesh": {"expert": 4}, "attention": "unfused"}, V100, F16, 1024, "megatron", 0,
     ["--fp16", "--expert-model-parallel-size 4"]),
    ("experts in f16", MIXTRAL, {"mesh": {"expert": 4}, "attention": "unfused"}, V100, F16, 1024, "nemo", 1, ["rule experts-in-f16", "mesh.expert is 4"]),
    ("experts and Apex", MIXTRAL, {"mesh": {"expert": 4}, "optimizer_sharding": 1}, A100, BF16, 1024, "nemo", 1, ["Apex", "rule experts-with-apex"]),
    ("experts in DeepSpeed's pipelines", MIXTRAL, {"mesh": {"stage": 2, "data": 2}}, A100, BF16, 1024, "deepspeed", 1, ["pipelines have no layers with experts"]),
    ("context in DeepSpeed's pipelines", GPT2, {"mesh": {"stage": 2, "context": 2}}, A100, BF16, 1024, "deepspeed", 1, ["rule context-in-pipelines"]),
    ("a gate of the shared expert", QWEN2_MOE, {"mesh": {"expert": 4}}, A100, BF16, 1024, "megatron", 0, ["--moe-shared-expert-gate"]),
    ("YaRN of latent attention", DEEPSEEK, {"mesh": {"expert": 4}}, A100, BF16, 1024, "megatron", 0, ["--rope-type yarn", "--mscale 0.7", "--mscale-all-dim 0.7"]),
    ("latent attention with whole queries", {**DEEPSEEK, "q_lora_rank": None}, {"mesh": {"expert": 4}}, A100, BF16, 1024, "megatron", 1,
     ["q_lora_rank is null", "another model", "rule norm-of-queries"]),
    ("YaRN of latent attention", DEEPSEEK, {"mesh": {"expert": 4}}, A100, BF16, 1024, "torchtitan-0.3", 0, ["rope_factor=40.0", "mscale=0.7"]),
    ("latent attention of one group of experts", {**DEEPSEEK, "n_group": 4, "topk_group": 2}, {"mesh": {"expert": 4}}, A100, BF16, 1024, "megatron", 1,
     ["another model", "sum of their 1 best experts' scores (2 experts of a token in 2 groups), not of 2"]),
    ("two experts of one group", {**DEEPSEEK, "n_group": 4, "topk_group": 1}, {"mesh": {"expert": 4}}, A100, BF16, 1024, "megatron", 0,
     ["--moe-router-num-groups 4", "--moe-router-group-topk 1"]),
    ("weights of sigmoids that do not add to one", {**DEEPSEEK, "norm_topk_prob": False}, {"mesh": {"expert": 4}}, A100, BF16, 1024, "megatron", 1,
     ["another model", "divided by their sum"]),
    ("YaRN with mscale alone", {**DEEPSEEK, "rope_scaling": {**DEEPSEEK["rope_scaling"], "mscale_all_dim": 0}}, {"mesh": {"expert": 4}}, A100, BF16, 1024,
     "megatron", 0, ["--mscale 1.0", "--mscale-all-dim 0.0"]),
    ("YaRN of grouped queries", YARN, {"mesh": {"data": 4}}, A100, BF16, 1024, "megatron", 0,
     ["--position-embedding-type yarn", "--rotary-scaling-factor 4.0", "--yarn-original-max-position-embeddings 16384", "--yarn-beta-fast 32.0", "--mscale 1.0",
      "--mscale-all-dim 0.0", "--yarn-correction-range-round-to-int"]),
    ("YaRN with a factor of attention", dict(YARN, rope_scaling={**YARN["rope_scaling"], "attention_factor": 1.5, "truncate": False}), {"mesh": {"data": 4}},
     A100, BF16, 1024, "megatron", 0, ["--mscale 3.606737602222", "--no-yarn-correction-range-round-to-int"]),
    ("YaRN of grouped queries", YARN, {"mesh": {"data": 4}}, A100, BF16, 1024, "megatron-bridge", 0,
     ['position_embedding_type="yarn"', "yarn_rotary_scaling_factor=4.0", "yarn_mscale=1.0", "yarn_mscale_all_dim=0.0", "yarn_beta_slow=1.0"]),
    ("YaRN of grouped queries", YARN, {"mesh": {"data": 4}}, ASCEND, BF16, 1024, "mindspeed", 1, ["another model", "YaRN is for latent attention"]),
    ("stretched positions", dict(LLAMA, rope_scaling={"rope_type": "linear", "factor": 2.0}), {"mesh": {"data": 4}}, ASCEND, BF16, 1024, "mindspeed", 1,
     ["another model", "stretches no positions"]),
    ("waves divided by 32", dict(LLAMA, rope_scaling=LLAMA32), {"mesh": {"data": 4}}, A100, BF16, 1024, "megatron", 1, ["another model", "divides waves by 8, not by 32"]),
    ("waves divided by 32", dict(LLAMA, rope_scaling=LLAMA32), {"mesh": {"data": 4}}, A100, BF16, 1024, "megatron-bridge", 0, ["rope_scaling_factor=32.0"]),
    ("a scaled embedding and gated GELU", GEMMA, {"mesh": {"data": 4}}, A100, BF16, 1024, "megatron", 1, ["another model", "there is no such activation"]),
    ("a scaled embedding and gated GELU", GEMMA, {"mesh": {"data": 4}}, A100, BF16, 1024, "megatron-bridge", 0,
     ["activation_func=fast_gelu", "gated_linear_unit=True", "bias_activation_fusion=False", "use_mup=True", "mup_embedding_mult=32.0", "mup_attn_scale_power=0.5"]),
    ("ReLU", dict(GPT2, activation_function="relu"), {"mesh": {"data": 4}}, A100, BF16, 1024, "megatron-bridge", 0,
     ["activation_func=F.relu", "bias_activation_fusion=False"]),
    ("T5", T5, {"mesh": {"data": 4}}, A100, BF16, 512, "megatron", 1, ["another model", "not t5 (sequence-to-sequence)"]),
    ("ViT", VIT, {"mesh": {"data": 4}}, A100, BF16, 0, "megatron", 1, ["another model", "not vit (image)"]),
    ("FSDP overlaps gradients", LLAMA, {"mesh": {"data": 8}, "optimizer_sharding": 2, "overlap": ["parameters"]}, H100, BF16, 2048, "megatron", 0,
     ["--overlap-grad-reduce", 'Megatron FSDP always overlaps what it shards (the plan does not list "gradients")']),
    ("FSDP overlaps parameters", LLAMA, {"mesh": {"data": 8}, "optimizer_sharding": 3, "overlap": ["gradients"]}, H100, BF16, 2048, "megatron-bridge", 0,
     ['Megatron FSDP always overlaps what it shards (the plan does not list "parameters")']),
    ("BERT", BERT, {"mesh": {"data": 4}}, A100, BF16, 512, "torchtitan-0.3", 1, ["another model", "bert, masked"]),
    ("a model without a flavor", LLAMA, {"mesh": {"data": 4}}, A100, BF16, 512, "torchtitan", 1, ["none of which has exactly these sizes", "--to torchtitan-0.3"]),
    ("a model without a flavor", LLAMA, {"mesh": {"data": 4}}, A100, BF16, 512, "torchtitan-0.3", 0, ["dim=2048", "n_heads=16", "range(8)"]),
]


def arguments_after_program(text):
    words = shlex.split(text.replace("\\\n", " "), comments=True)
    words = words[words.index("pretrain_gpt.py") + 1:]
    return words[:-1] if words[-1] == "$@" else words


class Rules(KerfTest):
    def export(self, model, plan, cluster, dtype, sequence, target, *more):
        size = ["--sequence", sequence] if sequence else []
        mesh = dict(dict.fromkeys(("stage", "data", "context", "expert", "model"), 1), **plan["mesh"])
        content = {"kerf": 1, "global_batch": 16, **plan, "mesh": mesh}
        return kerf("export", self.write("config.json", model), "--plan", self.write("plan.json", content), "--cluster",
                    os.path.join(CLUSTERS, f"{cluster}.json"), *size, "--dtype", dtype, "--optimizer", "adamw", "--to", target, *more)

    def test_edge_plans(self):
        self.assertGreaterEqual(len(EDGES), 30)
        for name, model, plan, cluster, dtype, sequence, target, status, words in EDGES:
            with self.subTest(name, target=target):
                out = self.path("exported")
                if os.path.exists(out):
                    os.remove(out)
                done = self.export(model, plan, cluster, dtype, sequence, target, "-o", out)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertEqual(os.path.exists(out), status == 0)
                written = self.read("exported").decode() if status == 0 else ""
                text = written + done.stdout if status == 0 else done.stderr
                for word in words:
                    self.assertIn(word, text)
                if status == 0 and target == "megatron":
                    args = parser_of(MEGATRON_LM).parse_args(arguments_after_program(written))
                    ranks = 1
                    for size in plan["mesh"].values():
                        ranks *= size
                    check_megatron_lm(args, ranks)

    def test_rules_find_what_is_wrong(self):
        """The table of Megatron-LM refuses unknown arguments, values outside of the choices, and broken rules."""
        done = self.export(LLAMA, {"mesh": {"stage": 2, "data": 2, "model": 2}, "optimizer_sharding": 1, "recompute": "full"}, "dgx-a100", "bf16", 2048,
                           "megatron")
        words = arguments_after_program(done.stdout)
        parser = parser_of(MEGATRON_LM)
        check_megatron_lm(parser.parse_args(words), 8)
        for broken in (words + ["--no-such-argument"], ["few" if word == "8" else word for word in words],
                       ["some" if word == "full" else word for word in words]):
            with self.assertRaises(ValueError):
                parser.parse_args(broken)
        for change in ({"num_attention_heads": 15}, {"num_layers": 7}, {"use_distributed_optimizer": False}, {"global_batch_size": 15},
                       {"recompute_method": None}, {"bf16": False}):
            args = parser.parse_args(words)
            for name, value in change.items():
                setattr(args, name, value)
            with self.assertRaises(ValueError, msg=change):
                check_megatron_lm(args, 8)

    def test_arguments_that_the_page_leaves_out(self):
        """What docs/export.md says is not written, with a reason, is nothing that the parser of these tests takes from a script."""
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/export.md"), encoding="utf-8") as page:
            rows = re.findall(r"^\| (`--.*`) \| no: .+ \|$", page.read(), re.M)
        names = {name for row in rows for name in re.findall(r"--[a-z0-9-]+", row)}
        self.assertLessEqual({"--fine-grained-activation-offloading", "--hierarchical-context-parallel-sizes", "--use-torch-fsdp2"}, names)
        self.assertEqual(names & set(MEGATRON_LM), set())
        mesh = {"mesh": {"context": 8}, "context_style": "hierarchical"}
        done = self.export(LLAMA, mesh, "dgx-h100", "bf16", 2048, "megatron")
        self.assertEqual(done.returncode, 1)
        self.assertIn("context_style", done.stderr)

    def test_launch_line_of_deepspeed(self):
        """Every argument of the launch line is one of Megatron-DeepSpeed's, with a value of its type."""
        for model, plan in ((LLAMA, {"mesh": {"stage": 2, "model": 2}, "sequence_parallel": True, "recompute": "full"}), (GPT2, {"mesh": {"context": 4}}),
                            (MIXTRAL, {"mesh": {"expert": 4}, "optimizer_sharding": 2})):
            done = self.export(model, plan, "dgx-a100", "bf16", 1024, "deepspeed")
            line = re.search(r"^.*pretrain_gpt\.py .*$", done.stderr, re.M).group(0)
            args = parser_of(MEGATRON_DEEPSPEED).parse_args(arguments_after_program(line))
            self.assertEqual(args.zero_stage, json.loads(done.stdout)["zero_optimization"]["stage"])

    def test_the_search_keeps_the_rules(self):
        """plan --for T finds plans that T runs: 12 heads are never cut in 8, V100s get unfused attention."""
        twelve = dict(LLAMA, hidden_size=1536, num_attention_heads=12, num_key_value_heads=12)
        for cluster, dtype, wanted in (("dgx-a100", "bf16", None), ("dgx-v100", "f16", "unfused")):
            self.succeed("plan", self.write("config.json", twelve), "--for", "megatron", "--cluster", os.path.join(CLUSTERS, f"{cluster}.json"), "--ranks", 8,
                         "--global-batch", 16, "--sequence", 1024, "--dtype", dtype, "--optimizer", "adamw", "--budget", 1, "--top", 0, "-o",
                         self.path("found.json"))
            plan = json.loads(self.read("found.json"))
            self.assertEqual(12 % plan["mesh"]["model"], 0)
            if wanted:
                self.assertEqual(plan["attention"], wanted)
            self.succeed("export", "--plan", self.path("found.json"), "--to", "megatron")
        # Muon goes without FSDP, and the plan has none of it. Gradients and parameters overlap.
        for pins in ({}, {"optimizer_sharding": 0}, {"optimizer_sharding": 1, "mesh": {"data": 4, "model": 2}}):
            self.succeed("plan", self.write("config.json", LLAMA), "--for", "megatron", "--cluster", os.path.join(CLUSTERS, "dgx-h100.json"), "--ranks", 8,
                         "--global-batch", 16, "--sequence", 2048, "--dtype", "bf16", "--optimizer", "muon", "--budget", 1, "--top", 0, "--constraints",
                         self.write("pins.json", dict(pins, kerf=1)), "-o", self.path("found.json"))
            plan = json.loads(self.read("found.json"))
            told = self.succeed("export", "--plan", self.path("found.json"), "--to", "megatron", "-o", self.path("muon.sh")).stdout
            self.assertNotRegex(told, r"(?m)^ *(overlap|optimizer_sharding\w*) = ")
            args = parser_of(MEGATRON_LM).parse_args(arguments_after_program(self.read("muon.sh").decode()))
            check_megatron_lm(args, 8)
            self.assertEqual((args.optimizer, args.use_distributed_optimizer), ("muon", plan["optimizer_sharding"] == 1))
            self.assertEqual(args.overlap_grad_reduce, "gradients" in plan["overlap"])
            self.assertEqual(args.overlap_param_gather, {"gradients", "parameters"} <= set(plan["overlap"]) and plan["optimizer_sharding"] == 1)
            expected = float(re.search(r"Expected as written: (\S+) s a step", told).group(1))
            self.assertAlmostEqual(expected / plan["predicted"]["step_seconds"], 1, delta=0.02)
        self.refuse(1, ["optimizer_sharding is 3", "it has 0, 1"], "plan", self.write("config.json", LLAMA), "--for", "megatron", "--cluster",
                    os.path.join(CLUSTERS, "dgx-h100.json"), "--ranks", 8, "--global-batch", 16, "--sequence", 2048, "--dtype", "bf16", "--optimizer", "muon",
                    "--budget", 1, "--constraints", self.write("pins.json", {"kerf": 1, "optimizer_sharding": 3}))
        pins = self.write("pins.json", {"kerf": 1, "mesh": {"model": 8}})
        self.refuse(1, ["12 attention heads", "rule heads"], "plan", self.write("config.json", twelve), "--for", "megatron", "--cluster",
                    os.path.join(CLUSTERS, "dgx-a100.json"), "--ranks", 8, "--global-batch", 16, "--sequence", 1024, "--dtype", "bf16", "--optimizer", "adamw",
                    "--budget", 1, "--constraints", pins)


if __name__ == "__main__":
    main()
