# SPDX-License-Identifier: Apache-2.0
"""Reads the order of a pipeline's tasks, which TorchTitan takes from a CSV file, with PyTorch's runtime for such orders, and
runs its check for messages that never arrive."""
from __future__ import annotations

from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime


class Stage:
    """What the runtime asks of a part of the model before the first step."""

    submod = None

    def __init__(self, ranks, parts, rank, part):
        self.group_size, self.num_stages, self.group_rank, self.stage_index = ranks, parts, rank, part
        self.is_first, self.is_last, self.has_backward = part == 0, part + 1 == parts, True


def check_order(path, stages, chunks, microbatches):
    """Returns what is wrong with the file. Part c * stages + s has to run on rank s, as TorchTitan places it."""
    parts = stages * chunks
    wrong = []
    for rank in range(stages):
        runtime = _PipelineScheduleRuntime([Stage(stages, parts, rank, part) for part in range(rank, parts, stages)],
                                           n_microbatches=microbatches, loss_fn=lambda *_: None, scale_grads=False)
        runtime._load_csv(str(path))  # fails where a task is missing, twice, or before the one it needs
        placed = {part: where for part, where in runtime.stage_index_to_group_rank.items()}
        if placed != {part: part % stages for part in range(parts)}:
            wrong.append(f"parts lie on ranks {placed}")
        if rank == 0:
            # The check knows computations and messages, but not when parameters are gathered.
            runtime.pipeline_order_with_comms = {one: [action for action in actions if "SHARD" not in str(action) and "REDUCE" not in str(action)]
                                                 for one, actions in runtime.pipeline_order_with_comms.items()}
            runtime._simulate()  # fails where a stage waits for ever
    return wrong
