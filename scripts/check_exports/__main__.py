# SPDX-License-Identifier: Apache-2.0
"""Makes the plans and their exports, reads every file with a parser of its trainer, and prints a table of the outcomes."""
from __future__ import annotations

import argparse
import collections
import concurrent.futures
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import traceback

from .plans import CASES, MODELS

KERF = os.environ["KERF"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
# for each value of --to: the value of --for, the file's name, and the module that reads it
TARGETS = {
    "megatron": ("megatron", "train.sh", "megatron"),
    "torchtitan": ("torchtitan", "job.toml", "torchtitan02"),
    "torchtitan-0.3": ("torchtitan-0.3", "titan_job.py", "torchtitan03"),
    "deepspeed": ("deepspeed", "ds_config.json", "deepspeed"),
    "ms-swift": ("megatron", "train.sh", "ms_swift"),
    "megatron-bridge": ("megatron", "bridge_job.py", "megatron_bridge"),
}


def run(*words):
    done = subprocess.run([KERF, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stdout, done.stderr


def first_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def losses(plan, said, target):
    """Returns what the export of a plan for its target says that it loses, and a predicted step that is not the plan's within 2 %. The figure
    of the export is that of kerf simulate on the plan as the target runs it. A plan for ms-swift is made for Megatron-LM, so it may lose something."""
    lost = [line.strip() for line in said.partition("Not as planned:")[2].splitlines() if line.startswith("  ") and not line.startswith(("  model.", "  optimizer."))]
    if lost and target == "ms-swift":
        return []
    expected = re.search(r"Expected as written: (\S+) s a step", said)
    planned = plan["predicted"]["step_seconds"]
    if not expected or abs(float(expected.group(1)) / planned - 1) > 0.02:
        lost.append(f"planned {planned:.4g} s a step, exported {expected.group(1) if expected else 'nothing'}")
    return lost


def make(case, target, folder):
    """Plans and exports one case; returns "exported", or why it was refused."""
    planner, name, _ = TARGETS[target]
    folder.mkdir(parents=True, exist_ok=True)
    config, pins, plan = folder / "config.json", folder / "pins.json", folder / "plan.json"
    config.write_text(json.dumps(MODELS[case.model]))
    pins.write_text(json.dumps(dict(case.pins, kerf=1)))
    size = ["--sequence", case.sequence] if case.sequence else []
    status, _, said = run("plan", config, "--for", planner, "--cluster", ROOT / "clusters" / f"{case.cluster}.json", "--ranks", case.ranks, "--all-ranks",
                          "--global-batch", case.batch, *size, "--dtype", case.dtype, "--optimizer", "adamw", "--weight-decay", 0.1, "--budget", 2,
                          "--top", 0, "--constraints", pins, "-o", plan)
    if status:
        return f"no plan ({status}): {first_line(said)}"
    status, out, said = run("export", "--plan", plan, "--to", target, "-o", folder / name)
    if status:
        return f"refused ({status}): {first_line(said)}"
    (folder / "notes.txt").write_text(out + said)
    return "exported"


def main():
    parser = argparse.ArgumentParser(prog="scripts/check-exports.sh")
    parser.add_argument("--work", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help="only plans whose name has this text")
    parser.add_argument("--targets", default=",".join(TARGETS), help="targets, with commas between")
    parser.add_argument("--jobs", type=int, default=1, help="plans to make at a time")
    given = parser.parse_args()
    cases = [case for case in CASES if given.only in case.name]
    targets = given.targets.split(",")
    outcomes = {}
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        made = {(case.name, target): pool.submit(make, case, target, given.work / target / case.name) for case in cases for target in targets}
        for key, future in made.items():
            outcomes[key] = future.result()
    for target in targets:
        _, name, module = TARGETS[target]
        reader = importlib.import_module(f"check_exports.{module}")
        for case in cases:
            if outcomes[case.name, target] != "exported":
                continue
            folder = given.work / target / case.name
            try:
                plan = json.loads((folder / "plan.json").read_text())
                wrong = losses(plan, (folder / "notes.txt").read_text(), target) + reader.check(folder / name, plan, MODELS[case.model], case)
            except Exception as error:  # the trainer's parser raises what it likes
                (folder / "trace.txt").write_text(traceback.format_exc())
                wrong = [f"{type(error).__name__}: {error}"]
            outcomes[case.name, target] = "accepted" if not wrong else "WRONG: " + "; ".join(wrong)
    width = max(len(case.name) for case in cases)
    for case in cases:
        for target in targets:
            print(f"{case.name:{width}}  {target:15}  {outcomes[case.name, target][:400]}")
    print("\n| target | accepted, sizes equal | refused with a reason | wrong |\n|---|---|---|---|")
    for target in targets:
        count = collections.Counter(outcomes[case.name, target].split(" ")[0].rstrip(":") for case in cases)
        print(f"| {target} | {count['accepted']} | {count['refused'] + count['no']} | {count['WRONG']} |")
    sys.exit(any(outcome.startswith("WRONG") for outcome in outcomes.values()))


if __name__ == "__main__":
    main()
