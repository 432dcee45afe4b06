#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From the second microbatch on, a weight's gradient is added to the sum of the microbatches in the product that makes it. The same package with the
product and the addition as two instructions has the same bits, and needs the memory of the gradient more."""
import json
import os
import struct
import unittest

from support import KerfTest, file_of, losses_of, main, write_npz

PRODUCTS = 8              # in the backward of the example's two layers: four weights each
WITH_HEAD = PRODUCTS + 1  # with two stages, the head's product is alone on its stage; on one, the lookup's gradient of the tied table is added to it
PLANS = {  # name: plan, and the number of merged products on all stages
    "one rank": ({"mesh": {"data": 1}, "microbatch": 2}, 3 * PRODUCTS),
    "one microbatch": ({"mesh": {"stage": 2}, "microbatch": 8}, 0),
    "1f1b": ({"mesh": {"stage": 2}, "microbatch": 1}, 7 * WITH_HEAD),
    "interleaved": ({"mesh": {"stage": 2}, "microbatch": 2, "schedule": {"name": "interleaved", "chunks": 2},
                     "stages": [{"layers": []}, {"layers": [0, 0]}, {"layers": [1, 1]}, {"layers": []}]}, 3 * PRODUCTS),
    "zero-bubble, recompute": ({"mesh": {"stage": 2}, "microbatch": 2, "recompute": "full", "schedule": {"name": "zero-bubble", "variant": "h1"}}, 3 * WITH_HEAD),
    "optimizer sharding 1": ({"mesh": {"data": 2}, "microbatch": 1, "optimizer_sharding": 1}, 3 * PRODUCTS),
    "optimizer sharding 2": ({"mesh": {"data": 2}, "microbatch": 1, "optimizer_sharding": 2}, 0),
}


def split(program):
    """Writes each product that adds as two instructions. Returns how many there were."""
    count = 0
    for number, steps in enumerate(program["steps"]["stages"]):
        entries = []
        for entry in steps:
            if "add" not in entry:
                entries.append(entry)
                continue
            count += 1
            entries += [{**entry, "run": [op, op]} for op in entry["add"]]
            for one in entries[-2:]:
                del one["add"]
        program["steps"]["stages"][number] = entries
    return count


class SumsInProducts(KerfTest):
    def compiled(self, model, plan, *more):
        """The package, once as it is compiled and once split, and how many products were split."""
        for name in ("merged", "apart"):
            self.succeed("compile", model, "--plan", self.write("plan.json", {"kerf": 1, **plan}), "-o", self.path(name), *more)
        file = self.path("apart/program.json")
        with open(file) as text:
            program = json.load(text)
        count = split(program)
        with open(file, "w") as text:
            json.dump(program, text)
        return count

    def reports(self, data, *more):
        reports = {}
        for name in ("merged", "apart"):
            done = self.succeed("run", self.path(name), "--data", data, "--steps", 2, "--log", self.path(name + ".log"), "--save", self.path(name + ".safetensors"),
                                "--json", *more)
            reports[name] = json.loads(done.stdout)
        self.assertEqual(losses_of(self.path("merged.log")), losses_of(self.path("apart.log")))
        self.assertEqual(self.read("merged.safetensors"), self.read("apart.safetensors"))
        return reports

    def test_plans(self):
        for name, (plan, products) in PLANS.items():
            for more in ([], ["--dtype", "bf16"]):
                with self.subTest(name, more=more):
                    self.assertEqual(self.compiled(file_of("gpt2"), plan, *more), products)
                    if products:
                        self.reports(file_of("gpt2", "batches.npz"))

    def test_several_batches_a_step(self):
        self.assertEqual(self.compiled(file_of("gpt2"), PLANS["one rank"][0], "--accumulate", 2), 3 * PRODUCTS)
        self.reports(file_of("gpt2", "batches.npz"))

    def test_the_device_check(self):
        self.compiled(file_of("gpt2"), PLANS["zero-bubble, recompute"][0])
        self.reports(file_of("gpt2", "batches.npz"), "--device", "check")

    def test_memory(self):
        """The largest gradient of a layer is not alive beside its sum."""
        width, tokens = 768, 32
        config = self.write("config.json", {"model_type": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": width, "n_positions": tokens, "vocab_size": 64})
        rows = 4 * tokens
        data = self.path("data.npz")
        write_npz(data, {name: ("<i8", [1, 4, tokens], struct.pack(f"<{rows}q", *(i * i % 61 for i in range(rows))))
                         for name in ("input_ids", "labels")})
        self.assertEqual(self.compiled(config, {"mesh": {"data": 1}, "microbatch": 1}, "--global-batch", 4, "--sequence", tokens), 3 * PRODUCTS)
        bytes_of = {name: report["measured"]["arena_bytes"] for name, report in self.reports(data).items()}
        self.assertLess(bytes_of["merged"], bytes_of["apart"] - 0.8 * width * width * 4 * 4,
                        "a gradient of 4 x width x width elements, and less scratch memory of a kernel")


if __name__ == "__main__":
    main()
