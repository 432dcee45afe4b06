# SPDX-License-Identifier: Apache-2.0
"""Reads a script for Megatron-LM with the argument rules of test/e2e/trainer_arguments.py, makes Megatron Core's
configuration of the arguments as Megatron-LM does, and builds the model on the device "meta"."""
from __future__ import annotations

import dataclasses
import shlex

import torch
from trainer_arguments import MEGATRON_LM, check_megatron_lm, parser_of

from .common import differences, parameters_of, sizes_of


def arguments_of(script):
    words = shlex.split(script.replace("\\\n", " "), comments=True)
    return words[words.index("pretrain_gpt.py") + 1:-1]  # the last word stands for the script's own arguments


def parameters(args):
    """Returns the number of parameters of the model that Megatron Core builds of the arguments on one rank."""
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer import MLATransformerConfig, TransformerConfig

    kind = MLATransformerConfig if args.multi_latent_attention else TransformerConfig
    names = {field.name for field in dataclasses.fields(kind)}
    values = {name: value for name, value in vars(args).items() if name in names and value is not None and value is not False}
    for size in ("tensor", "pipeline", "context", "expert", "expert_tensor"):
        values.pop(f"{size}_model_parallel_size", None)
        values.pop(f"{size}_parallel_size", None)
    for name in ("sequence_parallel", "recompute_granularity", "recompute_method", "recompute_num_layers", "recompute_modules", "attention_backend",
                 "cp_comm_type", "overlap_p2p_comm", "bf16", "fp16", "pipeline_model_parallel_layout", "window_size"):
        values.pop(name, None)
    values.update(use_cpu_initialization=True, perform_initialization=False, normalization=args.normalization, layernorm_epsilon=args.norm_epsilon,
                  add_bias_linear=not args.disable_bias_linear, gated_linear_unit=args.swiglu, num_moe_experts=args.num_experts,
                  activation_func=torch.nn.functional.silu if args.swiglu else torch.nn.functional.gelu,
                  bias_activation_fusion=False, moe_grouped_gemm=False)
    if not args.group_query_attention:
        values.pop("num_query_groups", None)
    if args.multi_latent_attention:
        values["q_lora_rank"] = args.q_lora_rank  # Megatron-LM passes None on: queries are whole; Megatron Core's own default is 512
    config = kind(**values)
    if args.num_experts:
        spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False)
    else:
        spec = get_gpt_layer_local_spec(qk_layernorm=args.qk_layernorm, multi_latent_attention=args.multi_latent_attention, normalization=args.normalization)
    multiple = args.make_vocab_size_divisible_by
    vocabulary = -(-args.vocab_size // multiple) * multiple
    with torch.device("meta"):
        model = GPTModel(config, spec, vocab_size=vocabulary, max_sequence_length=args.max_position_embeddings,
                         position_embedding_type=args.position_embedding_type, rotary_percent=args.rotary_percent or 1.0,
                         share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights)
    return sum(one.numel() for one in model.parameters())


def one_rank():
    """Makes Megatron Core's groups of one rank on this machine's CPU; the two calls of CUDA stand for devices that no module uses here."""
    from megatron.core import parallel_state

    torch.cuda.Stream = lambda *_, **__: None
    torch.cuda.current_device = lambda: "meta"

    from megatron.core.transformer.dot_product_attention import DotProductAttention

    if not torch.distributed.is_initialized():
        import megatron.core.transformer.multi_latent_attention as latent

        latent.HAVE_TE = False
        # Latent attention runs on Transformer Engine's attention, which has no parameters either.
        plain = DotProductAttention.__init__
        DotProductAttention.__init__ = lambda self, *a, k_channels=None, v_channels=None, **k: plain(self, *a, **k)
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        parallel_state.initialize_model_parallel()


def check(path, plan, model, case):
    args = parser_of(MEGATRON_LM).parse_args(arguments_of(path.read_text()))
    sizes = sizes_of(plan)
    check_megatron_lm(args, sizes["ranks"])
    tensor, pipeline, context = args.tensor_model_parallel_size, args.pipeline_model_parallel_size, args.context_parallel_size
    expert = args.expert_model_parallel_size or (1 if args.num_experts else sizes["expert"])
    found = {"model": tensor, "stage": pipeline, "context": context, "expert": expert, "batch": args.global_batch_size,
             "microbatch": args.micro_batch_size, "data": sizes["ranks"] // (tensor * pipeline * context * expert)}
    wrong = differences({name: sizes[name] for name in found}, found)
    one_rank()
    counted, wanted = parameters(args), parameters_of(model)
    if counted != wanted:
        wrong.append(f"{counted:,} parameters, Transformers has {wanted:,}")
    return wrong
