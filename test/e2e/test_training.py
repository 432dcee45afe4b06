#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a run does besides single steps (docs/training.md): the learning rate's schedule, data in shards, by sample and
shuffled, several batches a step, evaluations, parameter groups, Hugging Face folders."""
import json
import math
import os
import struct
import subprocess
import unittest
import zipfile

from support import KERF, ROOT, KerfTest, file_of, kerf, main, npy, read_npz, read_safetensors, write_npz
from test_dropout import transformer


class LearningRate(KerfTest):
    def test_schedules_are_those_of_transformers(self):
        with open(os.path.join(ROOT, "test", "models", "learning_rates.json")) as file:
            rows = json.load(file)["rows"]
        for row in rows:
            done = self.succeed("train", file_of("mlp"), "--data", file_of("mlp", "batches.npz"), "--lr", 0.5, "--lr-schedule", row["schedule"],
                                "--warmup", row["warmup"], *(["--total", row["total"]] if row["schedule"] != "constant" else []), "--steps",
                                row["total"], "--json")
            rates = json.loads(done.stdout)["learning_rates"]
            self.assertEqual(len(rates), len(row["factors"]))
            for rate, factor in zip(rates, row["factors"]):
                self.assertAlmostEqual(rate, 0.5 * factor, delta=1e-15, msg=str(row))

    def test_the_first_step_of_a_warm_up_changes_nothing(self):
        args = ["train", file_of("mlp"), "--data", file_of("mlp", "batches.npz"), "--steps", 1]
        self.succeed(*args, "--lr", 0.5, "--warmup", 2, "--save", self.path("warm.safetensors"))
        self.succeed(*args, "--lr", 0, "--save", self.path("zero.safetensors"))
        self.succeed(*args, "--lr", 0.5, "--save", self.path("trained.safetensors"))
        self.assertEqual(self.read("warm.safetensors"), self.read("zero.safetensors"))
        self.assertNotEqual(self.read("warm.safetensors"), self.read("trained.safetensors"))


def shards_of(arrays, sizes):
    """The arrays cut along their first axis into pieces of `sizes` rows."""
    pieces, begin = [], 0
    for size in sizes:
        piece = {}
        for name, (dtype, shape, data) in arrays.items():
            row = len(data) // shape[0]
            piece[name] = (dtype, [size, *shape[1:]], data[begin * row:(begin + size) * row])
        pieces.append(piece)
        begin += size
    return pieces


class Data(KerfTest):
    """Data in shards, by sample and shuffled: batches are the same whatever files they lie in."""

    def setUp(self):
        super().setUp()
        self.arrays = read_npz(file_of("mlp", "batches.npz"))
        self.steps = next(iter(self.arrays.values()))[1][0]
        sizes = [3, 0, self.steps - 4, 1]
        self.pieces = shards_of(self.arrays, sizes)

    def npz_shards(self, folder="npz", compression=zipfile.ZIP_STORED, pieces=None):
        os.mkdir(self.path(folder))
        for i, piece in enumerate(pieces or self.pieces):
            with zipfile.ZipFile(self.path(f"{folder}/shard-{i:05}.npz"), "w", compression) as archive:
                for name, (dtype, shape, data) in piece.items():
                    archive.writestr(name + ".npy", npy(dtype, shape, data))
        return self.path(folder)

    def npy_shards(self, folder="npy", pieces=None):
        os.mkdir(self.path(folder))
        for i, piece in enumerate(pieces or self.pieces):
            for name, array in piece.items():
                self.write(f"{folder}/{name}-{i:05}.npy", npy(*array))
        return self.path(folder)

    def by_sample(self):
        arrays = {name: (dtype, [shape[0] * shape[1], *shape[2:]], data) for name, (dtype, shape, data) in self.arrays.items()}
        return write_npz(self.path("samples.npz"), arrays), arrays

    def losses(self, data, *more, model="mlp"):
        done = self.succeed("train", file_of(model), "--data", data, "--dtype", "f64", "--json", *more)
        return json.loads(done.stdout)["losses"]

    def test_shards_are_one_array(self):
        steps = ["--steps", self.steps + 5]
        whole = self.losses(file_of("mlp", "batches.npz"), *steps)
        self.assertEqual(self.losses(self.npz_shards(), *steps), whole)
        self.assertEqual(self.losses(self.npz_shards("packed", zipfile.ZIP_DEFLATED), *steps), whole)
        self.assertEqual(self.losses(self.npy_shards(), *steps, "--ranks", 1), whole)
        self.assertEqual(len(self.losses(self.path("npy"))), self.steps)  # all that the shards hold

    def test_samples_become_batches(self):
        samples, arrays = self.by_sample()
        whole = self.losses(file_of("mlp", "batches.npz"))
        self.assertEqual(self.losses(samples, "--samples"), whole)
        rows = next(iter(arrays.values()))[1][0]
        os.mkdir(self.path("cut"))
        for i, piece in enumerate(shards_of(arrays, [5, rows - 8, 3])):  # batches begin in one shard and end in the next
            write_npz(self.path(f"cut/shard-{i:05}.npz"), piece)
        self.assertEqual(self.losses(self.path("cut"), "--samples"), whole)
        self.refuse(1, ["by sample", "--samples"][1:], "train", file_of("mlp"), "--data", samples)
        self.refuse(1, ["--samples", "samples"], "train", file_of("mlp"), "--data", file_of("mlp", "batches.npz"), "--samples")

    def test_shuffled_batches(self):
        """With a learning rate of 0 a step's loss tells its batch."""
        batches, still = file_of("mlp", "batches.npz"), ["--lr", 0]
        in_order = self.losses(batches, *still)
        twice = self.losses(batches, *still, "--shuffle", "--seed", 7, "--steps", 2 * self.steps)
        first, second = twice[:self.steps], twice[self.steps:]
        for each in (first, second):
            self.assertNotEqual(each, in_order)
            self.assertEqual(sorted(each), sorted(in_order))
        self.assertNotEqual(first, second)
        self.assertEqual(self.losses(self.npy_shards(), *still, "--shuffle", "--seed", 7), first)  # whatever files
        self.assertEqual(self.losses(self.npz_shards("packed", zipfile.ZIP_DEFLATED, self.pieces[:1] + [
            {name: (dtype, [shape[0] - 3, *shape[1:]], data[len(data) // shape[0] * 3:]) for name, (dtype, shape, data) in self.arrays.items()}]),
            *still, "--shuffle", "--seed", 7), first)
        self.assertNotEqual(self.losses(batches, *still, "--shuffle", "--seed", 8), first)
        samples, _ = self.by_sample()
        mixed = self.losses(samples, *still, "--samples", "--shuffle", "--seed", 7)
        self.assertNotEqual(sorted(mixed), sorted(in_order))  # batches of other samples
        self.assertAlmostEqual(sum(mixed), sum(in_order), delta=1e-9)  # of the same ones in all

    def test_plans_and_resumed_runs_have_one_order(self):
        samples, _ = self.by_sample()
        args = ["--samples", "--shuffle", "--seed", 3, "--lr", 0.05, "--steps", self.steps + 6]
        one = self.losses(samples, *args)
        for ranks in (2, 4):
            self.close(self.losses(samples, *args, "--ranks", ranks, "--all-ranks"), one, 1e-10, f"{ranks} ranks")
        saved = ["--checkpoint", self.path("saved"), "--every", 100]
        first = self.losses(samples, *args[:-1], self.steps + 2, *saved)
        rest = self.losses(samples, "--lr", 0.05, "--steps", self.steps + 6, "--resume", self.path("saved"))
        self.assertEqual(first + rest, one)  # --samples, --shuffle and --seed are the checkpoint's

    def test_mistakes(self):
        train = ["train", file_of("mlp"), "--data"]
        name, other = list(self.arrays)[:2]
        short = [dict(piece) for piece in self.pieces]
        dtype, shape, data = short[2][other]
        short[2][other] = (dtype, [shape[0] - 1, *shape[1:]], data[:-(len(data) // shape[0])])
        self.refuse(1, ["shard 2", f"'{name}' has {shape[0]}", f"'{other}' has {shape[0] - 1}"], *train, self.npz_shards("a", pieces=short))
        lacking = [dict(piece) for piece in self.pieces]
        del lacking[3][other]
        self.refuse(1, ["shard-00003.npz", f"'{other}' is missing"], *train, self.npz_shards("b", pieces=lacking))
        self.npz_shards("c")
        os.remove(self.path("c/shard-00001.npz"))
        self.refuse(1, ["shard 1", "is missing"], *train, self.path("c"))
        typed = [dict(piece) for piece in self.pieces]
        typed[3][other] = ("<i4" if typed[3][other][0] != "<i4" else "<i8", typed[3][other][1], typed[3][other][2] * 2)
        self.refuse(1, [other, "all shards must have the same type"], *train, self.npy_shards("d", pieces=typed))
        self.npz_shards("e")
        self.write("e/x.npy", b"")
        self.refuse(1, ["of one kind"], *train, self.path("e"))
        self.npz_shards("f")
        with open(self.path("f/shard-00002.npz"), "r+b") as file:  # a bit of an array
            file.seek(400)
            byte = file.read(1)[0]
            file.seek(400)
            file.write(bytes([byte ^ 1]))
        self.refuse(1, ["step 3", "shard-00002.npz", "checksum"], *train, self.path("f"))
        self.refuse(1, ["compressed", "savez"], *train, self.npz_shards("g", zipfile.ZIP_DEFLATED), "--shuffle")

    def test_data_larger_than_memory(self):
        """2.4 GB of sparse shards in a wider type: neither an array nor a shard of one is in memory as a whole."""
        os.mkdir(self.path("big"))
        rows, shards = 75000, 8
        for name, (dtype, shape, _) in self.arrays.items():
            wide = "<f8" if "f" in dtype else "<i8"
            for shard in range(shards):
                header = npy(wide, [rows, *shape[1:]], b"")
                with open(self.path(f"big/{name}-{shard:05}.npy"), "wb") as file:
                    file.write(header)
                    file.truncate(len(header) + rows * math.prod(shape[1:]) * 8)
        for more in ([], ["--shuffle"]):
            command = [KERF, "train", file_of("mlp"), "--data", self.path("big"), "--steps", "40", *more]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            self.assertLess(usage.ru_maxrss, 250_000, more)  # KiB; a shard has 300,000


PIPELINE = {"mesh": {"stage": 2, "data": 2, "model": 1}, "microbatch": 2, "optimizer_sharding": 1, "recompute": "full"}
MESHES = {"mesh": {"stage": 2}, "stages": [{"layers": [0, 0], "mesh": {"data": 4}}, {"layers": [1, 1], "mesh": {"data": 2, "model": 2}}],
          "microbatch": 1, "optimizer_sharding": 1}
SHARDED_2 = {"mesh": {"data": 4}, "microbatch": 1, "optimizer_sharding": 2, "optimizer_sharding_ranks": 2}
SHARDED_3 = {"mesh": {"stage": 1, "data": 2, "model": 1}, "microbatch": 2, "optimizer_sharding": 3}
PLANS = {"pipeline": PIPELINE, "stages of two meshes": MESHES, "sharding 2": SHARDED_2, "sharding 3": SHARDED_3}

with open(file_of("mlp", "training.json")) as reference:
    PYTORCH = json.load(reference)["runs"]
ADAMW = ["--optimizer", "adamw", "--lr", 1e-2, "--weight-decay", 0.01]
AGREE = 1e-10  # relative, in f64


class TrainingTest(KerfTest):
    def masked(self):
        """The mlp's batches with labels left out, as test/models/make_training.py leaves them out."""
        arrays = read_npz(file_of("mlp", "batches.npz"))
        dtype, shape, data = arrays["labels"]
        labels = list(struct.unpack(f"<{len(data) // 8}q", data))
        for step in range(shape[0]):
            for sample in range(shape[1]):
                if (7 * step + sample) % 9 < step % 6:
                    labels[step * shape[1] + sample] = -100
        arrays["labels"] = (dtype, shape, struct.pack(f"<{len(labels)}q", *labels))
        return write_npz(self.path("masked.npz"), arrays)

    def summary(self, *args):
        return json.loads(self.succeed(*args, "--json").stdout)

    def mlp(self, *args):
        return self.summary("train", file_of("mlp"), "--data", self.masked(), "--dtype", "f64", *args)

    def gpt2(self, *args, plan=None):
        plan = ["--plan", self.write("plan.json", {"kerf": 1, **plan})] if plan else []
        return self.summary("train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--dtype", "f64", *plan, *args)


class Accumulation(TrainingTest):
    """A step of N batches is PyTorch's, with loss / N and one update: in f64 within 1e-10, on any ranks."""

    def test_steps_are_those_of_pytorch(self):
        sgd = ["--optimizer", "sgd", "--momentum", 0.9, "--lr", 0.1, "--clip-norm", 0.3]
        for name, args in (("adamw, accumulate 3", [*ADAMW, "--accumulate", 3]), ("sgd, accumulate 4, clip", [*sgd, "--accumulate", 4])):
            for ranks in (1, 2, 4):
                losses = self.mlp(*args, "--steps", 8, "--ranks", ranks, "--all-ranks")["losses"]
                self.close(losses, PYTORCH[name]["losses"], AGREE, f"{name} on {ranks} ranks")
            data = self.write("data.json", {"kerf": 1, "mesh": {"data": 2, "model": 1}})
            losses = self.mlp(*args, "--steps", 8, "--ranks", 2, "--constraints", data, "--no-native")["losses"]
            self.close(losses, PYTORCH[name]["losses"], AGREE, f"{name} on data 2")

    def test_packages_keep_the_number(self):
        self.succeed("compile", file_of("mlp"), *ADAMW[:2], *ADAMW[4:], "--dtype", "f64", "--accumulate", 3, "--ranks", 2, "--all-ranks", "-o", self.path("package"))
        done = self.summary("run", self.path("package"), "--data", self.masked(), "--lr", 1e-2)
        self.assertEqual(len(done["losses"]), 6)  # of 20 batches
        self.close(done["losses"], PYTORCH["adamw, accumulate 3"]["losses"][:6], AGREE, "a package")

    def test_every_kind_of_plan(self):
        args = [*ADAMW, "--clip-norm", 1, "--accumulate", 2, "--steps", 5]
        one = self.gpt2(*args)["losses"]
        for name, plan in PLANS.items():
            self.close(self.gpt2(*args, plan=plan)["losses"], one, AGREE, name)

    def test_loss_scale(self):
        args = ["train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--dtype", "f16", *ADAMW, "--accumulate", 2, "--steps", 6,
                "--initial-loss-scale", 2 ** 24]  # the first steps overflow and are left out
        one = self.summary(*args)["losses"]
        self.assertTrue(all(math.isfinite(loss) for loss in one))
        self.close(self.summary(*args, "--ranks", 2, "--all-ranks")["losses"], one, 2e-3, "2 ranks")

    def test_a_resumed_run_goes_on_with_the_next_batch(self):
        args = [*ADAMW, "--accumulate", 3, "--lr-schedule", "linear", "--total", 8]
        whole = self.mlp(*args, "--steps", 8)["losses"]
        first = self.mlp(*args, "--steps", 5, "--checkpoint", self.path("saved"))["losses"]
        index = json.loads(self.read("saved/step-000005/index.json"))
        self.assertFalse([name for name in index["tensors"] if name.startswith("accumulated")])
        rest = self.mlp(*args, "--steps", 8, "--resume", self.path("saved"))["losses"]
        self.assertEqual(first + rest, whole)
        # With another number the data goes on where it was, at batch 15: at a learning rate of 0 a loss tells its batches.
        still = ["--optimizer", "adamw", "--weight-decay", 0.01, "--lr", 0, "--lr-schedule", "constant", "--resume", self.path("saved")]
        singles = self.mlp(*still, "--steps", 8, "--accumulate", 1)["losses"]
        mean = self.mlp(*still, "--steps", 6, "--accumulate", 3)["losses"]
        self.assertEqual(len(singles), 3)
        self.close(mean, [sum(singles) / 3], AGREE, "batches 15 to 17")

    def test_dropout_differs_from_batch_to_batch(self):
        """At a learning rate of 0 a step of two batches is the mean of two steps of one, masks included."""
        graph, loss = transformer()
        graph.write(self, loss)
        args = ["train", self.path("model.onnx"), "--data", self.path("data.npz"), "--dtype", "f64", "--lr", 0, "--seed", 5]
        single = self.summary(*args, "--steps", 8)["losses"]
        for ranks in (1, 2):
            self.close(self.summary(*args, "--steps", 4, "--accumulate", 2, "--ranks", ranks, "--all-ranks")["losses"],
                       [(single[i] + single[i + 1]) / 2 for i in range(0, 8, 2)], AGREE, f"{ranks} ranks")


class Evaluation(TrainingTest):
    def test_means_are_those_of_pytorch_and_training_goes_on_as_without(self):
        wanted = PYTORCH["adamw, evaluated"]
        args = [*ADAMW, "--steps", 8]
        evaluated = ["--eval-data", self.masked(), "--eval-every", 3, "--eval-steps", 7]
        for ranks in (1, 2, 4):
            plain = self.mlp(*args, "--ranks", ranks, "--all-ranks")
            done = self.mlp(*args, "--ranks", ranks, "--all-ranks", *evaluated, "--log", self.path("log"))
            self.assertEqual(done["losses"], plain["losses"])
            self.assertEqual([e["step"] for e in done["evaluations"]], [2, 5, 7])
            self.close([e["eval_loss"] for e in done["evaluations"]], [mean for _, mean in wanted["evaluations"]], AGREE, f"{ranks} ranks")
            for each in done["evaluations"]:
                self.assertAlmostEqual(each["eval_perplexity"], math.exp(each["eval_loss"]), delta=1e-12)
            lines = [json.loads(line) for line in self.read("log").decode().splitlines()]
            self.assertEqual([line["step"] for line in lines], [0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 7])
            self.assertEqual([line["eval_loss"] for line in lines if "eval_loss" in line], [e["eval_loss"] for e in done["evaluations"]])

    def test_every_kind_of_plan(self):
        args = [*ADAMW, "--steps", 3, "--accumulate", 2, "--eval-data", file_of("gpt2", "batches.npz"), "--eval-every", 1, "--eval-steps", 4]
        one = self.gpt2(*args)
        for name, plan in PLANS.items():
            done = self.gpt2(*args, plan=plan)
            self.close(done["losses"], one["losses"], AGREE, name)
            self.close([e["eval_loss"] for e in done["evaluations"]], [e["eval_loss"] for e in one["evaluations"]], AGREE, name)

    def test_metrics(self):
        """Other scalar outputs of an export, which PyTorch computed as well; the losses are those of a run without."""
        folder = os.path.join(ROOT, "test", "models", "metrics")
        with open(os.path.join(folder, "golden.json")) as file:
            golden = json.load(file)
        model, data = os.path.join(folder, "model.onnx"), os.path.join(folder, "batches.npz")
        args = ["train", model, "--data", data, "--dtype", "f64", "--lr", golden["learning_rate"], "--steps", golden["steps"], "--eval-data", data,
                "--eval-every", 1]
        asked = ["--metric", "accuracy", "--metric", "right"]
        without = self.summary(*args)
        plans = {"one rank": [], "two ranks": ["--ranks", 2, "--all-ranks"],
                 "data 2": {"mesh": {"data": 2, "model": 1}, "microbatch": 2}, "model 2": {"mesh": {"data": 1, "model": 2}, "microbatch": 4},
                 "accumulated": ["--accumulate", 1]}
        for name, plan in plans.items():
            more = plan if isinstance(plan, list) else ["--plan", self.write("plan.json", dict(plan, kerf=1))]
            done = self.summary(*args, *asked, *more)
            self.close(done["losses"], without["losses"], AGREE, name)
            self.assertEqual(len(done["evaluations"]), len(golden["evaluations"]))
            for got, wanted in zip(done["evaluations"], golden["evaluations"]):
                for key, value in wanted.items():
                    self.assertAlmostEqual(got["eval_" + key], value, delta=1e-9 * abs(value), msg=f"{name}, step {got['step']}, {key}")
        self.refuse(1, ["the metric 'acuracy'", "loss, accuracy, right"], *args, "--metric", "acuracy")
        self.refuse(1, ["--metric accuracy is given twice"], *args, "--metric", "accuracy", "--metric", "accuracy")
        self.refuse(1, ["--metric loss"], *args, "--metric", "loss")
        self.refuse(1, ["--metric accuracy", "no output but its loss"], "simulate", os.path.join(ROOT, "examples", "llama-2-7b", "config.json"),
                    "--metric", "accuracy", "--ranks", 1, "--plan", self.write("plan.json", {"kerf": 1}))

    def test_nothing_is_dropped(self):
        evaluations = {}
        for rate in (0.25, 0):
            graph, loss = transformer(rate)
            graph.write(self, loss)
            done = self.summary("train", self.path("model.onnx"), "--data", self.path("data.npz"), "--dtype", "f64", "--lr", 0, "--seed", 5,
                                "--eval-data", self.path("data.npz"))
            evaluations[rate] = done["evaluations"][0]["eval_loss"]
            mean = sum(done["losses"]) / len(done["losses"])
        self.assertAlmostEqual(evaluations[0], mean, delta=1e-12)
        self.assertAlmostEqual(evaluations[0.25], evaluations[0], delta=1e-12)

    def test_mistakes(self):
        train = ["train", file_of("mlp"), "--data", file_of("mlp", "batches.npz")]
        self.refuse(1, ["--eval-every", "--eval-data"], *train, "--eval-every", 3)
        self.refuse(1, ["evaluation", "input_ids"], *train, "--eval-data", file_of("gpt2", "batches.npz"))
        self.refuse(1, ["21 batches", "20"], *train, "--eval-data", file_of("mlp", "batches.npz"), "--eval-steps", 21)


class Groups(TrainingTest):
    GROUPS = ["--group", "*.bias:lr=0.03,decay=0", "--group", "norm*:decay=0.5", "--group", "head.weight:lr=0.002"]

    def test_groups_are_those_of_pytorch(self):
        wanted = PYTORCH["adamw, groups"]["losses"]
        args = [*ADAMW, "--lr-schedule", "linear", "--warmup", 2, "--total", 10, *self.GROUPS]
        for ranks in (1, 2, 4):
            self.close(self.mlp(*args, "--steps", 8, "--ranks", ranks, "--all-ranks")["losses"], wanted, AGREE, f"{ranks} ranks")
        self.succeed("compile", file_of("mlp"), *ADAMW[:2], *ADAMW[4:], "--dtype", "f64", *self.GROUPS, "-o", self.path("package"))
        done = self.summary("run", self.path("package"), "--data", self.masked(), "--lr", 1e-2, *args[6:12], "--steps", 8)
        self.close(done["losses"], wanted, AGREE, "a package")

    def test_every_kind_of_plan(self):
        args = [*ADAMW, "--steps", 4, "--group", "*ln*:lr=0.05,decay=0", "--group", "*.weight:decay=0.3"]
        one = self.gpt2(*args)["losses"]
        for name, plan in PLANS.items():
            self.close(self.gpt2(*args, plan=plan)["losses"], one, AGREE, name)

    def test_mistakes(self):
        train = ["train", file_of("mlp"), "--data", file_of("mlp", "batches.npz")]
        for text, words in (("*.bias", ["GLOB:lr=X,decay=Y"]), ("*:rate=1", ["'rate'"]), ("*:lr=x", ["'x'"]), ("*:lr=1,lr=2", ["twice"]),
                            ("nothing*:lr=1", ["nothing*", "matches none"])):
            done = kerf(*train, "--group", text)
            self.assertNotEqual(done.returncode, 0)
            for word in words:
                self.assertIn(word, done.stderr)


class HuggingFace(TrainingTest):
    """--save-hf writes what Transformers loads; --weights reads such folders."""

    def setUp(self):
        super().setUp()
        self.model = os.path.join(ROOT, "test", "models", "families", "gpt2")
        with open(os.path.join(self.model, "golden.json")) as file:
            golden = json.load(file)
        self.config = os.path.join(self.model, "config.json")
        self.sizes = ["--global-batch", golden["batch"], "--sequence", golden["sequence"]]
        self.train = ["train", self.config, *self.sizes, "--data", os.path.join(self.model, "batches.npz"), "--lr", 0.1]

    def test_what_is_saved_is_what_goes_on(self):
        whole = self.summary(*self.train, "--steps", 5)["losses"]
        first = self.summary(*self.train, "--weights", self.model, "--steps", 2, "--save-hf", self.path("hf"))["losses"]
        self.assertEqual(first, whole[:2])
        self.assertEqual(sorted(os.listdir(self.path("hf"))), ["config.json", "model.safetensors"])
        with open(self.config) as file:
            config = json.load(file)
        saved = json.loads(self.read("hf/config.json"))
        self.assertEqual(saved.pop("dtype"), "float32")
        self.assertEqual({k: v for k, v in saved.items() if k != "torch_dtype"}, {k: v for k, v in config.items() if k not in ("dtype", "torch_dtype")})
        self.assertIn(b'"format":"pt"', self.read("hf/model.safetensors")[:200].replace(b" ", b""))
        before, after = read_safetensors(os.path.join(self.model, "model.safetensors")), read_safetensors(self.path("hf/model.safetensors"))
        self.assertEqual({name: shape for name, (_, shape, _) in after.items()}, {name: shape for name, (_, shape, _) in before.items()})
        arrays = read_npz(os.path.join(self.model, "batches.npz"))
        rest = {name: (dtype, [shape[0] - 2, *shape[1:]], data[len(data) // shape[0] * 2:]) for name, (dtype, shape, data) in arrays.items()}
        data = write_npz(self.path("rest.npz"), rest)
        second = self.summary("train", self.path("hf/config.json"), *self.sizes, "--data", data, "--lr", 0.1)["losses"]
        self.assertEqual(second, whole[2:])

    def test_exports_take_a_configuration(self):
        train = ["train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 1, "--save-hf", self.path("hf")]
        self.assertIn("--hf-config", self.succeed(*train).stderr)
        self.assertEqual(os.listdir(self.path("hf")), ["model.safetensors"])
        self.succeed(*train, "--hf-config", self.config)
        self.assertEqual(sorted(os.listdir(self.path("hf"))), ["config.json", "model.safetensors"])
        self.refuse(1, ["--hf-config", "--save-hf"], *train[:-2], "--hf-config", self.config)

    def test_transformers_loads_it(self):
        try:
            import torch
            import transformers
        except ImportError as error:
            self.skipTest(f"needs torch and transformers: {error}")
        self.succeed(*self.train, "--dtype", "f64", "--steps", 3, "--save-hf", self.path("hf"))
        loss = self.summary("train", self.path("hf/config.json"), *self.sizes, "--data", os.path.join(self.model, "batches.npz"), "--dtype", "f64",
                            "--steps", 1)["losses"][0]
        model = transformers.AutoModelForCausalLM.from_pretrained(self.path("hf")).double().eval()
        arrays = {name: torch.frombuffer(bytearray(data), dtype=torch.int64).reshape(shape)[0]
                  for name, (_, shape, data) in read_npz(os.path.join(self.model, "batches.npz")).items()}
        logits = model(input_ids=arrays["input_ids"]).logits[:, :-1]  # the loss that Transformers makes of them is of float32
        expected = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), arrays["labels"][:, 1:].reshape(-1))
        self.assertEqual(expected.dtype, torch.float64)
        self.assertAlmostEqual(expected.item(), loss, delta=1e-9)


if __name__ == "__main__":
    main()
