# SPDX-License-Identifier: Apache-2.0
"""Compares predictions with the measurements of rows, and prints tables of errors."""
import collections
import json
import math
import re
import statistics

from runs import number, whole

GIB = 2.0**30
# A plan is said to run out of memory if it needs more than the device has with a higher probability: a run that fails costs more than a plan
# that is passed over. Chosen with the rows of development2.csv in view; print_oom shows what other values give.
MEMORY_RISK = 0.2
EIGHTY_PERCENT = 1.2816  # half of an 80 % interval, in standard deviations
# Two rows compare plans if they differ in nothing but the plan.
SAME_JOB = ("system", "arch", "layers", "hidden", "heads", "seq", "experts", "gpus", "gbs", "hardware", "dtype", "recompute")


def measured_seconds(row, plan, predicted):
    """Returns the seconds of a step, as published or computed from rates. Hardware FLOP/s include the recomputed forward (8 instead of 6 per weight)."""
    seconds = number(row, "iter_time_s")
    if seconds:
        return seconds
    batch, sequence, gpus = plan["global_batch"], whole(row, "seq"), whole(row, "gpus") or predicted["ranks"]
    tokens = batch * sequence
    if number(row, "tokens_s_total"):
        return tokens / number(row, "tokens_s_total")
    if number(row, "tokens_s_gpu"):
        return tokens / number(row, "tokens_s_gpu") / gpus
    if number(row, "samples_s"):
        return batch / number(row, "samples_s")
    rate = number(row, "tflops_per_gpu")
    if not rate:
        return None
    hardware = "hardware" in (row.get("tflops_kind") or "")
    flops = predicted["model_flops"]
    if "llama" not in (row.get("arch") or "").lower():  # the formula of SC21 and of later papers that use it
        layers, hidden, vocabulary = whole(row, "layers"), whole(row, "hidden"), whole(row, "vocab", 51200) or 51200
        attention, head = sequence / (6 * hidden), vocabulary / (16 * layers * hidden)
        flops = (96 if hardware else 72) * tokens * layers * hidden**2 * (1 + attention + head)
    elif hardware and plan["recompute"] == "full":
        flops *= 4 / 3
    return flops / (rate * 1e12 * gpus)


def memory_kind(row):
    """Returns what the memory figure of a row counts: "reserved", "device" (nvidia-smi) or "allocated"."""
    kind = (row.get("mem_kind") or "").lower()
    return "reserved" if "reserved" in kind else "device" if "nvidia" in kind else "allocated"


def memory_bytes(row, predicted):
    """Returns the measured bytes, the predicted bytes of the same stages and kind, and their interval; None if nothing was published."""
    measured = number(row, "mem_gb")
    if not measured:
        return None
    text, kind = (row.get("mem_kind") or "").lower(), memory_kind(row)
    stages = predicted["memory"]
    values = predicted["peak_bytes"] if kind == "allocated" else [stage[f"{kind}_bytes"] for stage in stages]
    intervals = predicted["interval"]["peak_bytes" if kind == "allocated" else "device_bytes"]
    shown = [-1] if "rank-last" in text else [0, -1] if "first/last" in text else range(len(values))
    most = max(shown, key=lambda stage: values[stage])
    context = stages[most]["device_bytes"] - stages[most]["reserved_bytes"] if kind == "reserved" else 0
    low, high = (end - context for end in intervals[most])
    return measured * (1e9 if "1e9" in text else GIB), values[most], low, high


def memory_risk(predicted):
    """Returns the probability that a stage needs more bytes than its device has, by the interval of its bytes (log-normal)."""
    risks = []
    for stage, (low, high) in zip(predicted["memory"], predicted["interval"]["device_bytes"]):
        spread = math.log(high / low) / (2 * EIGHTY_PERCENT)
        distance = math.log(stage["limit_bytes"] / stage["device_bytes"])
        risks.append(math.erfc(distance / spread / math.sqrt(2)) / 2 if spread > 0 else float(distance < 0))
    return max(risks)


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * (len(ordered) - 1) + 0.5))]


def tau(pairs):
    concordant = discordant = 0
    for i, (a, b) in enumerate(pairs):
        for c, d in pairs[:i]:
            sign = (a - c) * (b - d)
            concordant += sign > 0
            discordant += sign < 0
    return (concordant - discordant) / max(1, concordant + discordant)


def group_of(row):
    return f"{row.get('system')} / {re.split('[#/]', row.get('id') or '?')[0]}"


def is_oom(row):
    return (row.get("oom") or "").strip().lower() in ("1", "yes", "true", "oom")


def print_groups(title, errors):
    """Prints the errors of each group of rows and of all rows. `errors` maps a group to its errors."""
    print(f"\n{title:<64} {'rows':>5} {'median':>8} {'p90':>8} {'bias':>8}")
    everything = [error for values in errors.values() for error in values]
    for group, values in [*errors.items(), ("all", everything)]:
        sizes = [abs(value) for value in values]
        print(f"{group[:64]:<64} {len(values):>5} {100 * statistics.median(sizes):>7.1f}% {100 * percentile(sizes, 0.9):>7.1f}%"
              f" {100 * statistics.median(values):>+7.1f}%")


def errors_by_group(results):
    """Returns the errors of seconds of rows that decided nothing, and of those that decided something, and the errors of bytes; each is a
    dictionary from a group to its errors. Groups of bytes end with what was measured."""
    free, influenced, memory = (collections.defaultdict(list) for _ in range(3))
    for row, result in results:
        if result["measured"]:
            (influenced if result["influenced"] else free)[group_of(row)].append(result["predicted"] / result["measured"] - 1)
        if result["memory"] and not is_oom(row):
            measured, predicted = result["memory"][:2]
            memory[f"{group_of(row)} ({memory_kind(row)})"].append(predicted / measured - 1)
    return free, influenced, memory


def jobs_of(results):
    """Returns the jobs that were run under four plans or more: their plans' measured and predicted seconds."""
    jobs = collections.defaultdict(lambda: collections.defaultdict(list))
    for row, result in results:
        jobs[tuple(row.get(key) for key in SAME_JOB)][json.dumps(result["plan"])].append((result["measured"], result["predicted"]))
    # Runs of one plan count once, with their mean: no prediction can tell them apart.
    return {key: [tuple(map(statistics.mean, zip(*runs))) for runs in plans.values()] for key, plans in jobs.items() if len(plans) >= 4}


def regret(pairs):
    """Returns by which share the plan that is predicted to be the fastest is slower than the best."""
    return min(pairs, key=lambda pair: pair[1])[0] / min(measured for measured, _ in pairs) - 1


def print_ranking(results):
    """Prints how well predictions rank the plans of one job, for jobs that were run under four plans or more."""
    jobs = jobs_of(results)
    if not jobs:
        return
    print(f"\n{len(jobs)} jobs were run under four plans or more: Kendall's tau, and how much slower the first by prediction is than the best")
    regrets, taus = [], []
    for key, pairs in jobs.items():
        job = dict(zip(SAME_JOB, key))
        regrets.append(regret(pairs))
        taus.append(tau(pairs))
        if regrets[-1] > 0.05 or len(jobs) < 10:
            print(f"  {job['system']}, {job['layers']} layers of {job['hidden']}, {job['gpus']} GPUs, batch {job['gbs']}, {len(pairs)} plans: "
                  f"tau {taus[-1]:.2f}, {100 * regrets[-1]:+.1f} %")
    print(f"  all: median tau {statistics.median(taus):.2f}; slower than the best by {100 * statistics.mean(regrets):.1f} % in the mean, "
          f"{100 * max(regrets):.1f} % at most")


def print_coverage(results):
    """Prints the share of measurements that lie inside of the 80 % intervals, by system: seconds, and bytes."""
    print(f"\n{'80 % intervals: share of measurements inside (rows)':<64} {'seconds':>14} {'bytes':>14} {'half width':>11}")
    groups = collections.defaultdict(lambda: ([], [], []))
    never, whole = "all that decided nothing", "all"
    for row, result in results:
        for group in (group_of(row), *([] if result["influenced"] else [never]), whole):
            seconds, memory, widths = groups[group]
            if result["measured"]:
                low, high = result["interval"]
                seconds.append(low <= result["measured"] <= high)
                widths.append(math.sqrt(high / low) - 1)
            if result["memory"] and not is_oom(row):
                measured, _, low, high = result["memory"]
                memory.append(low <= measured <= high)
    share = lambda values: f"{100 * statistics.mean(values):.0f} % ({len(values)})" if values else ""
    for group, (seconds, memory, widths) in sorted(groups.items(), key=lambda item: (item[0] == whole, item[0] == never)):
        print(f"{group[:64]:<64} {share(seconds):>14} {share(memory):>14} {f'{100 * statistics.median(widths):.0f} %' if widths else '':>11}")


def runs_out(result, risk=MEMORY_RISK):
    """Returns whether a plan is said to run out of memory."""
    return result["memory_risk"] > risk


def print_oom(results):
    """Prints how many rows that ran out of memory are recognized, and how many rows that ran are said to run out of memory, by the probability
    with which the device's memory is exceeded. Half is what the predicted bytes alone say."""
    print(f"\n{'out of memory: probability above':<64} {'recognized':>14} {'false alarms':>14}")
    for risk in sorted((0.1, MEMORY_RISK, 0.5)):
        out, ran = ([runs_out(result, risk) for row, result in results if is_oom(row) == failed] for failed in (True, False))
        print(f"{100 * risk:.0f} %{' (counts)' if risk == MEMORY_RISK else '':<60} {f'{sum(out)} of {len(out)}':>14} {f'{sum(ran)} of {len(ran)}':>14}")
    for row, result in results:
        if is_oom(row) and not runs_out(result):
            print(f"  not recognized: {row.get('id')}, probability {100 * result['memory_risk']:.1f} %")
