# SPDX-License-Identifier: Apache-2.0
"""Optimizers and types of a training step."""
from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Optional, Union


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """An optimizer by its name, with its settings and with what holds for every optimizer.

    `settings` has the optimizer's own settings, such as `(("beta1", 0.9),)`; a dictionary is accepted as well. `groups`
    has texts such as "*.bias:decay=0" (docs/training.md).
    """

    name: str = "sgd"
    settings: Any = ()
    clip_norm: Optional[float] = None
    no_decay: Sequence[str] = ()
    groups: Sequence[str] = ()
    accumulate: Optional[int] = None

    def __post_init__(self) -> None:
        pairs = list(self.settings.items() if isinstance(self.settings, dict) else self.settings)
        if any(not isinstance(pair, (tuple, list)) or len(pair) != 2 for pair in pairs):
            raise TypeError("settings is a dictionary of an optimizer's settings by name, or has pairs of name and value")
        object.__setattr__(self, "settings", tuple(sorted((str(name), value) for name, value in pairs if value is not None)))
        for field in ("no_decay", "groups"):
            value = getattr(self, field)
            object.__setattr__(self, field, (value,) if isinstance(value, str) else tuple(value))

    def to_settings(self) -> dict[str, Any]:
        """Returns the optimizer as settings of a job."""
        settings: dict[str, Any] = {"optimizer": self.name, **dict(self.settings)}
        for key, value in (("clip_norm", self.clip_norm), ("accumulate", self.accumulate)):
            if value is not None:
                settings[key] = value
        if self.no_decay:
            settings["no_decay"] = list(self.no_decay)
        if self.groups:
            settings["group"] = list(self.groups)
        return settings


def SGD(momentum: Optional[float] = None, weight_decay: Optional[float] = None, nesterov: Optional[bool] = None, **common: Any) -> Optimizer:
    """Returns stochastic gradient descent. `common` are the other fields of Optimizer."""
    return Optimizer("sgd", {"momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}, **common)


def AdamW(beta1: Optional[float] = None, beta2: Optional[float] = None, eps: Optional[float] = None,
          weight_decay: Optional[float] = None, **common: Any) -> Optimizer:
    """Returns AdamW. `common` are the other fields of Optimizer."""
    return Optimizer("adamw", {"beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay}, **common)


@dataclasses.dataclass(frozen=True)
class Precision:
    """The types of a mixed-precision step (docs/mixed-precision.md)."""

    dtype: str
    reduce_dtype: Optional[str] = None
    loss_scale: Union[str, float, None] = None
    initial_loss_scale: Optional[float] = None
    loss_scale_window: Optional[int] = None

    def to_settings(self) -> dict[str, Any]:
        """Returns the types as settings of a job."""
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}


OptimizerLike = Union[str, Optimizer, None]
DtypeLike = Union[str, Precision, None]


def step_settings(optimizer: OptimizerLike, dtype: DtypeLike) -> dict[str, Any]:
    """Returns the optimizer and the types as settings of a job."""
    settings: dict[str, Any] = {}
    if optimizer is not None:
        settings.update(optimizer.to_settings() if isinstance(optimizer, Optimizer) else {"optimizer": optimizer})
    if dtype is not None:
        settings.update(dtype.to_settings() if isinstance(dtype, Precision) else {"dtype": dtype})
    return settings
