#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kerf solve against HiGHS on problems of 30 to 80 nodes: it proves the optimum of each, and its bound never exceeds it.

Needs scipy (Debian: python3-scipy), whose `milp` is HiGHS; without it the test is skipped. `--all` does 200 problems instead of 12.
"""
import json
import math
import random
import sys
import time
import unittest

try:
    import numpy
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array
except ImportError as missing:
    milp, WHY = None, f"{missing}: install python3-scipy"

from support import KerfTest, kerf, main
from test_solve import evaluate

ALL = "--all" in sys.argv
if ALL:
    sys.argv.remove("--all")
PROBLEMS = 200 if ALL else 12
KERF_SECONDS = 10
HIGHS_SECONDS = 20
OPTIMAL, TIME_LIMIT = 0, 1  # scipy's statuses


def layered(chance):
    """Edges like a train step's: a forward chain, a backward chain, skips, and each backward op looking at its forward op."""
    half = chance.randint(15, 40)
    edges = [(i, i + 1) for i in range(2 * half - 1)]
    edges += [(i, 2 * half - 1 - i) for i in range(half - 1)]
    edges += [(i - 3, i) for i in range(3, half) if i % 4 == 3]
    intervals = [(i, 2 * half - i) for i in range(half)] + [(half + i, half + i + 2) for i in range(half)]
    return 2 * half, edges, intervals


def grid(chance):
    width = chance.randint(3, 5)
    nodes = chance.randint(30, 60) // width * width
    edges = [(i, i + 1) for i in range(nodes) if (i + 1) % width] + [(i, i + width) for i in range(nodes - width)]
    begins = [chance.randint(0, nodes) for _ in range(nodes)]
    return nodes, edges, [(begin, begin + chance.randint(1, nodes // 2)) for begin in begins]


def medium_problem(seed):
    """Without a limit. Strategies have a layout; unequal layouts cost: mostly more than a wrong strategy does."""
    chance = random.Random(seed)
    nodes, edges, intervals = (layered, grid)[seed % 2](chance)
    most = chance.randint(4, 8) if seed % 2 == 0 else chance.randint(3, 5)
    sizes = [chance.randint(3, most) for _ in range(nodes)]
    layouts = chance.randint(2, 4)

    def table(u, v):
        dear = chance.randint(100, 1000)
        return [0 if a % layouts == b % layouts else dear + chance.randint(0, dear) for a in range(sizes[u]) for b in range(sizes[v])]

    costs = [[chance.randint(500, 2000) for _ in range(n)] for n in sizes]
    # What is cheap takes much: without that memory would not bind.
    usages = [[chance.randint(100, 1000) * 2000 // cost for cost in of] for of in costs]
    return {"nodes": {"intervals": [list(pair) for pair in intervals], "costs": costs, "usages": usages},
            "edges": {"nodes": [list(pair) for pair in edges], "costs": [table(u, v) for u, v in edges]}}


def answer_of_highs(problem, seconds):
    """(optimum or None, best cost found or None, lower bound, seconds): one variable for each strategy and each pair of an edge."""
    nodes, edges = problem["nodes"], problem["edges"]
    first, objective = [], []
    for costs in nodes["costs"]:
        first.append(len(objective))
        objective += costs
    whole = len(objective)
    entries, lower, upper = [], [], []

    def row(terms, least, most):
        entries.extend((len(lower), column, value) for column, value in terms)
        lower.append(least)
        upper.append(most)

    for start, costs in zip(first, nodes["costs"]):
        row([(start + s, 1) for s in range(len(costs))], 1, 1)
    for (u, v), table in zip(edges["nodes"], edges["costs"]):
        pairs, rows, columns = len(objective), len(nodes["costs"][u]), len(nodes["costs"][v])
        objective += table
        for a in range(rows):
            row([(pairs + a * columns + b, 1) for b in range(columns)] + [(first[u] + a, -1)], 0, 0)
        for b in range(columns):
            row([(pairs + a * columns + b, 1) for a in range(rows)] + [(first[v] + b, -1)], 0, 0)
    if "usage_limit" in problem:
        for moment in sorted({begin for begin, end in nodes["intervals"] if begin < end}):
            row([(start + s, byte) for start, (begin, end), usage in zip(first, nodes["intervals"], nodes["usages"])
                 if begin <= moment < end for s, byte in enumerate(usage)], -math.inf, problem["usage_limit"])
    rows, columns, values = zip(*entries)
    matrix = coo_array((values, (rows, columns)), shape=(len(lower), len(objective))).tocsr()
    integrality = numpy.zeros(len(objective))
    integrality[:whole] = 1
    start = time.monotonic()
    result = milp(numpy.array(objective, float), constraints=LinearConstraint(matrix, lower, upper), bounds=Bounds(0, 1),
                  integrality=integrality, options={"time_limit": seconds, "mip_rel_gap": 0})
    taken = time.monotonic() - start
    if result.status not in (OPTIMAL, TIME_LIMIT):
        raise RuntimeError(result.message)
    best = None
    if result.x is not None:
        choice = [int(numpy.argmax(result.x[start:start + len(costs)])) for start, costs in zip(first, nodes["costs"])]
        best, peak = evaluate(problem, choice)
        assert peak <= problem.get("usage_limit", peak)
    bound = result.mip_dual_bound
    return best if result.status == OPTIMAL else None, best, -math.inf if bound is None else bound, taken


@unittest.skipIf(milp is None, "" if milp else WHY)
class AgainstHighs(KerfTest):
    def answer_of_kerf(self, problem):
        """(cost, bound, peak, seconds)."""
        path = self.write("problem.json", {"problem": problem})
        start = time.monotonic()
        done = self.succeed("solve", path, "--timeout", KERF_SECONDS)
        taken = time.monotonic() - start
        cost, peak = evaluate(problem, json.loads(done.stdout.splitlines()[-1]))
        _, best, bound = done.stderr.splitlines()[-1].split()
        self.assertEqual(int(best), cost)
        self.assertLessEqual(peak, problem.get("usage_limit", peak))
        return cost, int(bound), peak, taken

    def test_medium_problems(self):
        proven = equal = by_highs = binding = 0
        logarithms = []
        for seed in range(1, PROBLEMS + 1):
            with self.subTest(seed=seed):
                problem = medium_problem(seed)
                free_cost, _, free_peak, _ = self.answer_of_kerf(problem)
                least_nodes = {"nodes": dict(problem["nodes"], usages=[[min(usage)] * len(usage) for usage in problem["nodes"]["usages"]]),
                               "edges": problem["edges"]}
                _, least = evaluate(least_nodes, [0] * len(problem["nodes"]["costs"]))
                share = random.Random(seed).uniform(0.1, 0.9)
                problem["usage_limit"] = int(least + share * (free_peak - least))
                cost, bound, _, seconds = self.answer_of_kerf(problem)
                optimum, best, highs_bound, highs_seconds = answer_of_highs(problem, HIGHS_SECONDS)
                binding += cost > free_cost
                proven += cost == bound
                logarithms.append(math.log(highs_seconds / seconds))
                self.assertLessEqual(bound, cost)
                if best is not None:
                    self.assertLessEqual(bound, best, "kerf's bound exceeds an answer of HiGHS")
                self.assertGreaterEqual(cost, highs_bound - 1e-6 * abs(highs_bound), "kerf's answer is below the bound of HiGHS")
                if optimum is not None:
                    by_highs += 1
                    equal += cost == optimum
                    self.assertGreaterEqual(cost, optimum)
                    if cost == bound:
                        self.assertEqual(cost, optimum, "proven, yet not the optimum")
                if ALL:
                    print(f"{seed}: {len(problem['nodes']['costs'])} nodes, kerf {cost} >= {bound} in {seconds:.2f} s, "
                          f"HiGHS {best} >= {highs_bound:.0f} in {highs_seconds:.2f} s", flush=True)
        print(f"{PROBLEMS} problems, {binding} where memory binds: proven by kerf {proven}, by HiGHS {by_highs}, equal {equal} of those; "
              f"HiGHS took {math.exp(sum(logarithms) / len(logarithms)):.2f} times as long (geometric mean)")
        self.assertGreater(binding, PROBLEMS // 2)
        self.assertEqual(proven, PROBLEMS)


if __name__ == "__main__":
    main()
