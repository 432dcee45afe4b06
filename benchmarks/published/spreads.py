#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the spreads of the 80 % intervals to the errors of predicted runs, and shows how well they hold for a system that was left out.

    benchmarks/published/spreads.py rows.csv [more.csv ...]

The files are what predict.py --rows writes. The logarithm of measured by predicted seconds has the variance sum (spread of a kind of work times
sensitivity to it)^2 + 2 * 0.03^2 (docs/cost-model.md, "Intervals"). The fit has the largest likelihood, with the same weight for each system.
A system counts as left out if the spreads were fitted without its rows.
"""
import argparse
import collections
import csv
import math
import statistics
import sys

from scores import EIGHTY_PERCENT

PLAN, JOB = 0.03, 0.03  # kSpreadOfPlan, kSpreadOfJob of CostModel/Uncertainty.h
# spreadOfKinds of CostModel/Uncertainty.cpp, with which the sensitivities in the files were computed.
TODAY = {"products": 0.055, "attention": 0.12, "memory-bound kernels": 0.24, "host": 0.16, "links inside nodes": 0.14, "links between nodes": 0.29}
KINDS = list(TODAY)
LEAST, MOST = 0.02, 1.0  # limits of a spread
ROUNDS = 40  # of the search for the largest likelihood


def read(paths):
    """Returns the rows with a measured time: system, logarithm of measured by predicted seconds, sensitivities, whether they decided nothing."""
    rows = []
    for path in paths:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                if row["measured"]:
                    rows.append((row["system"], math.log(float(row["measured"]) / float(row["predicted"])),
                                 [float(row[f"change_{kind}"]) / TODAY[kind] for kind in KINDS], not row["influenced"],
                                 float(row["low"]) <= float(row["measured"]) <= float(row["high"])))
    return rows


def weights_of(rows):
    """Returns weights with which each system counts as much as every other."""
    count = collections.Counter(row[0] for row in rows)
    return [1 / count[row[0]] for row in rows]


def spread(sensitivities, spreads):
    return math.sqrt(PLAN**2 + JOB**2 + sum((one * its)**2 for one, its in zip(sensitivities, spreads)))


def fitted(rows):
    """Returns the spreads of the largest likelihood: each in turn moves up and down by a step that becomes smaller."""
    weights = weights_of(rows)

    def loss(spreads):
        total = 0
        for (_, error, sensitivities, *_), weight in zip(rows, weights):
            its = spread(sensitivities, spreads)
            total += weight * (math.log(its) + (error / its)**2 / 2)
        return total

    spreads, step = list(TODAY.values()), 0.4
    least = loss(spreads)
    for _ in range(ROUNDS):
        moved = False
        for k in range(len(spreads)):
            for factor in (1 + step, 1 / (1 + step)):
                other = [*spreads[:k], min(MOST, max(LEAST, spreads[k] * factor)), *spreads[k + 1:]]
                if (its := loss(other)) < least - 1e-9:
                    least, spreads, moved = its, other, True
        if not moved:
            step /= 2
        if step < 0.005:
            break
    return spreads


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="+")
    rows = read(parser.parse_args().csv)
    systems = sorted({row[0] for row in rows})
    apart = []  # how many spreads away a measurement is, by the spreads that were fitted without its system
    for system in systems:
        others = fitted([row for row in rows if row[0] != system])
        apart += [(row, abs(row[1]) / spread(row[2], others)) for row in rows if row[0] == system]
    print(f"{'spreads of the kinds of work':<48} {'today':>7} {'fitted':>9}")
    for kind, today, its in zip(KINDS, TODAY.values(), fitted(rows)):
        print(f"{kind:<48} {today:>7.3f} {its:>9.3f}")
    print(f"\n{'inside of 80 % intervals':<42} {'rows':>5} {'today':>7} {'left out':>9}")

    def line(name, some):
        today = statistics.mean(row[4] for row, _ in some)
        out = statistics.mean(distance <= EIGHTY_PERCENT for _, distance in some)
        print(f"{name[:42]:<42} {len(some):>5} {100 * today:>6.1f}% {100 * out:>8.1f}%")
        return today, out

    shares = [line(system, [one for one in apart if one[0][0] == system]) for system in systems]
    line("rows that decided nothing", [one for one in apart if one[0][3]])
    line("all rows", apart)
    today, out = (statistics.mean(share) for share in zip(*shares))
    print(f"{'mean of the systems':<42} {len(systems):>5} {100 * today:>6.1f}% {100 * out:>8.1f}%")
    return 0


if __name__ == "__main__":
    sys.exit(main())
