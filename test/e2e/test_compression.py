#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compressed gradients: each codec's numbers, error feedback, equal ranks, and the rules of training with codecs.

The loss of the small model is the sum of w * x, so the gradient of w on a rank is the sum of its rows of x. With zeros in
the second row, the second of two ranks adds nothing, and a step of SGD with rate 1 subtracts the decoded first row from w.
"""
import json
import math
import os
import random
import struct
import unittest

from support import KerfTest, ROOT, file_of, main, read_safetensors, write_npz

MODEL = """
func.func @main(%x: tensor<{rows}x{w}x{t}> {{kerf.kind = "input", kerf.name = "x"}},
                %w: tensor<{w}x{t}> {{kerf.kind = "parameter", kerf.name = "w", kerf.trainable}}) -> (tensor<{t}> {{kerf.name = "loss"}}) {{
  %wide = kerf.broadcast_in_dim %w {{broadcast_dimensions = array<i64: {dims}>}} : (tensor<{w}x{t}>) -> tensor<{rows}x{w}x{t}>
  %products = kerf.multiply %wide, %x : (tensor<{rows}x{w}x{t}>, tensor<{rows}x{w}x{t}>) -> tensor<{rows}x{w}x{t}>
  %loss = kerf.reduce %products {{kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, {dims}>}} : (tensor<{rows}x{w}x{t}>) -> tensor<{t}>
  return %loss : tensor<{t}>
}}
"""
SAMPLES = 8  # rows of a rank, of which the first one counts; with few rows, the search would rather gather them
UNBIASED = ("int8", "int4", "qsgd", "natural", "terngrad")
WITH_FEEDBACK = ("onebit", "tbq", "topk", "topk-sampled", "graddrop", "dgc", "randomk")
EXACT = ("identity",)
ROUNDED = ("bf16", "fp16")
# codec -> elements of a block, bytes of its payload
BYTES = {"identity": (256, 1024), "bf16": (16, 32), "fp16": (16, 32), "int8": (256, 260), "int4": (256, 132), "qsgd": (128, 132),
         "natural": (512, 516), "onebit": (1024, 132), "sign": (1024, 128), "terngrad": (1024, 260), "tbq": (1024, 260),
         "topk": (4096, 240), "topk-sampled": (4096, 312), "graddrop": (4096, 312), "dgc": (4096, 24), "randomk": (4096, 1640)}


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def normal(n, seed, scale=1.0):
    rnd = random.Random(seed)
    return [f32(scale * rnd.gauss(0, 1)) for _ in range(n)]


class CompressionTest(KerfTest):
    MODEL = MODEL

    def same(self, got, wanted, what=""):
        """Equal numbers, in every bit. A message that has all of them would be long."""
        self.assertEqual(len(got), len(wanted))
        wrong = [i for i, (a, b) in enumerate(zip(got, wanted)) if a != b]
        self.assertFalse(wrong, f"{what}: {len(wrong)} of {len(got)} differ, first {wrong and (wrong[0], got[wrong[0]], wanted[wrong[0]])}")

    def differ(self, got, wanted, what=""):
        self.assertTrue(tuple(got) != tuple(wanted), f"{what}: no number differs")

    def data(self, steps, dtype="f64", shape=None):
        """`steps`: for each step the rows of x, one for each rank. `shape`: of w, where it is no vector."""
        rows, n = SAMPLES * len(steps[0]), len(steps[0][0])
        flat = [value for step in steps for row in step for value in row + [0.0] * (n * (SAMPLES - 1))]
        shape = shape or [n]
        self.write("model.mlir", self.MODEL.format(rows=rows, w="x".join(map(str, shape)), t=dtype, dims=", ".join(map(str, range(1, len(shape) + 1)))))
        self.write("data.json", {"kerf": 1, "mesh": {"data": len(steps[0]), "model": 1}, "arguments": {"x": [["data"]] + [[] for _ in shape]}})
        return write_npz(self.path("x.npz"), {"x": ("<f8", [len(steps), rows, *shape], struct.pack(f"<{len(flat)}d", *flat))})

    def train(self, codec, steps, *more, repeats=1, dtype="f64", stop=None, plan={}, shape=None, optimizer=("--optimizer", "sgd", "--lr", 1)):
        """The weights after `repeats` rounds over the steps' rows, from zeros and with rate 1."""
        n = len(steps[0][0])
        data = self.data(steps, dtype, shape)
        self.write("data.json", {**json.loads(self.read("data.json")), **plan})
        zeros = write_npz(self.path("w.npz"), {"w": ("<f8", shape or [n], bytes(8 * n))})
        compress = ["--compress", f"w*={codec}"] if codec else []
        self.done = self.succeed("train", self.path("model.mlir"), "--data", data, "--weights", zeros, "--dtype", dtype, *optimizer,
                                 "--ranks", len(steps[0]), "--all-ranks", "--constraints", self.path("data.json"), "--steps", stop or repeats * len(steps), *compress,
                                 "--save", self.path("out.safetensors"), "--json", *more)
        return struct.unpack(f"<{n}{'d' if dtype == 'f64' else 'f'}", read_safetensors(self.path("out.safetensors"))["w"][2])

    def decoded(self, codec, row, *more):
        """The row after encoding and decoding."""
        return [-value for value in self.train(codec, [[row, [0.0] * len(row)]], *more)]

    def states(self, folder):
        """The arrays of a checkpoint: name -> for each box its numbers in f32."""
        step = os.path.join(folder, self.read(os.path.join(folder, "latest")).decode().strip())
        with open(os.path.join(step, "index.json")) as file:
            index = json.load(file)
        states = {}
        for name, tensor in index["tensors"].items():
            for box in tensor["boxes"]:
                dtype, _, raw = read_safetensors(os.path.join(step, index["files"][box["file"]]["name"]))[name]
                if dtype == "F32":
                    states.setdefault(name, []).append(struct.unpack(f"<{len(raw) // 4}f", raw))
        return states


class Numbers(CompressionTest):
    def test_sizes_and_unusual_numbers(self):
        for n in (1, 7, 31, 256, 257):
            row = [f32(x) for x in (0.0, 1e-40, -1e-40, 3.5, -2.0, 1e-20, 0.25)] * (n // 7 + 1)
            for codec in BYTES:
                more = ["--allow-biased"] if codec == "sign" else []
                got = self.decoded(codec, row[:n], *more)
                self.assertTrue(all(math.isfinite(value) for value in got), f"{codec}, {n}: {got[:8]}")
                zeros = self.decoded(codec, [0.0] * n, *more)
                self.assertTrue(codec == "sign" or not any(zeros), f"{codec}, {n} zeros: {zeros[:8]}")

    def test_bounds_of_errors(self):
        row = normal(2048, 1)
        for codec, levels, block in (("int8", 127, 256), ("int4", 7, 256)):
            got = self.decoded(codec, row)
            for begin in range(0, len(row), block):
                most = max(abs(x) for x in row[begin:begin + block]) / levels
                for x, y in zip(row[begin:begin + block], got[begin:begin + block]):
                    self.assertLessEqual(abs(x - y), most * (1 + 1e-5), codec)
            self.differ(got, row, f"{codec} rounds")
        got = self.decoded("onebit", row)
        for begin in range(0, len(row), 1024):
            x, y = row[begin:begin + 1024], got[begin:begin + 1024]
            error = sum((a - b) ** 2 for a, b in zip(x, y))
            self.assertAlmostEqual(error, sum(a * a for a in x) - sum(map(abs, x)) ** 2 / 1024, delta=1e-4 * error)
        got = self.decoded("bf16", row)
        for x, y in zip(row, got):
            self.assertLessEqual(abs(x - y), 2 ** -8 * abs(x))
            self.assertEqual(struct.unpack("<I", struct.pack("<f", y))[0] & 0xFFFF, 0)
        got = self.decoded("natural", row)
        for x, y in zip(row, got):
            self.assertAlmostEqual(math.log2(abs(y)), round(math.log2(abs(y))), delta=1e-5)
            self.assertTrue(abs(x) / 2.0001 <= abs(y) <= 2.0001 * abs(x) and (x > 0) == (y > 0), (x, y))

    def test_top_k_keeps_the_largest(self):
        row = normal(8192, 2)
        got = self.decoded("topk", row)
        for begin in (0, 4096):
            block = row[begin:begin + 4096]
            limit = sorted(map(abs, block), reverse=True)[39]
            self.same(got[begin:begin + 4096], [x if abs(x) >= limit else 0.0 for x in block])

    def test_unbiased_codecs_have_the_elements_mean(self):
        steps, n = 600, 1024
        rnd = random.Random(3)
        row = [f32(rnd.uniform(-1, 1)) for _ in range(n)]
        for codec in UNBIASED:
            means = [-value / steps for value in self.train(codec, [[row, [0.0] * n]], repeats=steps)]
            largest = max(map(abs, row))
            # The largest step of the codec: sigma is at most half of it, and the mean of `steps` has sigma / sqrt(steps).
            step = {"int8": largest / 127, "int4": largest / 7, "qsgd": math.sqrt(128 / 3) * 1.3 / 127, "natural": 1.0, "terngrad": 2 * largest}[codec]
            for x, mean in zip(row, means):
                self.assertLessEqual(abs(mean - x), 5 * step / 2 / math.sqrt(steps), codec)

    def test_random_numbers_are_those_of_the_documented_hash(self):
        def mix(x):
            for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
                x = (x ^ x >> shift) * factor % 2 ** 32
            return x ^ x >> 16
        row = normal(512, 4)
        got = self.decoded("int8", row, "--seed", 5)
        key = 0
        for word in (5, 0, 0, 0, 0, 0, 0, 0):  # seed, step, tensor and rank, two halves of each
            key = mix(key ^ word)
        for begin in (0, 256):
            block = row[begin:begin + 256]
            largest = max(map(abs, block))
            factor, step = f32(127 / largest), f32(largest / 127)
            for i, x in enumerate(block):
                scaled = f32(x * factor)
                u = (mix(mix((begin + i + key) % 2 ** 32) ^ key) >> 8) / 2 ** 24
                code = math.ceil(f32(scaled - u))
                self.assertEqual(got[begin + i], f32(max(-127, min(127, code)) * step))


class Feedback(CompressionTest):
    def test_what_is_decoded_and_what_is_kept_is_the_gradient(self):
        n, steps = 4096, 10
        rows = [[normal(n, 10 + step), normal(n, 50 + step, 0.5)] for step in range(steps)]
        total = [sum(step[0][i] + step[1][i] for step in rows) for i in range(n)]
        for codec in WITH_FEEDBACK:
            folder = self.path(f"checkpoint-{codec}")
            moved = self.train(codec, rows, "--checkpoint", folder, "--every", steps)
            errors = self.states(folder)["compression_error/w"]
            self.assertEqual(len(errors), 2, "one error for each rank")
            for i in range(n):
                self.assertAlmostEqual(errors[0][i] + errors[1][i] - moved[i], total[i], delta=1e-4 * steps, msg=codec)
            self.assertTrue(any(errors[0]), codec)

    def test_a_change_of_the_learning_rate_loses_nothing(self):
        # Errors are kept as updates. Were they kept as gradients, what is left of the first steps would be moved with the later, smaller rate.
        n, half = 4096, 3
        rows = [[normal(n, 10 + step), normal(n, 50 + step, 0.5)] for step in range(2 * half)]
        rates = [1.0] * half + [0.125] * half
        total = [sum(rate * (step[0][i] + step[1][i]) for rate, step in zip(rates, rows)) for i in range(n)]
        for codec in WITH_FEEDBACK:
            first, last = self.path(f"first-{codec}"), self.path(f"last-{codec}")
            self.train(codec, rows, "--checkpoint", first, "--every", half, stop=half)
            moved = self.train(codec, rows, "--resume", first, "--checkpoint", last, "--every", 2 * half, optimizer=("--optimizer", "sgd", "--lr", 0.125))
            errors = self.states(last)["compression_error/w"]
            for i in range(n):
                self.assertAlmostEqual(errors[0][i] + errors[1][i] - moved[i], total[i], delta=1e-3, msg=codec)

    def test_what_top_k_holds_back_arrives(self):
        n = 4096
        rows = [[normal(n, 7), [0.0] * n]] + [[[0.0] * n] * 2] * 103
        self.same([-value for value in self.train("topk", rows)], rows[0][0])

    def test_sparse_codecs_follow_their_formula(self):
        """Weights after some steps of three ranks are those of the published algorithms, written down here: top-k with error feedback and SGD's momentum after the sum,
        and deep gradient compression. The rate changes in each step, and the second block of 4,096 elements is padded."""
        n, ranks, steps, momentum = 5000, 3, 5, 0.9
        rows = [[normal(n, 100 * step + rank) for rank in range(ranks)] for step in range(steps)]
        for codec, kept, first in (("topk", 40, False), ("dgc", 4, True)):
            weights, after = [0.0] * n, [0.0] * n
            errors, before = [[0.0] * n for _ in range(ranks)], [[0.0] * n for _ in range(ranks)]
            for step in range(steps):
                rate, sums = 1 - step / steps, [0.0] * n
                for rank, row in enumerate(rows[step]):
                    if first:
                        row = before[rank] = [momentum * u + g for u, g in zip(before[rank], row)]
                    full = [e / rate + g for e, g in zip(errors[rank], row)]
                    for begin in range(0, n, 4096):
                        block = range(begin, min(begin + 4096, n))
                        for i in sorted(block, key=lambda i: abs(full[i]), reverse=True)[:kept]:
                            sums[i] += full[i]
                            full[i] = before[rank][i] = 0.0
                    errors[rank] = [e * rate for e in full]
                after = [(0.0 if first else momentum) * v + s for v, s in zip(after, sums)]
                weights = [w - rate * v for w, v in zip(weights, after)]
            got = self.train(codec, rows, "--momentum", momentum, "--lr-schedule", "linear", "--total", steps)
            for i, (x, y) in enumerate(zip(got, weights)):
                self.assertAlmostEqual(x, y, delta=1e-4, msg=f"{codec}, element {i}")

    def test_onebit_follows_its_formula(self):
        """Signs with the momentum of what arrived, and with the errors of ranks and of owners. The rate changes in each step, and the last blocks are padded."""
        n, ranks, steps, momentum, block, padded = 5000, 3, 5, 0.9, 1024, 6144
        rows = [[normal(n, 100 * step + rank) for rank in range(ranks)] for step in range(steps)]

        def encode(x, error, rate):
            full = [e / rate + y for e, y in zip(error, x)]
            means = [math.fsum(map(abs, full[begin:begin + block])) / block for begin in range(0, padded, block)]
            decoded = [math.copysign(means[i // block], y) for i, y in enumerate(full)]
            return decoded, [rate * (y - z) for y, z in zip(full, decoded)]

        weights, velocity, owner = [0.0] * n, [0.0] * padded, [0.0] * padded
        errors = [[0.0] * padded for _ in range(ranks)]
        for step in range(steps):
            rate, total = 1 - step / steps, [0.0] * padded
            for rank, row in enumerate(rows[step]):
                sent = [g + momentum / ranks * v for g, v in zip(row + [0.0] * (padded - n), velocity)]
                decoded, errors[rank] = encode(sent, errors[rank], rate)
                total = [x + y for x, y in zip(total, decoded)]
            decoded, owner = encode(total, owner, rate)
            velocity = decoded[:n] + [0.0] * (padded - n)
            weights = [w - rate * v for w, v in zip(weights, velocity)]
        got = self.train("onebit", rows, "--momentum", momentum, "--lr-schedule", "linear", "--total", steps)
        for i, (x, y) in enumerate(zip(got, weights)):
            self.assertAlmostEqual(x, y, delta=1e-4, msg=f"element {i}")

    def test_momentum_before_a_codec_that_loses_nothing_gives_the_plain_weights(self):
        """With optimizer sharding each rank has only a part of the optimizer's state, so that it keeps a momentum of its own."""
        with open(os.path.join(ROOT, "lib", "Codec", "codecs", "identity.mlir")) as file:
            codec = self.write("exact.mlir", file.read().replace("@identity", "@exact").replace("{block", "{biased, momentum_first, block"))
        rows = [[normal(1024, 10 * step + rank) for rank in range(2)] for step in range(4)]
        for sharding in (0, 1):
            plan, saved = {"optimizer_sharding": sharding}, self.path(f"saved-{sharding}")
            plain = self.train(None, rows, "--momentum", 0.9, plan=plan)
            coded = self.train("exact", rows, "--codec", codec, "--momentum", 0.9, "--checkpoint", saved, "--every", 4, plan=plan)
            for x, y in zip(coded, plain):
                self.assertAlmostEqual(x, y, delta=2e-6 * (1 + abs(y)), msg=f"sharding {sharding}")
            self.assertEqual("compression_momentum/w" in self.states(saved), sharding == 1)
            self.differ(plain, self.train(None, rows, plan=plan))

    def test_a_resumed_run_goes_on_bit_by_bit(self):
        rows = [[normal(1024, step), normal(1024, 40 + step), normal(1024, 70 + step)] for step in range(6)]
        for codec in ("onebit", "int4"):
            whole = self.train(codec, rows)
            half = self.path(f"half-{codec}")
            self.train(codec, rows, "--checkpoint", half, "--every", 3, stop=3)
            self.same(self.train(codec, rows, "--resume", half), whole, codec)

    def test_a_step_that_overflows_changes_no_state(self):
        n = 2048
        rows = [[normal(n, 10 * step + rank, 0.1) for rank in range(3)] for step in range(3)]
        beyond = [[1e38] + [0.0] * (n - 1), *rows[0][1:]]
        scaled = ["--loss-scale", "dynamic", "--initial-loss-scale", 16, "--momentum", 0.9]
        for codec in ("onebit", "topk"):
            kept = []
            for number, steps in enumerate(([rows[0], rows[1], rows[2]], [rows[0], beyond, rows[1], rows[2]])):
                folder = self.path(f"{codec}-{number}")
                weights = self.train(codec, steps, "--checkpoint", folder, "--every", len(steps), *scaled, dtype="bf16")
                states = self.states(folder)
                self.assertEqual(states["grad_scaler/scale"][0][0], 16 / (1 + number), f"{codec}, {number}")
                kept.append((weights, {name: boxes for name, boxes in states.items() if name.startswith("compression_")}))
            # 16 times 1e38 overflows. That step halves the scale, which is a power of two, so that no other number changes.
            self.same(kept[1][0], kept[0][0], codec)
            self.assertTrue(kept[0][1], codec)
            self.assertEqual(kept[1][1], kept[0][1], codec)

    def test_momentum_comes_first_with_codecs_of_signs(self):
        n = 1024
        rows = [[normal(n, step), [0.0] * n] for step in range(2)]
        moved = self.train("sign", rows, "--allow-biased", "--momentum", 0.9)
        signs = lambda row: [1.0 if x >= 0 else -1.0 for x in row]
        second = [0.9 * a + b for a, b in zip(rows[0][0], rows[1][0])]
        # The second rank's zeros have the sign +1, and the sum of two signs is the vote of both.
        expected = [-(a + 1) - (b + 1) for a, b in zip(signs(rows[0][0]), signs(second))]
        self.same(list(moved), expected)


class Exchanges(CompressionTest):
    def test_the_identity_codec_gives_the_bits_of_the_plain_step(self):
        for ranks in (2, 3, 4):
            rows = [[normal(700, 100 * ranks + 10 * step + rank) for rank in range(ranks)] for step in range(3)]
            for more in ([], ["--no-native"]):
                self.same(self.train("identity", rows, *more, dtype="f32"), self.train(None, rows, *more, dtype="f32"), ranks)

    def test_integers_lose_nothing_in_8_bits(self):
        rnd = random.Random(8)
        row = [float(rnd.randint(-127, 127)) for _ in range(1024)]
        row[::256] = [127.0] * 4
        rows = [[row] * 4]
        self.same(self.train("int8", rows), self.train(None, rows))

    def test_ranks_with_unequal_shares_of_a_batch_count_each_sample_once(self):
        # Three ranks have 9, 9 and 7 of 25 samples. Kerf gathers such a batch before it adds up, so that no sum over ranks is left to code.
        model = """
func.func @main(%x: tensor<25x512xf32> {kerf.kind = "input", kerf.name = "x"}, %w: tensor<512xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> (tensor<f32> {kerf.name = "loss"}) {
  %wide = kerf.broadcast_in_dim %w {broadcast_dimensions = array<i64: 1>} : (tensor<512xf32>) -> tensor<25x512xf32>
  %products = kerf.multiply %wide, %x : (tensor<25x512xf32>, tensor<25x512xf32>) -> tensor<25x512xf32>
  %sum = kerf.reduce %products {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 1>} : (tensor<25x512xf32>) -> tensor<f32>
  %samples = kerf.constant dense<25.0> : tensor<f32>
  %loss = kerf.divide %sum, %samples : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}
"""
        self.write("model.mlir", model)
        samples = [normal(512, number) for number in range(25)]
        flat = [value for sample in samples for value in sample]
        data = write_npz(self.path("x.npz"), {"x": ("<f4", [1, 25, 512], struct.pack(f"<{len(flat)}f", *flat))})
        zeros = write_npz(self.path("w.npz"), {"w": ("<f4", [512], bytes(4 * 512))})
        for codec in ("identity", "bf16"):
            self.write("plan.json", {"kerf": 1, "mesh": {"data": 3, "model": 1}, "arguments": {"x": [["data"], []]}})
            self.succeed("train", self.path("model.mlir"), "--data", data, "--weights", zeros, "--optimizer", "sgd", "--lr", 1, "--ranks", 3, "--all-ranks",
                         "--constraints", self.path("plan.json"), "--compress", f"w={codec}", "--steps", 1, "--save", self.path("out.safetensors"))
            moved = struct.unpack("<512f", read_safetensors(self.path("out.safetensors"))["w"][2])
            for i in range(512):
                self.assertAlmostEqual(-moved[i], sum(sample[i] for sample in samples) / 25, delta=1e-6, msg=codec)

    def test_two_runs_are_equal_and_machine_code_changes_nothing(self):
        rows = [[normal(5000, 10 * step + rank) for rank in range(4)] for step in range(3)]
        for codec in ("int8", "int4", "onebit", "topk", "topk-sampled", "graddrop", "dgc", "randomk", "tbq", "terngrad", "natural"):
            once = self.train(codec, rows)
            self.same(self.train(codec, rows), once, codec)
            self.same(self.train(codec, rows, "--no-native"), once, codec)
            self.differ(self.train(None, rows), once, codec)

    def test_payloads_have_the_bytes_of_the_codec(self):
        n, ranks = 100_000, 4
        self.data([[[0.0] * n] * ranks])
        for codec, (block, size) in BYTES.items():
            self.succeed("compile", self.path("model.mlir"), "--dtype", "f64", "--optimizer", "sgd", "--ranks", ranks, "--all-ranks", "--constraints", self.path("data.json"),
                         "--compress", f"w={codec}", "--allow-biased", "--no-native", "-o", self.path("package"))
            program = json.loads(self.read("package/program.json"))
            sent = {"all_to_all": 0, "all_gather": 0}
            for function in program["functions"]:
                for instruction in function["body"]:
                    if instruction["op"] in sent:
                        dtype, shape = function["values"][instruction["in"][0]].rstrip("]").split("[")
                        bits = {"i8": 8, "bf16": 16, "f16": 16, "i16": 16, "f32": 32}[dtype]
                        sent[instruction["op"]] += math.prod(map(int, shape.split(","))) * bits // 8
            if codec in ("topk", "topk-sampled", "graddrop", "dgc"):
                self.assertEqual(sent, {"all_to_all": 0, "all_gather": math.ceil(n / block) * size}, codec)
            else:
                whole = math.ceil(n / (ranks * block)) * size  # of the part of one rank
                self.assertEqual(sent, {"all_to_all": ranks * whole, "all_gather": whole}, codec)

    def test_all_ranks_have_equal_weights_under_every_codec(self):
        """After four steps the learning rate is 0. In each further step one rank alone has data, so that the loss is that of the rank's own weights."""
        ranks, n, steps = 3, 2048, 4
        probe = normal(n, 99)
        rows = [[normal(n, 10 * step + rank) for rank in range(ranks)] for step in range(steps)]
        rows += [[probe if other == rank else [0.0] * n for other in range(ranks)] for rank in range(ranks)]
        for codec in (*BYTES, "powersgd"):
            weights = self.train(codec, rows, "--allow-biased", "--lr-schedule", "linear", "--total", steps, shape=[64, 32])
            losses = json.loads(self.done.stdout)["losses"][-ranks:]
            self.assertEqual(losses, losses[:1] * ranks, codec)
            self.assertAlmostEqual(losses[0], math.fsum(w * x for w, x in zip(weights, probe)), delta=1e-9 * n, msg=codec)

    def test_only_sums_between_nodes_are_coded(self):
        level = lambda name: {"name": name, "size": 2, "bandwidth": 1e9, "latency": 1e-6}
        cluster = self.write("cluster.json", {"name": "two nodes", "levels": [level("inside"), level("between")],
                                              "device": {"kind": "cpu", "name": "core", "memory_bytes": 10 ** 10, "cores": 1, "memory_bandwidth": 1e10,
                                                         "peak_flops": {"f64": 1e10, "f32": 1e10}}})
        rnd = random.Random(13)
        row = [float(rnd.randint(-127, 127)) for _ in range(1024)]
        row[::256] = [127.0] * 4
        plan = {"compression": {"w*": {"codec": "int8", "hierarchy": True}}}
        expected = self.train(None, [[row] * 4])
        self.same(self.train(None, [[row] * 4], "--cluster", cluster, plan=plan), expected)
        self.succeed("compile", self.path("model.mlir"), "--dtype", "f64", "--cluster", cluster, "--ranks", 4, "--all-ranks", "--constraints",
                     self.path("data.json"), "--no-native", "-o", self.path("package"))
        sent = set()
        for function in json.loads(self.read("package/program.json"))["functions"]:
            for instruction in function["body"]:
                if instruction["op"] in ("reduce_scatter", "all_to_all", "all_gather"):
                    dtype = function["values"][instruction["in"][0]].split("[")[0]
                    sent.add((instruction["op"], dtype, tuple(instruction["attrs"]["axes"])))
        between, inside = (0, 1, 2), (0, 2, 2)
        self.assertEqual(sent, {("reduce_scatter", "f64", inside), ("all_gather", "f64", inside), ("all_to_all", "i8", between), ("all_to_all", "f32", between),
                                ("all_gather", "i8", between), ("all_gather", "f32", between)})

    def test_powersgd_recovers_a_matrix_of_its_rank(self):
        a, b, rank = 48, 40, 4
        rnd = random.Random(12)
        left, right = ([[rnd.gauss(0, 1) for _ in range(rank)] for _ in range(size)] for size in (a, b))
        matrix = [f32(sum(x * y for x, y in zip(row, column))) for row in left for column in right]
        rows = [[matrix, [0.0] * (a * b)]]
        got = self.train("powersgd", rows, shape=[a, b])
        for x, y in zip(matrix, got):
            self.assertAlmostEqual(x, -y, delta=1e-4)
        # With a smaller rank, error feedback and the warm start bring the rest in further steps.
        once = self.train("powersgd-2", rows, shape=[a, b])
        often = self.train("powersgd-2", rows, shape=[a, b], repeats=30)
        size = math.sqrt(sum(x * x for x in matrix))
        self.assertGreater(math.dist([-y for y in once], matrix), 0.1 * size)
        self.assertLess(math.dist([-y / 30 for y in often], matrix), 0.1 * size)

    def test_every_plan_sums_the_same_numbers(self):
        """The identity codec on a GPT-2: each way in which a plan sums gradients has the losses of the plain plan."""
        for plan, more in (({"data": 4, "model": 1}, []), ({"data": 2, "model": 2}, []), ({"stage": 2, "data": 2, "model": 1}, []),
                           ({"data": 2, "model": 1}, ["--dtype", "f16", "--momentum", 0.9])):
            for sharding in ((0, 2, 3) if more else (0,)):
                ranks = math.prod(plan.values())
                file = self.write("plan.json", {"kerf": 1, "mesh": plan, "microbatch": 2, "optimizer_sharding": sharding})
                losses = []
                for compress in ([], ["--compress", "*.*=identity"]):
                    done = self.succeed("train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--ranks", ranks, "--all-ranks", "--constraints",
                                        file, "--steps", 3, "--lr", 0.1, "--json", *more, *compress)
                    losses.append(json.loads(done.stdout)["losses"])
                self.assertEqual(*losses, f"{plan}, sharding {sharding}, {more}")


class OwnCodecs(CompressionTest):
    """A codec in a file: four levels between the smallest and the largest element of a block, as CompLL's TernGrad has."""

    TEXT = """module @affine2 attributes {kerf.codec = {block = 1024 : i64}} {
  func.func @encode(%x: tensor<1024xf32>, %key: tensor<i32>) -> (tensor<256xi8>, tensor<f32>, tensor<f32>) {
    %low = kerf.reduce %x {kind = #kerf<reduce_kind min>, dimensions = array<i64: 0>} : (tensor<1024xf32>) -> tensor<f32>
    %high = kerf.reduce %x {kind = #kerf<reduce_kind max>, dimensions = array<i64: 0>} : (tensor<1024xf32>) -> tensor<f32>
    %range = kerf.subtract %high, %low : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %three = kerf.constant dense<3.0> : tensor<f32>
    %gap = kerf.divide %range, %three : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %lows = kerf.broadcast_in_dim %low {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1024xf32>
    %gaps = kerf.broadcast_in_dim %gap {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1024xf32>
    %above = kerf.subtract %x, %lows : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %level = kerf.divide %above, %gaps : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %keys = kerf.broadcast_in_dim %key {broadcast_dimensions = array<i64>} : (tensor<i32>) -> tensor<1024xi32>
    %u = kerf.random %keys : (tensor<1024xi32>) -> tensor<1024xf32>
    %less = kerf.subtract %level, %u : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %whole = kerf.ceil %less : (tensor<1024xf32>) -> tensor<1024xf32>
    %codes = kerf.convert %whole : (tensor<1024xf32>) -> tensor<1024xi8>
    %packed = kerf.pack %codes {bits = 2 : i64} : (tensor<1024xi8>) -> tensor<256xi8>
    return %packed, %low, %gap : tensor<256xi8>, tensor<f32>, tensor<f32>
  }
  func.func @decode(%packed: tensor<256xi8>, %low: tensor<f32>, %gap: tensor<f32>) -> tensor<1024xf32> {
    %codes = kerf.unpack %packed {bits = 2 : i64} : (tensor<256xi8>) -> tensor<1024xi8>
    %level = kerf.convert %codes : (tensor<1024xi8>) -> tensor<1024xf32>
    %gaps = kerf.broadcast_in_dim %gap {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1024xf32>
    %lows = kerf.broadcast_in_dim %low {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<1024xf32>
    %above = kerf.multiply %level, %gaps : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    %x = kerf.add %above, %lows : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
    return %x : tensor<1024xf32>
  }
}
"""

    def test_a_codec_of_30_lines(self):
        self.assertLessEqual(len(self.TEXT.splitlines()), 30)
        file = self.write("affine2.mlir", self.TEXT)
        row = normal(2048, 9)
        got = self.decoded("affine2", row, "--codec", file)
        for begin in (0, 1024):
            block = row[begin:begin + 1024]
            low, gap = min(block), f32(f32(max(block) - min(block)) / 3)
            levels = [f32(f32(code * gap) + low) for code in range(4)]
            for x, y in zip(block, got[begin:begin + 1024]):
                self.assertIn(y, levels)
                self.assertLessEqual(abs(x - y), gap * (1 + 1e-6))
        steps, n = 400, 1024
        means = [-value / steps for value in self.train("affine2", [[row[:n], [0.0] * n]], "--codec", file, repeats=steps)]
        gap = (max(row[:n]) - min(row[:n])) / 3
        for x, mean in zip(row, means):
            self.assertLessEqual(abs(mean - x), 5 * gap / 2 / math.sqrt(steps))

    def test_a_file_that_is_no_codec_is_refused(self):
        data = self.data([[normal(1024, 1), normal(1024, 2)]])
        for change, words in (
                (("block = 1024 : i64", "size = 1024 : i64"), ["kerf.codec = {block = N : i64}"]),
                (("{block = 1024 : i64}", "{block = 1024 : i64, unbiased}"), ["'unbiased'", "biased, no_feedback"]),
                (("kerf.ceil", "kerf.cell"), ["affine2", "cell"]),
                (("func.func @decode", "func.func @undo"), ["no function @decode"]),
                (("block = 1024", "block = 512"), ["@encode takes a block of type tensor<512xf32>"]),
                (("%whole = kerf.ceil %less : (tensor<1024xf32>) -> tensor<1024xf32>",
                  "%whole = kerf.softmax %less {dimension = 0 : i64} : (tensor<1024xf32>) -> tensor<1024xf32>"), ["kerf.softmax", "elementwise"])):
            self.assertIn(change[0], self.TEXT)
            file = self.write("wrong.mlir", self.TEXT.replace(*change))
            self.refuse(1, words, "train", self.path("model.mlir"), "--data", data, "--ranks", 2, "--dtype", "f64", "--compress", "w=affine2", "--codec", file)


class Rules(CompressionTest):
    def refusal(self, words, *options):
        data = self.data([[normal(1024, 1), normal(1024, 2)]])
        self.refuse(1, words, "train", self.path("model.mlir"), "--data", data, "--ranks", 2, "--all-ranks", "--constraints", self.path("data.json"), "--dtype", "f64", *options)

    def test_what_would_not_train_is_refused(self):
        self.refusal(["no codec 'int9'", "int8", "--codec"], "--compress", "w=int9")
        self.refusal(["biased", "--allow-biased"], "--compress", "w=sign")
        self.refusal(["adamw", "squares", "int8"], "--compress", "w=topk", "--optimizer", "adamw")
        self.refusal(["momentum", "lion"], "--compress", "w=onebit", "--optimizer", "lion")
        self.refusal(["Nesterov"], "--compress", "w=onebit", "--momentum", "0.9", "--nesterov")
        self.refusal(["needs a matrix"], "--compress", "w=powersgd")
        self.refusal(["neither CODEC nor GLOB=CODEC"], "--compress", "w=")

    def test_small_gradients_are_not_compressed_unless_named(self):
        rows = [[normal(1024, 1), normal(1024, 2)]]
        plain = self.train(None, rows)
        self.same(self.train(None, rows, "--compress", "int4"), plain)
        self.assertIn("compresses no gradient", self.done.stderr)
        self.same(self.train(None, rows, "--compress", "w=none", "--compress", "*=int4"), plain)
        self.differ(self.train("int4", rows), plain)

    def test_a_plan_may_say_it(self):
        rows = [[normal(1024, 1), normal(1024, 2)]]
        by_plan = self.train(None, rows, plan={"compression": {"w*": {"codec": "int4", "scheme": "two-stage"}}})
        self.differ(by_plan, self.train(None, rows))
        self.differ(by_plan, self.train("int4", rows), "two ranks gather, unless a plan says two-stage")


if __name__ == "__main__":
    main()
