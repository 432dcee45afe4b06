#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program kerf-run: `kerf run` without the compiler."""
import os
import subprocess

from support import KERF, KerfTest, file_of, main

KERF_RUN = os.path.join(os.path.dirname(KERF), "kerf-run")
MEGABYTE = 1_000_000


def kerf_run(*args):
    return subprocess.run([KERF_RUN, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)


class KerfRun(KerfTest):
    def package(self, optimizer="adamw"):
        folder = self.path(f"package-{optimizer}")
        self.succeed("compile", file_of("gpt2"), "--ranks", 2, "--all-ranks", "--optimizer", optimizer, "-o", folder)
        return folder

    def test_it_needs_no_compiler(self):
        needed = subprocess.run(["ldd", KERF_RUN], capture_output=True, text=True, check=True).stdout
        for library in ("LLVM", "MLIR", "protobuf"):
            self.assertNotIn(library, needed)

    def test_it_is_small(self):
        stripped = self.path("stripped")
        subprocess.run(["strip", "-o", stripped, KERF_RUN], check=True)
        self.assertLess(os.path.getsize(stripped), 10 * MEGABYTE)

    def test_it_trains_as_kerf_run_does(self):
        package, data = self.package(), file_of("gpt2", "batches.npz")
        options = [package, "--data", data, "--steps", 4, "--lr", 1e-2, "--deterministic"]
        self.succeed("run", *options, "--save", self.path("kerf.safetensors"))
        done = kerf_run(*options, "--save", self.path("kerf-run.safetensors"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.read("kerf.safetensors"), self.read("kerf-run.safetensors"))

    def test_it_resumes_and_refuses_another_optimizer(self):
        package, data, saved = self.package(), file_of("gpt2", "batches.npz"), self.path("saved")
        self.assertEqual(kerf_run(package, "--data", data, "--steps", 2, "--deterministic", "--checkpoint", saved).returncode, 0)
        for name, more in (("resumed.safetensors", ["--resume", saved]), ("whole.safetensors", [])):
            done = kerf_run(package, "--data", data, "--steps", 4, "--deterministic", *more, "--save", self.path(name))
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.read("resumed.safetensors"), self.read("whole.safetensors"))
        refused = kerf_run(self.package("sgd"), "--data", data, "--steps", 4, "--resume", saved)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--optimizer sgd", refused.stderr)

    def test_help_and_wrong_options_name_the_program(self):
        self.assertIn("kerf-run package --data batches.npz", kerf_run("--help").stdout)
        wrong = kerf_run("package", "--data", "x.npz", "--stesp", 3)
        self.assertEqual(wrong.returncode, 1)
        self.assertEqual(wrong.stderr, "error: kerf-run has no option '--stesp'; did you mean --steps? `kerf-run --help` lists the options\n")
        self.assertIn("kerf-run needs DIR", kerf_run("--data", "x.npz").stderr)
        self.assertEqual(kerf_run("missing", "--data", "x.npz").returncode, 1)


if __name__ == "__main__":
    main()
