#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicts every row of a CSV of published training runs with `kerf simulate` and prints the errors of the predictions.

    benchmarks/published/predict.py runs.csv [--kerf build/bin/kerf] [--jobs 2] [--rows out.csv] [--only TEXT] [--quick]

Each row becomes a config.json, a plan.json, a cluster file of clusters/ and options (runs.py). The measured results of a row are read
only to compare them (scores.py). Facts that the columns do not contain (who ran it, on which cluster, what overlapped) are in
conventions.csv in this folder. Rows that decided a constant or a mechanism of the cost model are reported separately, and rows that
cannot be expressed are listed with the reason. README.md in this folder explains the columns.
"""
import argparse
import concurrent.futures
import csv
import json
import os
import subprocess
import sys
import tempfile

from conventions import CannotExpress, completed, convention_of
from found import KEPT, plan_text, print_all_found, print_found, search
from runs import ROOT, Run
from goals import print_goals
from scores import (
    errors_by_group, group_of, is_oom, measured_seconds, memory_bytes, memory_kind, memory_risk, print_coverage, print_groups, print_oom, print_ranking)


def predict(row, kerf, folder, index, searched, blind=False):
    """Returns the prediction of a row and what it is compared with."""
    convention = convention_of(row)
    row = completed(row)
    run = Run(row, convention, folder, index, blind)
    if run.lacks_a_plan():
        plan = search(run, kerf, folder, index, KEPT + ("recompute", "optimizer_sharding", "schedule"), run.published_mesh())
        if "error" in plan:
            raise CannotExpress("no plan was published, and " + plan["error"].removeprefix("error: "))
        run.use(plan)
    done = subprocess.run(run.command(kerf, "simulate", "--margin", "0", "--plan", run.paths["plan"]), capture_output=True, text=True)
    if done.returncode != 0:
        raise CannotExpress(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"kerf ended with {done.returncode}")
    predicted = json.loads(done.stdout)
    return {"found": search(run, kerf, folder, index) if searched and run.ranks >= 8 else None,
            "predicted": predicted["step_seconds"], "measured": measured_seconds(row, run.plan, predicted), "fits": predicted["fits"],
            "memory_risk": memory_risk(predicted), "interval": interval_of(run, kerf, predicted), "by_kind": predicted["interval"]["by_kind"],
            "memory": memory_bytes(row, predicted), "breakdown": predicted["breakdown"], "plan": run.plan,
            "cluster": os.path.basename(run.cluster)[:-5], "influenced": convention["influenced"]}


def interval_of(run, kerf, predicted):
    """Returns the interval of the step's seconds. If the row does not say the microbatch, it spans those of half and twice the microbatch too,
    where they fit."""
    low, high = predicted["interval"]["step_seconds"]
    for path in run.other_microbatches():
        done = subprocess.run(run.command(kerf, "simulate", "--margin", "0", "--plan", path), capture_output=True, text=True)
        other = json.loads(done.stdout) if done.returncode == 0 else {"fits": False}
        if other["fits"]:
            low, high = min(low, other["interval"]["step_seconds"][0]), max(high, other["interval"]["step_seconds"][1])
    return low, high


def first_of_each_line(rows):
    """Returns the first row of each line of conventions.csv."""
    seen = set()
    kept = []
    for row in rows:
        try:
            line = id(convention_of(row))
        except CannotExpress:
            continue
        if line not in seen:
            seen.add(line)
            kept.append(row)
    return kept


def print_row(row, result):
    measured, memory = result["measured"], result["memory"]
    used = f"{100 * (memory[1] / memory[0] - 1):+.1f} %" if memory else ""
    error = f"{100 * (result['predicted'] / measured - 1):>+7.1f}%" if measured else "    oom " if is_oom(row) else "        "
    print(f"{row.get('id') or '?':<28} {measured or 0:>11.4f} {result['predicted']:>11.4f} {error}  {used:>7}  {result['cluster']} "
          f"{plan_text(result['plan'])}{'' if result['fits'] else '  does not fit'}", flush=True)


def row_of_table(row, result):
    """Returns the line of --rows: the prediction, the measurement, and the parts of the predicted step."""
    breakdown, memory = result["breakdown"], result["memory"]
    return {"id": row.get("id"), "system": row.get("system"), "measured": result["measured"], "predicted": result["predicted"],
            "error": result["predicted"] / result["measured"] - 1 if result["measured"] else "", "influenced": result["influenced"],
            "measured_bytes": memory[0] if memory else "", "predicted_bytes": memory[1] if memory else "",
            "memory_kind": memory_kind(row) if memory else "", "low": result["interval"][0], "high": result["interval"][1],
            "low_bytes": memory[2] if memory else "", "high_bytes": memory[3] if memory else "", "oom": is_oom(row), "fits": result["fits"],
            "memory_risk": result["memory_risk"],
            **{key: value for key, value in breakdown.items() if not isinstance(value, dict)},
            **{f"exposed_{key}": value for key, value in breakdown["exposed"].items()},
            **{f"change_{key}": value for key, value in result["by_kind"].items()}}


def print_scores(results):
    """Prints the tables of errors: seconds, ranking of plans, memory, and runs out of memory."""
    timed = [(row, result) for row, result in results if result["measured"]]
    free, influenced, memory = errors_by_group(results)
    if free:
        print_groups("rows that decided no constant and no mechanism", free)
    if influenced:
        print_groups("rows that decided one (conventions.csv says which)", influenced)
    print_ranking(timed)
    for kinds in (("allocated", "reserved"), ("device",)):
        some = {group: values for group, values in memory.items() if group.endswith(tuple(f"({kind})" for kind in kinds))}
        if some:
            print_groups(f"bytes: {' and '.join(kinds)}", some)
    print_coverage(results)
    print_oom(results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", help="published runs, with the columns of README.md")
    parser.add_argument("--kerf", default=os.path.join(ROOT, "build", "bin", "kerf"))
    parser.add_argument("--jobs", type=int, default=2, help="number of concurrent processes")
    parser.add_argument("--only", default="", help="predict only rows whose id contains this text")
    parser.add_argument("--rows", help="write the rows with their errors to this CSV file")
    parser.add_argument("--quick", action="store_true", help="predict only one row of each line of conventions.csv")
    parser.add_argument("--quiet", action="store_true", help="print only the groups")
    parser.add_argument("--leave-out", action="store_true",
                        help="predict each system as if nothing had been fitted to its rows (column blind of conventions.csv)")
    parser.add_argument("--search", action="store_true", help="also let kerf plan find a plan for each row of 8 GPUs or more, and compare")
    arguments = parser.parse_args()
    with open(arguments.csv, newline="") as file:
        rows = [row for row in csv.DictReader(file) if arguments.only in (row.get("id") or "")]
    rows = first_of_each_line(rows) if arguments.quick else rows

    def one(item):
        index, row = item
        try:
            return predict(row, arguments.kerf, folder, index, arguments.search, arguments.leave_out)
        except CannotExpress as reason:
            return {"reason": str(reason)}

    results, left_out = [], []
    if not arguments.quiet:
        print(f"{'row':<28} {'measured s':>11} {'predicted s':>11} {'error':>8}  memory  plan")
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for row, result in zip(rows, pool.map(one, enumerate(rows))):  # in the order of the rows, each as soon as it is known
            if "reason" in result or not (result["measured"] or result["memory"] or is_oom(row)):
                left_out.append((row.get("id") or "?", result.get("reason", "no time, no rate and no memory was published")))
                continue
            results.append((row, result))
            if not arguments.quiet:
                print_row(row, result)
            if result["found"]:
                print_found(row, result)
    print_scores(results)
    print(f"\nnot expressed: {len(left_out)} rows")
    for name, reason in left_out:
        print(f"  {name}: {reason}")
    if arguments.search:
        print_all_found(results)
    if results:
        print_goals(results)
    if arguments.rows and results:
        table = [row_of_table(row, result) for row, result in results]
        keys = list(dict.fromkeys(key for line in table for key in line))
        with open(arguments.rows, "w", newline="") as file:
            writer = csv.DictWriter(file, keys)
            writer.writeheader()
            writer.writerows(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
