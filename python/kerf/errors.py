# SPDX-License-Identifier: Apache-2.0
"""The exceptions and warnings of Kerf. Their messages are those of the command line, with keyword arguments for options."""
from __future__ import annotations


class Error(Exception):
    """An error of Kerf. `status` is the exit status that the command line would have."""

    status: int = 1


class InputError(Error, ValueError):
    """The input is wrong: a model, a plan, a cluster, a setting or a batch."""

    status = 1


class InfeasibleError(Error):
    """No plan fits into the memory of the devices. The message says what would make one fit."""

    status = 2


class InternalError(Error, RuntimeError):
    """A check of Kerf's own failed, or two runs that have to be equal differ."""

    status = 3


class Warning(UserWarning):  # noqa: A001 - users write kerf.Warning
    """A warning about a model or a plan."""
