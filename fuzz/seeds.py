#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the fuzz targets. `seeds.py OUT` writes OUT/<target>/*: small valid inputs of each reader, taken from the tests' models and
from what Kerf itself writes (the environment variable KERF names the program), and the stored corpora (fuzz/corpora/<target>.zip), unpacked.

    seeds.py --pack <target> FOLDER     stores the inputs of FOLDER, which `fuzz-<target> -set_cover_merge=1 FOLDER CORPUS` selected
"""
import glob
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(ROOT, "test", "e2e"))
from graph_layers import LAYERS  # noqa: E402
from graph_parts import PARTS  # noqa: E402
from graphs import random_graph  # noqa: E402
from support import KERF, write_npz  # noqa: E402

CORPORA = os.path.join(HERE, "corpora")
MOST_BYTES = 100_000  # of one seed; larger seeds slow down fuzzing
MOST_KEPT = 100_000   # bytes of a stored corpus, compressed


def write(out, target, name, content):
    os.makedirs(os.path.join(out, target), exist_ok=True)
    with open(os.path.join(out, target, name), "wb") as file:
        file.write(content)


def copy(out, target, *patterns):
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(ROOT, pattern))):
            if os.path.getsize(path) <= MOST_BYTES:
                with open(path, "rb") as file:
                    write(out, target, os.path.relpath(path, ROOT).replace(os.sep, "-"), file.read())


def kerf(*arguments):
    subprocess.run([KERF, *arguments], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)


def of_graphs(out, folder):
    """Writes random graphs until each operator of the generator has occurred, and what Kerf compiles from the first ones."""
    seen = set()
    for seed in range(200):
        model, data, ops = random_graph(random.Random(seed), PARTS + LAYERS, 8, 1)
        if seen >= set(ops):
            continue
        seen |= set(ops)
        name = f"graph-{seed}"
        write(out, "onnx", f"{name}.onnx", model)
        if len(seen) > 60:
            continue
        path = os.path.join(out, "onnx", f"{name}.onnx")
        write_npz(os.path.join(folder, "data.npz"), data)
        with open(os.path.join(folder, "data.npz"), "rb") as file:
            write(out, "npz", f"{name}.npz", file.read())
        kerf("import", path, "-o", os.path.join(folder, "model.mlir"))
        package, device = os.path.join(folder, "package"), os.path.join(folder, "device.mlir")
        plan = os.path.join(folder, "plan.json")
        kerf("plan", path, "--ranks", "2", "-o", plan)
        kerf("compile", path, "--ranks", "2", "--plan", plan, "-o", package, "--device-ir", device)
        for target, file in (("model", os.path.join(folder, "model.mlir")), ("device", device), ("plan", plan),
                             ("program", os.path.join(package, "program.json")), ("safetensors", os.path.join(package, "weights.safetensors"))):
            with open(file, "rb") as content:
                write(out, target, f"{name}{os.path.splitext(file)[1]}", content.read())


def of_runs(out, folder):
    """Writes a pipelined program and a checkpoint."""
    model, data = (os.path.join(ROOT, "test", "models", "mlp", name) for name in ("model.onnx", "batches.npz"))
    saved = os.path.join(folder, "saved")
    kerf("train", model, "--data", data, "--ranks", "2", "--steps", "1", "--optimizer", "adamw", "--checkpoint", saved)
    with open(os.path.join(saved, "step-000001", "index.json"), "rb") as file:
        write(out, "checkpoint", "index.json", file.read())


def unpack(out):
    for path in sorted(glob.glob(os.path.join(CORPORA, "*.zip"))):
        target = os.path.splitext(os.path.basename(path))[0]
        with zipfile.ZipFile(path) as archive:
            archive.extractall(os.path.join(out, target, "kept"))


def pack(target, folder):
    """Stores the smallest inputs, as many as fit; equal inputs give an identical archive."""
    os.makedirs(CORPORA, exist_ok=True)
    paths = sorted((os.path.join(folder, name) for name in os.listdir(folder)), key=lambda path: (os.path.getsize(path), path))
    room = MOST_KEPT
    with zipfile.ZipFile(os.path.join(CORPORA, f"{target}.zip"), "w") as archive:
        for path in paths:
            with open(path, "rb") as file:
                content = file.read()
            room -= len(zlib.compress(content, 9)) + 200  # the archive's entry for a file
            if room < 0:
                break
            name = zipfile.ZipInfo(hashlib.sha1(content).hexdigest()[:16])
            archive.writestr(name, content, zipfile.ZIP_DEFLATED, 9)


def main():
    if sys.argv[1] == "--pack":
        return pack(*sys.argv[2:])
    out = sys.argv[1]
    shutil.rmtree(out, True)
    with tempfile.TemporaryDirectory(prefix="kerf-seeds-") as folder:
        of_graphs(out, folder)
        of_runs(out, folder)
    copy(out, "model", "test/models/jax/*/*.mlir")
    copy(out, "signature", "test/models/jax/*/signature.json")
    copy(out, "config", "test/models/families/*/config.json")
    copy(out, "safetensors", "test/models/families/mistral/model.safetensors")
    copy(out, "npz", "test/models/families/mistral/batches.npz", "test/models/jax/narrow/*.npz")
    copy(out, "cluster", "clusters/*.json")
    copy(out, "problem", "fuzz/problems/*")
    unpack(out)


if __name__ == "__main__":
    main()
