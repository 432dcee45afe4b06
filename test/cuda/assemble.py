#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Assembles the PTX of the GPU kernels with NVIDIA's assembler, where it is installed: assemble.py FOLDER [ARCHITECTURE ...]

FOLDER has the .ptx files (BUILD/lib/Runtime/Cuda/ptx). Fails where ptxas refuses a file, and prints the kernels that spill registers.
Ends with 77 where there is no ptxas."""
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys


def assemble(ptxas, path, architecture):
    done = subprocess.run([ptxas, "-v", f"-arch={architecture}", "-o", os.devnull, path], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    spills = re.findall(r"Function properties for (\w+)\n\s*\d+ bytes stack frame, ([1-9]\d*) bytes spill stores", said)
    return path, architecture, done.returncode, said, spills


def main():
    folder, architectures = sys.argv[1], sys.argv[2:] or ["sm_80", "sm_90"]
    ptxas = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")
    if not ptxas:
        print("skipped: there is no ptxas on this machine (pip install nvidia-cuda-nvcc has one)")
        return 77
    paths = sorted(glob.glob(os.path.join(folder, "*.ptx")))
    failed = 0 if paths else 1
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(assemble, ptxas, path, architecture) for path in paths for architecture in architectures]
        for job in concurrent.futures.as_completed(jobs):
            path, architecture, status, said, spills = job.result()
            if status:
                failed += 1
                print(f"{os.path.basename(path)} for {architecture}: {said[-2000:]}")
            for kernel, stored in spills:
                print(f"{os.path.basename(path)} for {architecture}: {kernel} spills {stored} bytes")
    print(f"{len(jobs) - failed} of {len(jobs)} modules assembled for {' and '.join(architectures)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
