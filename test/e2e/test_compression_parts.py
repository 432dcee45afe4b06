#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compressed gradients in pieces, training that compresses from some step on, sampled codecs, 1-bit Adam and 0/1 Adam."""
import json
import math
import unittest

from support import file_of, main
from test_compression import CompressionTest, f32, normal


class Parts(CompressionTest):
    def compression(self, codec, **more):
        return {"compression": {"w": {"codec": codec, **more}}}

    def instructions(self, *optimizer):
        """The instructions of the entry function of a package."""
        self.succeed("compile", self.path("model.mlir"), *(optimizer or ("--optimizer", "sgd")), "--ranks", 4, "--all-ranks", "--constraints", self.path("data.json"), "--no-native",
                     "-o", self.path("package"))
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
            shares = [[f32(f32(0.45) * v + x) for v, x in zip(velocity, row)] for row in rows[step]]  # of each rank
            if step == 2:
                sizes = [math.fsum(map(abs, share)) / 1024 for share in shares]
                shares = [[math.copysign(size, x) for x in share] for size, share in zip(sizes, shares)]
            velocity = [x + y for x, y in zip(*shares)]
            expected = [w - v for w, v in zip(expected, velocity)]
        for x, y in zip(got, expected):
            self.assertAlmostEqual(x, y, delta=1e-4)

    def test_collectives_rest_in_the_other_batches(self):
        self.data([[[0.0] * 5000] * 4], dtype="f32")
        self.write("data.json", {**json.loads(self.read("data.json")), **self.compression("int8", first_step=7)})
        found = {(instruction["op"], tuple(instruction["attrs"]["batches"])) for instruction in self.instructions() if "batches" in instruction.get("attrs", {})}
        self.assertEqual(found, {("all_reduce", (0, 7, 1, 1)), ("all_to_all", (7, 2 ** 63 - 1, 1, 1)), ("all_gather", (7, 2 ** 63 - 1, 1, 1))})


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


class ZeroOneAdam(Parts):
    """The loss is the sum of w * x * (w * x - 2), so that the gradient of a rank depends on where its local steps have moved w."""

    MODEL = """
func.func @main(%x: tensor<{rows}x{w}x{t}> {{kerf.kind = "input", kerf.name = "x"}},
                %w: tensor<{w}x{t}> {{kerf.kind = "parameter", kerf.name = "w", kerf.trainable}}) -> (tensor<{t}> {{kerf.name = "loss"}}) {{
  %wide = kerf.broadcast_in_dim %w {{broadcast_dimensions = array<i64: {dims}>}} : (tensor<{w}x{t}>) -> tensor<{rows}x{w}x{t}>
  %products = kerf.multiply %wide, %x : (tensor<{rows}x{w}x{t}>, tensor<{rows}x{w}x{t}>) -> tensor<{rows}x{w}x{t}>
  %two = kerf.constant dense<2.0> : tensor<{t}>
  %twos = kerf.broadcast_in_dim %two {{broadcast_dimensions = array<i64>}} : (tensor<{t}>) -> tensor<{rows}x{w}x{t}>
  %less = kerf.subtract %products, %twos : (tensor<{rows}x{w}x{t}>, tensor<{rows}x{w}x{t}>) -> tensor<{rows}x{w}x{t}>
  %squares = kerf.multiply %products, %less : (tensor<{rows}x{w}x{t}>, tensor<{rows}x{w}x{t}>) -> tensor<{rows}x{w}x{t}>
  %loss = kerf.reduce %squares {{kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, {dims}>}} : (tensor<{rows}x{w}x{t}>) -> tensor<{t}>
  return %loss : tensor<{t}>
}}
"""
    STEPS, FREEZE, UPDATES, LOCAL, LONGEST = 24, 9, 2, 4, 4
    # The last sum of local steps is that of batch 20, so that the run ends in the middle of an interval.
    SETTINGS = ("--optimizer", "zero-one-adam", "--eps", 1e-6, "--freeze-step", FREEZE, "--var-update-scaler", UPDATES, "--local-step-scaler", LOCAL,
                "--local-step-clipper", LONGEST)
    OPTIONS = ("--lr", 0.05, "--lr-schedule", "linear", "--total", STEPS, *SETTINGS)

    def rows(self, ranks, steps=STEPS, n=1024):
        return [[normal(n, 100 * step + rank) for rank in range(ranks)] for step in range(steps)]

    def schedule(self, steps, freeze=FREEZE):
        """The batches that sum plainly, and all that sum."""
        plain, sums, batch = set(), set(range(freeze)), 0
        while batch < freeze:
            distance = 2 ** (len(plain) // self.UPDATES)
            plain.add(batch)
            batch += distance
        begin = end = freeze
        distance = 1
        while end < steps:
            end += distance
            sums.add(end - 1)
            if end - begin >= self.LOCAL:
                begin, distance = end, min(2 * distance, self.LONGEST)
        return plain, sums

    def reference(self, rows, compress=True, code=None, freeze=FREEZE, wrong=None, b1=0.9, b2=0.999, eps=1e-6):
        """Algorithm 1 of the paper with Adam's corrections of the start: the weights and the loss of each step. `code` encodes and decodes a rank's sum of moves."""
        ranks, n = len(rows[0]), len(rows[0][0])
        plain, sums = self.schedule(len(rows), freeze)
        w, m, v = [0.0] * n, [0.0] * n, [0.0] * n
        own, moves, errors = [[0.0] * n for _ in range(ranks)], [[0.0] * n for _ in range(ranks)], [[0.0] * n for _ in range(ranks)]
        rates, updates, losses = 0.0, 0, []
        for step, xs in enumerate(rows):
            rate = 0.05 * (1 - step / self.STEPS)
            divisors = lambda: [(1 - b1 ** (step + 1)) * (math.sqrt(a / (1 - b2 ** max(updates, 1))) + eps) if a > 0 else math.inf for a in v]
            d = [1.0] * n if wrong == "divisor" else divisors()
            seen = [[w[i] - u[i] / d[i] for i in range(n)] for u in moves]
            losses.append(math.fsum(y[i] * x[i] * (y[i] * x[i] - 2) for y, x in zip(seen, xs) for i in range(n)))
            gradients = [[2 * (y[i] * x[i] - 1) * x[i] for i in range(n)] for y, x in zip(seen, xs)]
            together = [math.fsum(g[i] for g in gradients) for i in range(n)]
            if step in plain:
                updates += 1
                v = [b2 * a + (1 - b2) * g * g for a, g in zip(v, together)]
            if step in plain or not compress:
                m = [b1 * a + (1 - b1) * g for a, g in zip(m, together)]
                own = [list(m) for _ in range(ranks)]
                w = [a - rate * b / c for a, b, c in zip(w, m, divisors())]
                continue
            rates += rate
            for rank in range(ranks):
                own[rank] = [b1 * a + (1 - b1) * ranks * g for a, g in zip(own[rank], gradients[rank])]
                moves[rank] = [a + rate * b for a, b in zip(moves[rank], own[rank])]
            if step not in sums:
                continue
            sent = [[a + b for a, b in zip(moves[rank], errors[rank])] for rank in range(ranks)]
            arrived = [code(x) if code else x for x in sent]
            errors = [[a - b for a, b in zip(x, y)] for x, y in zip(sent, arrived)]
            mean = [math.fsum(x[i] for x in arrived) / ranks for i in range(n)]
            m, w = [a / rates for a in mean], [a - b / c for a, b, c in zip(w, mean, divisors())]
            own, rates = [list(m) for _ in range(ranks)], 0.0
            if wrong != "reset":
                moves = [[0.0] * n for _ in range(ranks)]
        return w, losses

    def near(self, weights, losses, expected, what):
        for i, (x, y) in enumerate(zip(weights, expected[0])):
            self.assertAlmostEqual(x, y, delta=2e-6, msg=f"{what}, weight {i}")
        for step, (x, y) in enumerate(zip(losses, expected[1])):
            self.assertAlmostEqual(x, y, delta=2e-6 * len(weights), msg=f"{what}, loss {step}")

    def trained(self, *args, **more):
        weights = self.train(*args, **{"optimizer": self.OPTIONS, **more})
        return weights, json.loads(self.done.stdout)["losses"]

    def test_the_formula_through_the_identity_codec(self):
        for ranks, more in ((2, {}), (2, {"scheme": "two-stage"}), (4, {}), (4, {"pieces": 2})):
            rows = self.rows(ranks)
            expected = self.reference(rows)
            self.near(*self.trained(None, rows, plan=self.compression("identity", **more)), expected, f"{ranks} ranks, {more}")
        for wrong in ({"freeze": self.FREEZE + 1}, {"freeze": self.FREEZE - 1}, {"wrong": "divisor"}, {"wrong": "reset"}, {"compress": False}):
            others = self.reference(rows, **wrong)
            self.assertGreater(max(abs(a - b) for a, b in zip(others[0], expected[0])), 1e-4, wrong)
            self.assertGreater(max(abs(a - b) for a, b in zip(others[1], expected[1])), 2e-5 * len(expected[0]), wrong)

    def test_moves_go_in_one_bit_with_error_feedback(self):
        def onebit(x):
            size = math.fsum(map(abs, x)) / len(x)
            return [math.copysign(size, a) if a else size for a in x]
        rows = self.rows(2)
        weights, losses = self.trained("onebit", rows)
        expected = self.reference(rows, code=onebit)
        for x, y in zip(weights, expected[0]):
            self.assertAlmostEqual(x, y, delta=1e-4)
        for x, y in zip(losses, expected[1]):
            self.assertAlmostEqual(x, y, delta=1e-4 * len(weights))
        self.assertGreater(math.dist(expected[0], self.reference(rows)[0]), 0.1)

    def test_without_compression_it_is_adam_whose_divisor_follows_at_growing_distances(self):
        rows = self.rows(2)
        weights, losses = self.trained(None, rows)
        expected = self.reference(rows, compress=False)
        for x, y in zip((*weights, *losses), (*expected[0], *expected[1])):
            self.assertAlmostEqual(x, y, delta=1e-9 * max(1, abs(y)))

    def test_one_rank_takes_no_local_steps(self):
        coded, plain = (self.trained(codec, self.rows(1), plan={"arguments": {}}) for codec in ("onebit", None))
        self.same(coded[0], plain[0])
        self.same(coded[1], plain[1])

    def test_all_ranks_have_equal_weights(self):
        """From step 24 on the rate is 0. After the next sum no rank has moved, and in each further step one rank alone has data: its loss is that of its weights."""
        ranks, n, probe = 3, 1024, normal(1024, 99)
        zeros = [0.0] * n
        rows = self.rows(ranks) + [[zeros] * ranks] * self.LONGEST + [[probe if other == rank else zeros for other in range(ranks)] for rank in range(ranks)]
        for codec in ("onebit", "int4", "topk", "powersgd"):
            losses = self.trained(codec, rows, shape=[32, 32])[1]
            self.assertEqual(losses[-ranks:], losses[-1:] * ranks, codec)
            self.assertTrue(all(math.isfinite(loss) for loss in losses), codec)

    def test_a_run_that_resumes_between_two_sums_goes_on_bit_by_bit(self):
        rows = self.rows(3)
        sums = self.schedule(self.STEPS)[1]
        self.assertTrue({18, 19, 22, 23}.isdisjoint(sums) and 20 in sums, sums)
        for codec in ("onebit", "int4"):
            whole = self.train(codec, rows, optimizer=self.OPTIONS)
            for stop in (5, 19, 22):
                half = self.path(f"half-{codec}-{stop}")
                self.train(codec, rows, "--checkpoint", half, "--every", stop, stop=stop, optimizer=self.OPTIONS)
                self.same(self.train(codec, rows, "--resume", half, optimizer=self.OPTIONS), whole, f"{codec}, {stop}")
                states = self.states(half)
                self.assertEqual(any(any(box) for box in states["compression_moves/w"]), stop != 5, codec)
        fewer = self.rows(2)
        done = self.train("onebit", fewer, "--resume", half, optimizer=self.OPTIONS), self.done
        self.assertIn("start as zeros", done[1].stderr + done[1].stdout)
        self.assertTrue(all(math.isfinite(x) for x in done[0]))

    def test_the_rate_of_a_group_counts(self):
        rows = self.rows(2)
        expected = self.train("identity", rows, optimizer=self.OPTIONS)
        got = self.train("identity", rows, "--group", "w:lr=0.05", optimizer=("--lr", 0.01, *self.OPTIONS[2:]))
        for x, y in zip(got, expected):
            self.assertAlmostEqual(x, y, delta=2e-6)

    def test_collectives_run_in_their_batches(self):
        self.data([[[0.0] * 5000] * 4], dtype="f32")
        self.write("data.json", {**json.loads(self.read("data.json")), **self.compression("int8")})
        plain, sums = (batches & set(range(60)) for batches in self.schedule(60))
        found = {}
        for instruction in self.instructions(*self.SETTINGS):
            numbers = instruction.get("attrs", {}).get("batches")
            if numbers:
                ranges = [numbers[i:i + 4] for i in range(0, len(numbers), 4)]
                found[instruction["op"]] = {batch for batch in range(60) if any(b <= batch < e and (batch - b) % every < run for b, e, every, run in ranges)}
        self.assertEqual(found, {"all_reduce": plain, "all_to_all": sums - plain, "all_gather": sums - plain})

    def test_a_mesh_of_data_and_model_has_the_losses_of_data_alone(self):
        """GPT-2, where each rank has a part of a matrix. Between nodes, in pieces and over stages the sums are the same."""
        options = ["--optimizer", "zero-one-adam", "--lr", 1e-3, "--freeze-step", 3, "--var-update-scaler", 1, "--local-step-scaler", 2, "--local-step-clipper", 3]
        level = lambda name: {"name": name, "size": 2, "bandwidth": 1e9, "latency": 1e-6}
        cluster = self.write("cluster.json", {"name": "two nodes", "levels": [level("inside"), level("between")],
                                              "device": {"kind": "cpu", "name": "core", "memory_bytes": 10 ** 10, "cores": 1, "memory_bandwidth": 1e10,
                                                         "peak_flops": {"f64": 1e10, "f32": 1e10}}})
        losses = {}
        for name, mesh, more, where in (("data", {"data": 2, "model": 1}, {}, []), ("model", {"data": 2, "model": 2}, {}, []),
                                        ("stages", {"stage": 2, "data": 2, "model": 1}, {}, []), ("data 4", {"data": 4, "model": 1}, {}, ["--cluster", cluster]),
                                        ("hierarchy", {"data": 4, "model": 1}, {"hierarchy": True}, ["--cluster", cluster])):
            plan = self.write("plan.json", {"kerf": 1, "mesh": mesh, "microbatch": 2, "optimizer_sharding": 0, "compression": {"*.weight": {"codec": "identity", **more}}})
            done = self.succeed("train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--ranks", math.prod(mesh.values()), "--all-ranks", "--constraints", plan,
                                "--steps", 12, "--json", *options, *where)
            losses[name] = json.loads(done.stdout)["losses"]
        for name, other in (("model", "data"), ("stages", "data"), ("hierarchy", "data 4")):
            for x, y in zip(losses[name], losses[other]):
                self.assertAlmostEqual(x, y, delta=2e-5 * y, msg=name)

    def test_what_does_not_fit_is_refused(self):
        data = self.data([[normal(1024, 1), normal(1024, 2)]])
        for plan, more, words in (({}, ["--accumulate", 2], ["zero-one-adam", "accumulate"]), ({"optimizer_sharding": 1}, [], ["mean", "optimizer sharding 0"]),
                                  ({}, ["--clip-norm", 1], ["--clip-norm is 1", "--local-step-clipper 1"]),
                                  ({}, ["--gradient-norms", self.path("norms.csv")], ["--gradient-norms", "--local-step-clipper 1"]),
                                  ({}, ["--dtype", "f16", "--loss-scale", "dynamic"], ["--loss-scale", "--optimizer onebit-adam"]),
                                  (self.compression("onebit", first_step=5), [], ["first_step is 5", "first 2 steps"])):
            self.write("data.json", {**json.loads(self.read("data.json")), "optimizer_sharding": 0, "compression": {}, **plan})
            compress = [] if "compression" in plan else ["--compress", "w=onebit"]
            self.refuse(1, words, "train", self.path("model.mlir"), "--data", data, "--ranks", 2, "--all-ranks", "--constraints", self.path("data.json"),
                        *([] if "--dtype" in more else ["--dtype", "f64"]), *compress, *self.OPTIONS, *more)
        for more in (["--clip-norm", 1], ["--gradient-norms", self.path("norms.csv")]):
            self.train("onebit", self.rows(2, steps=1), *more, "--local-step-clipper", 1, optimizer=self.OPTIONS[:-2])


if __name__ == "__main__":
    main()
