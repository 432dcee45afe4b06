# SPDX-License-Identifier: Apache-2.0
"""Kerf and PyTorch: `capture` takes a module to a kerf.Model, `compile_step` trains a module with Kerf's runtime, and `run`
trains a package on tensors (docs/pytorch.md).

This package needs PyTorch, onnx and onnxscript; `import kerf` does not.
"""
from .backend import Run, run
from .capture import capture
from .step import CompiledStep, compile_step

__all__ = ["CompiledStep", "Run", "capture", "compile_step", "run"]
