#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks over an emulated slow link: the same bits, and what is told of the time that communication takes."""
import json
import re
import shutil
import subprocess
import unittest

from mpi import mpirun
from support import KerfTest, file_of, kerf, losses_of, main

BYTES_PER_SECOND = 1e8
LLAMA = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4,
         "intermediate_size": 128, "vocab_size": 64}
PLANS = {"all-reduce": {"mesh": {"data": 2}, "microbatch": 2, "schedule": {"name": "1f1b"}},
         "stages": {"mesh": {"stage": 2, "data": 2}, "microbatch": 1, "optimizer_sharding": 2},
         "products wait": {"mesh": {"model": 2}, "microbatch": 4, "overlap": ["gradients"]},
         "sums beside products": {"mesh": {"model": 2}, "microbatch": 4, "overlap": ["gradients", "tensor"]},
         "products in turns": {"mesh": {"model": 2}, "microbatch": 4, "overlap": ["gradients", "products"]},
         "zero 3": {"mesh": {"data": 4}, "optimizer_sharding": 3, "recompute": "full"}}


class SlowLink(KerfTest):
    def setUp(self):
        super().setUp()
        self.args = ["train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 3, "--clip-norm", 1]

    def train(self, plan, *more):
        done = self.succeed(*self.args, "--plan", self.write("plan.json", {"kerf": 1, **PLANS[plan]}), "--log", self.path("log"), "--json", *more)
        return json.loads(done.stdout), losses_of(self.path("log"))

    def test_the_same_bits(self):
        for plan in PLANS:
            _, expected = self.train(plan)
            _, got = self.train(plan, "--emulate-link", f"{BYTES_PER_SECOND},1e-4")
            self.assertEqual(got, expected, plan)

    def test_products_in_turns(self):
        """Pieces of a product and of its sum are the same bits; they are on their way beside other kernels."""
        link = ("--emulate-link", f"{BYTES_PER_SECOND},1e-4")
        waits, expected = self.train("products wait", *link)
        turns, got = self.train("products in turns", *link)
        self.assertEqual(got, expected)
        beside = lambda said: [each for each in said["measured"]["collectives"] if each["stream"] == "collectives" and "c_proj" in each["name"]]
        self.assertEqual(beside(waits), [])
        self.assertEqual(len(beside(turns)) % 4, 0)
        self.assertGreater(len(beside(turns)), 0)

    def test_sums_beside_products(self):
        """Sums of input gradients have a stream of their own. Sums for which the next kernel waits stay on the kernels' stream."""
        link = ("--emulate-link", f"{BYTES_PER_SECOND},1e-4")
        waits, expected = self.train("products wait", *link)
        beside, got = self.train("sums beside products", *link)
        self.assertEqual(got, expected)
        sums = lambda said: {each["name"].split("/")[0] for each in said["measured"]["collectives"]
                             if each["op"] == "all_reduce" and each["stream"] == "sums"}
        self.assertEqual(sums(waits), set())
        self.assertEqual(sums(beside), {"transformer.ln_f", "transformer.h.0.ln_1", "transformer.h.0.ln_2"})

    def test_products_beside_sums(self):
        """Between the start of a sum and the wait for it are the products of the weights: of queries, keys, values and attention's result,
        and of the three products of the other half of the layer. Parameters are gathered a layer ahead as without such sums."""
        config = self.write("config.json", LLAMA)
        for sequence_parallel in (False, True):
            ahead = {}
            for words in (["gradients", "parameters", "stage"], ["gradients", "parameters", "tensor", "stage"]):
                plan = self.write("plan.json", {"kerf": 1, "mesh": {"data": 2, "model": 2}, "optimizer_sharding": 3, "overlap": words,
                                                "sequence_parallel": sequence_parallel})
                done = self.succeed("compile", config, "--plan", plan, "--global-batch", 4, "--sequence", 8, "-o", self.path("package"), "--json")
                passes = json.loads(done.stdout)["steps"][0]["passes"]
                ahead["tensor" in words] = next(each["changed"] for each in passes if each["name"] == "gather-ahead")
            self.assertGreater(ahead[False], 0)
            self.assertGreaterEqual(ahead[True], ahead[False])
            functions = json.loads(self.read("package/program.json"))["functions"]
            body = next(each["body"] for each in functions if each["name"].startswith("layer_backward"))
            starts = {each["out"][0]: i for i, each in enumerate(body) if each.get("attrs", {}).get("stream") == "sums"}
            waits = {each["in"][0]: i for i, each in enumerate(body) if each["op"] == "wait"}
            products = [sum(each["op"] == "dot_general" for each in body[start:waits[value]]) for value, start in starts.items()]
            self.assertEqual(products, [3, 4])

    def test_what_is_told(self):
        said, _ = self.train("all-reduce", "--emulate-link", BYTES_PER_SECOND, "--trace", self.path("trace.json"))
        measured = said["measured"]
        streams = {each["stream"]: each for each in measured["streams"]}
        for each in streams.values():
            self.assertAlmostEqual(each["hidden_seconds"] + each["exposed_seconds"], each["seconds"])
        reductions = [each for each in measured["collectives"] if each["cause"].startswith("gradient")]
        self.assertIn("gradients", {each["stream"] for each in reductions})
        self.assertLess(len(reductions), 5)  # in buckets, not each parameter's for itself
        self.assertTrue(any(re.fullmatch(r"optimizer/\S+ and \d+ more", each["name"]) for each in reductions))
        # Of two ranks each sends half of what it reduces, and then half of what it has summed.
        self.assertGreater(sum(each["seconds"] for each in reductions), sum(each["bytes"] for each in reductions) / BYTES_PER_SECOND)
        report = said["report"]
        self.assertAlmostEqual(report["measured_communication_seconds"], sum(each["seconds"] for each in streams.values()))
        self.assertAlmostEqual(report["measured_hidden_seconds"], sum(each["hidden_seconds"] for each in streams.values()))
        labels = [event["args"]["labels"] for event in json.loads(self.read("trace.json"))["traceEvents"] if event["name"] == "process_labels"]
        self.assertEqual(len(labels), 2)
        for label in labels:
            total, hidden, exposed = map(float, re.fullmatch(r"communication (\S+) ms, (\S+) ms hidden, (\S+) ms exposed", label).groups())
            self.assertAlmostEqual(hidden + exposed, total, places=2)

    def test_mistakes(self):
        for link in ("fast", "0", "-1e9", "999", "nan", "inf", "1e9,", "1e9,-1", "1e9,61", "1e9,1e-3,2"):
            done = kerf(*self.args, f"--emulate-link={link}")
            self.assertEqual(done.returncode, 1, link)
            self.assertIn("BYTES_PER_SECOND,SECONDS", done.stderr, link)

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
    def test_processes_have_a_link_of_their_own(self):
        done = subprocess.run(mpirun(2, *self.args, "--emulate-link", "1e9"), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("threads of one process", done.stderr)


if __name__ == "__main__":
    main()
