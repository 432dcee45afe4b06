#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node tests through Kerf: every case of an operator that Kerf reads is imported, planned, compiled and run, and its outputs
compared with the expected ones.

A case becomes a model whose loss is how far the outputs are outside of the case's tolerance: 0 where it passes. Needs the Python package
`onnx`, which holds the cases (pip install onnx). KERF names the program.

    node_conformance.py [--ranks N] [--operator NAME]... [--verbose]

prints passed, refused and wrong cases of each operator; a refused case is one that Kerf does not import, or that has no input to
feed (its message under --verbose). The exit status is 1 if a case is wrong.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import warnings

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERF = os.environ.get("KERF", os.path.join(ROOT, "build", "bin", "kerf"))
HUGE = 1e30  # stands for infinity in comparisons
STANDS_FOR_NAN = 12345.0
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE)


with open(os.path.join(ROOT, "lib", "Frontend", "OnnxOps.cpp")) as file:
    TABLE = file.read()
NEWEST = int(re.search(r"kNewest = (\d+)", TABLE).group(1))  # cases of newer opsets are read as of this one


def operators():
    """Names in the importer's table."""
    return set(re.findall(r'OnnxOperator\{"(\w+)"', TABLE))


def cases(wanted):
    """Cases of one operator each; those of its definition by other operators are left out."""
    from onnx.backend.test.case.node import collect_testcases
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        all_cases = collect_testcases(None)
    for case in all_cases:
        names = {node.op_type for node in case.model.graph.node}
        if len(names) == 1 and names <= wanted and case.data_sets:
            yield next(iter(names)), case


def arrays_of(case):
    inputs, outputs = case.data_sets[0]
    if not all(isinstance(value, numpy.ndarray) or numpy.isscalar(value) for value in [*inputs, *outputs]):
        return None
    return [numpy.asarray(value) for value in inputs], [numpy.asarray(value) for value in outputs]


class Graph:
    """The case's nodes, and behind them the distance of the outputs from the expected ones."""

    def __init__(self):
        self.nodes, self.initializers, self.next = [], [], 0

    def op(self, op_type, *inputs, **attributes):
        self.next += 1
        name = f"kerf_test_{self.next}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def constant(self, array):
        self.next += 1
        name = f"kerf_test_{self.next}"
        self.initializers.append(numpy_helper.from_array(numpy.asarray(array), name))
        return name

    def scalar(self, value):
        return self.constant(numpy.array(value, numpy.float64))

    def comparable(self, name):
        wide = self.op("Cast", name, to=TensorProto.DOUBLE)
        known = self.op("Where", self.op("IsNaN", wide), self.scalar(STANDS_FOR_NAN), wide)
        return self.op("Min", self.op("Max", known, self.scalar(-HUGE)), self.scalar(HUGE))

    def distance(self, name, expected, relative, absolute):
        """The sum over elements of what |name - expected| is above absolute + relative |expected|."""
        wide = numpy.nan_to_num(expected.astype(numpy.float64), nan=STANDS_FOR_NAN, posinf=HUGE, neginf=-HUGE)
        away = self.op("Abs", self.op("Sub", self.comparable(name), self.constant(wide)))
        above = self.op("Max", self.op("Sub", away, self.constant(absolute + relative * numpy.abs(wide))), self.scalar(0.0))
        return self.op("ReduceSum", above, keepdims=0)


def model_of(case, inputs, outputs, fed):
    """`fed`: names of the inputs that come from data; the others are constants."""
    graph = Graph()
    source = case.model.graph
    for node in source.node:  # what a case calls its loss is not ours
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.output[:] = ["its_" + name if name == "loss" else name for name in node.output]
        graph.nodes.append(copy)
    named = dict(zip([value.name for value in source.input], inputs))
    for name, array in named.items():
        if name not in fed:
            graph.initializers.append(numpy_helper.from_array(array, name))
    opset = min(NEWEST, next(o.version for o in case.model.opset_import if o.domain in ("", "ai.onnx")))
    loss = None
    for value, expected in zip(source.output, outputs):
        name = "its_loss" if value.name == "loss" else value.name
        distance = graph.distance(name, expected, case.rtol, max(case.atol, 1e-6))
        loss = graph.op("Add", loss, distance) if loss else distance
    graph.initializers.append(numpy_helper.from_array(numpy.ones(1, numpy.float64), "parameter"))
    zero = graph.op("Squeeze", graph.op("Sub", "parameter", graph.constant(numpy.ones(1, numpy.float64))))
    graph.nodes.append(helper.make_node("Add", [loss, zero], ["loss"], name="loss"))
    values = [value for value in source.input if value.name in fed]
    made = helper.make_graph(graph.nodes, "case", values, [helper.make_tensor_value_info("loss", TensorProto.DOUBLE, [])], graph.initializers)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def attempt(case, inputs, outputs, fed, ranks):
    """("passed" | "wrong" | "refused", message)."""
    with tempfile.TemporaryDirectory(prefix="kerf-node-") as folder:
        path, data = os.path.join(folder, "model.onnx"), os.path.join(folder, "data.npz")
        onnx.save(model_of(case, inputs, outputs, fed), path)
        names = [value.name for value in case.model.graph.input]
        numpy.savez(data, **{name: array[None] for name, array in zip(names, inputs) if name in fed})
        done = subprocess.run([KERF, "train", path, "--data", data, "--steps", "1", "--dtype", "f64", "--ranks", str(ranks), "--trainable",
                               "parameter", "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        refused = any(words in done.stderr for words in ("node '", "operator", "input '", "element type", "no array with a leading axis"))
        return ("refused" if refused else "wrong"), done.stderr.strip()
    loss = re.search(r'"losses": \[\s*([^\s,\]]+)', done.stdout)
    if not loss:
        return "wrong", done.stdout[-500:]
    return ("passed", "") if loss.group(1) in ("0", "0.0") else ("wrong", f"the outputs are {loss.group(1)} outside of the tolerance")


def run(case, ranks):
    arrays = arrays_of(case)
    if arrays is None:
        return "refused", "it has sequences, optional values or texts"
    inputs, outputs = arrays
    if any(array.dtype.kind not in "fiub" or array.dtype.itemsize < (4 if array.dtype.kind == "f" else 1) for array in [*inputs, *outputs]):
        return "refused", "an element type that packages don't hold"
    names = [value.name for value in case.model.graph.input]
    floats = {name for name, array in zip(names, inputs) if array.dtype.kind == "f"}
    first = None
    for fed in (set(names), floats):  # indices as data where that can be, else as constants, as shapes must be
        result = attempt(case, inputs, outputs, fed, ranks)
        if result[0] != "refused":
            return result
        first = first or result
    # Sizes may be floating (Resize), too: what is left as data is what comes first.
    return attempt(case, inputs, outputs, set(names[:1]) & floats, ranks)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--operator", action="append", help="only this one")
    parser.add_argument("--verbose", action="store_true", help="why cases are refused")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    wanted = set(options.operator) if options.operator else operators()
    chosen = list(cases(wanted))
    counts = collections.defaultdict(collections.Counter)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (name, case), (result, message) in zip(chosen, pool.map(lambda one: run(one[1], options.ranks), chosen)):
            counts[name][result] += 1
            if result == "wrong" or (options.verbose and result == "refused"):
                print(f"{result}: {case.name}: {message}", flush=True)
    print(f"{'operator':<28}{'passed':>8}{'refused':>9}{'wrong':>7}")
    for name in sorted(counts):
        print(f"{name:<28}" + "".join(f"{counts[name][result]:>{width}}" for result, width in (("passed", 8), ("refused", 9), ("wrong", 7))))
    total = sum(counts.values(), collections.Counter())
    print(f"{total['passed']} passed, {total['refused']} refused, {total['wrong']} wrong of {len(chosen)} cases of {len(counts)} operators")
    sys.exit(1 if total["wrong"] else 0)


if __name__ == "__main__":
    main()
