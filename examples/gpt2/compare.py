#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the losses that `kerf train --log` wrote next to PyTorch's, and fails when they differ.

Use: compare.py golden.json sgd|adamw losses.jsonl
"""
import json
import sys

TOLERANCE = 2e-4  # relative; PyTorch's own float32 and float64 differ by about 1e-6 on this model


def main():
    golden_path, optimizer, log_path = sys.argv[1:]
    with open(golden_path) as file:
        golden = json.load(file)["losses"][optimizer]
    with open(log_path) as file:
        steps = [json.loads(line) for line in file]
    if not steps or len(steps) > len(golden["float64"]):
        print(f"{log_path} has {len(steps)} steps, {golden_path} has {len(golden['float64'])}", file=sys.stderr)
        return 1

    print("step        Kerf   PyTorch f32   PyTorch f64   difference")
    worst = 0.0
    for step, single, double in zip(steps, golden["float32"], golden["float64"]):
        difference = abs(step["loss"] - double) / abs(double)
        worst = max(worst, difference) if difference == difference else float("inf")
        print(f"{step['step']:>4}  {step['loss']:>10.6f}    {single:>10.6f}    {double:>10.6f}     {difference:.1e}")
    verdict = "the losses are PyTorch's" if worst <= TOLERANCE else "the losses are NOT PyTorch's"
    print(f"\n{verdict}: largest relative difference {worst:.1e}, allowed {TOLERANCE:.0e}")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
