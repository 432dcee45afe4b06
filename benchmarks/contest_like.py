#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates placement problems that look like the instances of the ASPLOS/EuroSys 2025 contest, and solves them.

    benchmarks/contest_like.py [NAME...] [--timeout 300 | --work N] [--threads 2] [--seed N] [--keep FOLDER] [--kerf build/bin/kerf]

A problem is a train step that a compiler shards over two mesh axes (one has three): parameters that live through the whole step, layers of
products and chains of elementwise ops forward and backward, and gradients that the updates of the parameters read. It has the figures that the
instances of the contest have: three quarters of the nodes have one neighbour, a tensor of D dimensions has (D + 1)^axes strategies, half
of the edges only forbid pairs of strategies, a few hubs have hundreds to thousands of edges, and the limit is 1.1 times the sum of the
least bytes of all live nodes at the fullest moment. The same name and seed give the same problem on every machine.

One line is printed for each problem: its figures, and cost, lower bound and gap of `kerf solve`, whose answer is checked here.
Without --timeout and --work the problems are only generated and described.
"""
import argparse
import collections
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FORBIDDEN = 10**18
TIGHTNESS = 1.1  # limit over the least bytes at the fullest moment, as in the contest's instances
WIDTHS = [16, 64, 256, 1024, 4096]  # sizes of dimensions
# name: nodes, sizes of the mesh axes, edges of the largest hub, tensors' ranks with their weights, seed
PROBLEMS = {
    "small": (800, (8, 4, 2), 40, {1: 2, 2: 5, 3: 3}, 1),       # up to 64 strategies a node
    "middle": (30000, (8, 4), 800, {0: 1, 1: 3, 2: 5, 3: 2}, 2),
    "large-41": (41000, (8, 4), 3000, {0: 1, 1: 3, 2: 5, 3: 2}, 3),
    "large-62": (62000, (8, 4), 3000, {0: 1, 1: 3, 2: 5, 3: 2}, 4),
}


class Generator:
    """Makes one problem; nodes are numbered in the order of the program."""

    def __init__(self, nodes, mesh, hub_edges, ranks, seed):
        self.rnd, self.mesh, self.wanted, self.hub_edges, self.ranks = random.Random(seed), mesh, nodes, hub_edges, ranks
        self.shapes, self.choices, self.costs, self.bytes, self.last = [], [], [], [], []  # by node; `last`: the last node that reads it
        self.edges = {}
        self.assignments = {}  # by number of factors

    def assign(self, factors):
        """All ways in which every mesh axis cuts one of `factors` factors or none (-1)."""
        if factors not in self.assignments:
            self.assignments[factors] = list(itertools.product(range(-1, factors), repeat=len(self.mesh)))
        return self.assignments[factors]

    def shards(self, choice, factors=None):
        count = 1
        for axis, cut in enumerate(choice):
            count *= self.mesh[axis] if cut >= 0 and (factors is None or cut in factors) else 1
        return count

    def node(self, shape, choices, costs, read_until=None):
        """`choices`: for each strategy, the dimension of the result that each axis cuts."""
        index, size = len(self.shapes), 4
        for extent in shape:
            size *= extent
        self.shapes.append(shape)
        self.choices.append(choices)
        self.costs.append(costs)
        self.bytes.append([max(1, size // self.shards(choice)) for choice in choices])
        self.last.append(index if read_until is None else read_until)
        return index

    def tensor(self, shape, **more):
        choices = self.assign(len(shape))
        return self.node(shape, choices, [0] * len(choices), **more)

    def shape(self):
        rank = self.rnd.choices(list(self.ranks), list(self.ranks.values()))[0]
        return tuple(self.rnd.choice(WIDTHS) for _ in range(rank))

    def connect(self, u, v, table):
        self.last[u] = max(self.last[u], v)
        if (u, v) in self.edges:
            table = [min(FORBIDDEN, a + b) for a, b in zip(self.edges[u, v], table)]
        self.edges[u, v] = table

    def follow(self, u, v):
        """Both have the same sharding."""
        self.connect(u, v, [0 if a == b else FORBIDDEN for a in self.choices[u] for b in self.choices[v]])

    def free(self, u, v):
        self.connect(u, v, [0] * (len(self.choices[u]) * len(self.choices[v])))

    def reshard(self, u, v, wanted):
        """v reads u; `wanted`: the sharding of u that each strategy of v reads. Gathers cost the bytes received, slices nothing."""
        prices = {}
        for a, have in enumerate(self.choices[u]):
            for want in set(wanted):
                local, price = self.bytes[u][a], 0
                for axis, size in enumerate(self.mesh):
                    if have[axis] >= 0 and have[axis] != want[axis]:
                        price += local * (size - 1) // (size if want[axis] >= 0 else 1)  # an all-to-all, or an all-gather
                        local *= 1 if want[axis] >= 0 else size
                prices[a, want] = price
        self.connect(u, v, [prices[a, want] for a in range(len(self.choices[u])) for want in wanted])

    def elementwise(self, inputs):
        """An op on tensors of one shape, most of which have to be sharded as its result is."""
        new = self.tensor(self.shapes[inputs[0]])
        for one in inputs:
            if self.choices[one] is self.choices[new] and self.rnd.random() < 0.7:
                self.follow(one, new)
            else:
                self.reshard(one, new, self.choices[new])
        return new

    def product(self, left, right):
        """(m, k) by (k, n); the strategies cut m, n, k; cutting k costs an all-reduce of the result."""
        m, n = self.shapes[left][0], self.shapes[right][-1]
        ways, choices, costs = self.assign(3), [], []
        for way in ways:
            choices.append(tuple(cut if cut in (0, 1) else -1 for cut in way))
            reducing = self.shards(way, (2,))
            costs.append(0 if reducing == 1 else 8 * m * n // self.shards(way, (0, 1)) * (reducing - 1) // reducing)
        new = self.node((m, n), choices, costs)
        place = lambda way, dims: tuple(dims.get(cut, -1) for cut in way)
        self.reshard(left, new, [place(way, {0: 0, 2: len(self.shapes[left]) - 1}) for way in ways])
        self.reshard(right, new, [place(way, {2: 0, 1: 1}) for way in ways])
        return new

    def leaves(self, of, count):
        """Constants, broadcasts and copies, which only `of` reads."""
        for _ in range(count):
            if self.rnd.random() < 0.6:
                self.follow(of, self.tensor(self.shapes[of])) if self.choices[of] is self.assign(len(self.shapes[of])) else self.free(of, self.tensor(()))
            else:
                self.free(of, self.tensor(self.shape()))

    def layer(self, stream, width, parameters, kept):
        weight = self.tensor((width, self.rnd.choice(WIDTHS[1:])))
        back = self.tensor((self.shapes[weight][1], width))
        parameters += [weight, back]
        inner = self.product(stream, weight)
        for _ in range(self.rnd.randint(1, 4)):
            inner = self.elementwise([inner])
            self.leaves(inner, self.rnd.randint(2, 5))
        kept.append((stream, inner, weight, back))
        result = self.elementwise([stream, self.elementwise([self.product(inner, back)])])
        self.leaves(result, self.rnd.randint(2, 5))
        return result

    def backward(self, gradient, kept):
        stream, inner, weight, back = kept
        inside = self.elementwise([self.product(gradient, weight), inner])
        self.leaves(inside, self.rnd.randint(2, 5))
        pairs = [(weight, self.product(self.transposed(stream), inside)), (back, self.product(self.transposed(inner), gradient))]
        for parameter, update in pairs:
            self.reshard(parameter, update, self.choices[update])
            self.leaves(self.elementwise([update]), 2)
        return self.elementwise([gradient, self.product(inside, back)])

    def transposed(self, value):
        shape = self.shapes[value]
        new = self.tensor(shape[::-1])
        self.reshard(value, new, [tuple(cut if cut < 0 else len(shape) - 1 - cut for cut in choice) for choice in self.choices[new]])
        return new

    def make(self):
        rnd, width = self.rnd, 1024
        hub = self.tensor((width,))
        stream, parameters, kept = self.tensor((4096, width)), [], []
        while len(self.shapes) < self.wanted * 0.45:
            stream = self.layer(stream, width, parameters, kept)
        gradient = self.elementwise([stream])
        for one in reversed(kept):
            gradient = self.backward(gradient, one)
        while len(self.shapes) < self.wanted:
            self.leaves(rnd.randrange(1, len(self.shapes)), rnd.randint(1, 6))
        for parameter in parameters:
            self.last[parameter] = len(self.shapes)
        for other in rnd.sample(range(1, len(self.shapes)), min(self.hub_edges, len(self.shapes) - 1)):
            if self.shapes[other] and self.shapes[other][-1] == width and self.choices[other] is self.assign(len(self.shapes[other])):
                last = len(self.shapes[other]) - 1
                self.reshard(hub, other, [tuple(0 if cut == last else -1 for cut in choice) for choice in self.choices[other]])
            else:
                self.free(hub, other)
        intervals = [[i, max(i + rnd.choice([0, 2, 2, 3]), last)] for i, last in enumerate(self.last)]
        change = collections.Counter()
        for (begin, end), ways in zip(intervals, self.bytes):
            change[begin] += min(ways) if end > begin else 0
            change[end] -= min(ways) if end > begin else 0
        now = peak = 0
        for moment in sorted(change):
            now += change[moment]
            peak = max(peak, now)
        return {"intervals": intervals, "costs": self.costs, "usages": self.bytes, "edges": self.edges, "limit": int(TIGHTNESS * peak)}


def write(problem, name, path):
    texts = {}
    with open(path, "w") as file:
        nodes = {key: problem[key] for key in ("intervals", "costs", "usages")}
        file.write(f'{{"problem": {{"name": "{name}", "nodes": {json.dumps(nodes)}, "edges": {{"nodes": {json.dumps([list(pair) for pair in problem["edges"]])}, "costs": [')
        for number, table in enumerate(problem["edges"].values()):
            key = tuple(table)
            texts.setdefault(key, json.dumps(table))
            file.write((", " if number else "") + texts[key])
        file.write(f']}}, "usage_limit": {problem["limit"]}}}}}')


def cost_of(problem, choice):
    """The cost of an answer; fails where the answer does not fit."""
    change = collections.Counter()
    for (begin, end), ways, taken in zip(problem["intervals"], problem["usages"], choice):
        change[begin] += ways[taken] if end > begin else 0
        change[end] -= ways[taken] if end > begin else 0
    assert max(itertools.accumulate(change[moment] for moment in sorted(change))) <= problem["limit"], "the answer does not fit"
    return sum(costs[taken] for costs, taken in zip(problem["costs"], choice)) + sum(
        table[choice[u] * len(problem["costs"][v]) + choice[v]] for (u, v), table in problem["edges"].items())


def describe(name, problem):
    degree = collections.Counter(end for pair in problem["edges"] for end in pair)
    sizes = [len(costs) for costs in problem["costs"]]
    only = sum(all(cost in (0, FORBIDDEN) for cost in table) for table in problem["edges"].values())
    return (f"{name}: {len(sizes)} nodes, {len(problem['edges'])} edges, strategies {statistics.median(sizes):.0f} at the median and {max(sizes)} at most, "
            f"one neighbour {100 * sum(count == 1 for count in degree.values()) / len(sizes):.0f} %, tables without prices {100 * only / len(problem['edges']):.0f} %, "
            f"largest hub {max(degree.values())} edges, limit {problem['limit']} bytes")


def solve(options, problem, path):
    limit = ["--timeout", str(options.timeout)] if options.timeout is not None else ["--work", str(options.work)]
    started = time.time()
    done = subprocess.run([options.kerf, "solve", path, "--threads", str(options.threads), *limit], text=True, capture_output=True)
    if done.returncode:
        return f"status {done.returncode}: {done.stderr.strip().splitlines()[-1]}"
    cost = cost_of(problem, json.loads(done.stdout.strip().splitlines()[-1]))
    bound = float(done.stderr.strip().splitlines()[-1].split()[2])
    return f"cost {cost}, bound {bound:.0f}, gap {100 * max(0.0, 1 - bound / cost) if cost else 0:.2f} % after {time.time() - started:.0f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"problems (default: all of {', '.join(PROBLEMS)})")
    parser.add_argument("--timeout", type=float, help="wall-clock seconds of each search")
    parser.add_argument("--work", type=int, help="units of work of each search, which do not depend on the machine's load")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, help="seed of the random numbers (default: one of each name's own)")
    parser.add_argument("--keep", help="folder for the problem files (default: a temporary folder)")
    parser.add_argument("--kerf", default=os.path.join(ROOT, "build", "bin", "kerf"))
    options = parser.parse_args()
    for name in options.names:
        if name not in PROBLEMS:
            parser.error(f"no problem is named '{name}'; the names are {', '.join(PROBLEMS)}")
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.names or PROBLEMS:
            *figures, seed = PROBLEMS[name]
            problem = Generator(*figures, seed if options.seed is None else options.seed).make()
            print(describe(name, problem), flush=True)
            path = os.path.join(options.keep or temporary, name + ".json")
            write(problem, name, path)
            if options.timeout is not None or options.work is not None:
                print(f"  {solve(options, problem, path)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
