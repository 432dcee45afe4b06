#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares predicted and measured step times on the local machine: runs `kerf profile`, plans GPT-2 and LLaMA models of several
widths with the profile, and trains each for a few steps on 1, 2 and 4 ranks that are threads.

    benchmarks/this_machine.py [--kerf build/bin/kerf] [--cluster here.json] [--quick] [--json rows.json]

Prints a row for each plan and the median errors. The step time is the median of the steps after the warm-up, in the faster of
two runs. The spread of a run's steps, (p90 - p10) / median, shows how much other load the machine had. The program needs only
Python's standard library.
"""
import argparse
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VOCABULARY, BATCH, SEQUENCE = 1024, 8, 128
WIDTHS = {64: 2, 128: 2, 256: 3, 512: 4}  # hidden size: layers
HEAD = 32  # width of a head; from hidden size 128 on, all plans on 4 ranks cut the heads evenly
WARM_UP = 2
# ranks -> {name of the plan: its mesh; None: the mesh that the search finds}
PLANS = {
    1: {"one rank": {}},
    2: {"data 2": {"data": 2, "model": 1}, "model 2": {"data": 1, "model": 2}, "searched": None},
    4: {"data 4": {"data": 4, "model": 1}, "model 4": {"data": 1, "model": 4}, "data 2, model 2": {"data": 2, "model": 2}},
}


def config_of(family, width, layers):
    heads = max(2, width // HEAD)
    if family == "gpt2":
        return {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": VOCABULARY, "n_positions": SEQUENCE,
                "n_embd": width, "n_layer": layers, "n_head": heads}
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": VOCABULARY, "max_position_embeddings": SEQUENCE,
            "hidden_size": width, "intermediate_size": 3 * width, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": heads, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False}


def write_data(path):
    """Returns the data of one step: random tokens."""
    numbers = random.Random(5)
    ids = struct.pack(f"<{BATCH * SEQUENCE}q", *(numbers.randrange(VOCABULARY) for _ in range(BATCH * SEQUENCE)))
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': (1, {BATCH}, {SEQUENCE}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + ids
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name in ("input_ids", "labels"):
            archive.writestr(name + ".npy", npy)


def run(*command):
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(str(part) for part in command)}\n{done.stderr}")
    return done.stdout


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def measure(arguments, folder, cluster, model, ranks, mesh):
    command = [arguments.kerf, "train", model, "--global-batch", BATCH, "--sequence", SEQUENCE, "--cluster", cluster, "--ranks", ranks,
               "--data", os.path.join(folder, "data.npz"), "--seed", 1, "--optimizer", "adamw", "--steps", arguments.steps + WARM_UP, "--json"]
    if mesh:
        constraints = os.path.join(folder, "constraints.json")
        with open(constraints, "w") as file:
            json.dump({"kerf": 1, "mesh": mesh}, file)
        command += ["--constraints", constraints]
    outputs = [json.loads(run(*command)) for _ in range(arguments.runs)]
    output = min(outputs, key=lambda output: statistics.median(output["step_seconds"][WARM_UP:]))
    seconds = output["step_seconds"][WARM_UP:]
    middle = statistics.median(seconds)
    report, measured = output["report"], output["measured"]
    return {"mesh": {axis["name"]: axis["size"] for axis in report["mesh"] if axis["size"] > 1},
            "predicted_seconds": report["step_seconds"], "device_seconds": report["compute_seconds"] + report["collective_seconds"],
            "measured_seconds": middle, "spread": (quantile(seconds, 0.9) - quantile(seconds, 0.1)) / middle,
            "predicted_bytes": report["memory_bytes"]["total"], "measured_bytes": measured["peak_bytes"], "measured": measured,
            "strategies": report["strategies"], "collectives": report["collectives"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kerf", default=os.path.join(ROOT, "build", "bin", "kerf"))
    parser.add_argument("--cluster", help="cluster file of an earlier kerf profile of this machine (default: profile now)")
    parser.add_argument("--steps", type=int, default=10, help="number of measured steps of each run")
    parser.add_argument("--runs", type=int, default=2, help="number of runs of each plan")
    parser.add_argument("--widths", type=int, nargs="*", default=list(WIDTHS))
    parser.add_argument("--families", nargs="*", default=["gpt2", "llama"])
    parser.add_argument("--quick", action="store_true", help="measure only widths 64 and 256, one run of five steps, with a quick profile")
    parser.add_argument("--json", help="write every row, with kernels and collectives, to this file")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.widths, arguments.steps, arguments.runs = [64, 256], 5, 1
    rows = []
    with tempfile.TemporaryDirectory(prefix="kerf-machine-") as folder:
        cluster = arguments.cluster
        if not cluster:
            cluster = os.path.join(folder, "here.json")
            print(run(arguments.kerf, "profile", "-o", cluster, *(["--quick"] if arguments.quick else [])))
        write_data(os.path.join(folder, "data.npz"))
        print(f"{BATCH} samples of {SEQUENCE} tokens, {VOCABULARY} words, AdamW, f32; {os.cpu_count()} cores, "
              f"load {os.getloadavg()[0]:.1f} before")
        print(f"{'model':<6} {'width':>5} {'layers':>6} {'ranks':>5}  {'plan':<16} {'predicted':>12} {'measured':>12} {'error':>8} "
              f"{'spread':>7}  {'predicted':>12} {'measured':>12}")
        for family in arguments.families:
            for width in arguments.widths:
                model = os.path.join(folder, "config.json")
                with open(model, "w") as file:
                    json.dump(config_of(family, width, WIDTHS[width]), file)
                for ranks, plans in PLANS.items():
                    for name, mesh in plans.items():
                        row = measure(arguments, folder, cluster, model, ranks, mesh)
                        row.update(family=family, width=width, layers=WIDTHS[width], ranks=ranks, plan=name)
                        row["error"] = row["predicted_seconds"] / row["measured_seconds"] - 1
                        rows.append(row)
                        if mesh is None:
                            name = "searched: " + (", ".join(f"{a[0]}{s}" for a, s in row["mesh"].items()) or "one")
                        print(f"{family:<6} {width:>5} {WIDTHS[width]:>6} {ranks:>5}  {name:<16} {1e3 * row['predicted_seconds']:>9.2f} ms "
                              f"{1e3 * row['measured_seconds']:>9.2f} ms {100 * row['error']:>+6.1f} % {100 * row['spread']:>5.0f} %  "
                              f"{row['predicted_bytes'] / 2**20:>8.2f} MiB {row['measured_bytes'] / 2**20:>8.2f} MiB", flush=True)
    for label, chosen in [("all", rows)] + [(f"{n} rank{'s' * (n > 1)}", [r for r in rows if r["ranks"] == n]) for n in PLANS]:
        errors = [abs(row["error"]) for row in chosen]
        print(f"step time, {label}: median error {100 * statistics.median(errors):.1f} %, p90 {100 * quantile(errors, 0.9):.1f} %")
    beyond = [row for row in rows if abs(row["predicted_bytes"] - row["measured_bytes"]) > max(0.05 * row["measured_bytes"], 2**20)]
    largest = max(abs(row["predicted_bytes"] - row["measured_bytes"]) for row in rows)
    print(f"peak memory: {len(rows) - len(beyond)} of {len(rows)} within 5 % or 1 MiB, largest difference {largest} bytes")
    print(f"spread of steps within a run: median {100 * statistics.median(row['spread'] for row in rows):.0f} %; "
          f"load {os.getloadavg()[0]:.1f} after")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
