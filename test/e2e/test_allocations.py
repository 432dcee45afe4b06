#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps of compiled models allocate nothing: each package is run by the program that counts (unittests/Runtime/AllocationTest.cpp)."""
import os
import subprocess

from support import KERF, KerfTest, file_of, main

COUNTER = os.path.join(os.path.dirname(KERF), "AllocationTests")


class Allocations(KerfTest):
    def test_none_in_a_step(self):
        for model, optimizer in (("gpt2", "adamw"), ("llama", "adamw"), ("mlp", "sgd")):
            for ranks, mesh in ((1, {"data": 1}), (2, {"data": 2}), (2, {"model": 2}), (4, {"data": 2, "model": 2})):
                with self.subTest(model=model, mesh=mesh):
                    package = self.path("package")
                    constraints = self.write("mesh.json", {"kerf": 1, "mesh": mesh})
                    self.succeed("compile", file_of(model), "--ranks", ranks, "--optimizer", optimizer, "--clip-norm", 1, "--constraints", constraints,
                                 "-o", package)
                    done = subprocess.run([COUNTER, package, file_of(model, "batches.npz")], stdin=subprocess.DEVNULL, capture_output=True,
                                          text=True, timeout=60)
                    print(f"{model}, {mesh}, {done.stdout}", end="")
                    self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    main()
