# SPDX-License-Identifier: Apache-2.0
"""The set of plans: families of models, clusters and features."""
from __future__ import annotations

import dataclasses

LLAMA31 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
MODELS = {
    "llama-3.1-8b": {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
                     "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072, "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
                     "rope_scaling": LLAMA31},
    "llama-3.1-70b": {"model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 8,
                      "intermediate_size": 28672, "vocab_size": 128256, "max_position_embeddings": 131072, "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
                      "rope_scaling": LLAMA31},
    "llama-2-7b": {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "intermediate_size": 11008,
                   "vocab_size": 32000, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5},
    "llama-biased": {"model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048, "num_attention_heads": 16, "intermediate_size": 5504,
                     "vocab_size": 32000, "max_position_embeddings": 4096, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    "llama-yarn": {"model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 8,
                   "intermediate_size": 5504, "vocab_size": 32000, "max_position_embeddings": 65536, "rms_norm_eps": 1e-5,
                   "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16384}},
    "mistral-7b": {"model_type": "mistral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
                   "intermediate_size": 14336, "vocab_size": 32000, "max_position_embeddings": 32768, "sliding_window": 4096},
    "qwen2-7b": {"model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4,
                 "intermediate_size": 18944, "vocab_size": 152064, "max_position_embeddings": 32768, "rope_theta": 1000000.0},
    "qwen3-8b": {"model_type": "qwen3", "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                 "intermediate_size": 12288, "vocab_size": 151936, "max_position_embeddings": 40960, "rope_theta": 1000000.0},
    "qwen3-1.7b": {"model_type": "qwen3", "num_hidden_layers": 28, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
                   "intermediate_size": 6144, "vocab_size": 151936, "max_position_embeddings": 40960, "rope_theta": 1000000.0, "tie_word_embeddings": True},
    "qwen3-30b-a3b": {"model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4,
                      "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
                      "norm_topk_prob": True, "vocab_size": 151936, "max_position_embeddings": 40960, "rope_theta": 1000000.0},
    "mixtral-8x7b": {"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
                     "intermediate_size": 14336, "vocab_size": 32000, "max_position_embeddings": 32768, "num_local_experts": 8, "rope_theta": 1000000.0},
    "qwen2-moe": {"model_type": "qwen2_moe", "num_hidden_layers": 24, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 16,
                  "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts": 60, "num_experts_per_tok": 4, "vocab_size": 151936},
    "olmoe": {"model_type": "olmoe"},
    "deepseek-v2-lite": {"model_type": "deepseek_v2", "num_hidden_layers": 27, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 16,
                         "q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
                         "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
                         "first_k_dense_replace": 1, "topk_method": "greedy", "vocab_size": 102400, "max_position_embeddings": 163840,
                         "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707,
                                          "original_max_position_embeddings": 4096}},
    "deepseek-v3": {"model_type": "deepseek_v3", "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
                                                                  "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096},
                    "max_position_embeddings": 163840},
    "gpt2-xl": {"model_type": "gpt2", "n_layer": 48, "n_embd": 1600, "n_head": 25, "n_positions": 1024},
    "gpt2-medium": {"model_type": "gpt2", "n_layer": 24, "n_embd": 1024, "n_head": 16, "n_positions": 1024},
    "gpt-neox-20b": {"model_type": "gpt_neox"},
    "opt-6.7b": {"model_type": "opt", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "ffn_dim": 16384},
    "bloom-7b": {"model_type": "bloom", "n_layer": 30, "hidden_size": 4096, "n_head": 32},
    "falcon-7b": {"model_type": "falcon", "num_hidden_layers": 32, "hidden_size": 4544, "num_attention_heads": 71},
    "gemma-7b": {"model_type": "gemma"},
    "bert-large": {"model_type": "bert", "num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096},
    "t5-large": {"model_type": "t5", "d_model": 1024, "d_kv": 64, "d_ff": 4096, "num_layers": 24, "num_heads": 16},
    "vit-large": {"model_type": "vit", "num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096},
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A job: a model on machines, with what the plan is pinned to."""

    name: str
    model: str
    cluster: str
    ranks: int
    batch: int
    sequence: int
    dtype: str = "bf16"
    pins: dict = dataclasses.field(default_factory=dict)


CASES = [
    Case("llama8b", "llama-3.1-8b", "dgx-h100", 16, 64, 8192),
    Case("llama8b-pipeline", "llama-3.1-8b", "dgx-a100", 32, 128, 4096, pins={"mesh": {"stage": 4, "model": 2}}),
    Case("llama8b-interleaved", "llama-3.1-8b", "dgx-a100", 32, 128, 4096, pins={"mesh": {"stage": 4}, "schedule": {"name": "interleaved", "chunks": 2}}),
    Case("llama8b-context", "llama-3.1-8b", "dgx-h100", 32, 32, 32768, pins={"mesh": {"context": 4}}),
    Case("llama8b-sharding0", "llama-3.1-8b", "dgx-b200", 8, 32, 4096, pins={"optimizer_sharding": 0}),
    Case("llama8b-sharding1", "llama-3.1-8b", "dgx-a100", 16, 64, 4096, pins={"optimizer_sharding": 1}),
    Case("llama8b-sharding2", "llama-3.1-8b", "dgx-a100", 16, 64, 4096, pins={"optimizer_sharding": 2, "mesh": {"stage": 1}}),
    Case("llama8b-sharding3", "llama-3.1-8b", "dgx-a100", 16, 64, 4096, pins={"optimizer_sharding": 3, "mesh": {"stage": 1}}),
    Case("llama8b-recompute", "llama-3.1-8b", "dgx-a100", 16, 64, 8192, pins={"recompute": "full"}),
    Case("llama8b-selective", "llama-3.1-8b", "dgx-a100", 16, 64, 8192, pins={"recompute": "selective"}),
    Case("llama8b-offload", "llama-3.1-8b", "dgx-a100", 16, 64, 8192, pins={"recompute": "offload"}),
    Case("llama8b-f8", "llama-3.1-8b", "dgx-h100", 16, 64, 8192, dtype="f8"),
    Case("llama8b-zero-bubble", "llama-3.1-8b", "dgx-a100", 32, 128, 4096, pins={"mesh": {"stage": 4}, "schedule": {"name": "zero-bubble"}}),
    Case("llama8b-zero-bubble-2p", "llama-3.1-8b", "dgx-h100", 32, 128, 4096,
         pins={"mesh": {"stage": 4, "model": 2}, "schedule": {"name": "zero-bubble", "variant": "2p"}}),
    Case("llama8b-few-microbatches", "llama-3.1-8b", "dgx-a100", 16, 4, 4096, pins={"mesh": {"stage": 4, "data": 2, "model": 2}, "microbatch": 1}),
    Case("llama8b-ulysses", "llama-3.1-8b", "dgx-h100", 16, 32, 16384, pins={"mesh": {"context": 4, "stage": 1}, "context_style": "ulysses"}),
    Case("llama8b-uneven", "llama-3.1-8b", "dgx-a100", 16, 64, 4096, pins={
        "mesh": {"stage": 4}, "schedule": {"name": "1f1b"},
        "stages": [{"layers": [0, 6]}, {"layers": [7, 15]}, {"layers": [16, 24]}, {"layers": [25, 31]}]}),
    Case("llama70b", "llama-3.1-70b", "dgx-h100", 64, 256, 8192),
    Case("llama70b-selene", "llama-3.1-70b", "selene", 128, 512, 4096, pins={"mesh": {"stage": 8, "model": 8}}),
    Case("llama2", "llama-2-7b", "p4d", 16, 128, 4096),
    Case("llama2-f32", "llama-2-7b", "dgx-a100", 16, 64, 2048, dtype="f32"),
    Case("llama2-v100", "llama-2-7b", "dgx-v100", 32, 64, 2048, dtype="f16"),
    Case("llama-biased", "llama-biased", "dgx-a100", 8, 64, 4096, pins={"mesh": {"model": 2}}),
    Case("llama-yarn", "llama-yarn", "dgx-a100", 16, 64, 4096),
    Case("mistral", "mistral-7b", "dgx-a100", 16, 64, 4096),
    Case("mistral-window", "mistral-7b", "dgx-a100", 16, 32, 16384),
    Case("qwen2", "qwen2-7b", "dgx-a100", 16, 64, 4096, pins={"mesh": {"model": 4}}),
    Case("qwen3", "qwen3-8b", "dgx-h100", 16, 64, 4096),
    Case("qwen3-tied-pipeline", "qwen3-1.7b", "dgx-a100", 8, 64, 4096, pins={"mesh": {"stage": 2}}),
    Case("moe-qwen3", "qwen3-30b-a3b", "dgx-h100", 32, 128, 4096, pins={"mesh": {"expert": 8}}),
    Case("moe-mixtral", "mixtral-8x7b", "dgx-h100", 32, 64, 4096, pins={"mesh": {"expert": 8}}),
    Case("moe-mixtral-pipeline", "mixtral-8x7b", "dgx-a100", 64, 128, 4096, pins={"mesh": {"stage": 4, "expert": 4, "model": 2}}),
    Case("moe-mixtral-f16", "mixtral-8x7b", "dgx-a100", 64, 128, 4096, dtype="f16", pins={"mesh": {"stage": 4, "expert": 4, "model": 2}}),
    Case("moe-qwen2", "qwen2-moe", "dgx-a100", 16, 64, 4096, pins={"mesh": {"expert": 4}}),
    Case("moe-olmoe", "olmoe", "dgx-a100", 8, 64, 4096),
    Case("moe-deepseek-v2", "deepseek-v2-lite", "dgx-h100", 16, 64, 4096, pins={"mesh": {"expert": 8}}),
    Case("moe-deepseek-v3", "deepseek-v3", "eos", 512, 2048, 4096, pins={"mesh": {"expert": 32}}),
    Case("moe-qwen3-overlap", "qwen3-30b-a3b", "dgx-h100", 64, 256, 4096, pins={
        "mesh": {"expert": 8, "model": 1, "stage": 1, "context": 1}, "optimizer_sharding": 1, "overlap": ["gradients", "parameters", "tensor", "experts"]}),
    Case("states-host", "llama-3.1-8b", "dgx-a100", 8, 64, 4096, pins={"optimizer_sharding": 1, "optimizer_states": "host"}),
    Case("states-bf16", "llama-3.1-8b", "dgx-a100", 16, 64, 4096, pins={"optimizer_sharding": 1, "optimizer_states": "bf16", "gradient_dtype": "bf16"}),
    Case("gpt2-xl", "gpt2-xl", "dgx-a100", 8, 64, 1024, pins={"mesh": {"model": 2}}),
    Case("gpt2", "gpt2-medium", "dgx-a100", 8, 64, 1024, pins={"mesh": {"model": 2}}),
    Case("gpt-neox", "gpt-neox-20b", "dgx-a100", 32, 128, 2048),
    Case("opt", "opt-6.7b", "dgx-a100", 16, 64, 2048),
    Case("bloom", "bloom-7b", "dgx-a100", 16, 64, 2048),
    Case("falcon", "falcon-7b", "dgx-a100", 16, 64, 2048),
    Case("gemma", "gemma-7b", "dgx-a100", 16, 64, 4096),
    Case("bert", "bert-large", "dgx-a100", 8, 64, 512),
    Case("t5", "t5-large", "dgx-a100", 8, 64, 512),
    Case("vit", "vit-large", "dgx-a100", 8, 256, 0),
]
