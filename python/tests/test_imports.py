#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kerf works in one process with PyTorch, JAX and Triton, whichever is imported first. KERF_ALL=1 tries every order, else Kerf is last."""
import importlib.util
import itertools
import os
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OTHERS = [name for name in ("torch", "jax", "triton") if importlib.util.find_spec(name)]
# Each one makes its compiler work once, and Kerf imports, plans, compiles and trains.
USES = {
    "kerf": """
import kerf, numpy
arrays = numpy.load("test/models/mlp/batches.npz")
trainer = kerf.Trainer("test/models/mlp/model.onnx", ranks=2, all_ranks=True, lr=0.1)
losses = [trainer.step({name: arrays[name][step] for name in arrays.files}).loss for step in range(2)]
assert losses[0] > 0 and losses[1] > 0
""",
    "torch": "import torch; assert float(torch.ones(2).sum()) == 2",
    "jax": "import jax; assert float(jax.jit(lambda x: x.sum())(jax.numpy.ones(2))) == 2",
    "triton": "import triton; from triton._C.libtriton import ir, llvm; ir.context(); llvm.init_targets()",
}


class Imports(unittest.TestCase):
    @unittest.skipUnless(OTHERS, "neither PyTorch nor JAX nor Triton is installed")
    def test_every_order(self):
        orders = list(itertools.permutations(["kerf", *OTHERS]))
        if not os.environ.get("KERF_ALL"):
            orders = [(*OTHERS, "kerf")]
        for order in orders:
            with self.subTest(order):
                # Each is used when it is imported, and again when all are there.
                text = "\n".join(USES[name] for name in order + order)
                done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
                self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
