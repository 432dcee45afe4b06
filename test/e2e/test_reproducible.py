#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same input gives the same bytes: plans, packages, IR, trained weights."""
import os
import struct
import unittest

from support import CLUSTERS, FOLDERS, KerfTest, file_of, losses_of, main, read_safetensors, write_npz


def content(folder):
    files = {}
    for place, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                files[os.path.relpath(os.path.join(place, name), folder)] = file.read()
    return files


class Reproducible(KerfTest):
    def test_plan_and_compile(self):
        cluster = os.path.join(CLUSTERS, "dgx-a100.json")
        for model, where in (("gpt2", ["--ranks", 3, "--all-ranks"]), ("llama", ["--cluster", cluster, "--ranks", 8, "--all-ranks"]), ("mlp", ["--ranks", 4, "--all-ranks"])):
            packages = []
            for run in "ab":
                self.succeed("plan", file_of(model), *where, "-o", self.path(run + ".json"), "--report", self.path(run + ".txt"))
                self.succeed("compile", file_of(model), *where, "--plan", self.path(run + ".json"), "-o", self.path(model + run))
                packages.append(content(self.path(model + run)))
            self.assertEqual(self.read("a.json"), self.read("b.json"), model)
            self.assertEqual(self.read("a.txt"), self.read("b.txt"), model)
            self.assertEqual(sorted(packages[0]), ["kernels-sm_80.ptx", "kernels-x86-64-v3.bin", "kernels-x86-64-v4.bin", "program.json", "weights.safetensors"])
            self.assertEqual(packages[0], packages[1], model)

    def test_import(self):
        for model in FOLDERS:
            first, second = (self.succeed("import", file_of(model)).stdout for _ in range(2))
            self.assertEqual(first, second)

    def test_a_saved_plan_is_the_plan(self):
        """Compiling by a saved plan gives what the search itself compiles."""
        self.succeed("plan", file_of("gpt2"), "--ranks", 4, "--all-ranks", "-o", self.path("plan.json"))
        for name, more in (("found", ["--ranks", 4, "--all-ranks"]), ("saved", ["--plan", self.path("plan.json")])):
            self.succeed("train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 3, "--log", self.path(name), *more)
        self.assertEqual(losses_of(self.path("found")), losses_of(self.path("saved")))

    def test_training(self):
        for run in "ab":
            self.succeed("train", file_of("llama"), "--data", file_of("llama", "batches.npz"), "--ranks", 3, "--all-ranks", "--steps", 3, "--optimizer", "adamw",
                         "--save", self.path(run))
        self.assertEqual(self.read("a"), self.read("b"))

    def test_threads_of_a_rank(self):
        """As many of them as you like: the trained weights are the same bytes."""
        models = [(name, file_of(name), file_of(name, "batches.npz"), 3) for name in ("gpt2", "llama")]
        wide = self.write("config.json", {"model_type": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 160, "n_positions": 96, "vocab_size": 1511,
                                          "activation_function": "gelu"})
        tokens = struct.pack(f"<{2 * 96}q", *(7 * i * i % 1511 for i in range(2 * 96)))
        batch = write_npz(self.path("batch.npz"), {name: ("<i8", [1, 2, 96], tokens) for name in ("input_ids", "labels")})
        for name, model, data, ranks in [*models, ("a wide one", wide, batch, 1)]:
            more = ["--global-batch", 2, "--sequence", 96, "--seed", 1] if model == wide else []
            for threads in (1, 2, 5):
                self.succeed("train", model, "--data", data, "--ranks", ranks, "--all-ranks", "--threads", threads, "--steps", 3, "--optimizer", "adamw",
                             "--save", self.path(str(threads)), *more)
            self.assertEqual(self.read("1"), self.read("2"), name)
            self.assertEqual(self.read("1"), self.read("5"), name)

    def test_saved_weights_have_the_exported_names_and_go_back_in(self):
        """Ten steps at once are five and five (SGD without momentum has no other state)."""
        common = ["train", file_of("mlp"), "--data", file_of("mlp", "batches.npz"), "--lr", 0.05, "--dtype", "f64"]
        self.succeed(*common, "--ranks", 3, "--all-ranks", "--steps", 1, "--save", self.path("one"))
        saved = read_safetensors(self.path("one"))
        self.assertEqual({name: entry[1] for name, entry in saved.items()}, {
            "gate": [1], "up.weight": [53, 37], "up.bias": [53], "norm.weight": [53], "norm.bias": [53], "mid.weight": [53, 53],
            "mid.bias": [53], "down.weight": [29, 53], "down.bias": [29], "head.weight": [11, 29]})
        os.rename(self.path("one"), self.path("one.safetensors"))
        self.succeed(*common, "--ranks", 2, "--all-ranks", "--steps", 1, "--log", self.path("after"), "--weights", self.path("one.safetensors"))
        self.succeed(*common, "--ranks", 2, "--all-ranks", "--steps", 1, "--log", self.path("before"))
        self.assertLess(losses_of(self.path("after"))[0], losses_of(self.path("before"))[0])


if __name__ == "__main__":
    main()
