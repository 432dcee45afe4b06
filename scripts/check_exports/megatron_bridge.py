# SPDX-License-Identifier: Apache-2.0
"""Runs a program for Megatron Bridge up to its configuration, finalizes and validates that as Megatron Bridge does before it
trains, and builds the model on the device "meta" with Megatron Core's own layers.

Megatron Bridge imports Transformer Engine, NVIDIA's resiliency extension and ModelOpt, which need CUDA, and Megatron Energon,
which reads data. Modules of the same names with empty classes stand for them: nothing of them runs here."""
from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
import unittest.mock

import torch

from . import megatron
from .common import differences, parameters_of, sizes_of


class Empty(type):
    """The type of classes that stand for others."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return empty(name)

    def __getitem__(cls, _):
        return cls


def empty(name):
    return Empty(name, (), {"__init__": lambda self, *a, **k: None})


class EmptyModule(types.ModuleType):
    __path__: list[str] = []
    __version__ = "2.9.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, empty(name))
        return self.__dict__[name]


class EmptyModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds empty modules in place of packages that need CUDA, and of those that read data."""

    packages = ("transformer_engine", "transformer_engine_torch", "nvidia_resiliency_ext", "modelopt", "megatron.energon")

    def find_spec(self, name, path=None, target=None):
        if any(f"{name}.".startswith(f"{package}.") for package in self.packages):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return EmptyModule(spec.name)

    def exec_module(self, module):
        if module.__name__ == "transformer_engine.pytorch.optimizers":
            module.FusedAdam = FusedAdam


class FusedAdam:
    """Stands for the newest Transformer Engine's optimizer, whose arguments Megatron Core looks for."""

    def __init__(self, params, master_weight_dtype, exp_avg_dtype, exp_avg_sq_dtype, use_decoupled_grad):
        pass


def job_of(path):
    """Returns the configuration that the program at `path` makes for data, and the number of words that it has for mock data."""
    if not any(isinstance(finder, EmptyModules) for finder in sys.meta_path):
        import megatron.core.models.gpt.gpt_model  # before the empty modules: its own layers need no Transformer Engine
        import megatron.core.models.gpt.gpt_layer_specs

        sys.meta_path.insert(0, EmptyModules())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    with unittest.mock.patch.dict(os.environ, {"DATA_PATH": "data/one data/two", "TOKENIZER_MODEL": "tokenizer", "RANK": "0"}):
        spec.loader.exec_module(module)
        config = module.job()
    with unittest.mock.patch.dict(os.environ, {"MOCK_DATA": "1"}):
        spec.loader.exec_module(module)
        return config, module.job().tokenizer.vocab_size + 1  # the end of a document is a word too


def validate(config, ranks):
    """Does with the configuration what Megatron Bridge's pretrain does before it makes process groups."""
    from megatron.bridge.training import config as bridge

    with unittest.mock.patch.object(bridge, "get_world_size_safe", lambda: ranks), \
            unittest.mock.patch.object(bridge, "validate_flex_dispatcher_backend", lambda *_: None):
        bridge.runtime_config_update(config)


def parameters(model, words):
    """Returns the number of parameters of the model on one rank, where the vocabulary is not padded."""
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel

    for kernels in ("FLASH", "FUSED", "UNFUSED"):  # a model that was built before sets these, and each wants its own
        os.environ.pop(f"NVTE_{kernels}_ATTN", None)
    for name in ("tensor", "pipeline", "context", "expert"):
        setattr(model, f"{name}_model_parallel_size" if name != "context" else "context_parallel_size", 1)
    model.expert_tensor_parallel_size, model.sequence_parallel = 1, False
    model.virtual_pipeline_model_parallel_size = model.pipeline_model_parallel_layout = None
    model.num_layers_in_first_pipeline_stage = model.num_layers_in_last_pipeline_stage = None
    model.moe_grouped_gemm = model.gradient_accumulation_fusion = model.persist_layer_norm = model.layernorm_zero_centered_gamma = False
    model.use_cpu_initialization, model.perform_initialization = True, False
    model.window_size = None
    model.cpu_offloading = False  # it needs Transformer Engine, which the layers here are not made of
    if model.num_moe_experts:
        spec = get_gpt_decoder_block_spec(model, use_transformer_engine=False)
    else:
        spec = get_gpt_layer_local_spec(qk_layernorm=model.qk_layernorm, multi_latent_attention=model.multi_latent_attention, normalization=model.normalization)
    with torch.device("meta"):
        built = GPTModel(model, spec, vocab_size=words, max_sequence_length=model.seq_length,
                         position_embedding_type=model.position_embedding_type, rotary_percent=model.rotary_percent,
                         share_embeddings_and_output_weights=model.share_embeddings_and_output_weights)
    return sum(one.numel() for one in built.parameters())


def check(path, plan, model, case):
    sizes = sizes_of(plan)
    config, words = job_of(path)
    validate(config, sizes["ranks"])
    its = config.model
    expert = its.expert_model_parallel_size if its.num_moe_experts else sizes["expert"]
    found = {"model": its.tensor_model_parallel_size, "stage": its.pipeline_model_parallel_size, "context": its.context_parallel_size, "expert": expert,
             "batch": config.train.global_batch_size, "microbatch": config.train.micro_batch_size, "data": config.data_parallel_size // expert,
             "chunks": its.virtual_pipeline_model_parallel_size or 1}
    wrong = differences({name: sizes[name] for name in found}, found)
    if its.pipeline_model_parallel_size * its.tensor_model_parallel_size * its.context_parallel_size * config.data_parallel_size != sizes["ranks"]:
        wrong.append("the sizes do not give the number of ranks")
    if its.vocab_size != -(-words // sizes["model"]) * sizes["model"]:
        wrong.append(f"{its.vocab_size} rows of the embedding for {words} words")
    megatron.one_rank()
    counted, wanted = parameters(its, words), parameters_of(model)
    if counted != wanted:
        wrong.append(f"{counted:,} parameters, Transformers has {wanted:,}")
    return wrong
