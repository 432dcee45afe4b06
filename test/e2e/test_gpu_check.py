#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check.sh on the stand-ins of NVIDIA's libraries: `pack` and `run` with small models, and wrong things that must fail one row."""
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile

from support import KERF, ROOT, KerfTest, main

BUILD = os.path.dirname(os.path.dirname(KERF))
SCRIPT = os.path.join(ROOT, "scripts", "gpu-check.sh")
MODELS = "mlp,gpt2,bert,cnn" if "--all" in sys.argv else "mlp"


class GpuCheck(KerfTest):
    def setUp(self):
        super().setUp()
        self.packed = self.path("check")
        os.environ.update(KERF_BUILD=BUILD, KERF_CUDA_LIBRARIES=os.path.join(BUILD, "standins"), KERF_STANDIN_DEVICES="2")
        done = subprocess.run([SCRIPT, "pack", self.packed, "--models", MODELS, "--ranks", "2", "--steps", "2", "--small", "--benchmarks", "gpt2-124m",
                               "--without", "tests"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("packed ", done.stdout)

    def run_check(self, *args, **environment):
        done = subprocess.run([os.path.join(self.packed, "gpu-check.sh"), "run", "--results", self.path("results"), *args], capture_output=True,
                              text=True, env={**os.environ, **environment}, timeout=600)
        with open(self.path("results/rows.jsonl")) as file:
            rows = {(row["part"], row["name"]): row for row in map(json.loads, file)}
        return done, rows

    def failed(self, rows):
        return [name for name, row in rows.items() if row["status"] == "FAILED"]

    def change(self, name, change):
        """Changes an entry of the manifest."""
        path = os.path.join(self.packed, "manifest.json")
        with open(path) as file:
            manifest = json.load(file)
        change(next(one for one in manifest["parity"] if one["name"] == name))
        with open(path, "w") as file:
            json.dump(manifest, file)

    def archive_is_enough(self):
        """The archive, unpacked elsewhere, is what `run` uses from here on."""
        with tarfile.open(self.packed + ".tar.gz") as tar:
            tar.extractall(self.path("elsewhere"))
        shutil.rmtree(self.packed)
        self.packed = self.path("elsewhere/check")

    def everything_passes(self):
        done, rows = self.run_check()
        self.assertEqual((done.returncode, self.failed(rows)), (0, []), done.stdout + done.stderr)
        for part, name in [("machine", "GPUs"), ("machine", "NCCL"), ("parity", "mlp f32"), ("parity", "mlp bf16"), ("memory", "mlp f32"),
                           ("parity", "mlp f32 2 GPUs"), ("memory", "mlp f32 2 GPUs"), ("benchmark", "gpt2-124m Kerf"), ("memory", "gpt2-124m benchmark"),
                           ("fused", "mlp f32")]:
            self.assertEqual(rows[part, name]["status"], "passed", name)
        self.assertIn("| gpt2-124m | Kerf | ", done.stdout)
        kernels = rows["benchmark", "gpt2-124m Kerf"]["kernels"]
        self.assertGreater(len(kernels), 15)
        longest = max(kernels, key=lambda one: one["seconds"])
        self.assertIn(f"| gpt2-124m | `{longest['op']}` | {longest['calls']} | ", done.stdout)
        last = done.stdout.strip().splitlines()[-1]
        self.assertRegex(last, r"^\d+ passed, 0 failed, \d+ skipped$")
        self.assertEqual(self.read("results/table.md").decode().strip().splitlines()[-1], last)

    def steps_stand_beside_predictions(self):
        done = subprocess.run([SCRIPT, "predict", os.path.join(ROOT, "clusters", "dgx-h100.json"), self.path("results/rows.jsonl"), "--small"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]
        self.assertEqual([row[0] for row in rows], ["gpt2-124m", "tiny gpt2", "tiny gpt2 recomputed"])
        for _, predicted, measured, difference in rows:
            exact = float(predicted.split()[0]) / float(measured.split()[0]) - 1
            self.assertAlmostEqual(exact, float(difference.rstrip("%")) / 100, delta=0.1 * abs(exact) + 0.02)

    def wrong_things_fail_one_row_each(self):
        def loss(one):
            one["losses"][-1] *= 1.001

        def memory(one):
            one["planned_bytes"][0] += 1

        def package(one):
            one["package"] += "-missing"

        self.change("mlp f32", loss)
        self.change("mlp bf16", memory)
        self.change("mlp f32 2 GPUs", package)
        fake = self.path("bin/compute-sanitizer")
        os.makedirs(self.path("bin"))
        with open(fake, "w") as file:
            # compute-sanitizer --tool TOOL --error-exitcode 9 --log-file FILE PROGRAM...
            file.write('#!/bin/sh\n'
                       'echo "========= ERROR SUMMARY: of $2" > "$6"\n'
                       '[ "$2" != racecheck ] || exit 9\n'
                       '[ "$2" = memcheck ] || [ "$KERF_CUDNN$KERF_CUBLASLT" = offoff ] || exit 8\n'
                       'shift 6\n'
                       'exec "$@"\n')
        os.chmod(fake, os.stat(fake).st_mode | stat.S_IXUSR)
        done, rows = self.run_check("--only", "parity,several,sanitizer", PATH=self.path("bin") + ":" + os.environ["PATH"])
        self.assertEqual(done.returncode, 1)
        self.assertEqual(sorted(self.failed(rows)), [("memory", "mlp bf16"), ("parity", "mlp f32"), ("parity", "mlp f32 2 GPUs"),
                                                     ("sanitizer", "racecheck mlp f32")], done.stdout)
        self.assertEqual(rows["sanitizer", "synccheck mlp f32"]["text"], "ERROR SUMMARY: of synccheck")
        for name in ("memcheck mlp f32", "memcheck mlp f32 with libraries", "initcheck mlp f32"):
            self.assertEqual(rows["sanitizer", name]["status"], "passed", name)
        self.assertIn("is no package", rows["parity", "mlp f32 2 GPUs"]["text"])
        self.assertRegex(done.stdout.strip().splitlines()[-1], r"^\d+ passed, 4 failed$")

    def a_run_that_is_cut_off_goes_on(self):
        done, rows = self.run_check("--only", "machine,parity", "--seconds", "1")
        self.assertEqual((done.returncode, list(rows)), (1, [("machine", "limits")]), done.stdout)
        self.assertIn("rows did not run", done.stdout)
        self.run_check("--only", "machine")
        done, rows = self.run_check("--only", "machine,several", "--continue")
        self.assertEqual((done.returncode, self.failed(rows)), (0, []))
        self.assertEqual(done.stdout.count("machine    GPUs"), 0)
        self.assertIn(("parity", "mlp f32 2 GPUs"), rows)

    def test_one_package_for_all_cases(self):
        self.archive_is_enough()
        for case in (self.everything_passes, self.steps_stand_beside_predictions, self.a_run_that_is_cut_off_goes_on, self.wrong_things_fail_one_row_each):
            with self.subTest(case.__name__):
                case()


if __name__ == "__main__":
    main()
