# SPDX-License-Identifier: Apache-2.0
"""Collects what `gpu-check.sh run` needs on a machine without a compiler: programs, their libraries, packages, data and reference losses.

A package contains its initial weights, except that benchmark packages start from a seed. Every package is planned for an H100, and its entry in
manifest.json has the bytes that `kerf verify` plans for each stage.
"""
import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import benchmarks

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("KERF_BUILD", os.path.join(ROOT, "build"))
SHARED = os.environ.get("KERF_SHARED", os.path.join(ROOT, "..", "shared"))
CLUSTER = os.path.join(ROOT, "clusters", "dgx-h100.json")
CONTEXT_BYTES = int(1.7 * 2**30)  # `kerf verify` adds this for an H100's driver and libraries
MOST_BYTES = 60_000_000  # of the archive, which travels to the machine with the GPU
# Libraries that every machine has in versions of its own.
SYSTEM = re.compile(r"/(ld-linux|libc|libm|libpthread|libdl|librt|libstdc\+\+|libgcc_s)[.-]")

# Model -> folder and file. The reference losses of these are PyTorch's or JAX's, in float64.
MODELS = {
    "mlp": ("test/models/mlp", "model.onnx"),
    "gpt2": ("examples/gpt2", "model.onnx"),
    "llama": ("test/models/llama", "model.onnx"),
    **{f"shared-{name}" if name == "gpt2" else name: (os.path.join(SHARED, "models", name), "model.onnx")
       for name in ("bert", "cnn", "gpt2", "mixtral", "resnet", "vit")},
    "jax-transformer": (os.path.join(SHARED, "models", "jax-transformer"), "loss.mlir"),
}
# Relative. For f32 the tests of the CPU have the same. bf16 has 8 bits of mantissa, so rounding one number changes it by 2e-3 to 4e-3.
TOLERANCE = {"f32": 2e-4, "bf16": 4e-3}
STEPS = {"f32": 20, "bf16": 10}
SANITIZED = ["mlp f32", "gpt2 bf16", "bert f32", "cnn f32"]


class Refused(Exception):
    """A program of Kerf refused its arguments; the text is its message."""


def kerf(*args, program="kerf"):
    done = subprocess.run([os.path.join(BUILD, "bin", program), *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"{program} {' '.join(map(str, args))} failed:\n{done.stderr.strip()}")
    return done.stdout


def programs(folder, names):
    """Copies programs without their symbols, and the libraries that a machine without Kerf's dependencies may lack."""
    for sub in ("bin", "lib"):
        os.makedirs(os.path.join(folder, sub))
    for name in names:
        program = os.path.join(BUILD, "bin", name)
        if not os.path.exists(program):
            sys.exit(f"error: {program} is not there: build it first (ninja -C build {' '.join(names)})")
        subprocess.run(["strip", "-o", os.path.join(folder, "bin", name), program], check=True)
        for line in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.splitlines():
            path = line.split()[2] if "=> /" in line else ""
            if path and not SYSTEM.search(path):
                shutil.copy(path, os.path.join(folder, "lib"))


def compile_package(folder, name, model, options, may_verify=True):
    """Compiles one package and returns the bytes planned for each stage. `may_verify` is false for exports that are too large to train on processors,
    which `kerf verify` would do; their memory is not planned, and nothing is returned."""
    package = os.path.join(folder, "packages", name)
    kerf("compile", *model, *options, "--cluster", CLUSTER, "-o", package)
    if not may_verify:
        return None
    with open(os.path.join(package, "program.json")) as file:
        plan = json.load(file)["info"]["plan"]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(plan, file)
        file.flush()
        without_ranks = options[:options.index("--ranks")]
        said = json.loads(kerf("verify", *model, *without_ranks, "--plan", file.name, "--cluster", CLUSTER, "--json"))
    return [int(stage) - CONTEXT_BYTES for stage in said["full"]["stage_bytes"]]


def entry(folder, name, model, dtype, ranks, options, rate, data, steps):
    label = f"{name} {dtype}" + (f" {ranks} GPUs" if ranks > 1 else "")
    package = label.replace(" ", "-")
    planned = compile_package(folder, package, model, [*options, "--dtype", dtype, "--ranks", str(ranks), "--all-ranks"])
    return {"name": label, "package": f"packages/{package}", "data": data, "dtype": dtype, "ranks": ranks, "steps": steps or STEPS[dtype],
            "lr": rate, "tolerance": TOLERANCE[dtype], "planned_bytes": planned}


def losses_on_processors(folder, made, *more):
    with tempfile.TemporaryDirectory() as scratch:
        log = os.path.join(scratch, "log")
        kerf(os.path.join(folder, made["package"]), "--data", os.path.join(folder, made["data"]), "--steps", made["steps"], "--lr", made["lr"],
             "--log", log, "--device", "cpu", "--threads", 2, *more, program="kerf-run")
        with open(log) as file:
            return [json.loads(line)["loss"] for line in file]


def parity_of(folder, name, ranks, steps):
    """Returns the entries of one model: f32 and bf16 on one GPU, f32 on each of the numbers `ranks`."""
    source, file = MODELS[name]
    source = os.path.join(ROOT, source)
    with open(os.path.join(source, "golden.json")) as golden_file:
        golden = json.load(golden_file)
    settings, data = golden["optimizers"]["adamw"], f"data/{name}.npz"
    shutil.copy(os.path.join(source, "batches.npz"), os.path.join(folder, data))
    options = ["--optimizer", "adamw", *(word for key in ("beta1", "beta2", "eps", "weight_decay")
                                         for word in ("--" + key.replace("_", "-"), str(settings[key])))]
    model = [os.path.join(source, file)]
    if file.endswith(".mlir"):
        model += ["--weights", os.path.join(source, "weights.npz")]
    made = []
    for dtype, count in [("f32", 1), ("bf16", 1), *(("f32", count) for count in ranks)]:
        try:
            one = entry(folder, name, model, dtype, count, options, settings["lr"], data, steps)
        except Refused as refused:
            if count == 1:
                raise
            # For example a batch that so many ranks cannot divide.
            print(f"note: {name} is left out for {count} GPUs: {str(refused).splitlines()[-1]}")
            continue
        if dtype == "f32":
            one.update(against="float64 of PyTorch or JAX", losses=golden["losses"]["adamw"]["float64"][:one["steps"]])
        else:
            one.update(against="bf16 on processors", losses=losses_on_processors(folder, one))
        made.append(one)
    return made


def seeded_parity(folder, steps):
    """Returns GPT-2 124M at a small batch, from a seed, with the losses of the processors here."""
    config = os.path.join(folder, "data", "gpt2-124m.json")
    with open(config, "w") as file:
        json.dump({"model_type": "gpt2"}, file)
    data = "data/gpt2-124m.npz"
    benchmarks.write_data(os.path.join(folder, data), [{"name": n, "dtype": "i64", "shape": [2, 128], "below": 50257} for n in ("input_ids", "labels")])
    made = entry(folder, "gpt2-124m", [config, "--global-batch", "2", "--sequence", "128"], "f32", 1, ["--optimizer", "adamw"], 1e-4, data, steps or 3)
    made["steps"], made["seed"] = min(made["steps"], 3), 0
    made.update(against="f32 on processors", losses=losses_on_processors(folder, made, "--seed", 0))
    return made


def benchmark_of(folder, spec, small):
    with tempfile.TemporaryDirectory() as scratch:
        model, package = benchmarks.model_file(spec, scratch), "bench-" + re.sub(r"[^a-z0-9]+", "-", spec["name"].lower())
        options = [*spec["options"], "--dtype", spec["dtype"], "--ranks", "1", *benchmarks.constraints_of(spec, scratch)]
        planned = compile_package(folder, package, [model, *spec["sizes"]], options, may_verify=small or not model.endswith(".onnx"))
    return {**{key: spec[key] for key in ("name", "kind", "config", "dtype", "unit", "per_step", "flops", "inputs", "lr", "optimizer")},
            "package": f"packages/{package}", "planned_bytes": planned}


def join_equal_files(folder):
    """Makes equal files (the weights of one model's packages) hard links, which the archive stores once."""
    first = {}
    for base, _, names in os.walk(os.path.join(folder, "packages")):
        for name in sorted(names):
            path = os.path.join(base, name)
            with open(path, "rb") as file:
                digest = hashlib.sha256(file.read()).digest()
            if digest in first:
                os.remove(path)
                os.link(first[digest], path)
            else:
                first[digest] = path


def archive(folder):
    path = folder + ".tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=6) as tar:
        tar.add(folder, os.path.basename(folder))
    size = os.path.getsize(path)
    print(f"packed {size} bytes in {path}")
    if size > MOST_BYTES:
        sys.exit(f"error: {path} has {size} bytes, more than the {MOST_BYTES} that can travel; leave models out with --models")


def main():
    parser = argparse.ArgumentParser(prog="gpu-check.sh pack", description=__doc__)
    parser.add_argument("folder", nargs="?", default=os.path.join(BUILD, "gpu-check"))
    parser.add_argument("--models", default=",".join([*MODELS, "gpt2-124m"]), help="models whose losses are compared, separated by commas")
    parser.add_argument("--ranks", default="2,4,8", help="numbers of GPUs for which packages are made, besides 1; empty: none")
    parser.add_argument("--steps", type=int, help="steps of each comparison of losses (default: 20 in f32, 10 in bf16)")
    parser.add_argument("--small", action="store_true", help="make the benchmarks' models tiny, for a test of this script")
    parser.add_argument("--benchmarks", help="benchmarks to pack, separated by commas (default: all)")
    parser.add_argument("--without", default="", help="what to leave out, separated by commas: tests, benchmarks, plans, archive")
    options = parser.parse_args()
    folder, without = os.path.abspath(options.folder), options.without.split(",")
    shutil.rmtree(folder, ignore_errors=True)
    programs(folder, ["kerf-run", "kerf-profile", *([] if "tests" in without else ["KernelTests", "RuntimeTests"])])
    here = os.path.dirname(os.path.abspath(__file__))
    shutil.copy(os.path.join(os.path.dirname(here), "gpu-check.sh"), folder)
    shutil.copytree(here, os.path.join(folder, "gpu_check"), ignore=shutil.ignore_patterns("__pycache__", "pack.py", "predict.py"))
    os.makedirs(os.path.join(folder, "data"))
    ranks = [int(count) for count in options.ranks.split(",") if count]
    parity = []
    for name in options.models.split(","):
        if name == "gpt2-124m":
            parity.append(seeded_parity(folder, options.steps))
        elif name not in MODELS:
            sys.exit(f"error: --models has '{name}'; there are {', '.join(MODELS)} and gpt2-124m")
        elif not os.path.exists(os.path.join(ROOT, *MODELS[name])):
            print(f"note: {name} is left out, because {os.path.join(*MODELS[name])} is not there")
        else:
            parity += parity_of(folder, name, ranks, options.steps)
    made = {"small": options.small, "commit": subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip(),
            "parity": parity, "sanitized": [name for name in SANITIZED if name in [one["name"] for one in parity]],
            "benchmarks": [] if "benchmarks" in without else [benchmark_of(folder, spec, options.small) for spec in benchmarks.specs(options.small)
                                                                   if not options.benchmarks or spec["name"] in options.benchmarks.split(",")]}
    made["plans"] = [] if "plans" in without else [benchmark_of(folder, spec, options.small) for spec in benchmarks.plans(options.small)]
    with open(os.path.join(folder, "manifest.json"), "w") as file:
        json.dump(made, file, indent=1)
    join_equal_files(folder)
    if "archive" not in without:
        archive(folder)


if __name__ == "__main__":
    try:
        main()
    except Refused as error:
        sys.exit(f"error: {error}")
