#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training on the device `ascend`, on stand-ins of CANN's libraries (test/standins/cann): the losses are PyTorch's, on one NPU and on several; the
memory is the planned one; and what the device or its libraries cannot do is one message. On a machine with NPUs: scripts/npu-check.sh."""
import collections
import json
import math
import os
import subprocess
import sys
import unittest
from unittest import mock

from support import CLUSTERS, FOLDERS, KERF, ROOT, SHARED_EXPORTS, KerfTest, file_of, golden_of, losses_of, main, optimizer_flags
from test_dropout import transformer
from test_pipelines import ALL, PLANS, plan, schedule
from test_pipelines_of_models import MODELS, Model, fitted

# KERF_RUN names a program that runs what kerf compiles, such as one with sanitizers (scripts/sanitize-ascend.sh); the stand-ins are those of its build.
RUN = os.environ.get("KERF_RUN")
STANDINS = os.path.join(os.path.dirname(os.path.dirname(RUN or KERF)), "standins", "ascend")
STANDINS_OF_KERF = os.path.join(os.path.dirname(os.path.dirname(KERF)), "standins", "ascend")
OF_RUN = {"--data": 1, "--steps": 1, "--device": 1, "--log": 1, "--json": 0, "--deterministic": 0}  # options of a run, and the number of their values
CONTEXT = 2 * 2**30  # curves of the 910B: what `kerf verify` adds for driver and libraries
MASK, ON_TOP = 2048 * 2048, 2**19  # bytes
TOLERANCE = 2e-4  # relative, as on the CPU
FAMILIES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "models", "families")
SOME = ["microbatches, data 2", "sequence parallel", "zero 3", "offload, 1f1b, ring, zero 2", "3-D, zero-bubble, zero 2, sequence parallel"]
# The plans of the matrix: data, tensor, stage, ZeRO, sequence, context and expert parallelism and recomputation, on 1, 2, 4 and 8 ranks.
MATRIX = {
    "one rank": plan(),
    "one rank, recompute": plan(microbatch=2, recompute="full"),
    **{f"data 2, ZeRO {zero}": plan(data=2, microbatch=2, **({"optimizer_sharding": zero} if zero else {})) for zero in range(4)},
    "tensor 2": plan(model=2),
    "tensor 2, sequence, selective": plan(model=2, sequence_parallel=True, recompute="selective"),
    "stages 2": plan(stage=2, microbatch=2, **schedule("1f1b")),
    "context 2": plan(context=2, microbatch=4),
    "experts 2": {"kerf": 1, "mesh": {"expert": 2}},
    "data 2, tensor 2, ZeRO 3, recompute": plan(data=2, model=2, optimizer_sharding=3, recompute="full"),
    "stages 2, data 2, ZeRO 1": plan(stage=2, data=2, microbatch=2, optimizer_sharding=1, **schedule("1f1b")),
    "stages 2, tensor 2, sequence": plan(stage=2, model=2, microbatch=2, sequence_parallel=True, **schedule("gpipe")),
    "data 4, ZeRO 2": plan(data=4, microbatch=1, optimizer_sharding=2),
    "experts 2, data 2": {"kerf": 1, "mesh": {"data": 2, "expert": 2}},
    **{f"3-D, ZeRO {zero}": plan(stage=2, data=2, model=2, microbatch=1, sequence_parallel=True, recompute="full", optimizer_sharding=zero,
                                 **schedule("zero-bubble" if zero == 2 else "1f1b")) for zero in (1, 2, 3)},
    "data 4, tensor 2, ZeRO 3": plan(data=4, model=2, microbatch=1, optimizer_sharding=3),
    "context 2, data 2, tensor 2, ZeRO 2": plan(context=2, data=2, model=2, microbatch=1, optimizer_sharding=2),
}
OBJECTS = {"arrays", "communicators", "device memory", "devices", "events", "executors", "host memory", "models", "scalars", "streams", "tensors"}


class Ascend(KerfTest):
    def setUp(self):
        super().setUp()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KERF_STANDIN")}
        patch = mock.patch.dict(os.environ, {**clean, "KERF_ASCEND_LIBRARIES": STANDINS, "KERF_STANDIN_DEVICES": "12",
                                             "KERF_STANDIN_ASCEND_REPORT": self.path("report.json")}, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def succeed(self, *args, timeout=120, **more):
        """With KERF_RUN, training is compiling and a run of that program."""
        if not RUN or args[0] != "train":
            return super().succeed(*args, timeout=timeout, **more)
        rest = list(args[1:])
        run, compiled = [], ["--deterministic"] if "--deterministic" in rest else []  # memory is planned for it, too
        while rest:
            to, width = (run, OF_RUN[rest[0]]) if rest[0] in OF_RUN else (compiled, 0)
            to += rest[:1 + width]
            del rest[:1 + width]
        super().succeed("compile", *compiled, "-o", self.path("package"), timeout=timeout)
        done = subprocess.run([RUN, self.path("package"), *map(str, run)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return done

    def refuse(self, *args, **more):
        with mock.patch.dict(os.environ, KERF_ASCEND_LIBRARIES=STANDINS_OF_KERF):
            return super().refuse(*args, **more)

    def report(self):
        """What the stand-ins counted in the last run. Nothing may be left."""
        report = json.loads(self.read("report.json"))
        self.assertLessEqual(set(report["objects"]), OBJECTS)
        self.assertEqual({kind: number for kind, number in report["objects"].items() if number}, {}, "objects that were not released")
        return report

    def train(self, model, *more, steps=2):
        golden = golden_of(model)
        step, run = optimizer_flags(golden, "adamw")
        self.succeed("train", file_of(model), "--data", file_of(model, "batches.npz"), "--steps", steps, "--device", "ascend", "--log",
                     self.path("log"), *step, *run, *more)
        self.close(losses_of(self.path("log")), golden["losses"]["adamw"]["float64"][:steps], TOLERANCE, f"{model} {more}")
        return self.report()

    def test_one_npu(self):
        for model in [*FOLDERS, *SHARED_EXPORTS]:
            with self.subTest(model):
                calls = self.train(model, "--ranks", 1, steps=4)["calls"]
                self.assertEqual(calls["aclmdlRIExecuteAsync"], 2, "steps are captured from the third on")

    def test_several_npus(self):
        for name in PLANS if ALL else SOME:
            with self.subTest(name):
                self.train("gpt2", "--plan", self.write("plan.json", PLANS[name]))

    def test_experts(self):
        """Tokens stay with their rank, experts with theirs (test_losses.py)."""
        names = ["dispatch#*", "dispatch@backward", "combine", "combine@backward", "combine_backward@backward", "dot_general#*", "dot_general@backward#*"]
        split = {f"*experts/{name}": {"strategy": {"b": ["x"]}} for name in names}
        folder = os.path.join(FAMILIES, "mixtral")
        with open(os.path.join(folder, "golden.json"), encoding="utf-8") as file:
            golden = json.load(file)
        step, run = optimizer_flags(golden, "sgd")
        self.succeed("train", os.path.join(folder, "config.json"), "--data", os.path.join(folder, "batches.npz"), "--global-batch", golden["batch"],
                     "--sequence", golden["sequence"], "--ranks", 3, "--all-ranks", "--steps", 2, "--device", "ascend", "--log", self.path("log"),
                     "--plan", self.write("plan.json", {"kerf": 1, "mesh": {"x": 3}, "ops": split}), *step, *run)
        self.close(losses_of(self.path("log")), golden["losses"]["sgd"][:2], TOLERANCE, "mixtral")
        self.assertIn("HcclBatchSendRecv", self.report()["calls"])

    def test_16_bit_numbers(self):
        for dtype in ("bf16", "f16"):
            losses = {}
            for device in ("cpu", "ascend"):
                self.succeed("train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 2, "--device", device, "--dtype", dtype,
                             "--optimizer", "adamw", "--lr", 1e-3, "--ranks", 1, "--log", self.path("log"))
                losses[device] = losses_of(self.path("log"))
            self.close(losses["ascend"], losses["cpu"], 2e-3, f"{dtype}: sums are rounded elsewhere")

    def test_late_streams_and_deterministic_runs(self):
        """The same bits, whenever the streams' work is done. The options that CANN and HCCL have for it are set."""
        losses = []
        for late in ({}, {"KERF_STANDIN_ASCEND_LATE": "1"}):
            with mock.patch.dict(os.environ, late):
                calls = self.train("gpt2", "--plan", self.write("plan.json", PLANS["3-D, zero-bubble, zero 2, sequence parallel"]), "--deterministic",
                                   steps=4)["calls"]
            losses.append(losses_of(self.path("log")))
        self.assertEqual(losses[0], losses[1])
        self.assertGreaterEqual(calls["aclrtSetSysParamOpt"], 8, "each rank sets ACL_OPT_DETERMINISTIC")
        self.assertGreaterEqual(calls["HcclSetConfig"], 8, "and HCCL_DETERMINISTIC")
        self.assertNotIn("HcclAllReduce", calls, "sums are added in the order of the ranks")
        calls = self.train("gpt2", "--ranks", 2, "--mode", "data")["calls"]
        self.assertEqual([name for name in ("aclrtSetSysParamOpt", "HcclSetConfig") if name in calls], [])
        self.assertIn("HcclAllReduce", calls)

    def test_optimizers(self):
        """Each has the CPU's losses with a learning rate that changes in each step, of which the captured step reads the number."""
        for optimizer in ("sgd", "adam", "adamw", "onebit-adam", "zero-one-adam", "adagrad", "lion", "lamb", "adafactor", "muon"):
            with self.subTest(optimizer):
                losses = {}
                for device in ("cpu", "ascend"):
                    self.succeed("train", file_of("mlp"), "--data", file_of("mlp", "batches.npz"), "--steps", 8, "--device", device, "--lr", 1e-3, "--lr-schedule",
                                 "cosine", "--warmup", 3, "--ranks", 1, "--optimizer", optimizer, "--log", self.path("log"))
                    losses[device] = losses_of(self.path("log"))
                self.close(losses["ascend"], losses["cpu"], TOLERANCE, optimizer)
                self.assertEqual(self.report()["calls"].get("aclmdlRIExecuteAsync"), 6, "steps are captured from the third on")

    def test_codecs(self):
        """Gradients in codes, with the random numbers of the CPU: a code may differ where a sum is rounded elsewhere."""
        codecs = ["bf16", "int8", "onebit"] if not ALL else [
            "identity", "bf16", "fp16", "int8", "qsgd", "natural", "int4", "terngrad", "tbq", "onebit", "sign", "topk", "topk-sampled", "graddrop", "dgc",
            "randomk", "powersgd"]
        for codec in codecs:
            with self.subTest(codec):
                losses = {}
                for device in ("cpu", "ascend"):
                    self.succeed("train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 3, "--device", device, "--lr", 0.05,
                                 "--ranks", 2, "--mode", "data", "--all-ranks", "--compress", f"*.c_*.weight={codec}", "--allow-biased", "--log", self.path("log"))
                    losses[device] = losses_of(self.path("log"))
                self.close(losses["ascend"], losses["cpu"], 2e-3, codec)
                self.report()

    def test_dropout_is_that_of_the_cpu(self):
        """The host draws the elements that are dropped, so that steps are not captured."""
        model, loss = transformer()
        model.write(self, loss)
        losses = {}
        for device, ranks in (("cpu", 1), ("ascend", 1), ("ascend", 2)):
            self.succeed("train", self.path("model.onnx"), "--data", self.path("data.npz"), "--steps", 3, "--device", device, "--lr", 0.01, "--ranks", ranks,
                         "--all-ranks", "--log", self.path("log"))
            losses[device, ranks] = losses_of(self.path("log"))
        for other in losses.values():
            self.close(other, losses["cpu", 1], TOLERANCE, "the same elements are dropped")
        self.assertNotIn("aclmdlRICaptureBegin", self.report()["calls"])

    def test_memory_is_the_planned_one(self):
        """The plan is made where no library of CANN is found."""
        cluster = os.path.join(CLUSTERS, "ascend-910b.json")
        for name in ("microbatches", "zero 3, model 2", "ring", "1f1b"):
            with self.subTest(name):
                common = [file_of("gpt2"), "--plan", self.write("plan.json", PLANS[name]), "--optimizer", "adamw", "--cluster", cluster]
                with mock.patch.dict(os.environ, KERF_ASCEND_LIBRARIES="/nowhere"):
                    full = json.loads(self.succeed("verify", *common, "--json").stdout)["full"]
                self.assertEqual(full["memory_rules"], "as the kernels of the device ascend need it")
                done = self.succeed("train", *common, "--data", file_of("gpt2", "batches.npz"), "--steps", 1, "--device", "ascend", "--json")
                measured = json.loads(done.stdout)["measured"]["stage_peak_bytes"]
                self.assertEqual([math.ceil(bytes - CONTEXT) for bytes in full["stage_bytes"]], measured)
                # On top come workspaces and constants, such as one mask of causal attention.
                most = max(self.report()["most"].values())
                self.assertTrue(max(measured) <= most <= max(measured) + MASK + ON_TOP, (measured, most))

    def test_an_older_release(self):
        """It has one library of operators and lacks those that test/standins/cann/Old.map lists: they are composed of others. (BERT has GELU by erf.)"""
        lacking = ("aclnnAddmm", "aclnnBaddbmm", "aclnnEmbeddingDense", "aclnnFlash", "aclnnGelu", "aclnnLayerNorm", "aclnnLogSumExp", "aclnnRmsNorm", "aclnnSoftmax")
        for model in [*FOLDERS, *SHARED_EXPORTS] if ALL else ["gpt2", "llama"]:
            with self.subTest(model):
                with mock.patch.dict(os.environ, KERF_ASCEND_LIBRARIES=STANDINS + "_old"):
                    old = self.train(model, "--ranks", 1)["calls"]
                self.assertEqual([name for name in old if name.startswith(lacking)], [])
        with mock.patch.dict(os.environ, KERF_ASCEND_LIBRARIES=STANDINS + "_old"):
            self.train("gpt2", "--plan", self.write("plan.json", plan(context=2, microbatch=4)))
            told = self.notes()
        self.assertRegex(told, r"note: CANN \S+ has no aclnnFlashAttentionScore for 'attention', which takes [\w, ]*aclnnMatmul")
        self.assertEqual(len(told.splitlines()), len(set(told.splitlines())), "each note once")
        self.assertEqual(self.notes(), "", "nothing is missing")

    def notes(self):
        """What a run says about operators that are missing."""
        done = self.succeed("train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 1, "--ranks", 1, "--device", "ascend")
        return "\n".join(line for line in done.stderr.splitlines() if line.startswith("note: CANN"))

    def test_executors_that_are_used_up(self):
        """Where CANN has no repeatable executors, each step makes new ones, and no step is captured."""
        with mock.patch.dict(os.environ, KERF_STANDIN_ASCEND_ONCE="1"):
            calls = self.train("gpt2", "--ranks", 2, "--all-ranks", steps=3)["calls"]
        self.assertNotIn("aclmdlRICaptureBegin", calls)
        self.assertEqual(calls["aclnnMatmulGetWorkspaceSize"], calls["aclnnMatmul"])

    def test_the_first_910(self):
        with mock.patch.dict(os.environ, KERF_STANDIN_ASCEND_NAME="Ascend910A"):
            calls = self.train("gpt2", "--ranks", 1)["calls"]
            self.assertNotIn("aclnnFlashAttentionScore", calls)
            self.refuse(1, ["bf16", "Ascend 910A", "--dtype f16"], "train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 1,
                        "--device", "ascend", "--dtype", "bf16", "--ranks", 1)

    @unittest.skipUnless(ALL, "minutes of attention on the stand-ins: needs --all")
    def test_profile(self):
        """The stand-ins' speed means nothing, but the file must be a cluster that other commands take. They are slow, and so attention is left out."""
        path = self.path("here.json")
        with mock.patch.dict(os.environ, KERF_STANDIN_DEVICES="2"):
            self.refuse(2, ["is 3", "has 2 NPUs"], "profile", "--device", "ascend", "--quick", "--ranks", 3, "-o", path)
            self.succeed("profile", "--device", "ascend", "--quick", "--ranks", 2, "-o", path, timeout=600)
        self.assertLessEqual({"HcclAllReduce", "HcclAllGather", "HcclReduceScatter", "aclnnMatmul", "aclmdlRIExecuteAsync"},
                             set(self.report()["calls"]))
        with open(path, encoding="utf-8") as file:
            cluster = json.load(file)
        device, level = cluster["device"], cluster["levels"][0]
        self.assertEqual((device["kind"], device["name"], level["name"], level["size"]), ("ascend", "Ascend 910B3", "npus", 2))
        numbers = [*device["peak_flops"].values(), *device["curves"].values(), device["memory_bytes"], device["memory_bandwidth"],
                   device["host_bandwidth"], level["bandwidth"], level["latency"]]
        self.assertTrue(all(math.isfinite(number) and number > 0 for number in numbers), cluster)
        self.assertIn("collectives of HCCL", cluster["source"]["levels.npus"])
        self.succeed("plan", file_of("mlp"), "--cluster", path, "--ranks", 2, "-o", self.path("plan.json"))

    @unittest.skipUnless(ALL, "minutes of attention on the stand-ins: needs --all")
    def test_npu_check(self):
        """scripts/npu-check.sh prints a row for each check, and fails where one fails."""
        run = lambda **more: subprocess.run([os.path.join(ROOT, "scripts", "npu-check.sh")], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                            env={**os.environ, "KERF": KERF, "KERF_ASCEND_LIBRARIES": STANDINS_OF_KERF, **more}, timeout=1200)
        done = run(KERF_STANDIN_DEVICES="8")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith("| ")][1:]
        self.assertEqual({int(row[2]) for row in rows}, {1, 2, 4, 8})
        self.assertTrue(all(row[-2].strip() == "right" for row in rows), done.stdout)
        self.assertIn("8 NPUs, 8 used", done.stdout)
        self.assertIn("all checks passed", done.stdout)
        failing = run(KERF_STANDIN_DEVICES="1", KERF_STANDIN_ASCEND_FAIL="aclnnGeluV2:1:507899")
        self.assertEqual(failing.returncode, 1)
        self.assertRegex(failing.stdout, r"gpt2 .*FAILED: error: .*aclnnGeluV2.*507899")
        none = run(KERF_STANDIN_DEVICES="0")
        self.assertIn("no NPU can be used", none.stderr)

    @unittest.skipUnless(ALL, "about 250 plans: needs --all")
    def test_matrix_of_plans(self):
        """Every model with every plan of MATRIX that it can take: the losses are the reference's, and the run allocates what was planned. The last
        line says how many plans of each number of ranks ran, and for each plan without a run of a model why."""
        ran, left = collections.Counter(), []
        models = {**{name: Model(file_of(name), attends=True) for name in ("gpt2", "llama")}, **MODELS}
        for name, model in models.items():
            if not os.path.isfile(model.file):
                left.append(f"{name}: no {model.file}")
                continue
            with open(os.path.join(os.path.dirname(model.file), "golden.json"), encoding="utf-8") as file:
                golden = json.load(file)
            batch = next(iter(golden["inputs"].values()))["shape"][0]
            step, run = optimizer_flags(golden, "adamw")
            for what, given in MATRIX.items():
                chosen = fitted(given, model, batch)
                if chosen is None or batch % (given["mesh"].get("data", 1) * given["mesh"].get("expert", 1)):
                    left.append(f"{name}, {what}: it cannot be cut so")
                    continue
                with self.subTest(model=name, plan=what):
                    done = self.succeed("train", model.file, "--data", os.path.join(os.path.dirname(model.file), "batches.npz"), "--steps", 2, "--device",
                                        "ascend", "--plan", self.write("plan.json", chosen), "--log", self.path("log"), "--json", *step, *run, *model.more,
                                        timeout=600)
                    self.close(losses_of(self.path("log")), golden["losses"]["adamw"]["float64"][:2], TOLERANCE, f"{name} {what}")
                    memory = json.loads(done.stdout)["report"]
                    self.assertEqual(memory["memory_bytes"]["total"], memory["measured_memory_bytes"]["total"])
                    self.report()
                    ran[math.prod(chosen["mesh"].values())] += 1
        print(f"ran, by ranks: {dict(ran)}; did not: {left}", file=sys.stderr)


if __name__ == "__main__":
    main()
