#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Assembles the PTX of the GPU kernels with NVIDIA's assembler, where it is installed: assemble.py FOLDER [ARCHITECTURE ...]

FOLDER has the .ptx files (BUILD/lib/Runtime/Cuda/ptx). Fails where ptxas refuses a file, and where a kernel of HOT spills a register. Prints the other kernels that do. Without an ARCHITECTURE, the files are assembled for sm_80 and sm_90, and those of HOT for sm_90a too. What ptxas said of a text is kept in FOLDER/assembled.json, so only changed texts are assembled
again; the table of kernels in docs/gpu.md comes from this file. Ends with 77 where there is no ptxas."""
import concurrent.futures
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

HOT = ("Norm", "Loss", "ReduceRows", "Elementwise", "Random", "Lookup")  # the files whose kernels must have the registers that they need
# Bytes that a kernel of HOT may spill. On an A100, one register of lossBackwardByBlocks does not fit beside four blocks of 256 threads.
MOST_SPILLED = {"sm_80": 4, "sm_90": 0, "sm_90a": 0}


def assemble(ptxas, path, architecture):
    """Returns the error of ptxas, or the list of (kernel, registers, bytes spilled)."""
    done = subprocess.run([ptxas, "-v", f"-arch={architecture}", "-o", os.devnull, path], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode:
        return said[-2000:]
    kernels = re.findall(r"Function properties for (\w+)\n\s*\d+ bytes stack frame, (\d+) bytes spill stores.*\n.*Used (\d+) registers", said)
    return [(kernel, int(registers), int(spilled)) for kernel, spilled, registers in kernels]


def is_hot(path):
    """Returns whether the file has kernels whose speed counts. No training that is to be fast computes in 64 bits."""
    file, dtype = os.path.basename(path).split(".")[:2]
    return file in HOT and dtype != "F64"


def judge(path, architecture, result):
    """Prints what is wrong with a module. Returns whether the test fails for it."""
    name = f"{os.path.basename(path)} for {architecture}"
    if isinstance(result, str):
        print(f"{name}: {result}")
        return True
    bad = False
    for kernel, registers, spilled in result:
        if spilled > 0:
            most = MOST_SPILLED.get(architecture, 0)
            print(f"{name}: {kernel} has {registers} registers and spills {spilled} bytes (at most {most})")
            bad |= is_hot(path) and spilled > most
    if not result:
        print(f"{name}: ptxas names no kernel")
    return bad or not result


def main():
    folder, architectures = sys.argv[1], sys.argv[2:] or ["sm_80", "sm_90", "sm_90a"]
    ptxas = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")
    if not ptxas:
        print("skipped: there is no ptxas on this machine (pip install nvidia-cuda-nvcc has one)")
        return 77
    version = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout
    known_path = os.path.join(folder, "assembled.json")
    known = {}
    if os.path.exists(known_path):
        with open(known_path) as file:
            known = json.load(file)
    modules = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.ptx"))):
        with open(path) as file:
            text = re.sub(r"//.*", "", file.read())
        for architecture in architectures:
            if architecture == "sm_90a" and not sys.argv[2:] and not is_hot(path):
                continue
            modules[path, architecture] = hashlib.sha256(f"{version}\n{architecture}\n{text}".encode()).hexdigest()
    results = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {pool.submit(assemble, ptxas, *module): key for module, key in modules.items() if key not in known}
        for job, key in jobs.items():
            known[key] = job.result()
    failed = 0 if modules else 1
    for (path, architecture), key in modules.items():
        results[key] = known[key]
        failed += judge(path, architecture, known[key])
    with open(known_path, "w") as file:
        json.dump({key: result for key, result in results.items() if not isinstance(result, str)}, file)
    print(f"{len(modules) - failed} of {len(modules)} modules assembled for {' and '.join(architectures)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
