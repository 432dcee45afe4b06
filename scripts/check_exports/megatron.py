# SPDX-License-Identifier: Apache-2.0
"""Runs a script for Megatron-LM up to torchrun, reads its arguments with Megatron-LM's own parser, validates them as
pretrain_gpt.py does, makes Megatron Core's configuration of them, and builds the model on the device "meta".

The parser lies in the wheel of megatron-core. It is for Python 3.12, of which the parts that are read here need the decorator
`override` alone. Transformer Engine, which needs CUDA, is taken to be of the newest version."""
from __future__ import annotations

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import typing
import unittest.mock
import warnings

if not hasattr(typing, "override"):
    typing.override = lambda function: function

import torch
from trainer_arguments import MEGATRON_LM, check_megatron_lm, parser_of

from .common import differences, parameters_of, sizes_of

TORCHRUN = """#!/bin/sh
printf '%s\\n' "$@" > "$CHECKED_ARGUMENTS"
echo "${CUDA_DEVICE_MAX_CONNECTIONS:-}" > "$CHECKED_ARGUMENTS.connections"
"""


def arguments_of(script):
    """Returns the arguments with which the script starts pretrain_gpt.py on mock data, and its CUDA_DEVICE_MAX_CONNECTIONS."""
    with tempfile.TemporaryDirectory() as folder:
        torchrun, found = pathlib.Path(folder, "torchrun"), pathlib.Path(folder, "arguments")
        torchrun.write_text(TORCHRUN)
        torchrun.chmod(0o755)
        path = pathlib.Path(folder, "train.sh")
        path.write_text(script)
        env = {"PATH": f"{folder}:{os.environ['PATH']}", "MOCK_DATA": "1", "NODE_RANK": "0", "MASTER_ADDR": "localhost", "CHECKED_ARGUMENTS": str(found)}
        subprocess.run(["bash", str(path)], check=True, env=env, cwd=folder, capture_output=True)
        words = found.read_text().split("\n")[:-1]
        return words[words.index("pretrain_gpt.py") + 1:], pathlib.Path(f"{found}.connections").read_text().strip()


class NoStream:
    """Stands for torch.cuda.Stream, of which modules make objects that nothing uses here."""

    def __init__(self, *_, **__):
        pass


@contextlib.contextmanager
def newest_transformer_engine():
    from megatron.core.transformer import transformer_config
    from megatron.training import arguments

    with unittest.mock.patch.object(arguments, "is_te_min_version", lambda *_, **__: True), \
            unittest.mock.patch.object(transformer_config, "is_te_min_version", lambda *_, **__: True):
        yield


def validated(words, connections, ranks):
    """Returns the arguments as Megatron-LM's parser and its validation leave them, on H100."""
    from megatron.training import arguments

    capability = unittest.mock.patch.object(torch.cuda, "get_device_capability", lambda *_: (9, 0))
    environment = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(ranks)} | ({"CUDA_DEVICE_MAX_CONNECTIONS": connections} if connections else {})
    said = io.StringIO()
    with capability, unittest.mock.patch.object(arguments, "get_device_arch_version", lambda: 9), newest_transformer_engine(), \
            unittest.mock.patch.dict(os.environ, environment), unittest.mock.patch.object(sys, "argv", ["pretrain_gpt.py", *words]), \
            contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not connections:
            os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
        try:
            args = arguments.parse_args()
            arguments.validate_args(args)
        except SystemExit:
            raise ValueError(said.getvalue().strip().split("\n")[-1]) from None
        return args


def configuration(args):
    """Returns Megatron Core's configuration of the arguments, with its own checks."""
    from megatron.training.argument_utils import core_transformer_config_from_args

    args.apply_rope_fusion = False  # its kernels are Transformer Engine's
    with newest_transformer_engine(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return core_transformer_config_from_args(args)


def parameters(args, config):
    """Returns the number of parameters of the model that Megatron Core builds of the configuration on one rank."""
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel

    for size in ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size", "expert_model_parallel_size",
                 "expert_tensor_parallel_size"):
        setattr(config, size, 1)
    config.virtual_pipeline_model_parallel_size = config.pipeline_model_parallel_layout = None
    config.num_layers_in_first_pipeline_stage = config.num_layers_in_last_pipeline_stage = None
    config.use_cpu_initialization, config.perform_initialization = True, False
    for kernels in ("sequence_parallel", "layernorm_zero_centered_gamma", "moe_grouped_gemm", "gradient_accumulation_fusion", "persist_layer_norm",
                    "bias_activation_fusion", "masked_softmax_fusion", "cpu_offloading", "overlap_moe_expert_parallel_comm", "delay_wgrad_compute", "tp_comm_overlap"):
        setattr(config, kernels, False)
    config.window_size = config.fp8 = None
    if args.num_experts:
        spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False)
    else:
        spec = get_gpt_layer_local_spec(qk_layernorm=args.qk_layernorm, multi_latent_attention=args.multi_latent_attention, normalization=args.normalization)
    multiple = args.make_vocab_size_divisible_by
    words = -(-(args.vocab_size + 1) // multiple) * multiple  # the tokenizer of mock data has one word more
    with torch.device("meta"):
        model = GPTModel(config, spec, vocab_size=words, max_sequence_length=args.max_position_embeddings,
                         position_embedding_type=args.position_embedding_type, rotary_percent=args.rotary_percent,
                         share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights)
    return sum(one.numel() for one in model.parameters())


def one_rank():
    """Makes Megatron Core's groups of one rank on this machine's CPU, with stand-ins for two names of torch.cuda."""
    from megatron.core import parallel_state

    torch.cuda.Stream = NoStream
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


@unittest.mock.patch.dict(os.environ)  # Megatron-LM sets variables of attention's kernels
def check(path, plan, model, case):
    words, connections = arguments_of(path.read_text())
    sizes = sizes_of(plan)
    check_megatron_lm(parser_of(MEGATRON_LM).parse_args(words), sizes["ranks"])  # the table is as strict as the parser
    args = validated(words, connections, sizes["ranks"])
    tensor, pipeline, context = args.tensor_model_parallel_size, args.pipeline_model_parallel_size, args.context_parallel_size
    expert = args.expert_model_parallel_size if args.num_experts else sizes["expert"]
    found = {"model": tensor, "stage": pipeline, "context": context, "expert": expert, "batch": args.global_batch_size,
             "microbatch": args.micro_batch_size, "data": args.data_parallel_size // expert}
    wrong = differences({name: sizes[name] for name in found}, found)
    config = configuration(args)
    one_rank()
    counted, wanted = parameters(args, config), parameters_of(model)
    if counted != wanted:
        wrong.append(f"{counted:,} parameters, Transformers has {wanted:,}")
    return wrong
