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


def examples(interface="ShardingRuleOpInterface"):
    """(op, its lines) of every op with that interface and operands."""
    with open(os.path.join(ROOT, "docs", "operators.md")) as file:
        page = file.read()
    for op, text in re.findall(r"^### `kerf\.(\w+)`(.*?)(?=^### |\Z)", page, re.MULTILINE | re.DOTALL):
        if op == "quantize":  # steps have no differences, and no loss weighs 8-bit numbers: test_mixed_precision.py trains with them
            continue
        lines = re.findall(rf"^%[^\n]* = kerf\.{op} %[^\n]*(?:\n[^\n]+)*?(?=\n```|\n%)", text, re.MULTILINE)
        if interface in text and (lines or interface != "ShardingRuleOpInterface"):
            yield op, [" ".join(line.split()) for line in lines]


def types_of(text):
    return re.findall(r"tensor<(?:[^<>]|<[^<>]*>)*>", text)


def shape_of(tensor):
    """(sizes, element type) of "tensor<4x8xf64>"."""
    *sizes, element = tensor[len("tensor<"):-1].split("x")
    return [int(size) for size in sizes], element


def number(rnd, element):
    """Where every op is smooth; 0 or 1 as an index."""
    return rnd.uniform(0.3, 2.3) if element == "f64" else rnd.randrange(2)


class Case:
    """A model of one op."""

    def __init__(self, op, line, element, trains, folder, most=None):
        """`most`: the results that the loss weighs; None: all."""
        match = re.match(r"(?P<results>%[^=]*) = kerf\.\w+ (?P<operands>[^{:]*)(?P<attributes>\{.*\})? ?: ?\((?P<types>.*?)\) -> (?P<made>.*)$",
                         line.replace("f32", element))
        self.op, self.folder = op, folder
        operands = [name.strip() for name in match["operands"].split(",") if name.strip()]
        arguments, body = {}, []
        for name, tensor in zip(operands, types_of(match["types"]), strict=True):
            arguments.setdefault(name, tensor)
        results = [name.strip() for name in match["results"].split(",")]
        made = types_of(match["made"])
        weighed = list(zip(results, made, strict=True))[:most]
        for at, (_, tensor) in enumerate(weighed):  # what the loss weighs the results by
            arguments[f"%weight{at}"] = f"tensor<{'x'.join([*map(str, shape_of(tensor)[0]), 'f64'])}>"
        arguments["%other"] = "tensor<1xf64>"
        self.parameters = {name for name, tensor in arguments.items()
                           if tensor.endswith("f64>") and not name.startswith("%weight") and (trains or name == "%other")}
        said = []
        for name, tensor in arguments.items():
            kind = 'kerf.kind = "parameter", kerf.trainable' if name in self.parameters else 'kerf.kind = "input"'
            said.append(f'{name}: {tensor} {{{kind}, kerf.name = "{name[1:]}"}}')
        body.append(f'{match["results"]} = kerf.{op} {match["operands"]}{match["attributes"] or ""} : ({match["types"]}) -> {match["made"]} loc("case/op")')
        total = "%loss"
        body.append('%loss = kerf.reduce %other {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<1xf64>) -> tensor<f64>')
        for at, (name, tensor) in enumerate(weighed):
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
        self.arguments = {name: shape_of(tensor) for name, tensor in arguments.items()}
        self.fill(random.Random(op))

    def fill(self, rnd):
        self.write({name: [number(rnd, element) for _ in range(math.prod(sizes) * (1 if name in self.parameters else STEPS))]
                    for name, (sizes, element) in self.arguments.items()})

    def write(self, values):
        """The files of weights, and of data: the values of one step after the other's."""
        files = {True: {}, False: {}}
        for name, (sizes, element) in self.arguments.items():
            is_parameter, (descr, code) = name in self.parameters, DTYPES[element]
            shape = sizes if is_parameter else [len(values[name]) // math.prod(sizes), *sizes]
            files[is_parameter][name[1:]] = (descr, shape, struct.pack(f"<{len(values[name])}{code}", *values[name]))
        self.weights = write_npz(os.path.join(self.folder, "weights.npz"), files[True])
        self.data = write_npz(os.path.join(self.folder, "data.npz"), files[False])

    def losses(self, mesh, strategy):
        """(losses, or None; what was said)."""
        ranks = math.prod(mesh.values()) if mesh else 1
        options = []
        if mesh:
            with tempfile.NamedTemporaryFile("w", suffix=".json", dir=self.folder, delete=False) as plan:
                plan.write(repr({"kerf": 1, "mesh": mesh, "ops": {f"case/{self.op}": {"strategy": strategy}}}).replace("'", '"'))
            options = ["--constraints", plan.name]
        done = kerf("train", self.model, "--data", self.data, "--weights", self.weights, "--steps", STEPS, "--dtype", "f64", "--lr", 0.1,
                    "--ranks", ranks, "--all-ranks", "--json", *options)
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
        # Some have a gradient of their first result alone, some have none, some are of integers.
        for element, trains, most in (("f64", True, None), ("f64", True, 1), ("f64", False, None), ("i32", False, None)):
            case = Case(op, line, element, trains, folder, most)
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
        all_examples = [(op, lines[-1]) for op, lines in examples()]
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
