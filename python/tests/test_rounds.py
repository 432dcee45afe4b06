#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Repeats calls of the package kerf in one process and compares the memory that stays. KERF_ALL=1 makes 1,000 rounds."""
import ctypes
import gc
import os
import resource
import threading
import unittest
import warnings

import numpy as np

import kerf

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MLP = os.path.join(ROOT, "test", "models", "mlp", "model.onnx")
CONFIG = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 32, "vocab_size": 128}
PINNED = {"mesh": {"data": 2}, "microbatch": 1, "recompute": "none", "optimizer_sharding": 0, "schedule": {"name": "1f1b"}}
ALL = bool(os.environ.get("KERF_ALL"))
# Bytes by which the memory of the process may grow. The address sanitizer keeps what is given back.
LIMIT = 1 << (40 if "libasan" in os.environ.get("LD_PRELOAD", "") else 20)


def resident():
    """Returns the bytes of memory of this process, after all that nobody holds is given back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def grown(once, warm, rounds):
    """Returns by how many bytes the process grows over `rounds` calls of `once`, after `warm` calls."""
    for _ in range(warm):
        once()
    before = resident()
    for _ in range(rounds):
        once()
    return resident() - before


class Questions:
    """One round of the calls that need no training, two searches at once among them."""

    def __init__(self):
        with open(MLP, "rb") as file:
            self.bytes = file.read()

    def __call__(self):
        model = kerf.Model.from_onnx_bytes(self.bytes)
        plan = kerf.plan(model, ranks=2, all_ranks=True, progress=lambda best, bound: True)
        config = kerf.Model.from_config(CONFIG, global_batch=2)
        whole = kerf.plan(config, "cpu-4", ranks=2, search="whole", constraints=PINNED, progress=False)
        found = [None, None]

        def search(at):
            found[at] = kerf.plan(model, ranks=2, all_ranks=True, progress=False) if at else kerf.plan(
                config, "cpu-4", ranks=2, search="whole", constraints=PINNED, progress=False)

        threads = [threading.Thread(target=search, args=(at,)) for at in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if found != [whole, plan]:
            raise AssertionError("two searches in two threads found other plans than one after the other")
        kerf.simulate(plan=whole).report()
        kerf.explain(plan)
        kerf.compare(whole, whole)
        for wrong in (lambda: kerf.plan("no.onnx"), lambda: kerf.plan(model, ranks=0), lambda: kerf.Plan({"x": 1}), lambda: kerf.Cluster("{"),
                      lambda: kerf.plan(config, "cpu-4", ranks=2, memory=1000, constraints=PINNED, progress=False), lambda: kerf.simulate(model, {"mesh": {"data": 3}})):
            try:
                wrong()
            except kerf.Error:
                pass


class Training:
    """One round of a trainer: made, trained, refused a batch, and ended by a thread."""

    def __init__(self):
        with np.load(os.path.join(ROOT, "test", "models", "mlp", "batches.npz")) as arrays:
            self.batch = {name: arrays[name][0] for name in arrays.files}

    def __call__(self):
        with kerf.Trainer(MLP, {"mesh": {"data": 2}}, ranks=2, native=False, lr=0.1) as trainer:
            trainer.step(self.batch)
            trainer.assign(trainer.parameters())
            for wrong in ({}, {**self.batch, "other": np.zeros(3, np.float32)}):
                try:
                    trainer.step(wrong)
                except kerf.Error:
                    pass


def own_objects():
    """Returns the number of objects of Kerf's classes."""
    gc.collect()
    return sum(str(type(one).__module__).partition(".")[0] == "kerf" for one in gc.get_objects())


class Rounds(unittest.TestCase):
    def test_questions(self):
        self.assertLess(grown(Questions(), 20, 1000 if ALL else 15), LIMIT)  # beside PyTorch, memory of threads settles in some 10 rounds

    def test_training(self):
        self.assertLess(grown(Training(), 20, 1000 if ALL else 50), LIMIT)

    def test_captures_of_jax(self):
        try:
            import jax
            import jax.numpy as jnp
            import kerf.jax
        except ImportError as error:
            self.skipTest(f"this test needs jax: {error}")

        def loss(params, x):
            return jnp.mean(jnp.tanh(x @ params["w"]) ** 2)

        def once():
            model = kerf.jax.capture(loss, {"w": jnp.ones((8, 16))}, jnp.ones((4, 8)))
            kerf.plan(model, ranks=2, all_ranks=True, progress=False)
            jax.clear_caches()  # JAX keeps what it has traced

        self.assertLess(grown(once, 200 if ALL else 20, 1000 if ALL else 30), LIMIT)

    def test_captures_of_torch(self):
        try:
            import onnxscript  # noqa: F401
            import torch
            import kerf.torch
        except ImportError as error:
            self.skipTest(f"this test needs torch and onnxscript: {error}")
        module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
        batch = torch.ones(4, 8), torch.zeros(4, dtype=torch.int64)

        def once():
            model = kerf.torch.capture(module, batch, lambda net, x, y: torch.nn.functional.cross_entropy(net(x), y))
            kerf.plan(model, ranks=2, all_ranks=True, progress=False)

        for _ in range(3):
            once()
        rounds, before = (1000 if ALL else 3), own_objects()
        # torch.export keeps some 10 to 30 kB of its own in each call.
        self.assertLess(grown(once, 0, rounds), LIMIT + rounds * 50_000)
        self.assertLessEqual(own_objects(), before)


if __name__ == "__main__":
    unittest.main()
