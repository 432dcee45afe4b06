#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what compression is asked to reach on slow links, and prints one table: what is asked, the figure, and whether it is reached. Needs root and numpy.

`rows.py [--quick] [ROW...]` measures on 4 ranks behind links of scripts/shaped-network.sh, on a machine that does nothing else; --quick
tries all rows with tiny models and few steps, whose figures mean nothing. The rows are:

  pieces     a gradient of 64 MB with the codec natural: 2, 4 and 8 pieces against one, and against the formula of pieces, at 1 Gbit/s, where 4 ranks that share
             2 cores need longer for the codec than the link needs, and at 250 Mbit/s, where both need about as long
  exposed    a GPT of 12 layers on 2 ranks with an emulated link on which sums take as long as the backward, and one on which they take as long as all kernels, of
             which the forward cannot hide a sum: seconds that kernels wait for sums, relative to the seconds of sums
  small      200 layers of 4 KB each, coded, at 1 Gbit/s, against 200 steps with one layer, whose other work counts as well
  no-harm    links without a limit: the codecs that the planner chooses, and the seconds of a step against a plan without codecs
  predicted  8 pairs of a model and a rate, with 4 ranks and with 2 (a core each): the predicted seconds of a step against the measured ones
  count      the number of pieces that the planner chooses for a gradient of 4 and of 64 MB with the codec natural at 1 Gbit/s, against the fastest of 1, 2, 4, 8 and 16
  islands    a gradient of 32 MB on two islands of 2 ranks, 10 Gbit/s inside and 1 Gbit/s between: only the slow hop in codes, and all in codes, against float32
  slow-rank  a GPT on 2 ranks with a core each, on one of which another program runs all the while, so that the rank is half as fast
  end-to-end a GPT of 25 million parameters at 100 Mbit/s: seconds of a step with int8, int4, onebit and topk against float32

Seconds are medians of the steps after the first one. KERF names the program; the default is build/bin/kerf.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import types

import numpy

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "test", "e2e"), os.path.dirname(os.path.abspath(__file__)), os.path.join(ROOT, "benchmarks")]
import network  # noqa: E402
from overlap import traced  # noqa: E402
from support import FLOAT, INT64, onnx_model, onnx_node, onnx_tensor, onnx_value  # noqa: E402

KERF, RANKS, LAYERS = network.KERF, 4, 200
SUMS = {"optimizer_sharding": 0, "recompute": "none", "overlap": ["gradients"]}  # with --search whole: every gradient is summed over the ranks in one all-reduce
TCP_SHARE = 0.957  # of a link's rate that is left for data


def kerf(*args):
    done = subprocess.run([KERF, *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"kerf {args[0]}: {done.stderr[-2000:]}")
    return done.stdout


class Job:
    """A model in a folder, with its data and the plan of data-parallel ranks."""

    def __init__(self, folder, model, arguments, steps, data, ranks=RANKS):
        self.folder, self.model, self.arguments, self.steps, self.ranks = folder, self.path(folder, model), arguments, steps, ranks
        self.data = self.path(folder, "data.npz")
        numpy.savez(self.data, **data)

    @staticmethod
    def path(folder, name):
        return os.path.join(folder, name)

    def write(self, name, content):
        with open(self.path(self.folder, name), "w") as file:
            json.dump(content, file)
        return self.path(self.folder, name)

    def seconds(self, rate, plan, *more, command=()):
        """The median seconds of a step on links of a rate. `command` starts the ranks."""
        package, log = self.path(self.folder, "package"), self.path(self.folder, "log.jsonl")
        kerf("compile", self.model, *self.arguments, "--ranks", self.ranks, "--all-ranks", "--search", "whole", "--constraints", plan, *more, "-o", package)
        links = [os.path.join(ROOT, "scripts", "shaped-network.sh"), "--ranks", str(self.ranks), *(["--rate", rate] if rate else []), "--"]
        done = subprocess.run([*links, *command, KERF, "run", package, "--data", self.data, "--seed", "1", "--steps", str(self.steps), "--log", log],
                              capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{self.model}, {rate}, {more}: {done.stderr[-2000:]}")
        with open(log) as file:
            return statistics.median([json.loads(line)["seconds"] for line in file][1:])


def gpt(folder, layers, width, steps, ranks=RANKS, samples=1, sequence=32):
    """A GPT whose data are random tokens, with `samples` of a rank."""
    tokens = numpy.random.default_rng(1).integers(0, 512, (steps, ranks * samples, sequence))
    job = Job(folder, "config.json", ["--global-batch", ranks * samples, "--sequence", sequence, "--optimizer", "sgd", "--lr", "1e-3"], steps,
              {"input_ids": tokens, "labels": tokens}, ranks)
    job.write("config.json", {"model_type": "gpt2", "n_layer": layers, "n_head": 4, "n_embd": width, "n_positions": sequence, "vocab_size": 512})
    job.plan = job.write("plan.json", {"kerf": 1, "mesh": {"data": ranks}, **SUMS})
    return job


def write_cluster(options, folder, bandwidth, ranks=RANKS):
    """A cluster file: this machine's speeds with so many ranks, and links of so many bytes per second."""
    path, profile = os.path.join(folder, "cluster.json"), options.cluster or os.path.join(options.folder, f"profile{ranks}.json")
    if not os.path.exists(profile):
        kerf("profile", "--quick", "--ranks", ranks, "-o", profile)
    with open(profile) as file:
        cluster = json.load(file)
    cluster["device"]["curves"]["reduce_share"] = 1  # measured in memory, where adding takes a part of the time; these links are slower than adding
    cluster["levels"] = [{"name": "link", "size": ranks, "bandwidth": bandwidth, "latency": 1e-4}]
    with open(path, "w") as file:
        json.dump(cluster, file)
    return path


def pieces(folder, options):
    quick = options.quick
    mebibytes = 1 if quick else 64
    sums = types.SimpleNamespace(ranks=RANKS, rate="", mebibytes=mebibytes)
    network.write_job(folder, sums)
    with open(os.path.join(folder, "plan.json")) as file:
        plan = json.load(file)

    def seconds(rate, count):
        plan["compression"] = {"w*": {"codec": "natural", "scheme": "two-stage", "pieces": count}}
        with open(os.path.join(folder, "plan.json"), "w") as file:
            json.dump(plan, file)
        sums.rate = rate
        return statistics.median(network.run(folder, "none", sums, 3 if quick else 6)[1][1:])
    codec = seconds("", 1)
    for rate in ("1gbit", "250mbit"):
        one, several = seconds(rate, 1), {count: seconds(rate, count) for count in (2, 4, 8)}
        wire = max(one - codec, 1e-9)
        best = min(several, key=several.get)
        formula = (codec + wire) / best + (best - 1) / best * max(codec, wire)
        yield "pieces", f"K pieces at least 1.5 times as fast as one at {rate}", \
            f"{one / several[best]:.2f} times with K = {best}; one piece {one:.3f} s, codec alone {codec:.3f} s", one / several[best] >= 1.5
        yield "pieces", f"within 20 % of the formula at {rate}", f"{several[best]:.3f} s; formula {formula:.3f} s", abs(several[best] / formula - 1) <= 0.2


def backward_seconds(path):
    """The seconds of rank 0's kernels from the first op of the backward to the optimizer."""
    with open(path) as file:
        events = [each for each in json.load(file)["traceEvents"] if each["ph"] == "X" and (each["pid"], each["tid"]) == (0, 0)]
    start = min(each["ts"] for each in events if each["args"]["op"].endswith("_backward"))
    return sum(each["dur"] for each in events
               if each["ts"] >= start and not each["name"].startswith("optimizer/") and each["args"]["op"] not in ("wait", "all_reduce")) / 1e6


def exposed(folder, options):
    quick = options.quick
    job = gpt(folder, 2 if quick else 12, 64 if quick else 256, 3, ranks=2, samples=2 if quick else 8, sequence=32 if quick else 128)

    def run(link):
        trace = os.path.join(folder, "trace.json")
        kerf("train", job.model, *job.arguments, "--ranks", 2, "--all-ranks", "--search", "whole", "--constraints", job.plan, "--data", job.data, "--steps", 3, "--seed", 1,
             "--emulate-link", link, "--trace", trace)
        return (*traced(trace), backward_seconds(trace))
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    gradient_bytes = 4 * 12 * config["n_layer"] * config["n_embd"] ** 2  # a ring of two ranks sends each gradient once
    kernels, backward = run("1e12")[2:]
    for name, seconds in (("the backward", backward), ("all kernels", kernels)):
        rows = []
        for _ in range(1 if quick else 3):
            waited, busy, _, hides = run(gradient_bytes / seconds)
            rows.append((waited / busy, busy, hides))
        share, busy, hides = sorted(rows)[len(rows) // 2]
        yield "exposed", f"at most 30 % of the seconds of sums, as long as {name}", f"{100 * share:.0f} %; sums {busy:.3f} s, backward {hides:.3f} s", share <= 0.3


def chain(folder, layers, steps):
    """`layers` matrices of 32 x 32, one after the other. With 512 samples, a gradient is smaller than the activations."""
    random, width, batch = numpy.random.default_rng(1), 32, 512
    nodes, tensors, value = [], [], "x"
    for layer in range(layers):
        tensors.append(onnx_tensor(f"fc{layer}.weight", (width, width), (numpy.eye(width) + random.normal(0, 0.01, (width, width))).ravel().tolist()))
        nodes.append(onnx_node("MatMul", [value, f"fc{layer}.weight"], [f"y{layer}"], f"fc{layer}"))
        value = f"y{layer}"
    job = Job(folder, "model.onnx", ["--loss", f"cross_entropy({value}, labels)", "--optimizer", "sgd", "--lr", "1e-3"], steps,
              {"x": random.normal(size=(1, batch, width)).astype(numpy.float32), "labels": random.integers(0, width, (1, batch))})
    with open(job.model, "wb") as file:
        file.write(onnx_model(nodes, tensors, [onnx_value("x", FLOAT, [batch, width]), onnx_value("labels", INT64, [batch])], [onnx_value(value, FLOAT, [batch, width])]))
    job.plan = job.write("plan.json", {"kerf": 1, "mesh": {"data": RANKS}, **SUMS})
    return job


def small(folder, options):
    quick = options.quick
    layers, steps, coded = 8 if quick else LAYERS, 4 if quick else 30, ("--compress", "fc*.weight=int8")
    job = chain(folder, 1, steps)
    one = job.seconds("1gbit", job.plan, *coded)
    job = chain(folder, layers, steps)
    together = job.seconds("1gbit", job.plan, *coded)
    yield "small", f"{layers} layers at least 5 times as fast as one by one", f"{layers * one / together:.1f} times; {1e3 * together:.2f} ms, one layer {1e3 * one:.2f} ms", \
        layers * one >= 5 * together


def unlimited_bandwidth(folder, mebibytes):
    """The bytes per second at which the ranks send gradients of so many MiB over links without a limit."""
    sums = types.SimpleNamespace(ranks=RANKS, rate="", mebibytes=mebibytes)
    network.write_job(folder, sums)
    return 2 * (RANKS - 1) / RANKS * sums.mebibytes * 2 ** 20 / min(network.run(folder, "none", sums, 3)[1][1:])


def no_harm(folder, options):
    quick = options.quick
    job = gpt(folder, 2, 64 if quick else 256, 4 if quick else 20)
    bandwidth = unlimited_bandwidth(folder, 1 if quick else 16)
    cluster = write_cluster(options, folder, bandwidth)
    plan, pins = os.path.join(folder, "chosen.json"), job.write("plan.json", {"kerf": 1, "mesh": {"data": RANKS}, **SUMS})
    kerf("plan", job.model, *job.arguments, "--cluster", cluster, "--all-ranks", "--search", "whole", "--constraints", pins, "--compress", "plan", "-o", plan)
    with open(plan) as file:
        choices = json.load(file).get("compression", {})
    codecs = sorted({choice["codec"] for choice in choices.values()} - {"none"})
    chosen = job.write("with.json", {"kerf": 1, "mesh": {"data": RANKS}, **SUMS, "compression": choices})
    rounds = [(job.seconds("", job.plan), job.seconds("", chosen)) for _ in range(1 if quick else 3)]
    plain, coded = (min(column) for column in zip(*rounds))
    yield "no-harm", "no codec but bf16", f"{', '.join(codecs) or 'none'} at {bandwidth / 1e9:.2f} GB/s", not set(codecs) - {"bf16"}
    yield "no-harm", "a step takes at most 1.02 times as long", f"{coded / plain:.3f} times; {plain:.4f} s without codecs", coded <= 1.02 * plain


def predicted(folder, options):
    quick = options.quick
    for ranks in (RANKS, 2):
        errors, points = [], []
        for layers, width in ((2, 64), (2, 96)) if quick else ((2, 256), (4, 384)):
            job = gpt(folder, layers, width, 3 if quick else 6, ranks)
            for rate, bits in (("200mbit", 2e8), ("1gbit", 1e9)):
                for codec in ("none", "int8"):
                    plan = {"kerf": 1, "mesh": {"data": ranks}, **SUMS}
                    if codec != "none":
                        plan["compression"] = {"*": {"codec": codec}}
                    file = job.write("point.json", plan)
                    cluster = write_cluster(options, folder, TCP_SHARE * bits / 8, ranks)
                    said = json.loads(kerf("simulate", job.model, *job.arguments[:6], "--cluster", cluster, "--plan", file, "--json"))["step_seconds"]
                    took = job.seconds(rate, file)
                    errors.append(abs(said / took - 1))
                    points.append(f"{layers}x{width} {rate} {codec} {said:.4f}/{took:.4f} s")
        yield "predicted", f"{ranks} ranks: median error at most 15 %", f"{100 * statistics.median(errors):.0f} % of {len(errors)} points", \
            statistics.median(errors) <= 0.15
        yield "predicted", f"{ranks} ranks: largest error at most 25 %", f"{100 * max(errors):.0f} %; predicted/measured: {'; '.join(points)}", max(errors) <= 0.25


def count(folder, options):
    quick = options.quick
    for mebibytes in (1,) if quick else (4, 64):
        sums = types.SimpleNamespace(ranks=RANKS, rate="1gbit", mebibytes=mebibytes)
        network.write_job(folder, sums)
        with open(os.path.join(folder, "plan.json")) as file:
            plan = json.load(file)
        chosen = os.path.join(folder, "chosen.json")
        kerf("plan", os.path.join(folder, "model.mlir"), "--optimizer", "sgd", "--cluster", write_cluster(options, folder, TCP_SHARE * 1e9 / 8), "--all-ranks",
             "--constraints", os.path.join(folder, "plan.json"), "--compress", "plan", "--compress-codecs", "natural", "-o", chosen)
        with open(chosen) as file:
            choice = next(iter(json.load(file).get("compression", {}).values()), {"codec": "none"})
        seconds = {}
        for pieces in (1, 2, 4, 8, 16):
            with open(os.path.join(folder, "plan.json"), "w") as file:
                json.dump({**plan, "compression": {"w*": {"codec": "natural", "scheme": "two-stage", "pieces": pieces}}}, file)
            seconds[pieces] = statistics.median(network.run(folder, "none", sums, 3 if quick else 8)[1][1:])
        best, its = min(seconds, key=seconds.get), choice.get("pieces", 1)
        yield "count", f"{mebibytes} MB: the chosen number of pieces is at most one step from the fastest", \
            f"{choice['codec']} in {its}; fastest {best}: " + ", ".join(f"{pieces} {took:.3f} s" for pieces, took in seconds.items()), \
            choice["codec"] != "none" and max(its, best) <= 2 * min(its, best)


def islands(folder, options):
    quick = options.quick
    with open(os.path.join(ROOT, "clusters", "cpu-4.json")) as file:
        cluster = json.load(file)
    cluster["levels"] = [{"name": "inside", "size": 2, "bandwidth": 1.2e9, "latency": 1e-4},
                         {"name": "between", "size": 2, "bandwidth": 0.12e9, "latency": 1e-4, "node_bandwidth": 0.12e9}]
    path = os.path.join(folder, "islands.json")
    with open(path, "w") as file:
        json.dump(cluster, file)
    sums = types.SimpleNamespace(ranks=RANKS, rate="10gbit", mebibytes=1 if quick else 32, links=["--islands", "2", "--between", "1gbit"], cluster=["--cluster", path])
    network.write_job(folder, sums)
    with open(os.path.join(folder, "plan.json")) as file:
        plan = json.load(file)

    def seconds(codec, **more):
        with open(os.path.join(folder, "plan.json"), "w") as file:
            json.dump({**plan, "compression": {"w*": {"codec": codec, **more}}}, file)
        return statistics.median(network.run(folder, "none", sums, 3 if quick else 8)[1][1:])
    plain = seconds("none")
    for codec in ("int8", "int4"):
        slow, everywhere = seconds(codec, scheme="two-stage", hierarchy=True), seconds(codec, scheme="two-stage")
        yield "islands", f"{codec} on the slow hop only at least 2 times as fast as float32", \
            f"{plain / slow:.2f} times; {slow:.3f} s, float32 {plain:.3f} s, {codec} everywhere {everywhere:.3f} s", plain >= 2 * slow


def slow_rank(folder, options):
    quick = options.quick
    job = gpt(folder, 2, 64 if quick else 256, 4 if quick else 20, ranks=2, samples=2, sequence=64)

    def seconds(*slow):
        others = [subprocess.Popen(["taskset", "-c", str(rank), sys.executable, "-c", "while True: pass"]) for rank in slow]
        try:
            return job.seconds("", job.plan, "--compress", "*.h.*.weight=int8", command=["sh", "-c", 'exec taskset -c $RANK "$@"', "sh"])
        finally:
            for other in others:
                other.kill()
                other.wait()
    rounds = [(seconds(), seconds(1)) for _ in range(1 if quick else 3)]
    fast, slow = (statistics.median(column) for column in zip(*rounds))
    yield "slow-rank", "a step takes at most 2 times as long with a rank that is half as fast", f"{slow / fast:.2f} times; {slow:.4f} s, {fast:.4f} s without it", slow <= 2 * fast


def end_to_end(folder, options):
    quick = options.quick
    job = gpt(folder, 2 if quick else 8, 64 if quick else 512, 3)
    plain = job.seconds("100mbit", job.plan)
    for codec, asked in (("int8", None), ("int4", 2.5), ("onebit", 4), ("topk", None)):
        took = job.seconds("100mbit", job.plan, "--compress", "*.ln_*=none", "--compress", f"*.h.*.weight={codec}")
        yield "end-to-end", f"{codec} at least {asked} times as fast" if asked else f"{codec}, no goal", f"{plain / took:.2f} times; {took:.2f} s, float32 {plain:.2f} s", \
            None if asked is None else plain >= asked * took


ROWS = {"pieces": pieces, "exposed": exposed, "small": small, "no-harm": no_harm, "predicted": predicted, "count": count, "islands": islands, "slow-rank": slow_rank,
        "end-to-end": end_to_end}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny models and few steps, to try the program")
    parser.add_argument("--cluster", default="", help="cluster file with this machine's speeds (default: kerf profile --quick makes one)")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)} (default: all)")
    options = parser.parse_intermixed_args()
    wrong = [row for row in options.rows if row not in ROWS]
    if wrong:
        parser.error(f"no row '{wrong[0]}'; the rows are {', '.join(ROWS)}")
    print("| row | asked | figure | reached |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as options.folder:
        for name in options.rows or ROWS:
            with tempfile.TemporaryDirectory() as folder:
                for row, asked, figure, reached in ROWS[name](folder, options):
                    print(f"| {row} | {asked} | {figure} | {'' if reached is None else 'yes' if reached else 'no'} |", flush=True)


if __name__ == "__main__":
    main()
