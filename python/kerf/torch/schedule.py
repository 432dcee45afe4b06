# SPDX-License-Identifier: Apache-2.0
"""Schedules of pipelines: those of PyTorch where they have the plan's order, else the order of Kerf's own tasks."""
from __future__ import annotations

import csv
import os
import re
import tempfile
from collections.abc import Callable
from typing import Any

from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, _PipelineScheduleRuntime

from ..errors import InputError
from .placement import Job

SCHEDULES: dict[str, Any] = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


def make_schedule(job: Job, stages: list[PipelineStage], microbatches: int, loss: Callable[..., Any]) -> Any:
    """Returns the schedule of a plan. PyTorch's own need as many microbatches as stages, or a multiple where they are interleaved."""
    read = job.settings
    count = read.size("stage")
    options = {"loss_fn": loss, "scale_grads": False}
    if read.schedule in SCHEDULES and read.chunks == 1 and microbatches >= count:
        return SCHEDULES[read.schedule](stages[0], microbatches, **options)
    if read.schedule == "interleaved" and microbatches % count == 0:
        return ScheduleInterleaved1F1B([*stages], microbatches, **options)
    schedule = _PipelineScheduleRuntime(stages, microbatches, **options)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "schedule.csv")
        with open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(task_order(job, microbatches))
        schedule._load_csv(path)
    return schedule


def task_order(job: Job, microbatches: int) -> list[list[str]]:
    """Returns for each stage the tasks of a step in the order in which Kerf simulates them, as PyTorch writes them: part, kind, microbatch."""
    from ..ask import simulate

    stages, chunks = job.settings.size("stage"), job.settings.chunks
    rows: list[list[str]] = [[] for _ in range(stages)]
    for event in sorted((one for one in simulate(job.model or job.plan.model, job.plan).timeline if one["ph"] == "X"), key=lambda one: one["ts"]):
        task = re.fullmatch(r"([FBIW])(\d+)(?:\.(\d+))?", event["name"])
        if task and event["tid"] == 0:
            rows[event["pid"]].append(f"{int(task[3] or 0) * stages + event['pid']}{task[1]}{task[2]}")
    wanted = chunks * microbatches
    if any(sum(one.lstrip("0123456789")[0] == "F" for one in row) != wanted for row in rows):
        raise InputError(f"the simulation of schedule {job.settings.schedule} does not run {wanted} forward passes on each of {stages} stages: "
                         "give the plan's model to parallelize")
    return rows
