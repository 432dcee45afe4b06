#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a run does besides single steps (docs/training.md): the learning rate's schedule, data in shards, by sample and shuffled."""
import json
import math
import os
import subprocess
import unittest
import zipfile

from support import KERF, ROOT, KerfTest, file_of, main, npy, read_npz, write_npz


class LearningRate(KerfTest):
    def test_schedules_are_those_of_transformers(self):
        with open(os.path.join(ROOT, "test", "models", "learning_rates.json")) as file:
            rows = json.load(file)["rows"]
        for row in rows:
            done = self.succeed("train", file_of("mlp"), "--data", file_of("mlp", "batches.npz"), "--lr", 0.5, "--lr-schedule", row["schedule"],
                                "--warmup", row["warmup"], "--total", row["total"], "--steps", row["total"], "--json")
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


if __name__ == "__main__":
    main()
