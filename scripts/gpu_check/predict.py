# SPDX-License-Identifier: Apache-2.0
"""Compares the steps that `gpu-check.sh run` measured with the steps that `kerf plan` predicts from a profile of the same GPU, where Kerf is
built. `kerf-profile --device cuda -o CLUSTER` on that GPU makes the profile; run's folder of results has rows.jsonl."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import benchmarks

BUILD = os.environ.get("KERF_BUILD", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build"))


def predicted_seconds(spec, cluster):
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run([os.path.join(BUILD, "bin", "kerf"), "plan", benchmarks.model_file(spec, scratch), *spec["sizes"], *spec["options"], "--dtype",
                               spec["dtype"], "--ranks", "1", "--cluster", cluster, "--json", *benchmarks.constraints_of(spec, scratch)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1]
    return json.loads(done.stdout)["predicted"]["step_seconds"], None


def measured_seconds(paths):
    """Returns the seconds of each model's step with Kerf."""
    steps = {}
    for path in paths:
        with open(path) as file:
            for row in map(json.loads, file):
                if row["part"] == "benchmark" and row.get("side") == "Kerf":
                    steps[row["model"]] = row["step_seconds"]
    return steps


def main():
    parser = argparse.ArgumentParser(prog="gpu-check.sh predict", description=__doc__)
    parser.add_argument("cluster", help="the cluster file that kerf-profile wrote on the GPU")
    parser.add_argument("rows", nargs="+", help="files rows.jsonl of results")
    parser.add_argument("--small", action="store_true", help="the results are of the tiny models of `pack --small`")
    options = parser.parse_args()
    steps = measured_seconds(options.rows)
    print("| model | predicted | measured | difference |\n|---|---|---|---|")
    for spec in [*benchmarks.specs(options.small), *benchmarks.plans(options.small)]:
        if spec["name"] not in steps:
            continue
        measured = steps[spec["name"]]
        predicted, why = predicted_seconds(spec, options.cluster)
        text = f"{predicted * 1e3:.1f} ms" if predicted else f"not predicted: {why}"
        difference = f"{predicted / measured - 1:+.0%}" if predicted else ""
        print(f"| {spec['name']} | {text} | {measured * 1e3:.1f} ms | {difference} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
