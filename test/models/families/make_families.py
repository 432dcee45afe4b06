#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tiny Hugging Face models of this folder: config.json, model.safetensors, batches.npz and golden.json, with Transformers' own
losses. Of the folders given, else of all.

Needs PyTorch 2.13 and Transformers 5.23 (pip install torch transformers). Weights and data are random from fixed seeds.
"""
import json
import os
import sys

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForImageClassification, \
    AutoModelForSeq2SeqLM

STEPS, BATCH, SEQUENCE, VOCABULARY = 5, 3, 12, 40
LR = {"sgd": 0.05, "adamw": 0.002}
SMALL = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "bos_token_id": 0,
         "eos_token_id": 0, "pad_token_id": None}
LLAMA = {**SMALL, "intermediate_size": 24, "num_key_value_heads": 2, "max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 2.0, "beta_slow": 0.5}
LATENT = {**LLAMA, "num_key_value_heads": 4, "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5,
          "num_hidden_layers": 3, "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 12}
T5 = {"vocab_size": VOCABULARY, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 3, "decoder_start_token_id": 0,
      "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10}

# folder -> (model_type, what differs from its defaults). Every family, and the forms that its configuration can choose.
MODELS = {
    "gpt2": ("gpt2", {"vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_inner": 40, "n_positions": 16,
                      "activation_function": "relu", "tie_word_embeddings": False}),
    "llama-scaled": ("llama", {**LLAMA, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "head_dim": 6,
                               "rope_parameters": {"rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0, "low_freq_factor": 1.0,
                                                   "high_freq_factor": 4.0, "original_max_position_embeddings": 16}}),
    "llama-yarn": ("llama", {**LLAMA, "head_dim": 12, "rope_parameters": {**YARN, "truncate": False}}),
    "mistral": ("mistral", {**LLAMA, "sliding_window": 5}),
    "qwen2": ("qwen2", {**LLAMA, "rope_parameters": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0}}),
    "qwen3": ("qwen3", {**LLAMA, "head_dim": 8}),
    "gemma": ("gemma", {**LLAMA, "head_dim": 8, "num_key_value_heads": 1}),
    "mixtral": ("mixtral", {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen2-moe": ("qwen2_moe", {**LLAMA, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
                                "shared_expert_intermediate_size": 20}),
    "qwen3-moe": ("qwen3_moe", {**LLAMA, "head_dim": 8, "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 12,
                                "norm_topk_prob": True}),
    "olmoe": ("olmoe", {**LLAMA, "num_experts": 8, "num_experts_per_tok": 3, "intermediate_size": 12}),
    "deepseek-v2": ("deepseek_v2", {**LATENT, "q_lora_rank": None, "first_k_dense_replace": 1, "n_shared_experts": 2}),
    "deepseek-v2-groups": ("deepseek_v2", {**LATENT, "q_lora_rank": 7, "topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2,
                                           "n_shared_experts": 1, "routed_scaling_factor": 2.5, "attention_bias": True, "mlp_bias": True,
                                           "rope_parameters": {**YARN, "mscale": 0.7, "mscale_all_dim": 0.4}}),
    "deepseek-v3": ("deepseek_v3", {**LATENT, "q_lora_rank": 7, "first_k_dense_replace": 2, "num_hidden_layers": 4, "n_group": 4,
                                    "topk_group": 2, "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}}),
    "deepseek-v3-halves": ("deepseek_v3", {**LATENT, "q_lora_rank": None, "first_k_dense_replace": 0, "n_group": 1, "topk_group": 1,
                                           "rope_interleave": False, "norm_topk_prob": False, "num_hidden_layers": 2}),
    "gpt-neox": ("gpt_neox", {**SMALL, "intermediate_size": 40, "max_position_embeddings": 32, "num_attention_heads": 2}),
    "gpt-neox-serial": ("gpt_neox", {**SMALL, "intermediate_size": 40, "max_position_embeddings": 32, "use_parallel_residual": False,
                                     "num_attention_heads": 2, "attention_bias": False,
                                     "rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 1.0}}),
    "opt": ("opt", {**SMALL, "ffn_dim": 40, "max_position_embeddings": 16, "word_embed_proj_dim": 16}),
    "opt-post-norm": ("opt", {**SMALL, "ffn_dim": 40, "max_position_embeddings": 16, "word_embed_proj_dim": 16,
                              "do_layer_norm_before": False}),
    "bloom": ("bloom", {"vocab_size": VOCABULARY, "hidden_size": 18, "n_layer": 2, "n_head": 6, "pad_token_id": None}),
    "falcon": ("falcon", {**SMALL, "max_position_embeddings": 32}),
    "falcon-grouped": ("falcon", {**SMALL, "new_decoder_architecture": True, "num_kv_heads": 2, "max_position_embeddings": 32}),
    "falcon-serial": ("falcon", {**SMALL, "multi_query": False, "parallel_attn": False, "bias": True, "ffn_hidden_size": 24,
                                 "max_position_embeddings": 32}),
    "bert": ("bert", {**SMALL, "intermediate_size": 24, "max_position_embeddings": 16, "type_vocab_size": 3, "pad_token_id": 0}),
    "vit": ("vit", {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24, "image_size": 12,
                    "patch_size": 4, "num_channels": 2, "num_labels": 5, "qkv_bias": False}),
    "t5": ("t5", {**T5, "num_decoder_layers": 3}),
    "t5-gated": ("t5", {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
}
CLASSES = {"bert": AutoModelForMaskedLM, "vit": AutoModelForImageClassification, "t5": AutoModelForSeq2SeqLM}
NO_DROPOUT = ["resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout", "hidden_dropout", "dropout", "hidden_dropout_prob",
              "attention_probs_dropout_prob", "activation_dropout", "layerdrop", "dropout_rate"]


def data(family, generator):
    def integers(most, *shape):
        return torch.randint(0, most, (STEPS, *shape), generator=generator)

    if family == "vit":
        return {"pixel_values": torch.randn((STEPS, BATCH, 2, 12, 12), generator=generator), "labels": integers(5, BATCH)}
    ids = integers(VOCABULARY, BATCH, SEQUENCE)
    labels = torch.where(integers(4, BATCH, SEQUENCE) == 0, -100, ids)
    if family not in ("bert", "t5"):
        return {"input_ids": ids, "labels": labels}
    lengths = 4 + integers(SEQUENCE - 4, BATCH, 1)
    mask = (torch.arange(SEQUENCE) < lengths).long()
    if family == "t5":
        return {"input_ids": ids, "attention_mask": mask, "labels": labels.flip(1)}
    # BERT's table of tokens has a padding_idx: the row of token 0 gets no gradient, which no export keeps. So no other token is 0.
    return {"input_ids": torch.where(mask == 1, ids.clamp(min=1), 0), "attention_mask": mask, "token_type_ids": integers(3, BATCH, SEQUENCE),
            "labels": torch.where(mask == 1, labels, -100)}


class InDouble(TorchFunctionMode):
    """Explicit casts to float32 go to float64: the models upcast norms, softmax and logits whatever they are computed in."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        def widened(value):
            return torch.float64 if value is torch.float32 else value
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        return function(*map(widened, args), **{key: widened(value) for key, value in (kwargs or {}).items()})


def train(model, batches, optimizer):
    """The losses before each step; the model's parameters change."""
    if optimizer == "sgd":
        update = torch.optim.SGD(model.parameters(), lr=LR["sgd"], momentum=0.9)
    else:
        update = torch.optim.AdamW(model.parameters(), lr=LR["adamw"], weight_decay=0.01)
    losses, norms = [], None
    for step in range(STEPS):
        batch = {name: values[step] for name, values in batches.items()}
        if "pixel_values" in batch:
            batch["pixel_values"] = batch["pixel_values"].double()
        update.zero_grad()
        with InDouble():
            loss = model(**batch).loss
        loss.backward()
        norms = norms or {name: p.grad.norm().item() for name, p in model.named_parameters()}
        update.step()
        losses.append(loss.item())
    return losses, norms


def make(folder, family, changes):
    torch.manual_seed(7)
    config = AutoConfig.for_model(family, **changes, **{key: 0.0 for key in NO_DROPOUT if hasattr(AutoConfig.for_model(family), key)})
    config._attn_implementation = config._experts_implementation = "eager"
    model = CLASSES.get(family, AutoModelForCausalLM).from_config(config).eval()
    with torch.no_grad():  # norms that are not all ones, biases that are not all zeros, weights that matter
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.1)
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.add_(torch.randn(buffer.shape) * 0.1)
    os.makedirs(folder, exist_ok=True)
    model.save_pretrained(folder, safe_serialization=True)
    if os.path.exists(extra := os.path.join(folder, "generation_config.json")):
        os.remove(extra)
    batches = data(family, torch.Generator().manual_seed(11))
    np.savez(os.path.join(folder, "batches.npz"), **{name: values.numpy() for name, values in batches.items()})
    start = {name: value.clone() for name, value in model.state_dict().items()}
    losses = {}
    for optimizer in ("sgd", "adamw"):
        model.load_state_dict(start)
        model = model.double()
        losses[optimizer], norms = train(model, batches, optimizer)
    golden = {"family": family, "steps": STEPS, "batch": BATCH, "sequence": None if family == "vit" else SEQUENCE,
              "parameters": sum(p.numel() for p in model.parameters()),
              "optimizers": {"sgd": {"lr": LR["sgd"], "momentum": 0.9},
                             "adamw": {"lr": LR["adamw"], "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}},
              "losses": losses, "gradient_norm_squared_step0": sum(norm * norm for norm in norms.values())}
    with open(os.path.join(folder, "golden.json"), "w") as file:
        json.dump(golden, file, indent=1)
    print(folder, golden["parameters"], losses["adamw"])


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in sys.argv[1:] or MODELS:
        make(os.path.join(here, folder), *MODELS[folder])


if __name__ == "__main__":
    main()
