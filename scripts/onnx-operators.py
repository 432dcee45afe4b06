#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the table of ONNX operators of docs/operators.md: opsets from the importer's table, what each became and which of ONNX's node tests
passed from test/onnx/results.json, gradients and sharding rules from the page of the dialect's ops.

    onnx-operators.py DIALECT.md
"""
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOVERS = {"constant", "iota", "broadcast_in_dim", "reshape", "convert"}  # around what does the work
HEAD = """# ONNX operators

This page is for people who want to know whether Kerf reads an operator of their export, and for people who read or
write kerf IR. The first table lists the ONNX operators that Kerf reads; the sections after it describe every op of the
`kerf` dialect. This command writes the ops that a model becomes:

```sh
kerf import examples/gpt2/model.onnx -o model.mlir
```

Each row of the table has an ONNX operator and the ops of the `kerf` dialect that it becomes. The importer refuses a
model with any other operator; its message names the node, or all operators that it does not read.

The column `cases` counts the node tests of the package `onnx` {version} that pass (`test/onnx/node_conformance.py`): {passed} of {cases} cases in the
definitions of opsets 13 to 23, and {newer} cases of newer opsets. {tested} of the {operators} operators have cases of their own, and {whole} of these pass
at least 95 % of them, both with compiled kernels and without (`--no-native`).

The columns `gradient` and `sharding rule` are those of the ops in `becomes`. Where they say "of each op" or "below", the sections below describe each op. An
operator that becomes no op is the same value as its operand, or is computed at import.

| operator | opsets | becomes | gradient | sharding rule | cases | refused |
|---|---|---|---|---|---|---|"""


def dialect_ops(page):
    """name -> (has a gradient, its rule)."""
    ops = {}
    for name, text in re.findall(r"^### `kerf\.(\w+)`(.*?)(?=^### |\Z)", page, re.MULTILINE | re.DOTALL):
        rule = re.search(r"Rule: `([^`]+)`", text)
        elementwise = re.search(r"^[yz]\[i\] = ", text, re.MULTILINE) or name in ("convert", "compare", "select", "is_nan")
        ops[name] = "GradientOpInterface" in text, "`" + rule.group(1).replace("|", "\\|") + "`" if rule else "every dimension" if elementwise else "below"
    return ops


def row_of(name, opsets, result, ops):
    main = [op for op in result["ops"] if op not in MOVERS] or result["ops"]
    rules = {ops[op][1] for op in main if op in ops}
    rule = rules.pop() if len(rules) == 1 else "of each op" if rules else ""
    gradient = "yes" if result["floating"] and any(ops.get(op, (False, ""))[0] for op in main) else "none"
    cases = result["cases"]
    newer = cases.get("newer passed", 0), cases.get("newer passed", 0) + cases.get("newer refused", 0)
    all_cases = sum(cases.get(kind, 0) for kind in ("passed", "refused", "wrong"))
    counts = f"{cases.get('passed', 0)} of {all_cases}" if all_cases else ""
    if newer[1]:
        counts += f"{', ' if counts else ''}newer {newer[0]} of {newer[1]}"
    refused = [] if not cases.get("random") else [f"{cases['random']} cases with random results are left out"]
    refused += [reason.replace("|", "\\|") for reason in result["refused"]]
    became = ", ".join(f"`{op}`" for op in main) if main else "no op"
    return f"| {name} | {opsets} | {became} | {gradient if main else ''} | {rule} | {counts} | {'; '.join(refused)} |"


def main():
    with open(sys.argv[1]) as file:
        ops = dialect_ops(file.read())
    with open(os.path.join(ROOT, "lib", "Frontend", "Onnx", "OnnxOps.cpp")) as file:
        source = file.read()
    with open(os.path.join(ROOT, "test", "onnx", "results.json")) as file:
        results = json.load(file)
    newest = re.search(r"kNewest = (\d+)", source).group(1)
    table = re.findall(r'OnnxOperator\{"(\w+)", (\d+), ', source)
    read = [results["operators"][name]["cases"] for name, _ in table if name in results["operators"]]
    count = lambda case, *kinds: sum(case.get(kind, 0) for kind in kinds)
    whole = sum(1 for case in read if count(case, "passed") >= 0.95 * count(case, "passed", "refused", "wrong"))  # or newer ones alone
    print(HEAD.format(version=results["onnx"], passed=sum(count(case, "passed") for case in read),
                      cases=sum(count(case, "passed", "refused", "wrong") for case in read), newer=sum(count(case, "newer passed") for case in read),
                      tested=len(read), whole=whole, operators=len(table)))
    for name, oldest in table:
        print(row_of(name, f"{oldest} to {newest}", results["operators"].get(name, {"ops": [], "cases": {}, "floating": False, "refused": []}), ops))
    print()


if __name__ == "__main__":
    main()
