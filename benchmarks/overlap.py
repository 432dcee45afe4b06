#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures which share of the gradients' reduction overlaps with the backward over an emulated slow link, and compares it with what the simulator predicts.

`overlap.py [KERF [BYTES_PER_SECOND,SECONDS ...]]` (default build/bin/kerf, 1e8,0 and 1e8,1e-3) trains a GPT of 8 layers on 2 data-parallel ranks of one thread with
`--emulate-link`. It simulates the same plan on the profile of this machine with that link, and with cores as fast as they were during the run, because other load on
the machine slows kernels, and more communication overlaps with slow kernels. Seconds of reductions count as overlapped unless kernels wait for them, on the rank that
waits least in the traced step (the other rank waits for this rank as well). The program prints medians of several runs.
"""
import copy
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test", "e2e"))
from support import write_npz  # noqa: E402

KERF = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "bin", "kerf")
LINKS = sys.argv[2:] or ["1e8,0", "1e8,1e-3"]
SAMPLES, SEQUENCE, STEPS, ROUNDS = 8, 128, 3, 5  # samples of one rank
CONFIG = {"model_type": "gpt2", "n_layer": 8, "n_head": 8, "n_embd": 256, "n_positions": SEQUENCE, "vocab_size": 512}


def kerf(*args):
    done = subprocess.run([KERF, *map(str, args)], env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def slowed(cluster, factor):
    """Returns the cluster with kernels that take `factor` times as long."""
    slow = copy.deepcopy(cluster)
    device, curves = slow["device"], slow["device"]["curves"]
    device["peak_flops"] = {dtype: flops / factor for dtype, flops in device["peak_flops"].items()}
    for of, key in ((device, "memory_bandwidth"), (curves, "host_memory_bandwidth")):
        of[key] /= factor
    for key in ("launch_seconds", "product_call_seconds"):
        curves[key] *= factor
    return slow


def traced(path):
    """Returns the seconds of waits for gradient reductions, of the reductions, and of kernels, on the rank that waits least."""
    with open(path) as file:
        events = [each for each in json.load(file)["traceEvents"] if each["ph"] == "X"]
    ranks = []
    for rank in (0, 1):
        waits = busy = kernels = 0
        for event in events:
            ours, on_compute, op = event["name"].startswith("optimizer/"), event["tid"] == 0, event["args"]["op"]
            seconds = event["dur"] / 1e6 if event["pid"] == rank else 0
            kernels += seconds if on_compute and op not in ("wait", "all_reduce") else 0
            busy += seconds if ours and op == "all_reduce" else 0
            waits += seconds if ours and on_compute and op in ("wait", "all_reduce") else 0
        ranks.append((waits, busy, kernels))
    return min(ranks)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)

        def write(name, content):
            with open(path(name), "w") as file:
                json.dump(content, file)
            return path(name)

        count = STEPS * 2 * SAMPLES * SEQUENCE
        tokens = struct.pack(f"<{count}q", *(random.randrange(512) for _ in range(count)))
        write_npz(path("data.npz"), {name: ("<i8", [STEPS, 2 * SAMPLES, SEQUENCE], tokens) for name in ("input_ids", "labels")})
        kerf("profile", "--quick", "--ranks", 2, "-o", path("profile.json"))
        with open(path("profile.json")) as file:
            cluster = json.load(file)
        # An emulated link has one bandwidth for all messages; sums do not use the link.
        cluster["device"]["curves"].update(reduce_share=1, collective_seconds=0)
        model = [write("config.json", CONFIG), "--global-batch", 2 * SAMPLES, "--sequence", SEQUENCE, "--optimizer", "adamw", "--plan", path("plan.json")]
        simulate = lambda cluster: json.loads(kerf("simulate", *model, "--cluster", write("cluster.json", cluster), "--json"))
        for link in LINKS:
            bandwidth, latency = map(float, link.split(","))
            cluster["levels"] = [{"name": "link", "size": 2, "bandwidth": bandwidth, "latency": latency}]
            for microbatches in (1, 2, 4):
                write("plan.json", {"kerf": 1, "mesh": {"data": 2}, "microbatch": SAMPLES // microbatches, "schedule": {"name": "1f1b"},
                                    "overlap": ["gradients"]})
                kernels = lambda breakdown: sum(breakdown[key] for key in ("forward", "backward", "optimizer"))
                predicted = kernels(simulate(cluster)["breakdown"])
                rows = []
                for _ in range(ROUNDS):
                    kerf("train", *model, "--data", path("data.npz"), "--steps", STEPS, "--seed", 1, "--emulate-link", link, "--trace", path("trace.json"))
                    waited, busy, ran = traced(path("trace.json"))
                    said = simulate(slowed(cluster, ran / predicted))["breakdown"]
                    # One stage has no bubble; the number is the wait for the last reductions.
                    can = said["collectives"]["data"] - said["exposed"].get("data", 0) - said["bubble"]
                    rows.append(((busy - waited) / can, ran, busy, can, busy - waited))
                share, *seconds = sorted(rows)[ROUNDS // 2]
                print("link {:<9} {} microbatches: kernels {:6.1f} ms, reductions {:6.1f} ms, can overlap {:6.1f} ms, overlapped {:6.1f} ms: {:5.1f} %".format(
                    link, microbatches, *(each * 1e3 for each in seconds), 100 * share), flush=True)


if __name__ == "__main__":
    main()
