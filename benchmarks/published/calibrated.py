#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows what `kerf calibrate` makes of a few small runs: each system's rows of the fewest GPUs are its measurements, and all others are predicted.

    benchmarks/published/calibrated.py runs.csv [--kerf build/bin/kerf] [--small 5] [--leave-out]

A group is a system on one kind of hardware, with at least three rows besides the measured ones. The measured runs are spread evenly over
the rows of at most 8 GPUs, or of as few GPUs as the group has. With --leave-out nothing that was fitted to the system is used before.
"""
import argparse
import csv
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

from conventions import CannotExpress, completed, convention_of
from runs import ROOT, Run, whole
from scores import measured_seconds

SMALL = 8  # GPUs of a small run


def expressed(rows, folder, blind):
    """Returns the rows that can be predicted with a plan of their own, as pairs of the row and its run."""
    for index, row in enumerate(rows):
        try:
            run = Run(completed(row), convention_of(row), folder, index, blind)
        except CannotExpress:
            continue
        if not run.lacks_a_plan():
            yield row, run


def seconds_of(row, run, kerf):
    """Returns the measured seconds of a row. Rates in FLOP/s need the FLOPs of the model, which a prediction tells."""
    done = subprocess.run(run.command(kerf, "simulate", "--plan", run.paths["plan"]), capture_output=True, text=True)
    return measured_seconds(row, run.plan, json.loads(done.stdout)) if done.returncode == 0 else None


def calibrated(group, small, kerf, folder):
    """Returns the result of kerf calibrate for a group, and the seconds of the runs that it did not get."""
    group = sorted(group, key=lambda one: one[1].ranks)
    least = max(SMALL, group[0][1].ranks)
    few = [one for one in group if one[1].ranks <= least]
    chosen = [few[i * len(few) // min(small, len(few))] for i in range(min(small, len(few)))]
    rest = [one for one in group if one[1].ranks > least] or [one for one in group if one not in chosen]
    if len(rest) < 3:
        return None
    table = os.path.join(folder, "runs.csv")
    with open(table, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "model", "plan", "dtype", "seq", "iter_time_s"])
        for row, run, seconds in chosen + rest:
            known = (row, run, seconds) in chosen
            writer.writerow([row["id"], run.paths["config"], run.paths["plan"], run.dtype, whole(row, "seq"), seconds if known else ""])
    largest = max(group, key=lambda one: one[1].ranks)[1]
    done = subprocess.run([kerf, "calibrate", largest.cluster, "--for", largest.trainer, "--runs", table, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    told = {run["run"]: run for run in json.loads(done.stdout)["runs"]}
    return chosen, [(seconds, told[row["id"]]) for row, _, seconds in rest]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv")
    parser.add_argument("--kerf", default=os.path.join(ROOT, "build", "bin", "kerf"))
    parser.add_argument("--small", type=int, default=5, help="number of measured runs")
    parser.add_argument("--only", default="", help="predict only rows whose id contains this text")
    parser.add_argument("--leave-out", action="store_true", help="use nothing that was fitted to the system (predict.py --leave-out)")
    arguments = parser.parse_args()
    with open(arguments.csv, newline="") as file:
        rows = [row for row in csv.DictReader(file) if arguments.only in (row.get("id") or "")]
    print(f"{'system and hardware':<56} {'runs':>5} {'GPUs':>5} {'rows':>5} {'median':>14} {'p90':>14} {'half width':>12} {'inside':>12}")
    with tempfile.TemporaryDirectory() as folder:
        groups = {}
        for row, run in expressed(rows, folder, arguments.leave_out):
            if seconds := seconds_of(row, run, arguments.kerf):
                groups.setdefault((row["system"], (row.get("hardware") or "")[:20], run.trainer), []).append((row, run, seconds))
        for (system, hardware, _), group in groups.items():
            result = calibrated(group, arguments.small, arguments.kerf, folder)
            if result:
                print_group(f"{system[:34]}, {hardware}", *result)
    return 0


def print_group(name, chosen, rest):
    """Prints the errors of a group's other rows before -> after."""
    def both(figure):
        return f"{figure('before'):.1f} -> {figure('after'):.1f} %"

    def errors(when):
        return sorted(100 * abs(run[when] / seconds - 1) for seconds, run in rest)

    def widths(when):
        return statistics.median(100 * (math.sqrt(run[f"interval_{when}"][1] / run[f"interval_{when}"][0]) - 1) for _, run in rest)

    def inside(when):
        return 100 * statistics.mean(run[f"interval_{when}"][0] <= seconds <= run[f"interval_{when}"][1] for seconds, run in rest)

    most = max(run.ranks for _, run, _ in chosen)
    print(f"{name[:56]:<56} {len(chosen):>5} {most:>5} {len(rest):>5} {both(lambda when: statistics.median(errors(when))):>14} "
          f"{both(lambda when: errors(when)[int(0.9 * (len(rest) - 1) + 0.5)]):>14} {both(widths):>12} {both(inside):>12}")


if __name__ == "__main__":
    sys.exit(main())
