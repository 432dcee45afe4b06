#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parts of benchmarks/training.py that need no PyTorch: the sizes of its models, the FLOPs of their steps, the lines that it reads, and its verdicts."""
import json
import math
import os
import subprocess
import sys

from support import ROOT, KerfTest, file_of, main

sys.path.insert(0, os.path.join(ROOT, "benchmarks"))
import training  # noqa: E402
import training_models  # noqa: E402
from training_limits import Limits  # noqa: E402

# Parameters of GPT-2 124M, of timm's vit_small_patch16_224 and of torchvision's resnet18, and those that the sizes of the LLaMA-like model give:
# two tables, and for each of 8 layers queries and output, keys and values, three matrices of the MLP and two norms; one norm at the end.
PARAMETERS = {"gpt2": 124439808, "vit": 22050664, "cnn": 11689512,
              "llama": 2 * 32000 * 768 + 8 * (2 * 768 * 768 + 2 * 768 * 256 + 3 * 768 * 2048 + 2 * 768) + 768}
# FLOPs of the two products of causal attention, without the pairs that the mask leaves out: layers x 4 x batch x pairs x width.
MASKED_OUT = {"gpt2": 12 * 4 * 4 * (128 * 127 // 2) * 768, "llama": 8 * 4 * 4 * (128 * 127 // 2) * 768}
# torch.utils.flop_counter counts these in a forward and in a step of the ResNet-18 (PyTorch 2.14).
CNN_FORWARD, CNN_STEP = 4753850368, 13953269760


class TrainingBenchmark(KerfTest):
    def test_models_are_those_that_kerf_reads(self):
        self.assertEqual(set(PARAMETERS), set(training_models.MODELS))
        for name, model in training_models.MODELS.items():
            with self.subTest(model=name):
                path = model.write(self.folder)
                said = json.loads(self.succeed("import", path, *model.kerf_options, "--json").stdout)["arguments"]
                self.assertEqual(sum(math.prod(each["shape"]) for each in said if each["trainable"]), PARAMETERS[name])
                self.assertEqual({each["name"]: each["shape"] for each in said if each["kind"] == "input"},
                                 {name: each.shape for name, each in model.inputs.items()})
                simulated = json.loads(self.succeed("simulate", path, *model.kerf_options, "--ranks", 1, "--json").stdout)
                forward = sum(each.flops for each in model.products())
                self.assertEqual(3 * (forward + MASKED_OUT.get(name, 0)), simulated["model_flops"])

    def test_flops_of_cases(self):
        self.assertEqual(sum(each.flops for each in training_models.cnn_products()), CNN_FORWARD)
        self.assertEqual(training_models.CASES["cnn"].flops(), CNN_STEP)
        self.assertEqual(training_models.CASES["gpt2"].flops(), 3 * training_models.CASES["gpt2-forward"].flops())
        self.assertEqual((training_models.CASES["gpt2"].bytes(10), training_models.CASES["gpt2-forward"].bytes(10)), (320, 40))
        # A convolution, multiplication by multiplication.
        count = sum(2 for _ in range(2) for _ in range(3 * 3) for _ in range(4) for _ in range(5) for _ in range(3 * 3))
        self.assertEqual(training_models.convolution(2, 3, 4, 5, 3).flops, count)
        # Queries by keys, and probabilities by values, with and without a mask; 6 queries of width 8.
        for causal in (True, False):
            pairs = sum(1 for query in range(6) for key in range(6) if key <= query or not causal)
            self.assertEqual(training_models.attention(3, 6, 8, causal).flops, 2 * 2 * 3 * pairs * 8)

    def test_lines_of_steps_and_evaluations(self):
        data = file_of("gpt2", "batches.npz")
        said = self.succeed("train", file_of("gpt2"), "--data", data, "--steps", 3, "--eval-data", data, "--eval-every", 1, "--eval-steps", 2).stderr
        steps = [timed for line in said.splitlines() if (timed := training.kerf_step(line))]
        evaluations = [timed for line in said.splitlines() if (timed := training.kerf_evaluation(line))]
        self.assertEqual([count for _, count in steps], [1, 1, 1], said)
        self.assertEqual([count for _, count in evaluations], [2, 2, 2], said)
        self.assertTrue(all(0 < seconds < 60 for seconds, _ in steps + evaluations), said)
        self.assertEqual(training.torch_step('{"seconds": 0.25}\n'), (0.25, 1))
        for line in ("a warning\n", '{"parameters": 7}\n', "3\n"):
            self.assertIsNone(training.torch_step(line))

    def test_limit_and_verdict(self):
        limits = Limits({"f32": 100.0, "bf16": 1000.0}, 10.0, True)
        self.assertEqual([limits.seconds(500, 20, dtype) for dtype in ("f32", "bf16")], [7.0, 2.5])

        def verdict(name, kerf, eager, compiled, limit, matrix_units=True):
            return training.verdict(name, training_models.CASES[name], [kerf, eager, compiled], limit, matrix_units)

        self.assertIn("0.85 of PyTorch's best (compile), 1.70 of the limit", verdict("gpt2", 1.7, 4.0, 2.0, 1.0))
        self.assertIn("is met", verdict("gpt2", 1.7, 4.0, 2.0, 1.0))
        self.assertIn("not met", verdict("gpt2", 1.9, 4.0, 2.0, 1.0))  # 0.95 of PyTorch's
        self.assertIn("is met", verdict("gpt2", 1.9, 4.0, 2.0, 1.7))  # 1.12 of the limit
        self.assertIn("not met", verdict("gpt2-bf16", 1.9, 2.0, 4.0, 1.7))  # the limit does not count in bf16
        self.assertIn("is met", verdict("gpt2-bf16", 1.7, 2.0, 4.0, 1.0))
        self.assertIn("no bar", verdict("gpt2-bf16", 1.7, 2.0, 4.0, 1.0, matrix_units=False))

    def test_arguments(self):
        for arguments, words in ((["gpt3"], "there is no case gpt3: take gpt2, gpt2-ranks"), (["cnn", "--steps", "0"], "--steps 0: both have to be 1 or more")):
            done = subprocess.run([sys.executable, training.__file__, *arguments], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    main()
