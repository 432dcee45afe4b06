#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of an installed package do what the programs of the build do: same output, same messages, same exit status."""
import os
import signal
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERF = os.environ.get("KERF", os.path.join(ROOT, "build", "bin", "kerf"))
BATCHES = os.path.join(ROOT, "test", "models", "mlp", "batches.npz")
MLP = os.path.join(ROOT, "test", "models", "mlp", "model.onnx")


def installed(program, *arguments):
    """Returns the words that start a program as the script of an installed package does."""
    return [sys.executable, "-c", f"import sys; from kerf.command import {program}; sys.exit({program}())", *arguments]


def ran(words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


class Commands(unittest.TestCase):
    def test_same_as_the_program(self):
        for arguments in (("--version",), ("plan", MLP, "--ranks", "0"), ("plan", MLP, "--memory", "1000"), ("nothing",),
                          ("import", MLP)):
            with self.subTest(arguments):
                self.assertEqual(ran(installed("kerf", *arguments)), ran([KERF, *arguments]))

    def test_the_other_programs(self):
        for program, name in (("kerf_run", "kerf-run"), ("kerf_profile", "kerf-profile")):
            status, text, _ = ran(installed(program, "--help"))
            self.assertEqual(status, 0)
            self.assertIn(f"{name} ", text)
        status, _, message = ran(installed("kerf_run", "no-such-folder", "--data", BATCHES))
        self.assertEqual(status, 1)
        self.assertIn("no-such-folder", message)

    def test_a_closed_pipe_ends_it(self):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as out:
            done = subprocess.run(installed("kerf", "import", MLP), stdout=out, timeout=120)
        self.assertEqual(done.returncode, -signal.SIGPIPE)


if __name__ == "__main__":
    unittest.main()
