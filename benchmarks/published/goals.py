# SPDX-License-Identifier: Apache-2.0
"""The figures that predictions of published runs are asked to reach, beside what they reach."""
import statistics

from scores import errors_by_group, is_oom, jobs_of, percentile, regret, runs_out


def print_goals(results):
    """Prints each figure, the limit that it is asked to keep, and whether it does. Figures without rows are left out."""
    free, influenced, memory = errors_by_group(results)

    def sizes(groups):
        return [100 * abs(error) for values in groups.values() for error in values]

    def of_kinds(*kinds):
        return sizes({group: values for group, values in memory.items() if group.endswith(tuple(f"({kind})" for kind in kinds))})

    lines = []

    def at_most(name, values, figure, limit):
        if values:
            lines.append((name, len(values), figure(values), f"at most {limit:g} %", figure(values) <= limit))

    def p90(values):
        return percentile(values, 0.9)

    for name, values in (("step time, rows that decided nothing", sizes(free)), ("step time, all rows", sizes(free) + sizes(influenced))):
        at_most(f"{name}: median", values, statistics.median, 8)
        at_most(f"{name}: p90", values, p90, 20)
    for name, values, median, most in (("allocated and reserved bytes", of_kinds("allocated", "reserved"), 8, 15), ("bytes on the device", of_kinds("device"), 12, 20)):
        at_most(f"{name}: median", values, statistics.median, median)
        at_most(f"{name}: p90", values, p90, most)
    regrets = [100 * regret(pairs) for pairs in jobs_of([(row, result) for row, result in results if result["measured"]]).values()]
    at_most("slower than the best plan: mean", regrets, statistics.mean, 5)
    at_most("slower than the best plan: largest", regrets, max, 20)
    out = [100 * runs_out(result) for row, result in results if is_oom(row)]
    if out:
        lines.append(("out of memory: recognized", len(out), statistics.mean(out), "at least 90 %", statistics.mean(out) >= 90))
    at_most("out of memory: false alarms", [100 * runs_out(result) for row, result in results if not is_oom(row)], statistics.mean, 10)
    inside = [100 * (result["interval"][0] <= result["measured"] <= result["interval"][1])
              for _, result in results if result["measured"] and not result["influenced"]]
    if inside:
        lines.append(("80 % intervals, rows that decided nothing", len(inside), statistics.mean(inside), "75 to 85 %", 75 <= statistics.mean(inside) <= 85))
    print(f"\n{'asked figures':<52} {'rows':>5} {'reached':>9}  {'asked':<14} kept")
    for name, rows, value, asked, kept in lines:
        print(f"{name:<52} {rows:>5} {value:>7.1f} %  {asked:<14} {'yes' if kept else 'no'}")
