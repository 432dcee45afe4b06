#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows what `kerf calibrate` makes of a few small runs: each system's rows of the fewest GPUs are its measurements, and all others are predicted.

    benchmarks/published/calibrated.py runs.csv [more.csv ...] [--kerf build/bin/kerf] [--small 5] [--leave-out] [--unknown-device]

A group is a system on one kind of hardware, with at least three rows besides the measured ones. The measured runs are spread evenly over
the rows of at most 8 GPUs, or of as few GPUs as the group has. If the group has no three rows of more GPUs, the other small rows are
predicted. With --leave-out nothing that was fitted to the system is used before. With --unknown-device nothing is used that was fitted to
its kind of device: the device has the curves of another one, with its own peak rates, as a user's device would that Kerf does not know.
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
from runs import ROOT, Run, number, whole
from scores import measured_seconds

SMALL = 8  # GPUs of a small run
SAME = 0.1  # percent points by which two median errors differ at most that count as the same


def expressed(rows, folder, blind, unknown_device=False):
    """Returns the rows that can be predicted with a plan of their own, as pairs of the row and its run."""
    for index, row in enumerate(rows):
        try:
            run = Run(completed(row), convention_of(row), folder, index, blind, unknown_device)
        except CannotExpress:
            continue
        if not run.lacks_a_plan() and any(number(row, key) for key in ("iter_time_s", "tokens_s_total", "tokens_s_gpu", "samples_s", "tflops_per_gpu")):
            yield row, run


def seconds_of(row, run, kerf):
    """Returns the measured seconds of a row. Rates in FLOP/s need the FLOPs of the model, which a prediction tells."""
    if number(row, "iter_time_s"):
        return number(row, "iter_time_s")
    done = subprocess.run(run.command(kerf, "simulate", "--plan", run.paths["plan"]), capture_output=True, text=True)
    return measured_seconds(row, run.plan, json.loads(done.stdout)) if done.returncode == 0 else None


def chosen_and_rest(group, small):
    """Returns the runs of a group that are its measurements, and those that are predicted."""
    group = sorted(group, key=lambda one: one[1].ranks)
    least = max(SMALL, group[0][1].ranks)
    few = [one for one in group if one[1].ranks <= least]
    chosen = [few[i * len(few) // min(small, len(few))] for i in range(min(small, len(few)))]
    larger = [one for one in group if one[1].ranks > least]
    return chosen, larger if len(larger) >= 3 else [one for one in group if one not in chosen]


def calibrated(group, small, kerf, folder):
    """Returns the runs that kerf calibrate got, the seconds and predictions of the other runs, and its evidence; None for a small group."""
    chosen, rest = ([(row, run, seconds) for row, run in some if (seconds := seconds_of(row, run, kerf))] for some in chosen_and_rest(group, small))
    if not chosen or len(rest) < 3:
        return None
    table = os.path.join(folder, "runs.csv")
    with open(table, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "model", "plan", "dtype", "seq", "iter_time_s"])
        for known, some in ((True, chosen), (False, rest)):
            for row, run, seconds in some:
                writer.writerow([row["id"], run.paths["config"], run.paths["plan"], run.dtype, whole(row, "seq"), seconds if known else ""])
    largest = max(chosen + rest, key=lambda one: one[1].ranks)[1]
    done = subprocess.run([kerf, "calibrate", largest.cluster, "--for", largest.trainer, "--runs", table, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    told = json.loads(done.stdout)
    runs = {run["run"]: run for run in told["runs"]}
    return chosen, [(seconds, runs[row["id"]], run.ranks) for row, run, seconds in rest], told["leave_one_out"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="+")
    parser.add_argument("--kerf", default=os.path.join(ROOT, "build", "bin", "kerf"))
    parser.add_argument("--small", type=int, default=5, help="number of measured runs")
    parser.add_argument("--only", default="", help="predict only rows whose id contains this text")
    parser.add_argument("--leave-out", action="store_true", help="use nothing that was fitted to the system (predict.py --leave-out)")
    parser.add_argument("--unknown-device", action="store_true", help="use nothing that was fitted to the kind of device")
    arguments = parser.parse_args()
    rows = []
    for path in arguments.csv:
        with open(path, newline="") as file:
            rows += [row for row in csv.DictReader(file) if arguments.only in (row.get("id") or "")]
    print(f"{'system and hardware':<44} {'runs':>4} {'GPUs':>5} {'rows':>5} {'GPUs':>9} {'median error':>15} {'p90':>15} {'half width':>14} {'inside':>12} scale")
    counts = {"more GPUs": {}, "as many GPUs": {}}
    with tempfile.TemporaryDirectory() as folder:
        groups = {}
        for row, run in expressed(rows, folder, arguments.leave_out, arguments.unknown_device):
            groups.setdefault((row["system"], (row.get("hardware") or "")[:10], run.trainer), []).append((row, run))
        for (system, hardware, _), group in groups.items():
            result = calibrated(group, arguments.small, arguments.kerf, folder)
            if result:
                size, verdict = print_group(f"{system[:32]}, {hardware}", *result)
                counts[size][verdict] = counts[size].get(verdict, 0) + 1
    for size, verdicts in counts.items():
        print(f"groups whose other rows have {size}: " + ", ".join(f"{verdicts.get(word, 0)} {word}" for word in ("better", "worse", "same")))
    return 0


def print_group(name, chosen, rest, evidence):
    """Prints the errors of a group's other rows before -> after; returns how many GPUs they have, and whether the median became better."""
    def both(figure):
        return f"{figure('before'):.1f} -> {figure('after'):.1f} %"

    def errors(when):
        return sorted(100 * abs(run[when] / seconds - 1) for seconds, run, _ in rest)

    def widths(when):
        return statistics.median(100 * (math.sqrt(run[f"interval_{when}"][1] / run[f"interval_{when}"][0]) - 1) for _, run, _ in rest)

    def inside(when):
        return 100 * statistics.mean(run[f"interval_{when}"][0] <= seconds <= run[f"interval_{when}"][1] for seconds, run, _ in rest)

    most, sizes = max(run.ranks for _, run, _ in chosen), sorted(ranks for _, _, ranks in rest)
    gpus = f"{sizes[0]}" if sizes[0] == sizes[-1] else f"{sizes[0]}-{sizes[-1]}"
    share = f"{inside('before'):.0f} -> {inside('after'):.0f} %"
    print(f"{name[:44]:<44} {len(chosen):>4} {most:>5} {len(rest):>5} {gpus:>9} {both(lambda when: statistics.median(errors(when))):>15} "
          f"{both(lambda when: errors(when)[int(0.9 * (len(rest) - 1) + 0.5)]):>15} {both(widths):>14} {share:>12} {evidence['scale']:g}", flush=True)
    gain = statistics.median(errors("before")) - statistics.median(errors("after"))
    return ("more GPUs" if sizes[0] > most else "as many GPUs"), "better" if gain > SAME else "worse" if gain < -SAME else "same"


if __name__ == "__main__":
    sys.exit(main())
