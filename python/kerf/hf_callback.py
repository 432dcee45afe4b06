# SPDX-License-Identifier: Apache-2.0
"""A callback of Trainer that holds a training against its plan."""
from __future__ import annotations

import logging
import resource
import time
from typing import Any, Optional

import torch
from transformers import TrainerCallback

from .errors import InputError
from .hf import parallelism_config, training_arguments
from .plans import Plan

AXES = ("dp_replicate_size", "dp_shard_size", "tp_size", "cp_size", "sp_size")


class PlanCallback(TrainerCallback):
    """Refuses arguments of Trainer that contradict a plan, and logs the measured step time and memory beside those of the plan."""

    def __init__(self, plan: Plan) -> None:
        if plan.predicted is None:
            raise InputError("the plan has no prediction to compare with; use a plan of kerf.plan, or the plan of kerf.simulate(...)")
        self.plan = plan
        self.predicted = plan.predicted
        self.records: list[dict[str, Any]] = []  # what was logged, one dictionary for each log of Trainer
        self._began: Optional[float] = None
        self._seconds: list[float] = []  # of the steps since the last log
        self._first = True

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        faults = contradictions(self.plan, args, kwargs.get("model"))
        if faults:
            raise InputError("the arguments of Trainer contradict the plan: " + "; ".join(faults) + "; use kerf.hf.training_arguments(plan)")
        if args.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(args.device)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._began = _now(args.device)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._began is None:
            return
        if not self._first:  # the first step allocates and compiles
            self._seconds.append(_now(args.device) - self._began)
        self._first, self._began = False, None

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[dict[str, Any]] = None, **kwargs: Any) -> None:
        if not self._seconds:
            return
        seconds = sorted(self._seconds)[len(self._seconds) // 2]
        self._seconds.clear()
        if args.device.type == "cuda":
            memory = torch.cuda.max_memory_allocated(args.device)
        else:
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        record = {"kerf_step_seconds": seconds, "kerf_predicted_step_seconds": self.predicted.step_seconds,
                  "kerf_memory_bytes": memory, "kerf_predicted_memory_bytes": max(self.predicted.peak_bytes)}
        self.records.append({"step": state.global_step, **record})
        if logs is not None:
            logs.update(record)
        if state.log_history:
            state.log_history[-1].update(record)
        if state.is_world_process_zero:
            logging.getLogger("kerf").info("step %d: %.4g s, %.4g s predicted; memory %.3g GiB, %.3g GiB predicted", state.global_step, seconds,
                                           self.predicted.step_seconds, memory / 2**30, max(self.predicted.peak_bytes) / 2**30)


def contradictions(plan: Plan, args: Any, model: Any) -> list[str]:
    """Returns how the arguments of a Trainer differ from those of a plan, which has the values of `training_arguments`."""
    faults = []
    if args.world_size != plan.ranks:
        faults.append(f"{args.world_size} processes, but the plan has {plan.ranks} ranks")
    for name, wanted in training_arguments(plan).items():
        given = getattr(args, name)
        if given != wanted and str(getattr(given, "value", given)) != str(wanted):
            faults.append(f"{name} is {getattr(given, 'value', given)}, but the plan says {wanted}")
    axes = parallelism_config(plan)
    context = (axes.cp_size or 1) * (axes.sp_size or 1)
    if args.parallelism_config is not None:
        for axis in AXES:
            given, wanted = getattr(args.parallelism_config, axis), getattr(axes, axis)
            if given != wanted:
                faults.append(f"{axis} of parallelism_config is {given}, but the plan says {wanted}")
    elif context > 1 or axes.tp_size not in (1, getattr(model, "_tp_size", None)):
        faults.append(f"there is no parallelism_config, but the plan has mesh.model {axes.tp_size} and mesh.context {context}")
    return faults


def _now(device: Any) -> float:
    """Returns the time in seconds after the work that the device has been given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
