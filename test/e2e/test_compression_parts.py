#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compressed gradients in pieces, training that compresses from some step on, sampled codecs, and 1-bit Adam."""
import json
import math
import unittest

from support import main
from test_compression import CompressionTest, f32, normal


class Parts(CompressionTest):
    def compression(self, codec, **more):
        return {"compression": {"w": {"codec": codec, **more}}}

    def instructions(self, *more):
        """The instructions of the entry function of a package."""
        self.succeed("compile", self.path("model.mlir"), "--optimizer", "sgd", "--ranks", 4, "--all-ranks", "--constraints", self.path("data.json"), "--no-native",
                     "-o", self.path("package"), *more)
        program = json.loads(self.read("package/program.json"))
        return [instruction for function in program["functions"] if function["name"] == program["entry"] for instruction in function["body"]]


class Pieces(Parts):
    def test_pieces_change_no_number_of_a_codec_without_random_numbers(self):
        rows = [[normal(5000, 10 * step + rank) for rank in range(4)] for step in range(3)]
        for codec, scheme in (("identity", "two-stage"), ("bf16", "two-stage"), ("bf16", "all-gather"), ("onebit", "two-stage"), ("topk", "all-gather")):
            # 1,024 elements and more in a piece keep the blocks of 256 and 1,024 elements of each rank together.
            whole = self.train(None, rows, plan=self.compression(codec, scheme=scheme))
            cut = self.train(None, rows, plan=self.compression(codec, scheme=scheme, pieces=3))
            if codec in ("identity", "bf16"):
                self.same(cut, whole, codec)
            else:  # other blocks, and so other numbers of the same size
                self.assertLess(math.dist(cut, whole), 2 * math.hypot(*whole), codec)

    def test_each_piece_has_messages_of_its_own(self):
        self.data([[[0.0] * 8192] * 4], dtype="f32")
        counts = {}
        for pieces in (1, 2, 4):
            self.write("data.json", {**json.loads(self.read("data.json")), **self.compression("int8", pieces=pieces)})
            body = self.instructions()
            sends = [i for i, instruction in enumerate(body) if instruction["op"] == "all_to_all"]
            waits = [i for i, instruction in enumerate(body) if instruction["op"] == "wait"]
            counts[pieces] = len(sends)
            if pieces > 1:  # the second piece is under way before the first one is waited for
                self.assertGreater(waits[0], sends[2])
        self.assertEqual(counts, {1: 2, 2: 4, 4: 8})  # integers and scales of each piece

    def test_feedback_and_sharded_optimizers_in_pieces(self):
        rows = [[normal(8192, 10 * step + rank) for rank in range(2)] for step in range(4)]
        folder = self.path("checkpoint")
        moved = self.train(None, rows, "--checkpoint", folder, "--every", 4, plan=self.compression("onebit", scheme="two-stage", pieces=2))
        states = self.states(folder)
        self.assertIn("compression_error/w#1", states)
        kept = [[x for piece in (0, 1) for x in states[f"compression_error/w#{piece}"][rank]] for rank in range(2)]
        owner = [states[f"compression_owner_error/w#{piece}"] for piece in (0, 1)]
        owners = [x for piece in (0, 1) for rank in range(2) for x in owner[piece][rank]]
        for i in range(8192):
            total = sum(step[rank][i] for step in rows for rank in range(2))
            self.assertAlmostEqual(kept[0][i] + kept[1][i] + owners[i] - moved[i], total, delta=1e-3)
        for sharding in (1, 2):
            plain = self.train(None, rows, dtype="f32", plan={"optimizer_sharding": sharding})
            cut = self.train(None, rows, dtype="f32", plan={"optimizer_sharding": sharding, **self.compression("identity", scheme="reduce-scatter", pieces=3)})
            self.same(cut, plain, f"sharding {sharding}")

    def test_a_whole_matrix_cannot_be_cut(self):
        data = self.data([[normal(4096, 1), normal(4096, 2)]], shape=[64, 64])
        self.write("data.json", {**json.loads(self.read("data.json")), **self.compression("powersgd", pieces=2)})
        self.refuse(1, ["powersgd", "pieces"], "train", self.path("model.mlir"), "--data", data, "--ranks", 2, "--all-ranks", "--constraints", self.path("data.json"),
                    "--dtype", "f64")


class FirstStep(Parts):
    def test_steps_before_the_first_one_have_the_bits_of_plain_steps(self):
        rows = [[normal(5000, 10 * step + rank) for rank in range(3)] for step in range(4)]
        for codec in ("int4", "onebit", "topk", "powersgd"):
            shape = [50, 100] if codec == "powersgd" else None
            late = self.compression(codec, first_step=2)
            plain, warm = (self.train(None, rows, dtype="f32", stop=2, plan=plan, shape=shape) for plan in ({}, late))
            self.same(warm, plain, codec)
            self.differ(self.train(None, rows, dtype="f32", stop=3, plan=late, shape=shape), self.train(None, rows, dtype="f32", stop=3, shape=shape), codec)

    def test_the_compressed_steps_are_those_of_a_run_that_begins_there(self):
        """Two plain steps of zeros change nothing, so that the rest is a run of its own; its random numbers are those of the later steps."""
        rows = [[normal(2048, 10 * step + rank) for rank in range(2)] for step in range(2)]
        zeros = [[[0.0] * 2048] * 2] * 2
        for more in ({}, {"pieces": 2}):
            plan = {**self.compression("onebit", scheme="two-stage", **more)}
            late = {**self.compression("onebit", scheme="two-stage", first_step=2, **more)}
            self.same(self.train(None, zeros + rows, plan=late), self.train(None, rows, plan=plan), more)

    def test_momentum_goes_on_when_compression_begins(self):
        rows = [[normal(1024, step), [0.0] * 1024] for step in range(3)]
        got = self.train(None, rows, "--momentum", 0.9, plan=self.compression("onebit", first_step=2, scheme="all-gather"))
        velocity, expected = [0.0] * 1024, [0.0] * 1024
        for step in range(3):
            velocity = [f32(f32(0.9) * v + x) for v, x in zip(velocity, rows[step][0])]
            moves = velocity
            if step == 2:
                size = math.fsum(map(abs, velocity)) / 1024
                moves = [math.copysign(size, v) for v in velocity]
            expected = [w - v for w, v in zip(expected, moves)]
        for x, y in zip(got, expected):
            self.assertAlmostEqual(x, y, delta=1e-4)

    def test_collectives_rest_in_the_other_batches(self):
        self.data([[[0.0] * 5000] * 4], dtype="f32")
        self.write("data.json", {**json.loads(self.read("data.json")), **self.compression("int8", first_step=7)})
        found = {(instruction["op"], tuple(instruction["attrs"]["batches"])) for instruction in self.instructions() if "batches" in instruction.get("attrs", {})}
        self.assertEqual(found, {("all_reduce", (0, 7)), ("all_to_all", (7, 2 ** 63 - 1)), ("all_gather", (7, 2 ** 63 - 1))})


class Sampled(CompressionTest):
    def test_sampled_thresholds_keep_about_one_in_a_hundred(self):
        row = normal(20 * 4096, 3)
        for codec in ("topk-sampled", "graddrop"):
            got = self.decoded(codec, row)
            counts = []
            for begin in range(0, len(row), 4096):
                x, y = row[begin:begin + 4096], got[begin:begin + 4096]
                kept = [abs(a) for a, b in zip(x, y) if b != 0]
                self.assertTrue(all(b in (0.0, a) for a, b in zip(x, y)), codec)
                self.assertLessEqual(len(kept), 52, codec)
                self.assertEqual(sorted(kept), sorted(map(abs, x))[-len(kept):], "the kept ones are the largest")
                counts.append(len(kept))
            self.assertTrue(0.8 * 40.96 <= sum(counts) / len(counts) <= 1.3 * 40.96, (codec, counts))
            if codec == "topk-sampled":
                self.assertGreaterEqual(min(counts), 30, counts)


class OneBitAdam(Parts):
    OPTIONS = ("--optimizer", "onebit-adam", "--lr", 0.01, "--freeze-step", 3, "--eps", 1e-6)

    def reference(self, rows, freeze=3, lr=0.01, eps=1e-6, b1=0.9, b2=0.999):
        n = len(rows[0][0])
        w, m, v = [0.0] * n, [0.0] * n, [0.0] * n
        for number, step in enumerate(rows, 1):
            for i in range(n):
                g = sum(row[i] for row in step)
                if number <= freeze:
                    v[i] = b2 * v[i] + (1 - b2) * g * g
                m[i] = b1 * m[i] + (1 - b1) * g if v[i] > 0 else 0.0
                divisor = math.sqrt(v[i] / (1 - b2 ** min(number, freeze))) + eps
                w[i] -= lr / (1 - b1 ** number) * m[i] / divisor
        return w

    def test_the_formula_plain_and_through_the_identity_codec(self):
        rows = [[normal(1024, 10 * step + rank) for rank in range(2)] for step in range(6)]
        for step in rows:  # elements without any gradient in the first steps do not move later
            for row in step:
                row[:8] = [0.0] * 8 if step in rows[:3] else row[:8]
        expected = self.reference(rows)
        for x, y in zip(self.train(None, rows, optimizer=self.OPTIONS), expected):
            self.assertAlmostEqual(x, y, delta=1e-10)
        for codec in ("identity", "bf16"):
            for x, y in zip(self.train(codec, rows, optimizer=self.OPTIONS), expected):
                self.assertAlmostEqual(x, y, delta=1e-5 if codec == "identity" else 2e-3)
        self.assertEqual(list(expected[:8]), [0.0] * 8)

    def test_the_mean_goes_in_one_bit_with_error_feedback(self):
        """With signs, the weights stay within a few updates of those without compression, and each update moves them."""
        rows = [[normal(1024, 100 + rank + 10 * (step % 4), 0.1) for rank in range(2)] for step in range(40)]
        plain, coded = self.train(None, rows, optimizer=self.OPTIONS), self.train("onebit", rows, optimizer=self.OPTIONS)
        self.differ(coded, plain)
        self.assertLess(math.dist(coded, plain), 0.5 * math.hypot(*plain))

    def test_what_does_not_fit_is_refused(self):
        data = self.data([[normal(1024, 1), normal(1024, 2)]])
        for more, words in ((["--accumulate", 2], ["onebit-adam", "accumulate"]), ([], ["mean", "optimizer sharding 0"])):
            plan = {"optimizer_sharding": 0 if more else 1}
            self.write("data.json", {**json.loads(self.read("data.json")), **plan})
            self.refuse(1, words, "train", self.path("model.mlir"), "--data", data, "--ranks", 2, "--all-ranks", "--constraints", self.path("data.json"), "--dtype", "f64",
                        "--compress", "w=onebit", *self.OPTIONS, *more)



if __name__ == "__main__":
    main()
