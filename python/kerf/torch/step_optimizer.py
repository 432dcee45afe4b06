# SPDX-License-Identifier: Apache-2.0
"""Reads an optimizer of torch.optim: its settings and parameter groups as Kerf's, its learning rates, and its states."""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Optional

import torch

from ..errors import InputError
from ..optimizer import Optimizer

GLOB_LETTERS = set("*?[]:,\\")
RATE_TOLERANCE = 1e-9  # by which the ratios of the groups' learning rates may differ from step to step, as rounding makes them


@dataclasses.dataclass(frozen=True)
class Kind:
    """An optimizer that both sides have."""

    name: str  # Kerf's
    settings: Mapping[str, str]  # Kerf's setting -> PyTorch's, "betas.0" being the first element
    only: Mapping[str, Any]  # PyTorch's settings that Kerf does not have, with the value that they have to have
    states: Mapping[str, str]  # Kerf's state -> PyTorch's
    counts: bool  # whether PyTorch stores the number of steps with each parameter
    means: Mapping[str, int] = dataclasses.field(default_factory=dict)  # states of PyTorch that have size 1 along a dimension, which Kerf's lack


_ADAM = {"beta1": "betas.0", "beta2": "betas.1", "eps": "eps"}
_MEANS = {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}
KINDS: dict[type, Kind] = {
    torch.optim.SGD: Kind("sgd", {"momentum": "momentum", "nesterov": "nesterov"}, {"dampening": 0, "maximize": False},
                          {"momentum": "momentum_buffer"}, False),
    torch.optim.Adam: Kind("adam", _ADAM, {"amsgrad": False, "maximize": False, "decoupled_weight_decay": False}, _MEANS, True),
    torch.optim.AdamW: Kind("adamw", _ADAM, {"amsgrad": False, "maximize": False}, _MEANS, True),
    torch.optim.Adagrad: Kind("adagrad", {"eps": "eps"}, {"lr_decay": 0, "initial_accumulator_value": 0, "maximize": False},
                              {"sum": "sum"}, True),
    torch.optim.Adafactor: Kind("adafactor", {"beta2_decay": "beta2_decay", "eps": "eps.0", "eps2": "eps.1", "update_threshold": "d"},
                                {"maximize": False}, {"row_var": "row_var", "col_var": "col_var", "variance": "variance"}, True,
                                {"row_var": -1, "col_var": -2}),
}
# Optimizers that Kerf has too, with the reason for which their steps are not those of PyTorch.
OTHERWISE = {"Muon": "rounds the products of its Newton-Schulz steps to bfloat16, and Kerf's muon computes them in the type of the parameters"}


class Settings:
    """An optimizer in Kerf's words, and the learning rates at which it was read."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        kind = KINDS.get(type(optimizer))
        if kind is None:
            known, name = ", ".join(one.__name__ for one in KINDS), type(optimizer).__name__
            if type(optimizer).__module__.startswith("torch.optim") and name in OTHERWISE:
                raise InputError(f"torch.optim.{name} {OTHERWISE[name]}; train with kerf.Trainer(optimizer=\"{name.lower()}\"), whose steps differ, "
                                 f"or with one of {known}")
            raise InputError(f"the optimizer is {type(optimizer).__module__}.{type(optimizer).__name__}; compile_step reads {known} of torch.optim")
        if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
            raise InputError("the optimizer has hooks on its steps, which a compiled step does not call; remove them")
        self.kind = kind
        self.optimizer = optimizer
        self._settings = [self._of_group(at, group) for at, group in enumerate(optimizer.param_groups)]
        for at, settings in enumerate(self._settings):
            if settings != self._settings[0]:
                name = next(name for name in settings if settings[name] != self._settings[0][name])
                raise InputError(f"parameter group {at} has {name}={settings[name]} and group 0 has {self._settings[0][name]}; "
                                 "groups may differ in lr and weight_decay only")
        self._decays = [float(group["weight_decay"]) for group in optimizer.param_groups]
        self.peaks = [float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups]
        if not any(self.peaks):
            self.peaks = [1.0] * len(self.peaks)

    def _of_group(self, at: int, group: dict[str, Any]) -> dict[str, Any]:
        for name, value in self.kind.only.items():
            if group.get(name, value) != value:
                raise InputError(f"parameter group {at} has {name}={group[name]}, which Kerf's {self.kind.name} does not have; set it to {value}")
        settings: dict[str, Any] = {}
        for ours, theirs in self.kind.settings.items():
            name, _, index = theirs.partition(".")
            value = group[name][int(index)] if index else group[name]
            if value is None:  # Adafactor's bound, which PyTorch then takes from the type of the parameter
                value = torch.finfo(group["params"][0].dtype).eps
            settings[ours] = value if isinstance(value, bool) else float(value)
        return settings

    def group_of(self) -> dict[int, int]:
        """Returns the number of the group of each parameter, by the id of the parameter."""
        return {id(parameter): at for at, group in enumerate(self.optimizer.param_groups) for parameter in group["params"]}

    def to_kerf(self, names: Mapping[str, torch.nn.Parameter], clip_norm: Optional[float]) -> Optimizer:
        """Returns the optimizer for the parameters of a graph."""
        groups = []
        place = self.group_of()
        for name, parameter in names.items():
            at = place.get(id(parameter), 0)
            if self.peaks[at] == self.peaks[0] and self._decays[at] == self._decays[0]:
                continue
            if GLOB_LETTERS & set(name):
                raise InputError(f"the parameter '{name}' is in parameter group {at}; names with one of {''.join(sorted(GLOB_LETTERS))} "
                                 "can only be in groups with the settings of group 0")
            groups.append(f"{name}:lr={self.peaks[at]!r},decay={self._decays[at]!r}")
        return Optimizer(self.kind.name, {**self._settings[0], "weight_decay": self._decays[0]}, groups=groups, clip_norm=clip_norm)

    def factor(self) -> float:
        """Returns the learning rate by which the next step is made, as a factor of the one at which the optimizer was read."""
        groups = self.optimizer.param_groups
        for at, group in enumerate(groups):
            if self._of_group(at, group) != self._settings[0] or float(group["weight_decay"]) != self._decays[at]:
                raise InputError(f"a setting of parameter group {at} other than lr changed after the step was compiled; compile another step")
        rates = [float(group["lr"]) for group in groups]
        largest = max(range(len(groups)), key=lambda at: self.peaks[at])
        factor = rates[largest] / self.peaks[largest]
        for at, rate in enumerate(rates):
            if not math.isclose(rate, factor * self.peaks[at], rel_tol=RATE_TOLERANCE):
                raise InputError(f"the learning rate of parameter group {at} went from {self.peaks[at]} to {rate}, and that of group {largest} from "
                                 f"{self.peaks[largest]} to {rates[largest]}; all groups have to change by one factor, or compile another step")
        return factor

    def read_states(self, names: Mapping[str, torch.nn.Parameter]) -> tuple[dict[str, torch.Tensor], int]:
        """Returns the optimizer's states as Kerf names them, and the number of steps that it has made."""
        states: dict[str, torch.Tensor] = {}
        steps: dict[str, int] = {}
        for name, parameter in names.items():
            state = self.optimizer.state.get(parameter, {})
            if self.kind.counts and state:
                steps[name] = int(state["step"])
            for ours, theirs in self.kind.states.items():
                if state.get(theirs) is not None:
                    value = state[theirs].detach().to("cpu")
                    states[f"{ours}/{name}"] = (value.squeeze(self.kind.means[theirs]) if theirs in self.kind.means else value).contiguous()
        trained = [name for name, parameter in names.items() if id(parameter) in self.group_of() and parameter.requires_grad]
        counts = {steps.get(name, 0) for name in trained}
        if len(counts) > 1:
            raise InputError(f"the optimizer has made {min(counts)} steps on some parameters and {max(counts)} on others; "
                             "Kerf has one number of steps")
        return states, counts.pop() if counts else 0

    def write_states(self, names: Mapping[str, torch.nn.Parameter], states: Mapping[str, torch.Tensor], steps: int) -> None:
        """Writes Kerf's states into the optimizer, as PyTorch stores them."""
        for name, parameter in names.items():
            own = {theirs: states[f"{ours}/{name}"] for ours, theirs in self.kind.states.items() if f"{ours}/{name}" in states}
            if not own:
                continue
            kept = self.optimizer.state[parameter]
            for theirs, value in own.items():
                shape = list(parameter.shape)
                if theirs in self.kind.means:
                    shape[self.kind.means[theirs]] = 1
                kept[theirs] = value.to(parameter.dtype).reshape(shape).to(parameter.device)
            if self.kind.counts:
                kept["step"] = torch.tensor(float(steps))
