# SPDX-License-Identifier: Apache-2.0
"""Training with Kerf's own runtime: the ranks are threads of this process."""
from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any, Literal, Optional, Union

from . import _core
from .ask import Bytes, Mode, Search, _given, _settings, search_settings, tell
from .checks import arrays as checked
from .cluster import ClusterLike, cluster_text
from .errors import InputError
from .model import ModelLike
from .optimizer import DtypeLike, OptimizerLike, step_settings
from .plans import Plan, PlanLike

Arrays = Mapping[str, Any]  # arrays of NumPy, or of a library with DLPack, in the memory of the CPU
OnNan = Literal["stop", "skip", "continue"]


@dataclasses.dataclass(frozen=True)
class Step:
    """The result of one training step."""

    step: int  # number of the step, from 0
    loss: float
    learning_rate: float
    seconds: float
    skipped: bool  # whether the step was undone because a number was not finite


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The means over held-out data."""

    step: int  # number of the last training step
    batches: int
    means: dict[str, float]  # by name; "loss" comes first
    seconds: float

    @property
    def loss(self) -> float:
        """The mean loss."""
        return self.means["loss"]


@dataclasses.dataclass(frozen=True)
class Input:
    """A tensor of a batch: its name, its type ("f32", "i64") and its shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class _Running:
    """The calls that a trainer and a loaded package have in common. Several threads may call; one call runs at a time."""

    _engine: Any

    @property
    def inputs(self) -> list[Input]:
        """The tensors of a batch."""
        return [Input(name, dtype, tuple(shape)) for name, dtype, shape in self._engine.inputs()]

    def step(self, batch: Optional[Arrays] = None, /, **arrays: Any) -> Step:
        """Trains one step on a batch: an array for each input, as a dictionary or as keyword arguments. Nothing is copied."""
        return Step(**self._engine.step({**(batch or {}), **arrays}))

    @property
    def next_step(self) -> int:
        """The number of the next step, from 0."""
        return self._engine.next_step()

    def evaluate(self, data: Arrays, *, samples: bool = False, batches: Optional[int] = None) -> Evaluation:
        """Returns the mean loss and metrics over held-out data, whose first axis counts batches, or samples with `samples`."""
        return Evaluation(**self._engine.evaluate(checked(data, "data"), samples, batches))

    def parameters(self, *, states: bool = False) -> dict[str, Any]:
        """Returns the parameters and buffers by the names of the model, as NumPy arrays that cannot be written.

        With `states`, the states of the optimizer are among them, named as in checkpoints: "exp_avg/NAME".
        """
        return self._engine.parameters_and_states() if states else self._engine.parameters()

    def set_learning_rate_factor(self, factor: float) -> None:
        """Makes the following steps with `factor` times the learning rate that was given, in each parameter group; ends the schedule."""
        self._engine.set_learning_rate_factor(factor)

    def assign(self, arrays: Arrays) -> None:
        """Replaces the parameters and buffers that are named. The states of the optimizer stay."""
        self._engine.assign(checked(arrays, "arrays"))

    def save(self, folder: Union[str, os.PathLike[str]]) -> None:
        """Writes a checkpoint into a folder, as `kerf train --checkpoint` does."""
        self._engine.save(os.fspath(folder))

    def load(self, folder: Union[str, os.PathLike[str]]) -> None:
        """Continues from the last checkpoint in a folder."""
        self._engine.load(os.fspath(folder))

    def cancel(self) -> None:
        """Ends the training, also from another thread: a step that runs fails."""
        self._engine.cancel()

    @property
    def ended(self) -> Optional[str]:
        """The error that ended the training; None while it goes on."""
        return self._engine.ended()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.cancel()


def _run_settings(lr: Optional[float], lr_schedule: Optional[str], warmup: Optional[int], total: Optional[int], seed: Optional[int]) -> dict[str, Any]:
    return {"lr": lr, "lr_schedule": lr_schedule, "warmup": warmup, "total": total, "seed": seed}


class Trainer(_Running):
    """A model in training: imported, planned, compiled and loaded.

    >>> trainer = kerf.Trainer("examples/gpt2/model.onnx", ranks=4, optimizer="adamw", lr=1e-3)
    >>> trainer.step({"input_ids": ids, "labels": labels}).loss
    """

    def __init__(self, model: Optional[ModelLike] = None, plan: Optional[PlanLike] = None, cluster: ClusterLike = None, *,
                 ranks: Optional[int] = None, optimizer: OptimizerLike = None, dtype: DtypeLike = None, lr: Optional[float] = None,
                 lr_schedule: Optional[str] = None, warmup: Optional[int] = None, total: Optional[int] = None, seed: Optional[int] = None,
                 weights: Optional[Arrays] = None, search: Search = "auto", mode: Mode = "auto", memory: Optional[Bytes] = None,
                 budget: Optional[float] = None, all_ranks: bool = False, device: str = "cpu", threads: int = 1, native: bool = True,
                 on_nan: OnNan = "stop", first_step: int = 0) -> None:
        """Makes a trainer. What is not given comes from the job of the plan. `weights` replaces tensors of the model by name.

        Where `weights` has states of the optimizer ("exp_avg/NAME"), `first_step` is the number of steps that made them.
        """
        if first_step < 0:
            raise InputError(f"first_step={first_step}: the number of a step is 0 or more")
        its, given = _given(model, plan)
        settings = _settings(its, **{**step_settings(optimizer, dtype), **_run_settings(lr, lr_schedule, warmup, total, seed),
                                     **search_settings(ranks=ranks, search=search, mode=mode, memory=memory, budget=budget, all_ranks=all_ranks)})
        self._engine = _core.make_trainer(None if its is None else its.source(), None if given is None else given.text, settings,
                                          cluster_text(cluster), checked({} if weights is None else weights, "weights"), device, threads,
                                          native, on_nan, first_step)
        tell(self._engine.warnings(), self._engine.notes())

    @property
    def plan(self) -> Plan:
        """The complete plan by which the model is trained."""
        return Plan(self._engine.plan())

    @property
    def report(self) -> dict[str, Any]:
        """The decisions of the plan and its predicted costs, as docs/interface.md lists them."""
        return json.loads(self._engine.report())

    def save_weights(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the parameters to a .safetensors file."""
        self._engine.save_weights(os.fspath(path))

    def __repr__(self) -> str:
        return f"Trainer({self.plan!r}, next step {self.next_step})"


class Package:
    """A compiled model in a folder: the program of all ranks and the weights (docs/package.md)."""

    def __init__(self, folder: Union[str, os.PathLike[str]], plan: Optional[Plan] = None, report: str = "") -> None:
        self.folder = os.fspath(folder)
        self._report = report
        self._plan = plan

    @staticmethod
    def load(folder: Union[str, os.PathLike[str]]) -> Package:
        """Returns the package of a folder that `kerf compile` or kerf.compile wrote."""
        info = json.loads(_core.program_info(os.fspath(folder)))
        return Package(folder, Plan(info["plan"]) if "plan" in info else None)

    @property
    def plan(self) -> Optional[Plan]:
        """The plan under which the model was compiled; None for a program that a person wrote."""
        return self._plan

    def start(self, *, lr: Optional[float] = None, lr_schedule: Optional[str] = None, warmup: Optional[int] = None, total: Optional[int] = None,
              seed: Optional[int] = None, weights: Optional[Arrays] = None, device: str = "cpu", threads: int = 1, on_nan: OnNan = "stop") -> Session:
        """Loads the package on its ranks, which are threads of this process."""
        settings = _settings(None, **_run_settings(lr, lr_schedule, warmup, total, seed))
        return Session(_core.make_session(self.folder, settings, checked({} if weights is None else weights, "weights"), device, threads, on_nan))

    def run(self, data: Arrays, *, steps: Optional[int] = None, **options: Any) -> RunResult:
        """Trains on data whose first axis counts steps, and starts again with the first after the last. `options` are those of start()."""
        its = checked(data, "data")
        session = self.start(**options)
        rows = min((len(array) for array in its.values()), default=0)
        count = rows if steps is None else steps
        if count < 0:
            raise InputError(f"steps={steps}: the number of steps is 0 or more")
        if count and not rows:
            raise InputError(f"data has no batches, but steps={count}; the first axis of its arrays counts batches")
        losses = [session.step({name: array[at % rows] for name, array in its.items()}).loss for at in range(count)]
        return RunResult(losses, session.parameters())

    def __repr__(self) -> str:
        return f"Package({self.folder!r})"

    def __str__(self) -> str:
        return self._report or repr(self)


@dataclasses.dataclass(frozen=True)
class RunResult:
    """The losses of a run, and the parameters after it."""

    losses: list[float]
    parameters: dict[str, Any]


class Session(_Running):
    """A package that is loaded on its ranks."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine


def compile(model: Optional[ModelLike] = None, plan: Optional[PlanLike] = None, cluster: ClusterLike = None, *,  # noqa: A001
            to: Union[str, os.PathLike[str]], ranks: Optional[int] = None, optimizer: OptimizerLike = None, dtype: DtypeLike = None,
            search: Search = "auto", mode: Mode = "auto", memory: Optional[Bytes] = None, budget: Optional[float] = None, all_ranks: bool = False,
            native: bool = True) -> Package:
    """Compiles a model to a package in the folder `to`. Without a plan, a search finds it; a plan with gaps constrains the search."""
    its, given = _given(model, plan)
    settings = _settings(its, **{**step_settings(optimizer, dtype),
                                 **search_settings(ranks=ranks, search=search, mode=mode, memory=memory, budget=budget, all_ranks=all_ranks)})
    answer = json.loads(_core.compile(None if its is None else its.source(), None if given is None else given.text, settings,
                                      cluster_text(cluster), os.fspath(to), native))
    tell(answer["warnings"], answer["notes"])
    return Package(to, Plan(answer["plan"], model=its), answer["text"])
