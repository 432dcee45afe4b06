# SPDX-License-Identifier: Apache-2.0
"""Kerf from Python: the fastest plan for training a model on a cluster, its explanation, and training by it.

    import kerf
    plan = kerf.plan("model.onnx", "dgx-a100", ranks=8, dtype="bf16")
    print(plan)

Nothing here prints: warnings are kerf.Warning, and progress goes to the logger "kerf". docs/python.md is the guide.
"""
from .answers import Comparison, Explanation, Pareto, ParetoPoint, Simulation, Verification
from .ask import compare, explain, pareto, plan, simulate, verify
from .cluster import Cluster
from .errors import Error, InfeasibleError, InputError, InternalError, Warning
from .model import Model
from .optimizer import SGD, AdamW, Optimizer, Precision
from .plans import Layout, Plan, Prediction, Report
from .run import Evaluation, Input, Package, RunResult, Session, Step, Trainer, compile

__version__ = "0.1.0"

__all__ = [
    "SGD", "AdamW", "Cluster", "Comparison", "Error", "Evaluation", "Explanation", "InfeasibleError", "Input", "InputError",
    "InternalError", "Layout", "Model", "Optimizer", "Package", "Pareto", "ParetoPoint", "Plan", "Precision", "Prediction", "Report", "RunResult",
    "Session", "Simulation", "Step", "Trainer", "Verification", "Warning", "compare", "compile", "explain", "pareto", "plan",
    "simulate", "verify",
]
