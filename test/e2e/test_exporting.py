#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What exporters make of PyTorch modules: Kerf trains the same as PyTorch, or refuses or warns before the first step, by name.

Exports that were made once (test/models/exports) are tested everywhere. Where PyTorch is installed, modules are exported anew (a few;
`--all`: every one, with a table), and the blocks of docs/exporting.md are run: `/path/of/python test/e2e/test_exporting.py --all`.
"""
import importlib.util
import json
import os
import re
import shlex
import sys
import unittest

from support import ROOT, KerfTest, kerf, losses_of, main

ALL = "--all" in sys.argv
if ALL:
    sys.argv.remove("--all")

MISSING = [name for name in ("torch", "onnx", "onnxscript", "numpy") if importlib.util.find_spec(name) is None]
NEEDS_TORCH = f"{', '.join(MISSING)} not installed: modules are not exported anew, and the blocks of docs/exporting.md are not run"
TOLERANCE = {"f32": 2e-4, "f64": 1e-6}  # relative; graphs in f32 hold their constants in f32
FEW = ["Perceptron", "ConvBatchNorm", "Lstm", "FreshNorms", "LabelSmoothing", "PaddedPretrainedEmbedding"]
EXPORTS = os.path.join(ROOT, "test", "models", "exports")


def before_first_step(done):
    return re.split(r"^step +0 ", done.stderr, flags=re.M)[0]


class Fixtures(KerfTest):
    def setUp(self):
        super().setUp()
        with open(os.path.join(EXPORTS, "golden.json")) as file:
            self.golden = json.load(file)

    def train(self, export, *more):
        return kerf("train", os.path.join(EXPORTS, export["file"]), "--data", os.path.join(EXPORTS, export["data"]), "--lr", self.golden["lr"],
                    "--log", self.path("log"), *more)

    def of(self, verdict):
        return [export for export in self.golden["exports"] if export["verdict"] == verdict]

    def test_folded_parameters_are_refused_by_name(self):
        for export in self.of("refused"):
            done = self.train(export)
            self.assertEqual((done.returncode, done.stdout), (1, ""), export["file"] + done.stderr)
            for word in export["words"] + ["optimize=False", "--accept-folded"]:
                self.assertIn(word, done.stderr, export["file"])
            self.assertFalse(os.path.exists(self.path("log")))
            done = self.train(export, "--accept-folded")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("is not training the model", before_first_step(done))
            os.remove(self.path("log"))

    def test_every_command_that_makes_a_step_refuses(self):
        model = os.path.join(EXPORTS, self.of("refused")[0]["file"])
        for command in (["plan", model], ["compile", model, "-o", self.path("package")], ["simulate", model]):
            self.refuse(1, ["norm2.weight", "--accept-folded"], *command)
            self.succeed(*command, "--accept-folded")
        self.assertFalse(os.path.exists(self.path("plan.json")))

    def test_refused_also_by_way_of_kerf_ir(self):
        """The import goes on, and what it writes is refused as the export is."""
        export = self.of("refused")[0]
        model = os.path.join(EXPORTS, export["file"])
        summary = json.loads(self.succeed("import", model, "--json").stdout)
        self.assertEqual(len(summary["folded"]), 4)
        self.succeed("import", model, "-o", self.path("model.mlir"))
        self.refuse(1, export["words"], "train", self.path("model.mlir"), "--data", os.path.join(EXPORTS, export["data"]))

    def test_constants_that_are_trained_by_name_are_accepted(self):
        export = next(e for e in self.of("refused") if e["file"] == "SlicedPositions-default.onnx")
        done = self.train(export, "--trainable", "slice_1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("pos is slice_1", before_first_step(done))

    def test_differences_are_told_before_the_first_step(self):
        for export in self.of("warned") + self.of("equal"):
            done = self.train(export)
            self.assertEqual(done.returncode, 0, export["file"] + done.stderr)
            for word in export["words"]:
                self.assertIn(word, before_first_step(done), export["file"])
            self.assertRegex(before_first_step(done), r"(?m)^training \d+ tensors?, [\d,]+ parameters: ")

    def test_a_package_tells_them_too(self):
        export = next(e for e in self.of("warned") if e["file"] == "LabelSmoothing-raw.onnx")
        self.succeed("compile", os.path.join(EXPORTS, export["file"]), "-o", self.path("package"))
        done = self.succeed("run", self.path("package"), "--data", os.path.join(EXPORTS, export["data"]))
        for word in export["words"] + ["training 2 tensors"]:
            self.assertIn(word, before_first_step(done))

    def test_losses(self):
        for export in self.of("equal"):
            for dtype, tolerance in TOLERANCE.items():
                self.train(export, "--dtype", dtype)
                self.close(losses_of(self.path("log")), export["losses"], tolerance, f"{export['file']} {dtype}")


@unittest.skipIf(MISSING, NEEDS_TORCH)
class Anew(unittest.TestCase):
    def test_modules(self):
        import exporting
        self.assertEqual(exporting.main([] if ALL else FEW), 0)


@unittest.skipIf(MISSING, NEEDS_TORCH)
class Page(KerfTest):
    """Each Python block of the page leaves a module and its batches; the command behind it trains the export as PyTorch trains the module."""

    def test_blocks(self):
        import exporting
        import torch
        with open(os.path.join(ROOT, "docs", "exporting.md")) as file:
            page = file.read()
        blocks = re.findall(r"^```(python|sh)\n(.*?)^```$", page, flags=re.M | re.S)
        names, commands = {}, 0
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        for language, text in blocks:
            if language == "python":
                with exporting.quiet():
                    exec(compile(text, "docs/exporting.md", "exec"), names)
                continue
            commands += 1
            words = shlex.split(text)
            self.assertEqual(words[:2], ["kerf", "train"])
            done = self.succeed(*words[1:], "--log", "log")
            said = before_first_step(done)
            module, batches = names["module"], names["batches"]
            if exporting.is_random(module, batches):
                self.assertIn("; with dropout", said)
                continue
            self.assertIn("; no dropout", said)
            self.assertNotIn("is not training", said)
            self.close(losses_of("log"), exporting.torch_losses(module, batches), 2e-4, text)
            trained = sum(p.numel() for p in module.parameters() if p.requires_grad)
            self.assertIn(f" {trained:,} parameters: ", said)
            if commands == 1:
                self.assertIn(said.strip(), page)  # the line that the page shows
        self.assertEqual(commands, 6)


if __name__ == "__main__":
    main()
