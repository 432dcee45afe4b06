# SPDX-License-Identifier: Apache-2.0
"""Modules as people write them in PyTorch, each with its loss in forward(), small enough to train in milliseconds.

MODULES: name -> Case(module class, inputs, differs). The inputs of a step are drawn by `inputs(generator)`, by their names in forward().
"""
from . import attention, layers, losses, weights  # noqa: F401: each lists its modules
from .base import MODULES  # noqa: F401
