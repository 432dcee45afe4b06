#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kerf solve: its answers against an evaluation of its own and, where they are small, against trying everything; its files and statuses."""
import gzip
import itertools
import json
import os
import random
import re

from support import SHARED, KerfTest, file_of, kerf, main

EXAMPLE = {"problem": {
    "name": "example",
    "nodes": {"intervals": [[30, 70], [40, 70], [50, 120], [110, 140], [110, 150]],
              "costs": [[15], [55, 65], [25, 45, 35], [85, 75], [95]],
              "usages": [[10], [25, 25], [15, 20, 15], [10, 10], [15]]},
    "edges": {"nodes": [[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]],
              "costs": [[30, 40], [50, 10, 40], [90, 10, 20, 80], [60, 20, 30], [70, 60]]},
    "usage_limit": 50}}
INSTANCES = os.path.join(SHARED, "data", "iopddl")
QUICK_INSTANCES = ["G"]
FORBIDDEN = 10**18


def evaluate(problem, choice):
    """(cost, peak) straight from the format's definition."""
    nodes, edges = problem["nodes"], problem["edges"]
    assert len(choice) == len(nodes["costs"]), f"{len(choice)} choices for {len(nodes['costs'])} nodes"
    assert all(0 <= s < len(costs) for s, costs in zip(choice, nodes["costs"]))
    cost = sum(costs[s] for s, costs in zip(choice, nodes["costs"]))
    for (u, v), table in zip(edges["nodes"], edges["costs"]):
        cost += table[choice[u] * len(nodes["costs"][v]) + choice[v]]
    changes = []
    for s, (begin, end), usages in zip(choice, nodes["intervals"], nodes["usages"]):
        if begin < end:
            changes += [(begin, usages[s]), (end, -usages[s])]
    peak = now = 0
    for _, change in sorted(changes):
        now += change
        peak = max(peak, now)
    return cost, peak


def brute_force(problem):
    """(least cost of what fits or None, least peak)."""
    best, least = None, None
    for choice in itertools.product(*(range(len(costs)) for costs in problem["nodes"]["costs"])):
        cost, peak = evaluate(problem, choice)
        least = peak if least is None else min(least, peak)
        if peak <= problem.get("usage_limit", peak) and (best is None or cost < best):
            best = cost
    return best, least


def random_instance(seed, nodes, strategies, horizon=20):
    chance = random.Random(seed)
    sizes = [chance.randint(1, strategies) for _ in range(nodes)]
    pairs = [[u, v] for u in range(nodes) for v in range(nodes) if u != v and chance.random() < 2.5 / nodes]

    def cost():
        return FORBIDDEN if chance.random() < 0.1 else chance.randint(0, 2**55)

    intervals = [sorted((chance.randint(0, horizon), chance.randint(0, horizon))) for _ in sizes]
    problem = {"nodes": {"intervals": intervals, "costs": [[cost() for _ in range(n)] for n in sizes],
                         "usages": [[chance.randint(0, 1000) for _ in range(n)] for n in sizes]},
               "edges": {"nodes": pairs, "costs": [[cost() for _ in range(sizes[u] * sizes[v])] for u, v in pairs]}}
    peaks = [evaluate(problem, [chance.randrange(n) for n in sizes])[1] for _ in range(5)]
    problem["usage_limit"] = min(peaks) - chance.randint(0, 100)
    if seed % 4 == 0 or problem["usage_limit"] < 0:
        del problem["usage_limit"]
    return problem


class Solve(KerfTest):
    def progress_of(self, done):
        lines = [line.split() for line in done.stderr.splitlines() if not line.startswith("error: ")]
        self.assertTrue(lines, "no progress")
        for line in lines:
            self.assertEqual(len(line), 3, line)
            self.assertTrue(re.fullmatch(r"\d+(\.\d+)?", line[0]), line)
            for number in line[1:]:
                self.assertTrue(re.fullmatch(r"\d+|inf", number), line)
        seconds = [float(line[0]) for line in lines]
        self.assertEqual(seconds, sorted(seconds))
        return lines

    def solve(self, problem, path, *options, **more):
        """A feasible answer, checked: (choice, cost, lower bound)."""
        done = self.succeed("solve", path, *options, **more)
        choice = json.loads(done.stdout.splitlines()[-1])
        cost, peak = evaluate(problem, choice)
        self.assertLessEqual(peak, problem.get("usage_limit", peak))
        last = self.progress_of(done)[-1]
        self.assertEqual(last[1], str(cost), "the last progress line is the answer's")
        self.assertLessEqual(int(last[2]), cost)
        self.assertIn(f"cost         {cost}\n", done.stdout)
        self.assertIn(f"peak memory  {peak} bytes", done.stdout)
        return choice, cost, int(last[2])

    def test_example(self):
        problem = EXAMPLE["problem"]
        best, _ = brute_force(problem)
        path = self.write("example.json", EXAMPLE)
        for options in ([], ["--timeout", 10], ["--work", 10**6], ["--threads", 2]):
            choice, cost, bound = self.solve(problem, path, *options)
            self.assertEqual((cost, bound), (best, best))
        self.assertEqual(self.succeed("solve", path, "-o", self.path("list")).stdout.splitlines()[-1], self.read("list").decode().strip())
        self.assertEqual(json.loads(self.read("list")), choice)

    def test_random_instances_equal_trying_everything(self):
        fitting = 0
        for seed in range(1, 41):
            with self.subTest(seed=seed):
                problem = random_instance(seed, nodes=7, strategies=4)
                path = self.write("random.json", {"problem": problem})
                best, least = brute_force(problem)
                if best is None:
                    done = self.refuse(2, [f"usage_limit {problem['usage_limit']}", f"{least} bytes (proven the least)", f"set usage_limit to {least} or more"],
                                       "solve", path)
                    self.assertNotIn("[", done.stdout)
                    self.assertEqual(self.progress_of(done)[-1][1:], ["inf", "inf"])
                    continue
                fitting += 1
                _, cost, _ = self.solve(problem, path)
                self.assertEqual(cost, best)
        self.assertGreater(fitting, 10)

    def test_larger_instance_is_the_same_on_every_run(self):
        problem = random_instance(3, nodes=200, strategies=8, horizon=400)
        problem["usage_limit"] = 10**6
        path = self.write("large.json", {"problem": problem})
        for threads in (1, 2):
            answers = [self.solve(problem, path, "--work", 50_000_000, "--threads", threads) for _ in range(2)]
            self.assertEqual(answers[0], answers[1])

    def test_compressed_whatever_the_name(self):
        packed = gzip.compress(json.dumps(EXAMPLE).encode())
        for name in ("p.json.gz", "p.json"):
            self.solve(EXAMPLE["problem"], self.write(name, packed))
        self.solve(EXAMPLE["problem"], self.write("plain.json.gz", EXAMPLE))

    def test_nothing_fits(self):
        tight = json.loads(json.dumps(EXAMPLE))
        tight["problem"]["usage_limit"] = 49
        self.write("list", "old")
        done = self.refuse(2, ["usage_limit 49", "50 bytes (proven the least)", "moment 50", "1 (25 bytes)", "2 (15 bytes)", "0 (10 bytes)",
                               "set usage_limit to 50"], "solve", self.write("p.json", tight), "-o", self.path("list"))
        self.assertNotIn("[", done.stdout)
        self.assertEqual(self.read("list"), b"old")
        tight["problem"]["usage_limit"] = 50
        self.solve(tight["problem"], self.write("p.json", tight))

    def test_bad_files(self):
        def refused(words, content):
            done = self.refuse(1, ["bad.json", *words], "solve", self.write("bad.json", content))
            self.assertEqual(done.stdout, "")

        whole = json.dumps(EXAMPLE)
        refused(["byte 0"], "")
        refused([f"byte {len(whole) // 2}"], whole[:len(whole) // 2])
        refused(["problem"], "{}")
        refused([], "\x00\x01 garbage")
        refused(["cut off"], gzip.compress(whole.encode())[:-10])
        for key, change, words in (
                ("costs", lambda nodes: nodes["costs"][1].append(1), ["nodes.usages[1]", "2", "3"]),
                ("costs", lambda nodes: nodes["costs"][2].__setitem__(1, -1), ["nodes.costs[2][1] is -1"]),
                ("costs", lambda nodes: nodes["costs"][2].__setitem__(1, 0.5), ["nodes.costs[2][1]", "0.5"]),
                ("intervals", lambda nodes: nodes["intervals"][4].reverse(), ["nodes.intervals[4]", "150", "110"]),
                ("usages", lambda nodes: nodes.pop("usages"), ["nodes has no key \"usages\""])):
            with self.subTest(key=key, words=words):
                wrong = json.loads(whole)
                change(wrong["problem"]["nodes"])
                refused(words, wrong)
        self.refuse(1, ["nowhere.json"], "solve", self.path("nowhere.json"))
        self.refuse(1, ["folder"], "solve", self.folder)

    def test_usage(self):
        path = self.write("p.json", EXAMPLE)
        for options in (["--timeout", 1, "--work", 1], ["--timeout", -1], ["--threads", 0], ["--work", "x"], ["--nothing"]):
            self.assertEqual(kerf("solve", path, *options).returncode, 1, options)
        self.assertEqual(kerf("solve").returncode, 1)
        self.assertIn("Example: kerf solve", self.succeed("solve", "--help").stdout)
        self.refuse(1, ["no"], "solve", path, "-o", os.path.join(self.folder, "no", "list"))

    def test_problem_of_a_plan(self):
        """What `plan` answered, `solve` answers alike. The name tells the plan's cost and its unit; the plan's seconds are its program's."""
        model = file_of("mlp")
        for name in ("p.json", "p.json.gz"):
            self.succeed("plan", model, "--ranks", 4, "--all-ranks", "--dump-problem", self.path(name))
            text = self.read(name)
            problem = json.loads(gzip.decompress(text) if name.endswith(".gz") else text)["problem"]
            _, cost, bound = self.solve(problem, self.path(name))
            self.assertEqual(cost, bound)
            told = re.search(r"costs in units of 2\^(-\d+) s, cost of the plan (\d+)", problem["name"])
            self.assertEqual(cost, int(told[2]))
            self.assertLess(cost * 2.0 ** int(told[1]), 1)
        self.refuse(1, ["no"], "plan", model, "--dump-problem", os.path.join(self.folder, "no", "p.json"))

    def test_contest_instances(self):
        for name in QUICK_INSTANCES:
            path = os.path.join(INSTANCES, f"asplos-2025-iopddl-{name}.json.gz")
            if not os.path.exists(path):
                self.skipTest(f"{path} is not there")
            with self.subTest(name=name):
                with gzip.open(path) as file:
                    problem = json.load(file)["problem"]
                self.solve(problem, path, "--timeout", 2)


if __name__ == "__main__":
    main()
