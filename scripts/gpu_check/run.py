# SPDX-License-Identifier: Apache-2.0
"""Runs the check on a machine with a GPU. The rows come in the order of their value: what the machine is, whether the losses are right and the
memory is as planned, then speed, then the tests that take longest. Only Python's standard library is needed; PyTorch is compared where it is."""
import argparse
import datetime
import json
import os
import subprocess
import sys

import machine
import parts
from rows import Rows

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# name -> function that runs the part, in the order of the run
PARTS = {
    "machine": parts.about_machine,
    "parity": parts.parity,
    "benchmark": parts.first_benchmark,
    "tests": parts.tests,
    "several": parts.several_gpus,
    "benchmarks": parts.other_benchmarks,
    "sanitizer": parts.sanitizer,
    "fused": parts.fused,
    "plans": parts.plans,
}


def main():
    parser = argparse.ArgumentParser(prog="gpu-check.sh run", description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts to run, separated by commas (default: {','.join(PARTS)})")
    parser.add_argument("--seconds", type=float, default=3600, help="end after this many seconds; what does not fit is named at the end")
    parser.add_argument("--results", default=os.path.join(FOLDER, "results"), help="folder for rows.jsonl and table.md")
    parser.add_argument("--continue", dest="keep", action="store_true", help="keep the rows of --results and run only the others")
    parser.add_argument("--modes", default=",".join(parts.TORCH_MODES),
                        help=f"how PyTorch is measured beside Kerf, separated by commas; empty: not at all (default: {','.join(parts.TORCH_MODES)})")
    options = parser.parse_args()
    only, modes = options.only.split(","), [mode for mode in options.modes.split(",") if mode]
    for part in only:
        if part not in PARTS:
            parser.error(f"--only has '{part}'; the parts are {', '.join(PARTS)}")
    for mode in modes:
        if mode not in parts.TORCH_MODES:
            parser.error(f"--modes has '{mode}'; the modes are {', '.join(parts.TORCH_MODES)}")
    libraries = machine.library_folders()
    if libraries:
        os.environ["KERF_CUDA_LIBRARIES"] = libraries
    results = os.path.abspath(options.results)
    os.chdir(FOLDER)
    os.makedirs("logs", exist_ok=True)
    with open("manifest.json") as file:
        manifest = json.load(file)
    rows = Rows(results, options.seconds, options.keep)
    found = subprocess.run([sys.executable, machine.__file__, "driver"], capture_output=True, text=True)
    about = json.loads(found.stdout) if found.returncode == 0 else {"gpus": [], "driver": f"asking the driver ended with {found.returncode}"}
    check = parts.Check(manifest, rows, about, modes)
    title = f"{datetime.date.today()}, {about['gpus'][0]['name'] if about['gpus'] else 'no GPU'} x {len(about['gpus'])}, Kerf {manifest['commit']}"
    for part in PARTS:
        if part in only:
            PARTS[part](check)
            rows.write_table(title)
    print("\n" + "\n".join(rows.write_table(title)[:-1]))
    if rows.not_run:
        print(f"{len(rows.not_run)} rows did not run, because --seconds {options.seconds:g} were over; --continue runs them")
    print(rows.closing())
    return 1 if rows.failed() or rows.not_run else 0


if __name__ == "__main__":
    sys.exit(main())
