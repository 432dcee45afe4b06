#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What would be ignored is refused: misspelled words, options that change nothing, numbers in another unit, layers that are not there."""
import json
import os

from support import CLUSTERS, KerfTest, file_of, kerf, main

GPT = {"model_type": "gpt2", "n_layer": 8, "n_embd": 64, "n_head": 4, "n_inner": 128, "vocab_size": 96, "n_positions": 32}
A100 = os.path.join(CLUSTERS, "dgx-a100.json")
V100 = os.path.join(CLUSTERS, "dgx-v100.json")
MLP = file_of("mlp")


class Words(KerfTest):
    def test_misspelled_words_of_the_command_line(self):
        self.refuse(1, ["no command 'trian'", "did you mean 'train'?"], "trian", MLP)
        self.refuse(1, ["no option '--optimzer'", "did you mean --optimizer?"], "plan", MLP, "--optimzer", "adamw")
        self.refuse(1, ["no option '--dat'", "did you mean --data?"], "run", "folder", "--dat", "batches.npz")  # --data is missing, too
        self.refuse(1, ["simulate has no option '--lr'", "`kerf train`"], "simulate", MLP, "--lr", 3)
        self.refuse(1, ["does not take 'more'"], "plan", MLP, "more")

    def test_misspelled_keys_of_plans(self):
        for text, words in (('{"kerf": 1,\n "mesch": {"data": 2}}', ["\"mesch\" (line 2, column 2)", "\"mesh\""]),
                            ('{"kerf": 1, "mesh": {"dta": 2}}', ["\"dta\"", "\"data\""]),
                            ('{"kerf": 1, "schedule": {"nam": "1f1b"}}', ["schedule", "\"nam\"", "\"name\""]),
                            ('{"kerf": 1, "stages": [{"layer": [0, 1]}]}', ["stages[0]", "\"layer\"", "\"layers\""]),
                            ('{"kerf": 1,\n "mesh": {"data": 2,}}', ["plan.json, line 2, column 21", "not JSON"]),
                            ('{"kerf": 1, "mesh": {}, "mesh": {}}', ["\"mesh\" occurs twice"])):
            for option in (["simulate", MLP, "--plan"], ["plan", MLP, "--constraints"]):
                self.refuse(1, ["plan.json", *words], *option, self.write("plan.json", text))
        self.succeed("simulate", MLP, "--plan", self.write("plan.json", {"kerf": 1, "notes": "of a person"}))

    def test_misspelled_keys_of_clusters(self):
        text = open_text(A100).replace('"bandwidth"', '"bandwith"', 1)
        done = self.refuse(1, ["c.json, line ", "\"bandwith\"", "\"bandwidth\""], "simulate", MLP, "--cluster", self.write("c.json", text))
        self.assertIn("levels[0]", done.stderr)

    def test_other_json(self):
        self.refuse(1, ["config.json', line 2, column 3"], "simulate", self.write("config.json", '{"model_type":\n  gpt2}'))


class Numbers(KerfTest):
    def cluster(self, **changes):
        cluster = json.loads(open_text(A100))
        for key, value in changes.items():
            (cluster["levels"][0] if key in ("bandwidth", "latency") else cluster["device"])[key] = value
        return self.write("c.json", cluster)

    def test_units_of_clusters(self):
        for changes, words in (({"bandwidth": 300}, ["bytes/s", "300000000000 for 300 GB/s"]),
                               ({"latency": 5}, ["seconds", "5e-06"]),
                               ({"memory_bytes": 80}, ["bytes", "85899345920"]),
                               ({"peak_flops": {"bf16": 312}}, ["FLOP/s", "312000000000000"])):
            self.refuse(1, ["c.json", *words], "simulate", MLP, "--cluster", self.cluster(**changes))

    def test_types_that_a_device_does_not_have(self):
        config = self.write("config.json", GPT)
        for command in (["simulate", config], ["plan", config], ["plan", MLP, "--ranks", 2, "--search", "placement"],
                        ["export", config, "--to", "megatron", "--plan", self.write("plan.json", {"kerf": 1, "mesh": {"data": 8}})]):
            self.refuse(1, ["V100", "does not compute in bf16", "f16, f32, f64", "--dtype f16"], *command, "--cluster", V100, "--dtype", "bf16")
        self.succeed("simulate", config, "--cluster", V100, "--dtype", "f16")


class Options(KerfTest):
    def test_options_that_change_nothing(self):
        data = ("--data", file_of("mlp", "batches.npz"))
        self.refuse(1, ["--momentum has no effect", "--optimizer is adamw"], "train", MLP, *data, "--optimizer", "adamw", "--momentum", 0.9)
        self.refuse(1, ["--beta2 has no effect", "--optimizer is sgd"], "simulate", MLP, "--beta2", 0.9)
        self.refuse(1, ["--total has no effect", "--lr-schedule"], "train", MLP, *data, "--total", 10)

    def test_sizes_of_exports(self):
        batch = json.loads(self.succeed("import", MLP, "--json").stdout)["arguments"]
        batch = next(one["shape"][0] for one in batch if one["kind"] == "input")
        self.succeed("simulate", MLP, "--global-batch", batch)
        for command in ("simulate", "plan", "import"):
            self.refuse(1, [f"--global-batch is {batch + 1}", f"batch of {batch}"], command, MLP, "--global-batch", batch + 1)
            self.refuse(1, ["--sequence is 77"], command, file_of("gpt2"), "--sequence", 77)
            self.refuse(1, ["--expert-capacity"], command, MLP, "--expert-capacity", "exact")


class Layers(KerfTest):
    def simulate(self, **plan):
        return ("simulate", self.write("config.json", GPT), "--global-batch", 8, "--plan", self.write("plan.json", {"kerf": 1, **plan}), "--json",
                "--report", self.path("report.json"))

    def test_layers_that_are_not_there(self):
        mesh = {"stage": 2}
        self.refuse(1, ["ends with layer 40", "8 layers", "0 to 7"], *self.simulate(mesh=mesh, stages=[{"layers": [0, 3]}, {"layers": [4, 40]}]))
        self.refuse(1, ["recompute[\"0-40\"]", "layer 40", "0 to 7"], *self.simulate(recompute={"0-40": "full"}))
        self.succeed(*self.simulate(recompute={"0-7": "full"}))

    def test_some_stages_are_told_and_the_rest_is_free(self):
        def seconds(stages, **mesh):
            return json.loads(self.succeed(*self.simulate(mesh={"stage": 4, **mesh}, stages=stages, microbatch=1)).stdout)["step_seconds"]

        layers = lambda *ends: [{"layers": list(end)} for end in ends]
        whole = seconds(layers((0, 4), (5, 5), (6, 6), (7, 7)))
        self.assertEqual(seconds([{"layers": [0, 4]}]), whole)
        self.assertEqual(seconds([{"layers": [0, 4]}, {}, {}, {}]), whole)
        self.assertEqual(seconds([{"layers": [0, 4], "stage": 0}]), whole)
        self.assertEqual(seconds([{"layers": [2, 5], "stage": 2}]), seconds(layers((0, 0), (1, 1), (2, 5), (6, 7))))
        self.refuse(1, ['"stages" leaves 2 layers for 3 free parts'], *self.simulate(mesh={"stage": 4}, stages=layers((0, 5))))
        # The same on ranks, and in a search.
        self.succeed("verify", self.path("config.json"), "--plan",
                     self.write("plan.json", {"kerf": 1, "mesh": {"stage": 4}, "stages": layers((0, 4)), "global_batch": 8, "microbatch": 2}))
        plan = json.loads(self.succeed("plan", self.path("config.json"), "--cluster", A100, "--ranks", 4, "--global-batch", 8, "--search", "whole",
                                       "--constraints", self.path("plan.json"), "--json").stdout)
        self.assertEqual(plan["stages"][0]["layers"], [0, 4])


def open_text(path):
    with open(path) as file:
        return file.read()


if __name__ == "__main__":
    main()
