#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is written into IR by hand: device programs run as they are (--mode hybrid), strategies of ops are pins."""
import json
import re
import struct

from support import KerfTest, file_of, losses_of, main, write_npz

# Two ranks, two of four samples each: loss = mean of x w, so that w falls by the rate times the mean of x.
PROGRAM = """
module {
  kerf.mesh @mesh #kerf.mesh<"data"=2>
  func.func @main(%x: tensor<2x3xf32> {kerf.name = "x", kerf.kind = "input", kerf.global_type = tensor<4x3xf32>,
                                       kerf.sharding = #kerf.sharding<[{"data"}, {}]>},
                  %w: tensor<3xf32> {kerf.name = "w", kerf.kind = "parameter", kerf.trainable, kerf.updated_by = 1 : i64},
                  %lr: tensor<f32> {kerf.name = "learning_rate", kerf.kind = "learning_rate"}) -> (tensor<f32> {kerf.name = "loss"}, tensor<3xf32>) {
    %share = kerf.constant dense<0.25> : tensor<2xf32>
    %y = kerf.dot_general %x, %w {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 1>,
        rhs_contracting = array<i64: 0>} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
    %z = kerf.multiply %y, %share : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %part = kerf.reduce %z {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
    %p = kerf.all_reduce %part {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "comm", cause = "loss"}
        : (tensor<f32>) -> !kerf.pending<tensor<f32>>
    %loss = kerf.wait %p : (!kerf.pending<tensor<f32>>) -> tensor<f32>
    %g = kerf.dot_general %share, %x {lhs_batching = array<i64>, rhs_batching = array<i64>, lhs_contracting = array<i64: 0>,
        rhs_contracting = array<i64: 0>} : (tensor<2xf32>, tensor<2x3xf32>) -> tensor<3xf32>
    %q = kerf.all_reduce %g {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "comm", cause = "gradient"}
        : (tensor<3xf32>) -> !kerf.pending<tensor<3xf32>>
    %sum = kerf.wait %q : (!kerf.pending<tensor<3xf32>>) -> tensor<3xf32>
    %new = kerf.map(%w, %sum, %lr) {kerf.update = "w"} : (tensor<3xf32>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32> {
    ^bb0(%one: tensor<f32>, %slope: tensor<f32>, %rate: tensor<f32>):
      %step = kerf.multiply %rate, %slope : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %next = kerf.subtract %one, %step : (tensor<f32>, tensor<f32>) -> tensor<f32>
      kerf.yield %next : tensor<f32>
    }
    return %loss, %new : tensor<f32>, tensor<3xf32>
  }
}
"""
LAYERS = {"kerf": 1, "mesh": {"stage": 2, "data": 2}, "microbatch": 1, "optimizer_sharding": 1, "schedule": {"name": "1f1b"}}


class ByHand(KerfTest):
    def test_a_program_from_nothing(self):
        program = self.write("program.mlir", PROGRAM)
        x = [[1.0, 2.0, 3.0], [0.5, -1.0, 4.0], [2.0, 0.0, -3.0], [-1.5, 1.0, 2.0]]
        weights = [0.5, 0.25, -0.125]
        write_npz(self.path("data.npz"), {"x": ("<f4", (1, 4, 3), struct.pack("<12f", *sum(x, [])))})
        write_npz(self.path("w.npz"), {"w": ("<f4", (3,), struct.pack("<3f", *weights))})
        self.succeed("train", program, "--mode", "hybrid", "--weights", self.path("w.npz"), "--data", self.path("data.npz"), "--steps", 3, "--lr", "0.5",
                     "--log", self.path("log"))
        mean, wanted = [sum(column) / 4 for column in zip(*x)], []
        for _ in range(3):
            wanted.append(sum(w * m for w, m in zip(weights, mean)))
            weights = [w - 0.5 * m for w, m in zip(weights, mean)]
        self.close(losses_of(self.path("log")), wanted, 1e-6, "three steps by hand")

    def test_what_compile_writes_runs_as_it_is(self):
        for name, plan in (("op by op", {"kerf": 1, "mesh": {"data": 2, "model": 2}}), ("pipeline", LAYERS)):
            plan = self.write("plan.json", plan)
            options = ("--steps", 3, "--lr", "0.1", "--data", file_of("llama", "batches.npz"))
            self.succeed("compile", file_of("llama"), "--ranks", 4, "--plan", plan, "-o", self.path("one"), "--device-ir", self.path("device.mlir"))
            self.succeed("compile", self.path("device.mlir"), "--mode", "hybrid", "-o", self.path("other"))
            programs = []
            for package in ("one", "other"):
                with open(self.path(package + "/program.json")) as file:
                    programs.append({key: value for key, value in json.load(file).items() if key != "info"})
                self.succeed("run", self.path(package), *options, "--log", self.path(package + ".log"))
            self.assertEqual(programs[0], programs[1], name)
            self.assertEqual(losses_of(self.path("one.log")), losses_of(self.path("other.log")), name)

    def test_bad_programs(self):
        def refuse(words, text, *more):
            self.refuse(1, words, "compile", self.write("bad.mlir", text), "--mode", "hybrid", "-o", self.path("package"), *more)

        refuse(["kerf.mesh", "--device-ir"], re.sub("kerf.mesh.*", "", PROGRAM))
        refuse(["2 ranks", "--ranks 2"], PROGRAM, "--ranks", 1)
        refuse(["sharding"], PROGRAM.replace('[{"data"}, {}]', '[{"model"}, {}]'))
        refuse(["tensor<3xf32>"], PROGRAM.replace("tensor<f32>, tensor<3xf32>\n", "tensor<f32>, tensor<f32>\n"))
        refuse(["kerf.schedule"], PROGRAM.replace("module {", "module attributes {kerf.schedule = 3 : i64} {"))
        refuse(["schedule", "stage"], PROGRAM.replace("module {", 'module attributes {kerf.schedule = {name = "gpipes", variant = "", chunks = 1 : i64}} {'))
        refuse(["x"], PROGRAM.replace("tensor<4x3xf32>", "tensor<5x3xf32>"))
        refuse(["x", "kerf.global_type"], PROGRAM.replace("kerf.global_type = tensor<4x3xf32>", "kerf.global_type = index"))
        refuse(["axes"], PROGRAM.replace("array<i64: 0, 1, 2>, kind", "array<i64: 7, 1, 2>, kind"))
        refuse(["index"], PROGRAM.replace("%lr: tensor<f32>", "%lr: index"))
        refuse(["updated by result 9"], PROGRAM.replace("kerf.updated_by = 1", "kerf.updated_by = 9"))
        good = self.write("program.mlir", PROGRAM)
        self.refuse(1, ["--mode hybrid", "--plan"], "compile", good, "--mode", "hybrid", "--plan", "plan.json", "-o", self.path("package"))
        self.refuse(1, ["--mode hybrid", "device.mlir"], "compile", file_of("mlp"), "--mode", "hybrid", "-o", self.path("package"))
        self.refuse(1, ["--mode hybrid", "searches no plan"], "plan", good, "--mode", "hybrid")
        self.refuse(1, ["--device-ir"], "compile", good, "--mode", "hybrid", "-o", self.path("package"), "--device-ir", self.path("again.mlir"))

    def test_annotations_are_pins(self):
        self.succeed("import", file_of("mlp"), "-o", self.path("model.mlir"))
        with open(self.path("model.mlir")) as file:
            text = file.read()
        products = [line for line in text.splitlines() if "kerf.dot_general" in line]
        name = re.search(r"loc\((#loc\d+)\)", products[0])[1]
        name = re.search(re.escape(name) + r' = loc\("([^"]*)"', text)[1]
        mesh = {"kerf": 1, "mesh": {"data": 1, "model": 2}}

        def plan(model, constraints):
            return json.loads(self.succeed("plan", model, "--ranks", 2, "--constraints", self.write("pins.json", constraints), "--json").stdout)

        def strategy_of(plan):
            return next(op["strategy"] for key, op in plan["ops"].items() if key.startswith(name.rsplit("/", 1)[0]) and "dot_general" in key
                        and "@" not in key)

        for factor in ("n", "k"):
            pinned = products[0].replace(" {lhs_batching", f' {{kerf.strategy = {{model = "{factor}"}}, lhs_batching')
            annotated = self.write("annotated.mlir", text.replace(products[0], pinned))
            self.assertEqual(strategy_of(plan(annotated, mesh)), {factor: ["model"]})
            # A pin of the plan counts before it.
            over = dict(mesh, ops={"*/dot_general": {"strategy": {}}})
            self.assertEqual(strategy_of(plan(annotated, over)), {})
            self.succeed("train", annotated, "--ranks", 2, "--constraints", self.write("pins.json", mesh), "--steps", 3, "--data",
                         file_of("mlp", "batches.npz"), "--log", self.path(factor))
        self.close(losses_of(self.path("n")), losses_of(self.path("k")), 1e-5, "two strategies")
        argument = text.replace('kerf.name = "up.weight"', 'kerf.name = "up.weight", kerf.sharding = #kerf.sharding<[{"model"}, {}]>')
        self.assertEqual(plan(self.write("annotated.mlir", argument), mesh)["arguments"]["up.weight"], [["model"], []])
        for words, broken in ((["kerf.strategy", "AXIS"], products[0].replace(" {lhs_b", " {kerf.strategy = 3 : i64, lhs_b")),
                              (["other"], products[0].replace(" {lhs_b", ' {kerf.strategy = {other = "n"}, lhs_b')),
                              (["q"], products[0].replace(" {lhs_b", ' {kerf.strategy = {model = "q"}, lhs_b'))):
            self.refuse(1, words, "plan", self.write("bad.mlir", text.replace(products[0], broken)), "--ranks", 2, "--constraints",
                        self.write("pins.json", mesh))
        part = text.replace('kerf.name = "up.weight"', 'kerf.name = "up.weight", kerf.sharding = #kerf.sharding<[{"model":(1)2}, {}]>')
        self.refuse(1, ["up.weight", "whole mesh axes"], "plan", self.write("bad.mlir", part), "--ranks", 2)


if __name__ == "__main__":
    main()
