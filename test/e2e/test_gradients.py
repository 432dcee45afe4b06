#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradients of every op that has one, against central differences in float64: the kernels' own, through a whole training step.

Nothing is listed by hand: ops, attributes and types are those of the examples in docs/operators.md (each of an op's), sizes also random ones
wherever the op's sharding rule says which dimensions belong together. An op without an example that runs fails.
"""
import concurrent.futures
import math
import os
import random
import re
import struct
import tempfile
import unittest

from support import KerfTest, kerf, read_safetensors
from test_strategies import Case, examples, number, shape_of, types_of

STEP, TOLERANCE = 1e-5, 1e-6  # the error of central differences is about step^2, of rounding 1e-16 / step
MOST_ELEMENTS = 24            # of an operand that are moved
RESIZED, TRIES = 2, 12        # other sizes of an example; attributes may forbid some


class Slopes(Case):
    """The model twice: floating operands as parameters, whose gradient a step with learning rate 1 leaves in them; and as data, each step of
    which has one element moved."""

    def fill(self, rnd):
        self.rnd = rnd
        self.base = {name: [number(rnd, element) for _ in range(math.prod(sizes))] for name, (sizes, element) in self.arguments.items()}
        self.write(self.base)

    def gradients(self):
        """name -> gradient, or None; what was said."""
        saved = os.path.join(self.folder, "saved.safetensors")
        done = kerf("train", self.model, "--data", self.data, "--weights", self.weights, "--steps", 1, "--dtype", "f64", "--lr", 1, "--save", saved)
        if done.returncode != 0:
            return None, done.stderr
        after = read_safetensors(saved)
        gradients = {}
        for name in self.parameters - {"%other"}:
            values = struct.unpack(f"<{len(self.base[name])}d", after[name[1:]][2])
            gradients[name] = [a - b for a, b in zip(self.base[name], values)]
        return gradients, ""

    def differences(self, names):
        """(name, element) -> slope of the loss."""
        moved = [(name, at) for name in sorted(names)
                 for at in self.rnd.sample(range(len(self.base[name])), min(MOST_ELEMENTS, len(self.base[name])))]
        values = {name: list(self.base[name]) if name in self.parameters else self.base[name] * (2 * len(moved)) for name in self.arguments}
        for i, (name, at) in enumerate(moved):
            for side, sign in enumerate((1, -1)):
                values[name][(2 * i + side) * len(self.base[name]) + at] += sign * STEP
        self.write(values)
        done = kerf("train", self.model, "--data", self.data, "--weights", self.weights, "--steps", 2 * len(moved), "--dtype", "f64", "--lr", 0, "--json")
        if done.returncode != 0:
            return None, done.stderr
        losses = [float(loss) for loss in re.search(r'"losses": \[([^\]]*)\]', done.stdout)[1].split(",")]
        return {place: (losses[2 * i] - losses[2 * i + 1]) / (2 * STEP) for i, place in enumerate(moved)}, ""


def resized(line, rule, rnd):
    """The example with other sizes of some of what may be cut, or None: by the rule's text, "([i, j]) -> ([i, j])"."""
    head, types = line.rsplit(" : ", 1)
    tensors, dims = types_of(types), [re.findall(r"[^,\s]+", dims) for dims in re.findall(r"\[([^\]]*)\]", rule)]
    whole = set(re.findall(r"([a-z]\d*'?)(?:=\d+)?: replicated", rule))
    if len(dims) < len(tensors) or any(len(shape_of(t)[0]) != len(d) for t, d in zip(tensors, dims)):
        return None
    alone = {name for d in dims[:len(tensors)] for name in d if re.fullmatch(r"[a-z]\d*'?", name)} - whole
    mixed = {factor for d in dims[:len(tensors)] for name in d if name not in alone for factor in re.findall(r"[a-z]\d*'?", name)}
    sizes = {name: rnd.randint(2, 7) for name in sorted(alone - mixed) if rnd.random() < 0.5}
    if not sizes:
        return None
    texts = iter(["x".join([*(str(sizes.get(name, size)) for size, name in zip(shape_of(t)[0], d)), shape_of(t)[1]])
                  for t, d in zip(tensors, dims)])
    return f"{head} : " + re.sub(r"tensor<(?:[^<>]|<[^<>]*>)*>", lambda _: f"tensor<{next(texts)}>", types)


class Gradients(KerfTest):
    def check(self, op, line):
        """Faults of an example, how many elements were compared, and the rule; or why none were."""
        folder = tempfile.mkdtemp(dir=self.folder)
        for most in (None, 1):  # further results may be there for the backward form only
            trained = Slopes(op, line, "f64", True, folder, most)
            gradients, said = trained.gradients()
            if gradients is not None:
                break
        if not gradients:
            return [], 0, said or "no operand is floating"
        rule = trained.factors()[1]
        slopes, said = Slopes(op, line, "f64", False, folder, most).differences(gradients)
        if slopes is None:
            return [], 0, said
        if op == "stop_gradient":  # which is there to be constant
            slopes = dict.fromkeys(slopes, 0.0)
        faults = [f"{line}: {name}[{at}] has the gradient {gradients[name][at]}, differences give {slope}" for (name, at), slope in slopes.items()
                  if not abs(gradients[name][at] - slope) <= TOLERANCE * (1 + abs(slope))]
        return faults, len(slopes), rule

    def check_op(self, op, lines):
        """(faults, elements compared, examples, sizes) of an op."""
        faults, compared, others, rnd = [], 0, 0, random.Random(op)
        for line in lines:
            wrong, count, said = self.check(op, line)
            if not count:  # of integers: the same of numbers
                line = line.replace("i64", "f32").replace("i32", "f32")
                wrong, count, said = self.check(op, line)
            compared += count
            faults += wrong
            sizes = 0
            for _ in range(TRIES if count else 0):
                other = resized(line, said, rnd) if sizes < RESIZED else None
                wrong, count, _ = self.check(op, other) if other else ([], 0, "")
                faults += wrong
                compared += count
                sizes += count > 0
            others += sizes
        if not compared:
            faults.append(f"no example of {op} runs: {lines or 'there is none'}: {said if lines else ''}")
        return faults, compared, others

    def test_every_op(self):
        all_examples = list(examples("GradientOpInterface"))
        self.assertTrue(all_examples)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(lambda one: self.check_op(*one), all_examples))
        for (op, lines), (faults, compared, others) in zip(all_examples, found):
            print(f"{op}: {compared} elements of {len(lines)} examples and {others} other sizes")
            with self.subTest(op=op):
                self.assertFalse(faults, "\n".join(faults[:5]))


if __name__ == "__main__":
    unittest.main()
