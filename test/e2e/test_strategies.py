# SPDX-License-Identifier: Apache-2.0
"""Every op under every strategy of its rule: the example of each op in docs/operators.md is trained alone (floating operands as parameters, so
that its gradient counts) with one factor of its rule cut over 2, 3 and 4 ranks, and with two factors over 2 x 2, against one rank.

`test_strategies.py [--all]`: without --all three strategies of each op. Nothing is listed by hand: ops and types come from the page, factors from
what kerf says to a factor that is not there. A strategy may be refused (a parameter is never a partial sum), never give other numbers.
"""
import concurrent.futures
import itertools
import math
import os
import random
import re
import struct
import sys
import tempfile
import unittest

from support import ROOT, KerfTest, kerf, write_npz

ALL = "--all" in sys.argv and bool(sys.argv.remove("--all") or True)
STEPS = 2
TOLERANCE = 1e-9
FEW = 3  # strategies of an op without --all
DTYPES = {"f64": ("<f8", "d"), "i64": ("<i8", "q"), "i32": ("<i4", "i"), "i1": ("|b1", "?")}


def examples():
    """(op, its line) of every op with a sharding rule and operands."""
    with open(os.path.join(ROOT, "docs", "operators.md")) as file:
        page = file.read()
    for op, text in re.findall(r"^### `kerf\.(\w+)`(.*?)(?=^### |\Z)", page, re.MULTILINE | re.DOTALL):
        lines = re.findall(rf"^%[^\n]* = kerf\.{op} %[^\n]*(?:\n[^\n]+)*?(?=\n```|\n%)", text, re.MULTILINE)
        if "ShardingRuleOpInterface" in text and lines:
            yield op, " ".join(lines[-1].split())


def types_of(text):
    return re.findall(r"tensor<(?:[^<>]|<[^<>]*>)*>", text)


def shape_of(tensor):
    """(sizes, element type) of "tensor<4x8xf64>"."""
    *sizes, element = tensor[len("tensor<"):-1].split("x")
    return [int(size) for size in sizes], element


class Case:
    """A model of one op."""

    def __init__(self, op, line, element, trains, folder):
        match = re.match(r"(?P<results>%[^=]*) = kerf\.\w+ (?P<operands>[^{:]*)(?P<attributes>\{.*\})? ?: ?\((?P<types>.*?)\) -> (?P<made>.*)$",
                         line.replace("f32", element))
        self.op, self.folder = op, folder
        rnd = random.Random(op)
        operands = [name.strip() for name in match["operands"].split(",") if name.strip()]
        arguments, data, weights, body = {}, {}, {}, []
        for name, tensor in zip(operands, types_of(match["types"]), strict=True):
            arguments.setdefault(name, tensor)
        results = [name.strip() for name in match["results"].split(",")]
        made = types_of(match["made"])
        for at, tensor in enumerate(made):  # what the loss weighs the results by
            arguments[f"%weight{at}"] = f"tensor<{'x'.join([*map(str, shape_of(tensor)[0]), 'f64'])}>"
        arguments["%other"] = "tensor<1xf64>"
        said = []
        for name, tensor in arguments.items():
            sizes, element = shape_of(tensor)
            is_parameter = element == "f64" and not name.startswith("%weight") and (trains or name == "%other")
            kind = 'kerf.kind = "parameter", kerf.trainable' if is_parameter else 'kerf.kind = "input"'
            said.append(f'{name}: {tensor} {{{kind}, kerf.name = "{name[1:]}"}}')
            shape = sizes if is_parameter else [STEPS, *sizes]
            descr, code = DTYPES[element]
            values = [rnd.uniform(0.3, 2.3) if element == "f64" else rnd.randrange(2) for _ in range(math.prod(shape))]
            (weights if is_parameter else data)[name[1:]] = (descr, shape, struct.pack(f"<{len(values)}{code}", *values))
        body.append(f'{match["results"]} = kerf.{op} {match["operands"]}{match["attributes"] or ""} : ({match["types"]}) -> {match["made"]} loc("case/op")')
        total = "%loss"
        body.append('%loss = kerf.reduce %other {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<1xf64>) -> tensor<f64>')
        for at, (name, tensor) in enumerate(zip(results, made, strict=True)):
            wide = arguments[f"%weight{at}"]
            dims = ", ".join(map(str, range(len(shape_of(tensor)[0]))))
            if wide != tensor:
                body.append(f"%wide{at} = kerf.convert {name} : ({tensor}) -> {wide}")
                name = f"%wide{at}"
            body.append(f"%weighed{at} = kerf.multiply {name}, %weight{at} : ({wide}, {wide}) -> {wide}")
            body.append(f"%sum{at} = kerf.reduce %weighed{at} {{kind = #kerf<reduce_kind sum>, dimensions = array<i64{': ' if dims else ''}{dims}>}} : "
                        f"({wide}) -> tensor<f64>")
            body.append(f"%total{at} = kerf.add {total}, %sum{at} : (tensor<f64>, tensor<f64>) -> tensor<f64>")
            total = f"%total{at}"
        self.model = os.path.join(folder, "model.mlir")
        with open(self.model, "w") as file:
            file.write(f'func.func @main({", ".join(said)}) -> (tensor<f64> {{kerf.name = "loss"}}) {{\n  ' + "\n  ".join(body) +
                       f"\n  return {total} : tensor<f64>\n}}\n")
        self.data = write_npz(os.path.join(folder, "data.npz"), data)
        self.weights = write_npz(os.path.join(folder, "weights.npz"), weights)

    def losses(self, mesh, strategy):
        """(losses, or None; what was said)."""
        ranks = math.prod(mesh.values()) if mesh else 1
        options = []
        if mesh:
            with tempfile.NamedTemporaryFile("w", suffix=".json", dir=self.folder, delete=False) as plan:
                plan.write(repr({"kerf": 1, "mesh": mesh, "ops": {f"case/{self.op}": {"strategy": strategy}}}).replace("'", '"'))
            options = ["--constraints", plan.name]
        done = kerf("train", self.model, "--data", self.data, "--weights", self.weights, "--steps", STEPS, "--dtype", "f64", "--lr", 0.1,
                    "--ranks", ranks, "--json", *options)
        if done.returncode != 0:
            return None, done.stderr
        losses = re.search(r'"losses": \[([^\]]*)\]', done.stdout)[1]
        return [float(loss) for loss in losses.split(",")], ""

    def factors(self):
        said = self.losses({"data": 2, "model": 1}, {"no such factor": ["data"]})[1]
        rule = re.search(r"the rule is (.*)", said)
        if not rule:
            return None, said
        dims = "".join(re.findall(r"\[[^\]]*\]", rule[1]))
        names = re.findall(r"[a-z]\d*'?", dims) + re.findall(r"sum\d+(?=: partial)", rule[1])
        whole = re.findall(r"([a-z]\d*'?)(?:=\d+)?: replicated", rule[1])
        return [name for name in dict.fromkeys(names) if name not in whole], rule[1]


def strategies(op, factors):
    """(mesh, strategy), shuffled where not all are tried: each factor on 2, 3 and 4 ranks, and each pair on 2 x 2."""
    every = [({"data": n, "model": 1}, {factor: ["data"]}) for n in (2, 3, 4) for factor in factors]
    every += [({"data": 2, "model": 2}, {a: ["data"], b: ["model"]}) for a, b in itertools.permutations(factors, 2)]
    every += [({"data": 2, "model": 2}, {a: ["data", "model"]}) for a in factors]
    return every if ALL else random.Random(op).sample(every, len(every))


class Strategies(KerfTest):
    def check(self, op, line):
        """Faults of an op, strategies that ran, and why it did not run."""
        folder = tempfile.mkdtemp(dir=self.folder)
        case, expected, said = None, None, ""
        for element, trains in (("f64", True), ("f64", False), ("i32", False)):  # some have no gradient, some are of integers
            case = Case(op, line, element, trains, folder)
            expected, said = case.losses(None, None)
            if expected:
                break
        if not expected:
            return [], 0, 0, said
        factors, rule = case.factors()
        if factors is None:
            return [], 0, 0, rule
        faults, ran, refused = [], 0, 0
        for mesh, strategy in strategies(op, factors):
            if not ALL and ran == FEW:
                break
            got, said = case.losses(mesh, strategy)
            if got is None:
                refused += 1
                if "strategy" not in said and "factor" not in said and "contradict" not in said:
                    faults.append(f"{op} {mesh} {strategy}: {said}")
                continue
            ran += 1
            if any(abs(a - b) > TOLERANCE * max(1, abs(b)) for a, b in zip(got, expected)):
                faults.append(f"{op} {mesh} {strategy}, rule {rule}: {got}, on one rank {expected}; {case.model}")
        return faults, ran, refused, ""

    def test_every_op(self):
        all_examples = list(examples())
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(lambda one: self.check(*one), all_examples))
        ran = 0
        for (op, line), (faults, count, refused, why) in zip(all_examples, found):
            ran += count
            print(f"{op}: {count} strategies, {refused} refused{'; ' + why.strip() if why else ''}")
            with self.subTest(op=op):
                self.assertFalse(faults, "\n".join(faults))
        print(f"{ran} strategies of {len(all_examples)} ops")


if __name__ == "__main__":
    unittest.main()
