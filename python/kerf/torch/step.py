# SPDX-License-Identifier: Apache-2.0
"""Kerf's runtime as the executor of a PyTorch module's training step."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Optional

import torch

from ..checks import callable_, instance
from ..errors import InputError, Warning
from ..plans import Plan, PlanLike, as_plan
from ..run import Trainer
from .backend import tensors
from .capture import Captured, captured, padded_tables
from .capture_batch import tensors_of
from .step_optimizer import Settings

DTYPES = {torch.float32: "f32", torch.float64: "f64"}


def compile_step(module: torch.nn.Module, loss: Optional[Callable[..., Any]], optimizer: torch.optim.Optimizer, plan: Optional[PlanLike] = None, *,
                 batch: Any = None, ranks: Optional[int] = None, dtype: Optional[str] = None, clip_norm: Optional[float] = None,
                 seed: int = 0, device: str = "cpu", threads: int = 1) -> CompiledStep:
    """Returns a function that trains a module one step on a batch and returns the loss, as this loop does, with Kerf's runtime:

        value = loss(module, **batch); optimizer.zero_grad(); value.backward(); optimizer.step()

    Args:
        module, loss: as kerf.torch.capture takes them; a loss of None means that the module returns its loss.
        optimizer: SGD, Adam, AdamW, Adagrad or Adafactor of torch.optim. Settings, parameter groups, states and, before every step,
            learning rates are read from it. Parameters that it does not have are not trained.
        plan: the plan by which the step is executed, on ranks that are threads of this process.
        batch: a batch with the shapes of every step, to compile now. Otherwise the first step compiles.
        ranks: the number of ranks of a search for the plan, where `plan` is not given. The default is 1.
        dtype: "bf16" or "f16" for a step in mixed precision. The default is the type of the parameters.
        clip_norm: the largest norm of all gradients together, as of torch.nn.utils.clip_grad_norm_.
        seed: the seed of dropout.
        device, threads: the device of each rank, and the number of threads of its kernels.

    Raises:
        kerf.InputError: the module, the loss, the optimizer or a batch is not one that Kerf trains; the message says why.

    >>> step = kerf.torch.compile_step(module, None, torch.optim.AdamW(module.parameters(), lr=1e-3))
    >>> losses = [step(batch).item() for batch in batches]
    >>> step.sync()
    """
    step = CompiledStep(module, loss, optimizer, plan, {"ranks": ranks, "seed": seed, "device": device, "threads": threads}, dtype, clip_norm)
    if batch is not None:
        step.compile(batch)
    return step


class CompiledStep:
    """A training step of a module, as compile_step returns it. The module has the trained values after `sync`."""

    def __init__(self, module: torch.nn.Module, loss: Optional[Callable[..., Any]], optimizer: torch.optim.Optimizer, plan: Optional[PlanLike],
                 options: dict[str, Any], dtype: Optional[str], clip_norm: Optional[float]) -> None:
        instance(module, torch.nn.Module, "module is a torch.nn.Module")
        instance(optimizer, torch.optim.Optimizer, "optimizer is a torch.optim.Optimizer")
        if loss is not None:
            callable_(loss, "loss")
        if dtype is not None:
            instance(dtype, str, 'dtype is a text such as "bf16"')
        self.module, self.optimizer = module, optimizer
        self._loss, self._options, self._clip_norm = loss, options, clip_norm
        self._plan = None if plan is None else as_plan(plan)
        self._settings = Settings(optimizer)
        self._type = _type_of(module)
        self._dtype = dtype or DTYPES[self._type]
        self._place = self._settings.group_of()
        self._trainer: Optional[Trainer] = None
        self._captured: Optional[Captured] = None
        self._versions: dict[str, int] = {}
        self._factor = 1.0

    def compile(self, batch: Any) -> None:
        """Captures and compiles the step for the shapes of a batch, with the values that the module has now."""
        if self._trainer is not None:
            raise InputError("the step is compiled already; make another one with compile_step for other shapes")
        frozen = tuple(name for name, parameter in self.module.named_parameters() if not parameter.requires_grad or id(parameter) not in self._place)
        missing = [name for name, parameter in self.module.named_parameters() if parameter.is_meta]
        if missing:
            raise InputError(f"{type(self.module).__name__}: the parameter '{missing[0]}' is on the device \"meta\", without values; "
                             "a step trains values")
        _check_padding(self.module)
        its = captured(self.module, batch, self._loss, padded_tables(self.module), frozen)
        trained = [name for name, parameter in its.names.items() if id(parameter) in self._place and parameter.requires_grad]
        if not trained:
            raise InputError("the optimizer has no parameter of the loss that requires a gradient")
        states, steps = self._settings.read_states(its.names)
        weights = {name: parameter.detach().to("cpu").contiguous() for name, parameter in its.names.items()}
        optimizer = self._settings.to_kerf(its.names, self._clip_norm)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="the weights file ", category=Warning)  # the values are in `weights`
            self._trainer = Trainer(its.model, _without_job(self._plan), optimizer=optimizer, dtype=self._dtype, lr=self._settings.peaks[0],
                                    weights={**weights, **states}, first_step=steps, **self._options)
        self._inputs = [one.name for one in self._trainer.inputs]
        self._captured = its
        self._remember()

    def __call__(self, batch: Any) -> torch.Tensor:
        """Trains one step on a batch and returns its loss. Contiguous tensors of the batch are read where they lie."""
        if self._trainer is None:
            self.compile(batch)
        assert self._trainer is not None and self._captured is not None
        self._check_unchanged()
        given = tensors_of(batch, self._captured.batch)
        factor = self._settings.factor()
        if factor != self._factor:
            self._trainer.set_learning_rate_factor(factor)
            self._factor = factor
        result = self._trainer.step({name: given[name].detach().contiguous() for name in self._inputs})
        self.optimizer._opt_called = True  # type: ignore[attr-defined]  # schedulers warn where no step was made before theirs
        return torch.tensor(result.loss, dtype=self._type)

    @property
    def plan(self) -> Plan:
        """The complete plan by which the step is executed. Raises InputError before the step is compiled."""
        return self._compiled().plan

    @property
    def trainer(self) -> Trainer:
        """The trainer that executes the step, for evaluations and checkpoints. Raises InputError before the step is compiled."""
        return self._compiled()

    def sync(self) -> None:
        """Writes the trained values into the module's parameters, and the states of the optimizer into the optimizer."""
        trainer = self._compiled()
        assert self._captured is not None
        self._check_unchanged()
        values = tensors(trainer.parameters(states=True))
        own: dict[str, torch.Tensor] = {**dict(self.module.named_buffers()), **self._captured.names}
        with torch.no_grad():
            for name, tensor in values.items():
                if name in own:
                    own[name].copy_(tensor)
        self._settings.write_states(self._captured.names, values, trainer.next_step)
        self._remember()

    def state_dict(self) -> dict[str, Any]:
        """Returns the state dictionaries of the module and of the optimizer, after `sync`, as {"module": ..., "optimizer": ...}."""
        self.sync()
        return {"module": self.module.state_dict(), "optimizer": self.optimizer.state_dict()}

    def _compiled(self) -> Trainer:
        if self._trainer is None:
            raise InputError("the step is not compiled yet; make a step first, or give compile_step a batch")
        return self._trainer

    def _remember(self) -> None:
        assert self._captured is not None
        self._versions = {name: parameter._version for name, parameter in self._captured.names.items()}

    def _check_unchanged(self) -> None:
        """Raises InputError where a parameter was written by somebody else, whose values Kerf does not have."""
        assert self._captured is not None
        for name, parameter in self._captured.names.items():
            if parameter._version != self._versions[name]:
                raise InputError(f"the parameter '{name}' was changed outside of the compiled step, which does not see the change; "
                                 "compile another step from the changed module")


def _type_of(module: torch.nn.Module) -> torch.dtype:
    types = {parameter.dtype: name for name, parameter in module.named_parameters() if parameter.dtype.is_floating_point}
    for found, name in types.items():
        if found not in DTYPES:
            raise InputError(f"the parameter '{name}' is {found}; keep parameters in float32, and give dtype=\"bf16\" for a step in mixed precision")
    if len(types) != 1:
        raise InputError(f"{type(module).__name__} has parameters of {len(types)} floating-point types; a step needs one, float32 or float64")
    return next(iter(types))


def _check_padding(module: torch.nn.Module) -> None:
    """Raises InputError for padding rows that are not zero: Kerf would train them, and PyTorch keeps them."""
    for name, one in module.named_modules():
        if isinstance(one, torch.nn.Embedding) and one.padding_idx is not None and one.weight[one.padding_idx].any():
            raise InputError(f"the row {one.padding_idx} of '{name}.weight' (padding_idx) is not zero; "
                             "set it to zero, which Kerf keeps as PyTorch does")


def _without_job(plan: Optional[Plan]) -> Optional[PlanLike]:
    """Returns the decisions of a plan without the job that it was made for: all settings of the step are those of the optimizer."""
    return None if plan is None else {key: value for key, value in plan.to_dict().items() if key != "job"}
