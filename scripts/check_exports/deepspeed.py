# SPDX-License-Identifier: Apache-2.0
"""Reads a configuration of DeepSpeed with its DeepSpeedConfig, and the launch line with Megatron-DeepSpeed's argument rules."""
from __future__ import annotations

import json
import re
import shlex
import unittest.mock

from trainer_arguments import MEGATRON_DEEPSPEED, parser_of

from .common import differences, sizes_of


def check(path, plan, model, case):
    from deepspeed.runtime.config import DeepSpeedConfig

    sizes, content = sizes_of(plan), json.loads(path.read_text())
    words = shlex.split(re.search(r"^.*pretrain_gpt\.py (.*)$", (path.parent / "notes.txt").read_text(), re.M).group(1))
    args = parser_of(MEGATRON_DEEPSPEED).parse_args(words)
    data = sizes["ranks"] // (args.tensor_model_parallel_size * args.pipeline_model_parallel_size * (args.ds_sequence_parallel_size or 1))
    with unittest.mock.patch("deepspeed.comm.get_world_size", lambda *_, **__: data), \
            unittest.mock.patch("deepspeed.comm.is_initialized", lambda: True), unittest.mock.patch("deepspeed.comm.get_rank", lambda *_, **__: 0):
        config = DeepSpeedConfig(content)
    found = {"model": args.tensor_model_parallel_size, "stage": args.pipeline_model_parallel_size, "context": args.ds_sequence_parallel_size or 1,
             "batch": config.train_batch_size, "microbatch": config.train_micro_batch_size_per_gpu, "data": data // sizes["expert"]}
    wrong = differences({name: sizes[name] for name in found}, found)
    if (config.zero_config.stage or 0) != args.zero_stage:
        wrong.append(f"ZeRO {config.zero_config.stage} in the file and {args.zero_stage} in the launch line")
    return wrong
