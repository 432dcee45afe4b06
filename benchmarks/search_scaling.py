#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the table of docs/search-scaling.md: the solver on transformer-like problems of 10^2 to 10^5 nodes, and HiGHS on those problems that it can read.

    cmake --build --preset release --target search-scaling && benchmarks/search_scaling.py build/bin/search-scaling

Each problem is solved in a process of its own, with a budget of work. HiGHS is called through scipy, with a limit of wall seconds, and left out if scipy is not
installed. All seconds in the table are CPU time.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "e2e"))
import test_solve_highs as highs  # noqa: E402

WORK_PER_NODE = {100: 6e7, 1000: 3e6, 10000: 6e5, 100000: 3e5}  # steps
MOST_NODES_FOR_HIGHS = 1000
HIGHS_SECONDS = 30


def percent(share):
    return "0" if share < 1e-9 else f"{100 * share:.2g} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="path of the program search-scaling, built in Release")
    parser.add_argument("--nodes", type=int, nargs="*", default=list(WORK_PER_NODE))
    parser.add_argument("--limits", type=float, nargs="*", default=[1.1, 1.3, 1.5], help="memory limits, relative to the smallest possible peak memory")
    parser.add_argument("--work", type=float, help="budget of solver steps for each node (default: 6e7 for 100 nodes to 3e5 for 100,000)")
    parser.add_argument("--highs-seconds", type=float, default=HIGHS_SECONDS)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print("| nodes | edges | limit | first answer, s | 1 % gap, s | last gap | of s | memory, MiB | HiGHS: gap, of s | its answer / ours |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for nodes in options.nodes:
        for limit in options.limits:
            work = nodes * (options.work or WORK_PER_NODE.get(nodes, 4e6))
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "problem.json")
                peer = highs.milp is not None and nodes <= MOST_NODES_FOR_HIGHS
                command = [options.program, nodes, limit, work, options.threads] + ([path] if peer else [])
                done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
                ours = json.loads(done.stdout)
                theirs = ["", ""]
                if peer:
                    with open(path) as file:
                        problem = json.load(file)["problem"]
                    start = time.process_time()
                    _, best, bound, _ = highs.answer_of_highs(problem, options.highs_seconds)
                    taken = time.process_time() - start
                    theirs = [f"none, {taken:.0f}", "none"]
                    if best is not None:
                        theirs = [f"{percent(max(0.0, 1 - bound / best))}, {taken:.1f}", f"{best / ours['cost']:.4f}"]
                    assert bound <= ours["cost"] * (1 + 1e-6) and (best is None or best >= ours["bound"]), "bounds cross"
            if ours["gap"] >= 1:
                first = reached = "none"
            else:
                first = f"{ours['first_answer_seconds']:.2g}"
                reached = f"{ours['one_percent_seconds']:.2g}" if ours["one_percent_seconds"] >= 0 else "not reached"
            print(f"| {ours['nodes']:,} | {ours['edges']:,} | {limit} | {first} | {reached} | {percent(ours['gap'])} | {ours['seconds']:.3g} | "
                  f"{ours['peak_mib']:.0f} | {' | '.join(theirs)} |", flush=True)


if __name__ == "__main__":
    main()
