#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every mistake of a user is one message that names the place and the numbers, and leaves what was there before as it was."""
import json
import os
import re
import stat
import struct
import subprocess

from support import (CLUSTERS, KERF, FLOAT, INT64, KerfTest, file_of, kerf, main, onnx_external_tensor, onnx_model, onnx_node, onnx_tensor,
                     onnx_value, read_npz, write_npz)

MLP, MLP_DATA = file_of("mlp"), file_of("mlp", "batches.npz")
OLD = b"what was there before"


def small_model(weight=None, ops=("Relu",)):
    """loss = mean cross entropy of ops(x w), one op after the other; their nodes are node_0, node_1, ..."""
    chain = [onnx_node(op, [f"h{i}"], [f"h{i + 1}"], f"node_{i}") for i, op in enumerate(ops)]
    nodes = [onnx_node("MatMul", ["x", "w"], ["h0"], "node_product"), *chain,
             onnx_node("SoftmaxCrossEntropyLoss", [f"h{len(chain)}", "labels"], ["loss"], "node_loss")]
    return onnx_model(nodes, [weight or onnx_tensor("w", [4, 3], [0.1 * i for i in range(12)])],
                      [onnx_value("x", FLOAT, [2, 4]), onnx_value("labels", INT64, [2])], [onnx_value("loss", FLOAT, [])])


class Model(KerfTest):
    def refuse_model(self, words, content):
        """Every command that reads a model refuses this one, and a file that was there stays."""
        model = self.write("model.onnx", content)
        self.write("out", OLD)
        self.refuse(1, words, "import", model, "-o", self.path("out"))
        self.refuse(1, words, "plan", model, "-o", self.path("out"))
        self.refuse(1, words, "train", model, "--data", MLP_DATA, "--save", self.path("out"))
        self.refuse(1, words, "compile", model, "-o", self.path("package"))
        self.assertEqual(self.read("out"), OLD)
        self.assertFalse(os.path.exists(self.path("package")))

    def test_the_model_made_by_hand_is_good(self):
        self.succeed("import", self.write("model.onnx", small_model()))

    def test_truncated(self):
        with open(MLP, "rb") as file:
            whole = file.read()
        for size in (1, 100, len(whole) // 2, len(whole) - 1):
            self.refuse(1, ["model.onnx"], "import", self.write("model.onnx", whole[:size]))
        self.refuse_model(["model.onnx"], whole[:len(whole) // 2])

    def test_empty_and_not_there(self):
        self.refuse(1, ["model.onnx"], "import", self.write("model.onnx", b""))
        self.refuse(1, ["nowhere.onnx"], "import", self.path("nowhere.onnx"))

    def test_unsupported_ops_are_all_listed(self):
        self.refuse_model(["Unheard", "node_1", "Unknown", "node_3", "20"], small_model(ops=("Relu", "Unheard", "Tanh", "Unknown", "Unheard")))

    def test_missing_external_data(self):
        model = self.write("model.onnx", small_model(weight=onnx_external_tensor("w", [4, 3], "weights.bin")))
        data = write_npz(self.path("data.npz"), {"x": ("<f4", [1, 2, 4], bytes(32)), "labels": ("<i8", [1, 2], bytes(16))})
        self.write("out", OLD)
        self.refuse(1, ["weights.bin", "--weights", "--seed"], "train", model, "--data", data, "--save", self.path("out"))
        self.assertEqual(self.read("out"), OLD)
        self.succeed("train", model, "--data", data, "--seed", 1)

    def test_external_data_that_is_too_short(self):
        self.write("weights.bin", bytes(40))
        self.refuse_model(["'w'", "48", "40"], small_model(weight=onnx_external_tensor("w", [4, 3], "weights.bin")))

    def test_loss_that_is_not_there(self):
        self.refuse(1, ["nothing"], "plan", MLP, "--loss", "nothing")

    def test_unknown_option_value(self):
        done = kerf("plan", MLP, "--optimizer", "adamm")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--optimizer", done.stderr)
        self.assertIn("adam", done.stderr)

    def test_numbers_that_cannot_be(self):
        for option, values in {"--lr": ["nan", "inf", "-1", "1e400"], "--seed": ["-1", "99999999999999999999"]}.items():
            for value in values:
                done = kerf("train", MLP, "--data", MLP_DATA, "--steps", 1, f"{option}={value}")
                self.assertEqual(done.returncode, 1, f"{option} {value}")
                self.assertIn(f"{option}: ", done.stderr)


class Configuration(KerfTest):
    """A Hugging Face config.json: every command that takes a model names what is wrong with it."""

    def refuse_config(self, words, config, *more):
        model = self.write("config.json", config)
        self.write("out", OLD)
        self.refuse(1, ["config.json", *words], "import", model, "-o", self.path("out"), *more)
        self.refuse(1, ["config.json", *words], "plan", model, "-o", self.path("out"), *more)
        self.refuse(1, ["config.json", *words], "train", model, "--data", MLP_DATA, "--save", self.path("out"), *more)
        self.assertEqual(self.read("out"), OLD)

    def test_no_configuration(self):
        self.refuse_config(["JSON"], "{")
        self.refuse_config(["array"], [])
        self.refuse_config(["model_type", "gpt2"], {})
        self.refuse(1, ["nowhere.json"], "import", self.path("nowhere.json"))

    def test_families_that_are_not_there(self):
        self.refuse_config(["unheard", "gpt2", "llama", "ONNX"], {"model_type": "unheard"})
        self.refuse_config(["gemma2", "sliding-window"], {"model_type": "gemma2"})

    def test_wrong_sizes(self):
        self.refuse_config(["n_layer", "-1"], {"model_type": "gpt2", "n_layer": -1})
        self.refuse_config(["hidden_size", "4096.5"], {"model_type": "llama", "hidden_size": 4096.5})
        self.refuse_config(["7 heads", "768"], {"model_type": "gpt2", "n_head": 7})
        self.refuse_config(["2048", "1024"], {"model_type": "gpt2"}, "--sequence", 2048)
        for option, size in (("--global-batch", -4), ("--global-batch", 0), ("--sequence", 0)):
            self.refuse(1, [option, str(size)], "import", self.write("config.json", {"model_type": "gpt2"}), option, size)
        self.refuse_config(["elements"], {"model_type": "gpt2", "vocab_size": 1 << 30, "n_embd": 1 << 30, "n_head": 1 << 10})

    def test_weights(self):
        config = {"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "vocab_size": 11, "n_positions": 4}
        model = self.write("config.json", config)
        data = write_npz(self.path("data.npz"), {name: ("<i8", [1, 1, 4], bytes(32)) for name in ("input_ids", "labels")})
        self.refuse(1, ["model.safetensors", "--weights", "--seed"], "train", model, "--data", data)
        self.succeed("train", model, "--data", data, "--seed", 1)
        self.refuse(1, ["'input_ids'", "[2, 4]", "--global-batch"], "train", model, "--data", data, "--seed", 1, "--global-batch", 2)
        self.refuse(1, ["none of the model's tensors"], "train", model, "--data", data, "--weights", data)
        self.write("model.safetensors", b"damaged")
        self.refuse(1, ["model.safetensors"], "train", model, "--data", data)


class Data(KerfTest):
    def refuse_data(self, words, arrays, ranks=2, before_first_step=True):
        data = write_npz(self.path("data.npz"), arrays)
        self.write("out", OLD)
        self.write("log", OLD)
        self.refuse(1, words, "train", MLP, "--data", data, "--ranks", ranks, "--all-ranks", "--save", self.path("out"), "--lr", 0.1,
                    *(["--log", self.path("log")] if before_first_step else []))
        self.assertEqual(self.read("out"), OLD)
        self.assertEqual(self.read("log"), OLD)

    def setUp(self):
        super().setUp()
        self.arrays = read_npz(MLP_DATA)

    def test_wrong_name(self):
        self.arrays["y"] = self.arrays.pop("x")
        self.refuse_data(["'x'", "y"], self.arrays)

    def test_wrong_shape(self):
        dtype, shape, data = self.arrays["x"]
        self.assertEqual(shape, [20, 13, 37])
        self.arrays["x"] = (dtype, [20, 37, 13], data)
        self.refuse_data(["'x'", "37", "13"], self.arrays)

    def test_no_axis_of_steps(self):
        dtype, shape, data = self.arrays["x"]
        self.arrays["x"] = (dtype, shape[1:], data[:len(data) // 20])
        self.refuse_data(["'x'", "37", "13", "steps"], self.arrays)

    def test_different_numbers_of_steps(self):
        dtype, shape, data = self.arrays["labels"]
        self.arrays["labels"] = (dtype, [10, 13], data[:len(data) // 2])
        self.refuse_data(["10", "20"], self.arrays)

    def test_wrong_dtype(self):
        dtype, shape, data = self.arrays["labels"]
        self.arrays["labels"] = ("<f8", shape, data)
        self.refuse_data(["'labels'", "f64"], self.arrays)

    def test_label_out_of_range(self):
        dtype, shape, data = self.arrays["labels"]
        for ranks in (1, 2, 3):
            spoiled = bytearray(data)
            struct.pack_into("<q", spoiled, 8 * (13 * 2 + 5), 11)  # step 2; there are 11 classes
            self.arrays["labels"] = (dtype, shape, bytes(spoiled))
            self.refuse_data(["label 11", "[0, 11)"], self.arrays, ranks, before_first_step=False)

    def test_not_an_npz(self):
        self.refuse(1, ["data.npz"], "train", MLP, "--data", self.write("data.npz", b"PK no zip"))
        self.refuse(1, ["nowhere.npz"], "train", MLP, "--data", self.path("nowhere.npz"))

    def test_weights_of_another_model(self):
        self.refuse(1, ["weights"], "train", MLP, "--data", MLP_DATA, "--weights", MLP_DATA)


class Plan(KerfTest):
    def refuse_constraints(self, words, plan, ranks=4):
        constraints = self.write("constraints.json", plan)
        self.write("out", OLD)
        self.refuse(1, words, "plan", MLP, "--ranks", ranks, "--constraints", constraints, "-o", self.path("out"))
        self.refuse(1, words, "train", MLP, "--data", MLP_DATA, "--ranks", ranks, "--plan", constraints, "--save", self.path("out"))
        self.assertEqual(self.read("out"), OLD)

    def test_mesh_that_does_not_make_the_ranks(self):
        self.refuse_constraints(["3", "4", "constraints.json"], {"kerf": 1, "mesh": {"data": 3}})
        self.refuse_constraints(["6", "4"], {"kerf": 1, "mesh": {"data": 2, "model": 3}})

    def test_pin_on_an_unknown_op(self):
        self.refuse_constraints(["nowhere/dot_general"],
                                {"kerf": 1, "mesh": {"data": 4, "model": 1}, "ops": {"nowhere/dot_general": {"strategy": {"m": ["data"]}}}})

    def test_pin_on_an_unknown_factor(self):
        self.refuse_constraints(["up/dot_general", "zz"],
                                {"kerf": 1, "mesh": {"data": 4, "model": 1}, "ops": {"up/dot_general": {"strategy": {"zz": ["data"]}}}})

    def test_pin_to_an_unknown_axis(self):
        self.refuse_constraints(["rows"],
                                {"kerf": 1, "mesh": {"data": 4, "model": 1}, "ops": {"up/dot_general": {"strategy": {"m": ["rows"]}}}})

    def test_no_plan_at_all(self):
        self.refuse_constraints(["JSON"], "{")
        self.refuse_constraints(["kerf"], {"mesh": {"data": 4}})
        stages = self.write("constraints.json", {"kerf": 1, "mesh": {"stage": 2, "model": 2}})
        self.refuse(2, ["mesh.stage"], "plan", MLP, "--ranks", 4, "--constraints", stages, "-o", self.path("out"))
        self.refuse(1, ["stage"], "train", MLP, "--data", MLP_DATA, "--ranks", 4, "--plan", stages, "--save", self.path("out"))

    def test_global_batch_of_another_export(self):
        self.refuse_constraints(["26", "13"], {"kerf": 1, "global_batch": 26})

    def test_plan_for_another_model(self):
        self.succeed("plan", file_of("gpt2"), "--ranks", 2, "--all-ranks", "-o", self.path("plan.json"))
        self.write("package", OLD)
        self.refuse(1, ["another model", "plan.json"], "compile", MLP, "--plan", self.path("plan.json"), "-o", self.path("package"))
        self.refuse(1, ["another model", "plan.json"], "train", MLP, "--data", MLP_DATA, "--plan", self.path("plan.json"))
        self.assertEqual(self.read("package"), OLD)

    def test_plan_for_another_cluster(self):
        a100, v100 = (os.path.join(CLUSTERS, name) for name in ("dgx-a100.json", "v100-nodes.json"))
        self.succeed("plan", MLP, "--cluster", a100, "--ranks", 2, "--all-ranks", "-o", self.path("plan.json"))
        self.refuse(1, ["another cluster", "plan.json"], "compile", MLP, "--plan", self.path("plan.json"), "--cluster", v100, "--ranks", 2, "--all-ranks",
                    "-o", self.path("package"))
        self.refuse(1, ["2 ranks", "1"], "compile", MLP, "--plan", self.path("plan.json"), "--ranks", 1, "-o", self.path("package"))
        self.assertFalse(os.path.exists(self.path("package")))

    def test_ranks_that_a_package_was_not_made_for(self):
        self.succeed("compile", MLP, "--ranks", 2, "--all-ranks", "-o", self.path("package"))
        self.refuse(1, ["2", "3"], "run", self.path("package"), "--ranks", 3, "--data", MLP_DATA)

    def test_package_that_is_damaged(self):
        self.succeed("compile", MLP, "--ranks", 2, "--all-ranks", "-o", self.path("package"))
        program = os.path.join(self.path("package"), "program.json")
        with open(program, "r+b") as file:
            file.truncate(os.path.getsize(program) // 2)
        self.refuse(1, ["program.json"], "run", self.path("package"), "--data", MLP_DATA)

    def test_list_of_steps_that_is_damaged(self):
        self.succeed("compile", MLP, "--ranks", 2, "--all-ranks", "-o", self.path("package"))
        program = os.path.join(self.path("package"), "program.json")
        with open(program) as file:
            whole = json.load(file)
        for word, change in (("compile the model again", lambda p: p.update(kerf_package=2)),
                             ("compile the model again", lambda p: p["steps"].update(stages=[])),
                             ("\"steps\"", lambda p: p.pop("steps")),
                             ("not been computed yet", lambda p: p["steps"]["stages"][0].pop(0)),
                             ("runs twice", lambda p: p["steps"]["stages"][0].append(p["steps"]["stages"][0][0])),
                             ("there is no instruction", lambda p: p["steps"]["stages"][0].append({"run": [10 ** 6, 10 ** 6]}))):
            damaged = json.loads(json.dumps(whole))
            change(damaged)
            with open(program, "w") as file:
                json.dump(damaged, file)
            self.refuse(1, [word], "run", self.path("package"), "--data", MLP_DATA)

    def test_package_without_its_weights(self):
        self.succeed("compile", MLP, "--ranks", 2, "--all-ranks", "-o", self.path("package"))
        os.remove(os.path.join(self.path("package"), "weights.safetensors"))
        self.refuse(1, ["weights.safetensors", "--weights", "--seed"], "run", self.path("package"), "--data", MLP_DATA)
        self.succeed("run", self.path("package"), "--data", MLP_DATA, "--steps", 1, "--seed", 1)

    def test_microbatches_are_no_axis_of_ranks(self):
        plan = self.write("plan.json", {"kerf": 1, "mesh": {"microbatch": 2}})
        self.refuse(1, ["mesh.microbatch", "plan.json"], "train", MLP, "--data", MLP_DATA, "--plan", plan)

    def test_order_names_axes_of_the_mesh(self):
        plan = self.write("plan.json", {"kerf": 1, "mesh": {"data": 2}, "order": ["dta"]})
        self.refuse(1, ["order", "\"dta\"", "plan.json"], "train", MLP, "--data", MLP_DATA, "--plan", plan)
        plan = self.write("plan.json", {"kerf": 1, "mesh": {"x": 2}, "order": ["x", "model"]})
        self.succeed("train", MLP, "--data", MLP_DATA, "--steps", 1, "--plan", plan)

    def test_cluster_that_is_wrong(self):
        with open(os.path.join(CLUSTERS, "cpu-4.json")) as file:
            cluster = json.load(file)
        cluster["levels"][0]["bandwidth"] = -1
        self.refuse(1, ["bandwidth", "-1"], "plan", MLP, "--cluster", self.write("cluster.json", cluster))
        self.refuse(1, ["5", "4"], "plan", MLP, "--cluster", os.path.join(CLUSTERS, "cpu-4.json"), "--ranks", 5)


class Memory(KerfTest):
    def test_too_little_says_how_much_is_enough(self):
        for model, ranks in (("mlp", 1), ("mlp", 4), ("gpt2", 2)):
            self.write("out", OLD)
            done = self.refuse(2, ["--memory"], "plan", file_of(model), "--ranks", ranks, "--memory", 10000, "-o", self.path("out"))
            self.assertEqual(self.read("out"), OLD)
            enough = int(re.search(r"--memory (\d+)", done.stderr).group(1))
            self.assertGreater(enough, 10000)
            free = json.loads(self.succeed("plan", file_of(model), "--ranks", ranks, "--json").stdout)
            self.assertLessEqual(enough, max(free["predicted"]["peak_bytes"]))
            self.succeed("plan", file_of(model), "--ranks", ranks, "--memory", enough)
            # The runtime keeps to it as well.
            self.succeed("train", file_of(model), "--ranks", ranks, "--memory", enough, "--data", file_of(model, "batches.npz"), "--steps", 2)


class Output(KerfTest):
    """Also root cannot write below a file, or over a folder."""

    def test_below_a_file(self):
        self.write("file", OLD)
        out = os.path.join(self.path("file"), "out")
        self.refuse(1, [out], "import", MLP, "-o", out)
        self.refuse(1, [out], "plan", MLP, "-o", out)
        self.refuse(1, [out], "plan", MLP, "--report", out)
        self.refuse(1, [out], "compile", MLP, "-o", out)
        self.refuse(1, [out], "train", MLP, "--data", MLP_DATA, "--steps", 1, "--save", out)
        self.refuse(1, [out], "train", MLP, "--data", MLP_DATA, "--steps", 1, "--log", out)
        self.refuse(1, [out], "train", MLP, "--data", MLP_DATA, "--steps", 1, "--gradient-norms", out)
        self.assertEqual(self.read("file"), OLD)

    def test_over_a_folder(self):
        os.mkdir(self.path("folder"))
        self.refuse(1, ["folder"], "plan", MLP, "-o", self.path("folder"))
        self.refuse(1, ["folder"], "train", MLP, "--data", MLP_DATA, "--steps", 1, "--save", self.path("folder"))
        self.assertEqual(os.listdir(self.path("folder")), [])

    def test_links_and_pipes_stay_what_they_are(self):
        self.write("file", OLD)
        os.symlink("file", self.path("link"))
        self.succeed("plan", MLP, "-o", self.path("link"))
        self.assertTrue(os.path.islink(self.path("link")))
        self.assertEqual(json.loads(self.read("file"))["kerf"], 1)
        os.mkfifo(self.path("pipe"))
        reader = os.open(self.path("pipe"), os.O_RDONLY | os.O_NONBLOCK)  # what is written fits into the pipe
        try:
            self.succeed("plan", MLP, "-o", self.path("pipe"))
            self.assertEqual(os.read(reader, 1 << 20), self.read("file"))
        finally:
            os.close(reader)
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path("pipe")).st_mode))

    def test_standard_output_that_is_full(self):
        for command in (["plan", MLP], ["plan", MLP, "--json"], ["import", MLP], ["train", MLP, "--data", MLP_DATA, "--steps", 1]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([KERF, *map(str, command)], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 1, command)
            self.assertIn("error: cannot write the output: No space left on device", done.stderr)

    def test_without_permission(self):
        if os.geteuid() == 0:
            self.skipTest("root may write everywhere")
        os.mkdir(self.path("folder"), stat.S_IRUSR | stat.S_IXUSR)
        self.refuse(1, ["folder"], "plan", MLP, "-o", os.path.join(self.path("folder"), "plan.json"))


if __name__ == "__main__":
    main()
