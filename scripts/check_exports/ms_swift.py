# SPDX-License-Identifier: Apache-2.0
"""Reads a script for ms-swift with the arguments of its command `megatron pt`: names, types and choices.

The definitions are read from the sources of the installed package ms-swift, and not imported: they import Megatron-LM's
bridge and a model hub, which reading a script does not need.
"""
from __future__ import annotations

import ast
import functools
import importlib.util
import json
import pathlib
import shlex

from .common import differences, sizes_of

COMMAND = "MegatronPretrainArguments"
FOLDERS = ("megatron/arguments", "arguments")  # a class of the first folder hides one of the second with the same name


@functools.lru_cache(maxsize=None)
def fields_of(name: str) -> dict:
    """Returns the annotations of the fields of a class and of those that it inherits from, by name."""
    root = pathlib.Path(importlib.util.find_spec("swift").origin).parent
    found, bases = {}, []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and node.name == name and not found and not bases:
                    bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
                    found = {one.target.id: one.annotation for one in node.body if isinstance(one, ast.AnnAssign)}
    inherited = {}
    for base in reversed(bases):
        inherited.update(fields_of(base))
    return {**inherited, **found}


def fits(value: str, annotation: ast.expr) -> bool:
    """Returns whether a text is a value of an annotation, as HfArgumentParser reads it."""
    if isinstance(annotation, ast.Name):
        if annotation.id == "bool":
            return value in ("true", "false")
        try:
            return {"int": int, "float": float}.get(annotation.id, str)(value) is not None
        except ValueError:
            return False
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name):
        inside = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        if annotation.value.id == "Literal":
            return value in [str(one.value) for one in inside if isinstance(one, ast.Constant)]
        return annotation.value.id == "Dict" and isinstance(json.loads(value), dict) or any(fits(value, one) for one in inside)
    return False


def arguments_of(script: str) -> dict:
    words = shlex.split(script.replace("\\\n", " "), comments=True)
    words = words[words.index("pt") + 1:-1]  # the last word stands for the script's own arguments
    return {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}


def check(path, plan, model, case):
    sizes, given, known = sizes_of(plan), arguments_of(path.read_text()), fields_of(COMMAND)
    wrong = [f"ms-swift has no argument {name}" for name in given if name not in known]
    wrong += [f"{name} {value} is no {ast.unparse(known[name])}" for name, value in given.items()
              if name in known and "$" not in value and not fits(value, known[name])]
    number = {name: int(given.get(argument, 1)) for name, argument in (
        ("stage", "pipeline_model_parallel_size"), ("model", "tensor_model_parallel_size"), ("context", "context_parallel_size"),
        ("expert", "expert_model_parallel_size"), ("batch", "global_batch_size"), ("microbatch", "micro_batch_size"))}
    if "expert_model_parallel_size" not in given:  # a model without experts
        number.pop("expert")
    return wrong + differences({name: sizes[name] for name in number}, number)
