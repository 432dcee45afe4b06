#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node tests through Kerf: every case of an operator that Kerf reads is imported, planned, compiled and run, and its outputs
compared with the expected ones.

A case becomes a model whose loss is how far the outputs are outside of the case's tolerance: 0 where it passes. Needs the Python package
`onnx`, which holds the cases (pip install onnx). KERF names the program.

    node_conformance.py [--ranks N] [--no-native] [--operator NAME]... [--verbose] [--record | --check]

prints passed, refused and wrong cases of each operator; a refused case is one that Kerf does not import (its message under --verbose). Cases
of older and newer opsets count as opset 13's and 23's where they are valid there; those of definitions newer than 23 are counted apart.
Random results can't be compared: such cases only have to run, and are counted. --record writes results.json (with --operator: the rows of these),
which docs/operators.md is made of;
--check compares with it (exit status 77, skipped, without `onnx`). The exit status is 1 if a case is wrong, or another one than recorded
passes.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KERF = os.environ.get("KERF", os.path.join(ROOT, "build", "bin", "kerf"))
RESULTS = os.path.join(HERE, "results.json")
HUGE = 1e30  # stands for infinity in comparisons
STANDS_FOR_NAN = 12345.0
OLDEST, NEWEST = 13, 23  # opsets whose definitions count
NARROW = {"float8_e4m3fn": "float64", "float8_e4m3fnuz": "float64", "float8_e5m2": "float64", "float8_e5m2fnuz": "float64",
          "float4_e2m1fn": "float64", "int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8"}  # what Kerf holds them in
UNUSED = "kerf_test_unused"  # the input of a case that has none to feed
CASE = "kerf_case"  # name of the case's node
RANDOM = "random"


with open(os.path.join(ROOT, "lib", "Frontend", "Onnx", "OnnxOps.cpp")) as file:
    TABLE = file.read()
READ = int(re.search(r"kNewest = (\d+)", TABLE).group(1))  # cases of definitions newer than NEWEST are read as of this one


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


def is_random(case):
    return "training_dropout" in case.name and "zero_ratio" not in case.name


def is_valid(case, opset):
    """Whether the case's operator may be used in the same way in another opset."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for entry in model.opset_import:
        entry.version = opset
    model.ir_version = 10
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception:  # noqa: BLE001: the checker and shape inference raise several kinds
        return False
    return True


def opset_of(case):
    """(the opset that the case is read as, whether it counts apart)."""
    opset = next(entry.version for entry in case.model.opset_import if entry.domain in ("", "ai.onnx"))
    inside = min(max(opset, OLDEST), NEWEST)
    if inside == opset or is_valid(case, inside):
        return inside, False
    return min(opset, READ), True


class Absent:
    """An optional that holds nothing."""


def array_of(value):
    """Numbers as Kerf holds them (floating ones in the type of the run), texts, Absent, a list of these for a sequence; or None."""
    if value is None:
        return Absent
    if isinstance(value, list):
        items = [array_of(item) for item in value]
        return None if any(not isinstance(item, numpy.ndarray) for item in items) else items
    if isinstance(value, TensorProto):
        value = numpy_helper.to_array(value)
    if not isinstance(value, numpy.ndarray) and not numpy.isscalar(value):
        return None
    array = numpy.asarray(value)
    if array.dtype.kind in "OSU":
        return array.astype(object)
    if array.dtype.name in NARROW:
        return array.astype(NARROW[array.dtype.name])
    if array.dtype.name in ("float16", "bfloat16"):
        return array.astype(numpy.float64)
    return array if array.dtype.kind in "iub" or array.dtype.name in ("float32", "float64") else None


def is_narrow(value):
    return isinstance(value, TensorProto) and numpy_helper.to_array(value).dtype.name in NARROW


def constant_of(value, array):
    """The constant that a case gives: of a narrow format as it is in files."""
    return value if is_narrow(value) else numpy_helper.from_array(array)


def tolerance_of(case, value):
    """(relative, absolute); Kerf rounds to f16 and bf16 where it is told to, not where the model says so: a few roundings of numbers near 1."""
    name = str(numpy.asarray(numpy_helper.to_array(value) if isinstance(value, TensorProto) else value).dtype)
    rounding = {"float16": 2**-11, "bfloat16": 2**-8}.get(name, 0)
    return max(case.rtol, 4 * rounding), max(case.atol, 1e-6, rounding)


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


def model_of(case, inputs, outputs, fed, opset):
    """`fed`: names of the inputs that come from data; the others are constants."""
    graph = Graph()
    source = case.model.graph
    buffers = {name for node in source.node if node.op_type == "BatchNormalization" for name in node.input[3:]}
    fed = fed - buffers
    for value, given, original in zip(source.input, inputs, case.data_sets[0][0]):
        if given is Absent:
            graph.nodes.append(helper.make_node("Optional", [], [value.name], type=value.type.optional_type.elem_type))
        elif isinstance(given, list):
            items = [graph.op("Constant", value=numpy_helper.from_array(array)) for array in given]
            graph.nodes.append(helper.make_node("SequenceConstruct" if items else "SequenceEmpty", items, [value.name]))
        elif value.name in buffers:
            graph.initializers.append(numpy_helper.from_array(given, value.name))
        elif value.name not in fed:
            graph.nodes.append(helper.make_node("Constant", [], [value.name], value=constant_of(original, given)))
    for node in source.node:  # what a case calls its loss is not ours
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.output[:] = ["its_" + name if name == "loss" else name for name in node.output]
        copy.name = CASE
        graph.nodes.append(copy)
    loss = None
    for value, expected, given in zip(source.output, outputs, case.data_sets[0][1]):
        name = "its_loss" if value.name == "loss" else value.name
        parts = [(name, expected, given)]
        if isinstance(expected, list):
            parts = [(graph.op("SequenceAt", name, graph.constant(numpy.array(at))), *both) for at, both in enumerate(zip(expected, given))]
            parts.append((graph.op("SequenceLength", name), *[numpy.array(len(expected))] * 2))
        for one, array, its_own in parts:
            distance = graph.distance(one, array, *tolerance_of(case, its_own))
            loss = graph.op("Add", loss, distance) if loss else distance
    graph.initializers.append(numpy_helper.from_array(numpy.ones(1, numpy.float64), "parameter"))
    zero = graph.op("Squeeze", graph.op("Sub", "parameter", graph.constant(numpy.ones(1, numpy.float64))))
    graph.nodes.append(helper.make_node("Add", [loss, zero], ["loss"], name="loss"))
    values = [value for value in source.input if value.name in fed]
    if not values:
        values.append(helper.make_tensor_value_info(UNUSED, TensorProto.DOUBLE, [1]))
    made = helper.make_graph(graph.nodes, "case", values, [helper.make_tensor_value_info("loss", TensorProto.DOUBLE, [])], graph.initializers)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def kerf_ops(path, folder):
    """The ops that the case's node became."""
    package = os.path.join(folder, "package")
    subprocess.run([KERF, "compile", path, "--dtype", "f64", "--ranks", "1", "--trainable", "parameter", "--no-native", "-o", package],
                   check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    with open(os.path.join(package, "program.json")) as file:
        program = json.load(file)
    return [one["op"] for function in program["functions"] for one in function["body"] if CASE in one.get("name", "")]


def attempt(case, inputs, outputs, fed, opset, options):
    """("passed" | "wrong" | "refused", message, ops)."""
    with tempfile.TemporaryDirectory(prefix="kerf-node-") as folder:
        path, data = os.path.join(folder, "model.onnx"), os.path.join(folder, "data.npz")
        onnx.save(model_of(case, inputs, outputs, fed, opset), path)
        names = [value.name for value in case.model.graph.input]
        fed_arrays = {name: array[None] for name, array in zip(names, inputs) if name in fed}  # one step; more than the model has is fine
        numpy.savez(data, **(fed_arrays or {UNUSED: numpy.zeros((1, 1))}))
        command = [KERF, "train", path, "--data", data, "--steps", "1", "--dtype", "f64", "--ranks", str(options.ranks), "--trainable", "parameter",
                   "--json", *(["--no-native"] if options.no_native else [])]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        ops = kerf_ops(path, folder) if options.record and done.returncode == 0 else []
    if done.returncode != 0:
        refused = any(words in done.stderr for words in ("node '", "operator", "input '", "element type"))
        return ("refused" if refused else "wrong"), done.stderr.strip(), []
    loss = re.search(r'"losses": \[\s*([^\s,\]]+)', done.stdout)
    if not loss:
        return "wrong", done.stdout[-500:], []
    if loss.group(1) not in ("0", "0.0"):
        return "wrong", f"the outputs are {loss.group(1)} outside of the tolerance", ops
    return "passed", "", ops


def run(case, options):
    """(whether it counts apart, "passed" | "wrong" | "refused" | "random", message, ops)."""
    opset, apart = opset_of(case)
    inputs, outputs = ([array_of(value) for value in values] for values in case.data_sets[0])
    results = [item for value in outputs for item in (value if isinstance(value, list) else [value])]
    if any(value is None for value in [*inputs, *outputs]) or any(value is Absent or value.dtype.kind == "O" for value in results):
        return apart, "refused", "8-bit exponents, results that are texts or absent", []
    names = [value.name for value in case.model.graph.input]
    tensors = {value.name for value, array in zip(case.model.graph.input, inputs)
               if value.type.HasField("tensor_type") and array.dtype.kind != "O"}
    floats = {name for name, value in zip(names, inputs) if name in tensors and value.dtype.kind == "f"}
    # Indices as data where that can be, else as constants, as shapes must be; sizes may be floating (Resize), too: what is left as data is
    # what comes first. Some operators are computed on constants only.
    first = None
    for fed in (tensors, floats, set(names[:1]) & floats, set()):
        result = attempt(case, inputs, outputs, fed, opset, options)
        if result[0] == "passed" and any(is_narrow(value) for value in case.data_sets[0][0]):  # data is fed in wider types
            packed = attempt(case, inputs, outputs, set(), opset, options)
            result = result if packed[0] == "passed" else packed
        if result[0] != "refused":
            return (apart, RANDOM, "", result[2]) if is_random(case) else (apart, *result)
        first = first or result
    return apart, *first


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--no-native", action="store_true", help="one kernel for each op: no code is compiled")
    parser.add_argument("--operator", action="append", help="only this one")
    parser.add_argument("--verbose", action="store_true", help="why cases are refused")
    parser.add_argument("--record", action="store_true", help="write results.json")
    parser.add_argument("--check", action="store_true", help="compare with results.json")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    wanted = set(options.operator) if options.operator else operators()
    chosen = list(cases(wanted))
    counts, ops, why, floats = (collections.defaultdict(kind) for kind in (collections.Counter, list, list, bool))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (name, case), (apart, result, message, became) in zip(chosen, pool.map(lambda one: run(one[1], options), chosen)):
            counts[name]["newer " + result if apart and result not in ("wrong", RANDOM) else result] += 1
            floats[name] |= any(array.dtype.kind == "f" for array in map(array_of, case.data_sets[0][1]) if isinstance(array, numpy.ndarray))
            ops[name] += [op for op in dict.fromkeys(became) if op not in ops[name]]
            reason = re.sub(r"^error: [^:]*: (?:(?:node|input) [^:]*: )?", "", message.splitlines()[0]) if message else ""
            if result == "refused" and not apart and reason not in why[name]:
                why[name].append(reason)
            if result == "wrong" or (options.verbose and result == "refused"):
                print(f"{result}: {case.name}: {message}", flush=True)
    columns = ("passed", "refused", "wrong", RANDOM, "newer passed", "newer refused")
    print(f"{'operator':<28}" + "".join(f"{column:>15}" for column in columns))
    for name in sorted(counts):
        print(f"{name:<28}" + "".join(f"{counts[name][column]:>15}" for column in columns))
    total = sum(counts.values(), collections.Counter())
    whole = sum(1 for one in counts.values() if one["passed"] >= 0.95 * (one["passed"] + one["refused"] + one["wrong"]))
    print(f"{total['passed']} passed, {total['refused']} refused, {total['wrong']} wrong, of newer definitions {total['newer passed']} passed, "
          f"{total['newer refused']} refused; at least 95 % of the cases of {whole} of {len(counts)} operators")
    cases_of = {name: {column: counts[name][column] for column in columns if counts[name][column]} for name in sorted(counts)}
    if options.record:
        rows = recorded()["operators"] if options.operator else {}
        rows |= {name: {"cases": cases_of[name], "ops": sorted(ops[name]), "floating": floats[name], "refused": why[name]} for name in cases_of}
        with open(RESULTS, "w") as file:
            file.write(f'{{\n"onnx": "{onnx.__version__}",\n"operators": {{\n')
            file.write(",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items())) + "\n}}\n")
    failed = total["wrong"] > 0
    if options.check:
        failed |= differs(cases_of)
    sys.exit(1 if failed else 0)


def recorded():
    with open(RESULTS) as file:
        return json.load(file)


def differs(cases_of):
    """Whether other cases pass than were recorded; another version of `onnx` has other cases."""
    before = recorded()
    if before["onnx"] != onnx.__version__:
        print(f"results.json is of onnx {before['onnx']}, not {onnx.__version__}: only wrong results fail")
        return False
    others = [name for name, row in cases_of.items() if before["operators"].get(name, {}).get("cases") != row]
    for name in others:
        print(f"{name}: {cases_of[name]}, recorded {before['operators'].get(name, {}).get('cases')}; node_conformance.py --record")
    return bool(others)


if __name__ == "__main__":
    main()
