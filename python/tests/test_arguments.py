#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gives wrong values to every argument of every public function: one of the documented exceptions has to come, never another
one. KERF_ALL=1 tries every value at every argument; the short form takes turns."""
import contextlib
import importlib.util
import inspect
import io
import itertools
import json
import os
import tempfile
import unittest
import warnings

import numpy as np

import kerf
import kerf.hf
import kerf.launcher

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MLP = os.path.join(ROOT, "test", "models", "mlp", "model.onnx")
CONFIG = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 32, "vocab_size": 128}
ALL = bool(os.environ.get("KERF_ALL"))
DOCUMENTED = (kerf.Error, TypeError, OSError, ImportError)
WRONG = (None, -1, 0, 2.5, float("nan"), 10**30, "", "zzz", "\0", "\ud800", b"zzz", [], ["zzz"], {}, {"zzz": 1}, [[1]], object(), True, 1 << 62,
         np.zeros(3), {"mesh": {"data": -1}}, {"mesh": None})
SKIPPED = {"progress", "self"}  # any function may be given, and any value of another kind means no function


def plan_of_mlp():
    return kerf.plan(MLP, ranks=1, optimizer="adamw", progress=False)


def whole_plan():
    return kerf.simulate(kerf.Model.from_config(CONFIG, global_batch=4), {"mesh": {"data": 2}, "microbatch": 1}, "cpu-4", ranks=2).plan


def calls(folder):
    """Returns the public functions that take arguments, each with arguments of which it makes a right answer."""
    mlp, whole = plan_of_mlp(), whole_plan()
    with np.load(os.path.join(ROOT, "test", "models", "mlp", "batches.npz")) as arrays:
        data = {name: arrays[name] for name in arrays.files}
    batch = {name: array[0] for name, array in data.items()}
    package = kerf.compile(MLP, mlp, to=os.path.join(folder, "package"))
    trainer = kerf.Trainer(MLP, mlp, native=False)
    with open(MLP, "rb") as file:
        content = file.read()
    short = {"ranks": 1, "progress": False}
    model = kerf.Model.from_config(CONFIG, global_batch=4)
    return [
        (kerf.plan, {"model": MLP, **short}),
        (kerf.pareto, {"model": model, "cluster": "cpu-4", "ranks": 1, "budget": 0.1, "progress": False}),
        (kerf.simulate, {"model": model, "plan": {"mesh": {"data": 2}}, "cluster": "cpu-4", "ranks": 2}),
        (kerf.explain, {"plan": mlp}),
        (kerf.compare, {"plan": mlp, "other": mlp}),
        (kerf.verify, {"model": MLP, "plan": mlp}),
        (kerf.compile, {"model": MLP, "plan": mlp, "to": os.path.join(folder, "other")}),
        (kerf.Trainer, {"model": MLP, "plan": mlp, "native": False}),
        (kerf.Package.load, {"folder": package.folder}),
        (package.start, {}),
        (package.run, {"data": data, "steps": 1}),
        (trainer.step, {"batch": batch}),
        (trainer.evaluate, {"data": data}),
        (trainer.assign, {"arrays": trainer.parameters()}),
        (trainer.set_learning_rate_factor, {"factor": 1.0}),
        (trainer.save, {"folder": os.path.join(folder, "checkpoint")}),
        (trainer.load, {"folder": os.path.join(folder, "no-checkpoint")}),
        (trainer.save_weights, {"path": os.path.join(folder, "weights.safetensors")}),
        (kerf.Model.load, {"path": MLP}),
        (kerf.Model.from_config, {"config": CONFIG, "global_batch": 4}),
        (kerf.Model.from_onnx_bytes, {"data": content}),
        (kerf.Model.from_stablehlo_text, {"text": "module {}"}),
        (kerf.Cluster, {"description": kerf.Cluster.here(2).text}),
        (kerf.Cluster.load, {"path": "cpu-4"}),
        (kerf.Cluster.here, {"ranks": 2}),
        (kerf.Plan, {"content": whole.to_dict()}),
        (kerf.Plan.load, {"path": os.path.join(folder, "no-plan.json")}),
        (whole.layouts, {"model": model}),
        (whole.__or__, {"constraints": {"microbatch": 1}}),
        (whole.save, {"path": os.path.join(folder, "plan.json")}),
        (kerf.Optimizer, {"name": "adamw"}),
        (kerf.SGD, {"momentum": 0.5}),
        (kerf.AdamW, {"beta1": 0.5}),
        (kerf.Precision, {"dtype": "bf16"}),
        (kerf.launcher.script, {"plan": whole, "launcher": "torchrun", "command": ["train.py"]}),
        (kerf.launcher.shape, {"plan": whole}),
        (kerf.hf.training_arguments, {"plan": whole}),
        *([(kerf.hf.parallelism_config, {"plan": whole})] if importlib.util.find_spec("accelerate") else []),
    ]


def calls_of_torch(folder):
    """The same for kerf.torch, in a process that is the only rank."""
    import kerf.torch
    import torch
    from torch import nn

    def loss(net, x, y):
        return nn.functional.mse_loss(net(x), y)

    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    batch = torch.ones(2, 4), torch.zeros(2, 2)
    model = kerf.torch.capture(module, batch, loss)
    plan = kerf.plan(model, ranks=1, progress=False)
    package = kerf.compile(model, plan, to=os.path.join(folder, "torch-package"), native=False)
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    return [
        (kerf.torch.capture, {"module": module, "batch": batch, "loss": loss}),
        (kerf.torch.compile_step, {"module": module, "loss": loss, "optimizer": torch.optim.SGD(module.parameters(), 0.1), "batch": batch}),
        (kerf.torch.placements, {"plan": plan, "module": module, "model": model}),
        (kerf.torch.run, {"package": package, "data": {"x": torch.ones(1, 2, 4), "y": torch.zeros(1, 2, 2)}}),
        (kerf.torch.device_mesh, {"plan": plan, "device_type": "cpu"}),
        (kerf.torch.parallelize, {"module": module, "plan": plan, "batch": {"x": batch[0], "y": batch[1]}, "loss": loss, "model": model}),
    ]


def calls_of_jax(folder):
    """The same for kerf.jax."""
    import jax
    import jax.numpy as jnp
    import kerf.jax

    def loss(params, x):
        return jnp.mean(jnp.tanh(x @ params["w"]) ** 2)

    args = {"w": jnp.ones((8, 16))}, jnp.ones((4, 8))
    model = kerf.jax.capture(loss, *args)
    plan = kerf.plan(model, ranks=1, progress=False)
    mesh = kerf.jax.mesh(plan)
    return [
        (lambda fn, params, donate, updates, name: kerf.jax.capture(fn, *args, params=params, donate=donate, updates=updates, name=name),
         {"fn": loss, "params": "params", "donate": (), "updates": None, "name": "loss"}),
        (kerf.jax.mesh, {"plan": plan, "devices": jax.devices()}),
        (lambda plan, mesh, model: kerf.jax.shardings(plan, mesh, *args, model=model), {"plan": plan, "mesh": mesh, "model": model}),
        (kerf.jax.apply, {"fn": loss, "plan": plan, "mesh": mesh, "model": model}),
    ]


def used(function, answer):
    """Asks a question about a value that is only looked at later: a model, an optimizer."""
    if isinstance(answer, kerf.Model):
        kerf.simulate(answer, {"mesh": {"data": 1}}, "cpu-4")
    elif isinstance(answer, kerf.Optimizer):
        kerf.simulate(MLP, {"mesh": {"data": 1}}, "cpu-4", optimizer=answer)
    elif isinstance(answer, kerf.Precision):
        kerf.simulate(MLP, {"mesh": {"data": 1}}, "cpu-4", dtype=answer)


class Arguments(unittest.TestCase):
    def test_wrong_values(self):
        self.try_wrong_values(calls)

    def test_wrong_values_of_torch(self):
        for package in ("torch", "onnxscript"):
            if not importlib.util.find_spec(package):
                self.skipTest(f"this test needs {package}")
        self.try_wrong_values(calls_of_torch)

    def test_wrong_values_of_jax(self):
        if not importlib.util.find_spec("jax"):
            self.skipTest("this test needs jax")
        self.try_wrong_values(calls_of_jax)

    def try_wrong_values(self, calls):
        turn, tried, refused, wrong = itertools.count(), 0, 0, []
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder) if hasattr(contextlib, "chdir") else contextlib.nullcontext(), \
                warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            for function, right in calls(folder):
                for name in inspect.signature(function).parameters:
                    if name in SKIPPED or name in ("options", "common", "arrays") and name not in right:
                        continue
                    values = WRONG if ALL else [WRONG[next(turn) * 5 % len(WRONG)]]
                    for value in values:
                        given = {**right, name: value}
                        tried += 1
                        try:
                            first = [given.pop(one.name) for one in inspect.signature(function).parameters.values()
                                     if one.kind == one.POSITIONAL_ONLY and one.name in given]
                            used(function, function(*first, **given))
                        except DOCUMENTED as error:
                            refused += 1
                            if not str(error):
                                wrong.append(f"{function.__qualname__}({name}={value!r}) says nothing")
                        except Exception as error:
                            wrong.append(f"{function.__qualname__}({name}={value!r}) raises {type(error).__name__}: {error}")
        self.assertEqual(wrong, [])
        self.assertGreater(refused, tried // 4)


if __name__ == "__main__":
    unittest.main()
