#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps that the device `cuda` records as one graph and launches: on the stand-ins they have the bits of steps that run instruction by
instruction, and failures have the same messages."""
import json
import os
import random
import re
import struct
import unittest

from support import KERF, KerfTest, file_of, golden_of, main, optimizer_flags, write_npz
from test_dropout import transformer
from test_pipelines import ALL, PLANS

STANDINS = os.environ.get("KERF_CUDA_LIBRARIES", os.path.join(os.path.dirname(os.path.dirname(KERF)), "standins"))
TOLERANCE = 2e-4  # relative, as on the CPU
STEPS = 5
MEASURED = 2  # steps that run instruction by instruction
SOME = ["offload, 1f1b, ring, zero 2", "3-D, zero-bubble, zero 2, sequence parallel"]  # --all: all plans
SMALL = {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8, "n_positions": 16, "vocab_size": 50}


@unittest.skipIf(not STANDINS, "needs the stand-ins")
class CudaRecording(KerfTest):
    def setUp(self):
        super().setUp()
        os.environ.update(KERF_CUDA_LIBRARIES=STANDINS, KERF_STANDIN_DEVICES="8", KERF_STANDIN_REPORT=self.path("report.json"))
        for name in ("DRIVER", "MEMORY", "ECC", "BUSY", "CAPABILITY", "CAPTURE", "NCCL"):
            os.environ.pop(f"KERF_STANDIN_{name}", None)

    def train(self, *args, ordered=True):
        """Trains, with sums in the order of the ranks if `ordered`, and returns the losses, what was measured, and the number of graphs that the stand-in has launched."""
        done = self.succeed("train", *args, *(["--deterministic"] if ordered else []), "--json", "--log", self.path("log"))
        return json.loads(done.stdout), self.launches("graphs"), done.stderr

    def launches(self, what):
        """The number of launches of `what`, kernels or graphs, in the last run on the stand-in."""
        with open(self.path("report.json")) as file:
            return json.load(file)[what]

    def small(self, batches, bad=None, samples=4):
        """The arguments of a small GPT-2; the label number `bad` is out of range."""
        rnd = random.Random(1)
        tokens = [rnd.randrange(8) for _ in range(batches * samples * 8)]
        labels = [4321 if i == bad else token for i, token in enumerate(tokens)]
        pack = lambda values: ("<i8", [batches, samples, 8], struct.pack(f"<{len(values)}q", *values))
        write_npz(self.path("data.npz"), {"input_ids": pack(tokens), "labels": pack(labels)})
        return [self.write("config.json", SMALL), "--data", self.path("data.npz"), "--seed", "1", "--global-batch", str(samples), "--sequence", "8"]

    def test_plans(self):
        step, run = optimizer_flags(golden_of("gpt2"), "adamw")
        model = [file_of("gpt2"), "--data", file_of("gpt2", "batches.npz")] if ALL else self.small(STEPS, samples=8)
        for name in PLANS if ALL else SOME:
            with self.subTest(name):
                common = [*model, "--steps", STEPS, "--plan", self.write("plan.json", PLANS[name]), *step, *run]
                expected = json.loads(self.succeed("train", *common, "--json").stdout)
                got, graphs, _ = self.train(*common, "--device", "cuda")
                ranks = graphs // (STEPS - MEASURED)
                self.assertGreaterEqual(ranks, 2)
                self.assertEqual(graphs, ranks * (STEPS - MEASURED), "each rank launches one graph a step")
                self.assertEqual(got["measured"]["recorded_steps"], STEPS - MEASURED)
                self.close(got["losses"], expected["losses"], TOLERANCE, name)
                native, graphs, _ = self.train(*common, "--device", "cuda", ordered=False)
                self.assertEqual(graphs, ranks * (STEPS - MEASURED), "NCCL's own collectives are recorded too")
                self.close(native["losses"], expected["losses"], TOLERANCE, f"{name}, sums in NCCL's order")
                again, graphs, _ = self.train(*common, "--device", "cuda", "--trace", self.path("trace.json"))
                self.assertEqual(graphs, 0, "a trace needs the times of all instructions")
                self.assertEqual(got["losses"], again["losses"])

    def test_dropout_has_new_masks_in_each_step(self):
        graph, loss = transformer()
        graph.write(self, loss)
        common = [self.path("model.onnx"), "--data", self.path("data.npz"), "--steps", STEPS, "--ranks", "2", "--all-ranks", "--optimizer", "adamw"]
        for seed, rate in ((5, 0.01), (6, 0)):
            with self.subTest(rate):
                these = [*common, "--seed", seed, "--lr", rate]
                expected = json.loads(self.succeed("train", *these, "--json").stdout)["losses"]
                got, graphs, _ = self.train(*these, "--device", "cuda")
                self.assertEqual(graphs, 2 * (STEPS - MEASURED))
                self.close(got["losses"], expected, TOLERANCE, f"rate {rate}")
                self.assertEqual(len(set(got["losses"])), STEPS)

    def test_clipping_skipping_accumulation_and_evaluation(self):
        """Accumulated batches, evaluations and weights are as without a recording."""
        common = [*self.small(12), "--ranks", "2", "--all-ranks", "--steps", "6", "--clip-norm", "0.5", "--on-nan", "skip", "--accumulate", "2",
                  "--eval-data", self.path("data.npz"), "--eval-every", "1", "--eval-steps", "2", "--lr", "0.01"]
        results = []
        for more in ([], ["--trace", self.path("trace.json")]):
            done, graphs, said = self.train(*common, "--device", "cuda", "--save", self.path("out.safetensors"), *more)
            evaluations = [re.sub(r"[0-9.]+ s\b.*", "", line) for line in said.splitlines() if "evaluation" in line]
            results.append((done["losses"], evaluations, self.read("out.safetensors")))
            # Each rank: four steps of two batches, and the evaluations after the first.
            self.assertEqual(graphs > 0, not more)
            if not more:
                self.assertEqual(graphs, 2 * (2 * (6 - MEASURED) + 2 * (6 - 1)))
        self.assertEqual(results[0], results[1])
        self.assertEqual(len(set(results[0][0])), 6)

    def test_checkpoints(self):
        common = [*self.small(8), "--ranks", "2", "--all-ranks", "--lr", "0.01", "--device", "cuda"]
        longer, _, _ = self.train(*common, "--steps", "8")
        self.train(*common, "--steps", "4", "--checkpoint", self.path("saved"), "--every", "1")
        resumed, graphs, _ = self.train(*common, "--steps", "8", "--resume", self.path("saved"))
        self.assertEqual(graphs, 2 * (4 - MEASURED))
        self.assertEqual(resumed["losses"], longer["losses"][4:])

    def test_a_fault_and_a_broken_gpu_end_the_run(self):
        told = []
        common = [*self.small(6, bad=4 * 32 + 9), "--ranks", "2", "--all-ranks", "--steps", "6"]
        for device in ("cpu", "cuda"):
            done = self.refuse(1, ["step     2", "rank ", "cross_entropy", "label 4321 of row "], "train", *common, "--device", device)
            told.append(re.sub(r"rank \d", "rank", done.stderr[done.stderr.index("error: "):]))
        self.assertEqual(*told)
        os.environ["KERF_STANDIN_ECC"] = str(self.launches("kernels") * 3 // 4)  # in a recorded step
        self.addCleanup(os.environ.pop, "KERF_STANDIN_ECC")
        self.refuse(1, ["step     1", "rank ", "CUDA_ERROR_ECC_UNCORRECTABLE", "resume from the last checkpoint"], "train", *common, "--device", "cuda")

    def test_a_rank_that_cannot_record_lets_all_ranks_go_on_without(self):
        common = [*self.small(6), "--ranks", "2", "--all-ranks", "--steps", "6", "--device", "cuda"]
        expected, _, _ = self.train(*common)
        os.environ["KERF_STANDIN_CAPTURE"] = "2"
        self.addCleanup(os.environ.pop, "KERF_STANDIN_CAPTURE")
        got, graphs, _ = self.train(*common)
        self.assertEqual(graphs, 0)
        self.assertEqual(got["losses"], expected["losses"])
        self.assertEqual((got["measured"]["measured_steps"], got["measured"]["recorded_steps"]), (6, 0))
        self.assertIn("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", got["measured"]["not_recorded"])


if __name__ == "__main__":
    main()
