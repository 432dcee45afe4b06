# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments that several calls share."""
from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Union

from .errors import InputError


def arrays(given: Any, what: str) -> dict[str, Any]:
    """Returns a dictionary of arrays by name. Raises TypeError for anything but a mapping."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} is a dictionary of arrays by name, not a {type(given).__name__}")
    return dict(given)  # pyright: ignore[reportUnknownArgumentType] - a mapping of anything; the module checks what is in it


def instance(given: Any, kind: type, what: str) -> None:
    """Raises TypeError where a value is not of the class `kind`; `what` begins the message, as in "mesh is a jax Mesh"."""
    if not isinstance(given, kind):
        raise TypeError(f"{what}, not a {type(given).__name__}")


def callable_(given: Any, what: str) -> None:
    """Raises TypeError where a value cannot be called."""
    if not callable(given):
        raise TypeError(f"{what} is a function, not a {type(given).__name__}")


def write_text(path: Union[str, os.PathLike[str]], text: str) -> None:
    """Writes a file. Raises InputError where no file can have that name, and OSError where it cannot be written."""
    name = os.fspath(path)  # a number would be the descriptor of an open file
    try:
        file = open(name, "w", encoding="utf-8")
    except ValueError as error:
        raise InputError(f"{name!r} is not the name of a file: {error}") from error
    with file:
        file.write(text)
