# SPDX-License-Identifier: Apache-2.0
"""Kerf and PyTorch: `capture` takes a module to a kerf.Model, `compile_step` trains a module with Kerf's runtime, `run`
trains a package on tensors (docs/pytorch.md), and `parallelize` trains a module under a plan with PyTorch's own
parallelism (docs/parallelize.md). `titan_parallelize_fn` is for models of TorchTitan.

This package needs PyTorch, and `capture` needs onnx and onnxscript; `import kerf` needs none of them.
"""
from .backend import Run, run
from .capture import capture
from .parallelize import Parallel, parallelize
from .placement import SUPPORT, Placement, Row, device_mesh, placements
from .step import CompiledStep, compile_step
from .titan import titan_parallelize_fn
from .traffic import Collectives, Traffic

__all__ = ["SUPPORT", "Collectives", "CompiledStep", "Parallel", "Placement", "Row", "Run", "Traffic", "capture", "compile_step", "device_mesh",
           "parallelize", "placements", "run", "titan_parallelize_fn"]
