#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training on the device `check` gives the losses of the CPU: bit for bit with --deterministic.

`check` ends the process where host code reads a device's memory, does a stream's work late and fills fresh memory with NaN. Other tests run on
it with KERF_DEVICE=check, for example `KERF_DEVICE=check python3 test/e2e/test_losses.py --all`.
"""
import json
import random
import re
import struct

from support import KerfTest, file_of, golden_of, main, optimizer_flags, write_npz
from test_pipelines import PLANS

STEPS = 4
AGREE = 1e-10  # relative, of float64 losses whose sums come in another order
SOME = ["microbatches, data 2", "zero 3", "1f1b, 4 stages", "offload, 1f1b, ring, zero 2", "3-D, zero-bubble, zero 2, sequence parallel",
        "meshes of stages, zero 3 on 2, sequence parallel"]


class Devices(KerfTest):
    def train(self, plan, *more, steps=STEPS):
        step, run = optimizer_flags(golden_of("gpt2"), "adamw")
        done = self.succeed("train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", steps, "--dtype", "f64",
                            "--plan", self.write("plan.json", plan), "--log", self.path("log"), *step, *run, *more)
        with open(self.path("log")) as file:
            lines = [json.loads(line) for line in file]
        return [line["loss"] for line in lines if "loss" in line], done.stderr

    def test_plans(self):
        for name in SOME:
            with self.subTest(name):
                expected, _ = self.train(PLANS[name])
                got, said = self.train(PLANS[name], "--device", "check:5", "--deterministic")
                self.assertEqual(got, expected, "ordered sums have the same bits on every device")
                self.assertIn("device: check:5\n", said)
                got, said = self.train(PLANS[name], "--device", "check")
                self.assertRegex(said, r"device: check:[0-9]+\n")
                self.close(got, expected, AGREE, name)

    def test_order_of_sums(self):
        """Without --deterministic `check` adds in another order: some seed gives other bits."""
        plan = PLANS["zero 1 on 4"]
        expected, _ = self.train(plan)
        self.assertTrue(any(self.train(plan, "--device", f"check:{seed}")[0] != expected for seed in range(4)))

    def test_evaluation_checkpoints_and_skipped_steps(self):
        plan = PLANS["zero 2"]
        more = ["--eval-data", file_of("gpt2", "batches.npz"), "--eval-every", "2", "--eval-steps", "2", "--on-nan", "skip", "--deterministic"]
        expected, said = self.train(plan, *more)
        lines = [line for line in said.splitlines() if "evaluation" in line]
        got, said = self.train(plan, "--device", "check:11", *more)
        self.assertEqual(got, expected)
        self.assertEqual([line.split(" (")[0] for line in said.splitlines() if "evaluation" in line], [line.split(" (")[0] for line in lines])
        self.train(plan, "--device", "check:12", "--checkpoint", self.path("saved"), "--every", "2", "--deterministic")
        resumed, _ = self.train(plan, "--resume", self.path("saved"), "--device", "check:13", "--deterministic", steps=STEPS + 2)
        longer, _ = self.train(plan, "--deterministic", steps=STEPS + 2)
        self.assertEqual(resumed[-2:], longer[-2:])

    def test_a_fault_is_told_as_on_the_cpu(self):
        tokens = [random.Random(1).randrange(8) for _ in range(STEPS * 16)]
        pack = lambda values: ("<i8", [STEPS, 2, 8], struct.pack(f"<{len(values)}q", *values))
        write_npz(self.path("data.npz"), {"input_ids": pack(tokens), "labels": pack(tokens[:43] + [4321] + tokens[44:])})
        self.write("config.json", {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8, "n_positions": 16, "vocab_size": 50})
        told = []
        for device in ("cpu", "check:3"):
            done = self.refuse(1, ["rank ", "cross_entropy", "label 4321 of row "], "train", self.path("config.json"), "--data", self.path("data.npz"), "--seed", "1",
                               "--global-batch", "2", "--sequence", "8", "--ranks", "2", "--all-ranks", "--device", device)
            # Several ranks may hold the same rows, and either may tell the fault first.
            told.append([re.sub("rank [01]: ", "", line) for line in done.stderr.splitlines() if "error: " in line])
        self.assertEqual(told[0], told[1])

    def test_refused(self):
        train = ["train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--ranks", "1"]
        self.refuse(1, ["--device: there is no device 'abacus'", "'cpu' (", "'check' ("], *train, "--device", "abacus")
        self.refuse(1, ["check", "seed", "'x' is given"], *train, "--device", "check:x")


if __name__ == "__main__":
    main()
