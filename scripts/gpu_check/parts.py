# SPDX-License-Identifier: Apache-2.0
"""The parts of the check. Each adds its rows to `check.rows`."""
import filecmp
import json
import math
import os
import re
import shutil
import statistics
import sys

import benchmarks
import machine
from rows import FAILED, PASSED, SKIPPED, command

HERE = os.path.dirname(os.path.abspath(__file__))
DEVICE = os.environ.get("KERF_DEVICE", "cuda:0")
# Only Kerf's programs get the libraries that were packed: Python and PyTorch have their own.
LIBRARIES = {"LD_LIBRARY_PATH": ":".join(filter(None, [os.path.join(os.path.dirname(HERE), "lib"), os.environ.get("LD_LIBRARY_PATH")]))}
STEPS, WARM_UP = 24, 5  # steps of a benchmark; the first two are not recorded, and the third records
PLAN_STEPS = 14  # of a plan that is compared with its prediction
STANDIN_STEPS = 6  # of a benchmark on stand-ins, which have no speed
TORCH_MODES = {"eager": 90, "compile": 150, "compile-max": 300}  # how PyTorch is measured -> seconds that it gets
LONGEST = 5  # ops of a benchmark that the table names
# compute-sanitizer's tools and the libraries that Kerf may use. NVIDIA's own kernels synchronize and copy in ways that racecheck, synccheck and
# initcheck do not know, so these tools see Kerf's kernels only.
OWN_KERNELS = {"KERF_CUBLASLT": "off", "KERF_CUDNN": "off"}
SANITIZERS = [("memcheck", "", OWN_KERNELS), ("racecheck", "", OWN_KERNELS), ("initcheck", "", OWN_KERNELS), ("synccheck", "", OWN_KERNELS),
              ("memcheck", " with libraries", {})]
# Tests that are about processors, or that need files of the repository.
KERNEL_TESTS = "--gtest_filter=-ThreadTeam*:Golden*:*StartNoThreadsOfTheirOwn"
DEVICE_TESTS = "--gtest_filter=*DeviceTest*cuda*:CudaDeclarations*"


class Check:
    """A run's packages (`manifest`), its rows, the GPUs (`about`), and the modes in which PyTorch is measured too."""

    def __init__(self, manifest, rows, about, torch_modes):
        self.manifest, self.rows, self.about, self.torch_modes = manifest, rows, about, torch_modes
        self.standin = any("stand-in" in gpu["name"] for gpu in about["gpus"])

    def benchmark_steps(self):
        return STANDIN_STEPS if self.standin else STEPS

    def limits(self):
        """Returns the measured limits of the machine, or nothing where they are not measured."""
        return next((row["limits"] for row in self.rows.rows if "limits" in row), {})


def log_of(name):
    return os.path.join("logs", name.replace(" ", "-").replace("/", "-"))


# ---- What the machine is ---------------------------------------------------------------------------------------------------------------------

def about_machine(check):
    rows, gpus = check.rows, check.about["gpus"]

    def gpu(_):
        text = ", ".join(f"{one['name']} ({one['bytes'] / 2**30:.0f} GiB)" for one in gpus) or "no GPU"
        rows.add("machine", "GPUs", PASSED if gpus else FAILED, f"{text}; driver of {check.about['driver']}; {machine.clocks()}")

    def version(name):
        def step(seconds):
            done = command([sys.executable, machine.__file__, name], seconds, log_of(name))
            found = json.loads(done.out) if done.status == 0 else done.why()
            rows.add("machine", name, PASSED if done.status == 0 and found != "not found" else FAILED, found, done.seconds)
        return step

    def limits(seconds):
        path = log_of("limits") + ".json"
        done = command(["bin/kerf-profile", "--device", "cuda", "--quick", "--ranks", 1, "-o", path], seconds, log_of("limits"), LIBRARIES)
        if done.status != 0:
            rows.add("machine", "limits", FAILED, done.why(), done.seconds)
            return
        with open(path) as file:
            device = json.load(file)["device"]
        peaks = ", ".join(f"{dtype} {flops / 1e12:.1f} TFLOP/s" for dtype, flops in device["peak_flops"].items())
        rows.add("machine", "limits", PASSED, f"products {peaks}; memory {device['memory_bandwidth'] / 1e12:.3f} TB/s", done.seconds,
                 limits={key: device[key] for key in ("peak_flops", "memory_bandwidth")})

    rows.run("machine", "GPUs", 60, gpu)
    for name in machine.LIBRARIES:
        rows.run("machine", name, 60, version(name))
    if check.standin:
        if not rows.has("machine", "limits"):
            rows.add("machine", "limits", SKIPPED, "stand-ins have no speed")
    else:
        rows.run("machine", "limits", 90, limits)


# ---- Losses and memory -----------------------------------------------------------------------------------------------------------------------

def train(one, seconds, device, *more, steps=None, before=(), env=None):
    """Trains a package of the manifest, and returns how the command ended, the losses, and what --json says."""
    log = log_of(f"train {one['name']}")
    if os.path.exists(log + ".jsonl"):
        os.remove(log + ".jsonl")
    seed = ["--seed", one["seed"]] if "seed" in one else []
    done = command([*before, "bin/kerf-run", one["package"], "--data", one["data"], "--steps", steps or one["steps"], "--lr", one["lr"], "--device",
                    device, "--log", log + ".jsonl", "--json", *seed, *more], seconds, log, {**LIBRARIES, **(env or {})}, watch=log + ".jsonl")
    losses = []
    if os.path.exists(log + ".jsonl"):
        with open(log + ".jsonl") as file:
            losses = [json.loads(line)["loss"] for line in file]
    return done, losses, json.loads(done.out) if done.status == 0 else {}


def largest_difference(losses, expected):
    """Returns the largest relative difference, infinite where a loss is missing or not a number."""
    if len(losses) != len(expected):
        return math.inf
    differences = [abs(loss - other) / abs(other) for loss, other in zip(losses, expected)]
    return max(math.inf if math.isnan(difference) else difference for difference in differences)


def memory_row(rows, name, planned, measured, seconds=0.0):
    if planned is None:
        rows.add("memory", name, SKIPPED, f"allocated {measured} bytes; no plan was made where the package was", seconds)
        return
    same = measured == planned
    rows.add("memory", name, PASSED if same else FAILED, f"planned {planned} bytes, allocated {measured}" + ("" if same else ": not equal"), seconds)


def parity_step(check, one, device):
    def step(seconds):
        rows, expected = check.rows, one["losses"]
        done, losses, said = train(one, seconds, device)
        if done.status != 0:
            rows.add("parity", one["name"], FAILED, done.why(), done.seconds, log=done.err[-2000:])
            return
        worst = largest_difference(losses, expected)
        text = f"{len(losses)} of {len(expected)} losses, at most {worst:.1e} from {one['against']}, allowed {one['tolerance']:.0e}"
        if "is not used" in done.err:
            worst, text = math.inf, text + "; the package's kernels are not used"
        rows.add("parity", one["name"], PASSED if worst <= one["tolerance"] else FAILED, text, done.seconds, losses=losses)
        memory_row(rows, one["name"], one["planned_bytes"], said["measured"]["stage_peak_bytes"])
    return step


def parity(check):
    for one in check.manifest["parity"]:
        if one["ranks"] == 1:
            check.rows.run("parity", one["name"], 90, parity_step(check, one, DEVICE))


def several_gpus(check):
    """Trains on as many GPUs as the machine has, of the numbers that packages were made for."""
    rows, count = check.rows, len(check.about["gpus"])
    fitting = [one["ranks"] for one in check.manifest["parity"] if 1 < one["ranks"] <= count]
    if not fitting:
        if not rows.has("parity", "several GPUs"):
            rows.add("parity", "several GPUs", SKIPPED, f"the machine has {count} GPUs, and packages are for {packed_ranks(check) or 'one only'}")
        return
    for one in check.manifest["parity"]:
        if one["ranks"] == max(fitting):
            rows.run("parity", one["name"], 120, parity_step(check, one, "cuda"))


def packed_ranks(check):
    return ", ".join(str(ranks) for ranks in sorted({one["ranks"] for one in check.manifest["parity"]} - {1}))


# ---- Speed -----------------------------------------------------------------------------------------------------------------------------------

def speed_row(check, spec, side, done, step_seconds, losses, peak, first, **more):
    """Adds the row of one side of a benchmark. It fails where a loss is not a number or the loss does not fall, for then no training was timed."""
    steady = statistics.median(step_seconds[min(WARM_UP, len(step_seconds) - 1):])
    trained = all(math.isfinite(loss) for loss in losses) and losses[-1] < losses[0]
    peak_flops = check.limits().get("peak_flops", {}).get("bf16")
    share = spec["flops"] / steady / peak_flops if peak_flops and spec["flops"] else None
    text = (f"{spec['per_step'] / steady:,.0f} {spec['unit']}/s, {steady * 1e3:.2f} ms a step"
            f"{f', {share:.1%} of the bf16 product peak' if share else ''}, {peak / 1e9:.2f} GB, first step after {first:.1f} s")
    if not trained:
        text += f"; the loss went from {losses[0]} to {losses[-1]}"
    check.rows.add("benchmark", f"{spec['name']} {side}", PASSED if trained else FAILED, text, done.seconds, model=spec["name"], side=side,
                   unit=spec["unit"], per_second=spec["per_step"] / steady, step_seconds=steady, share=share, peak_bytes=peak, first_step_seconds=first,
                   losses=[losses[0], losses[-1]], **more)


def data_of(spec):
    path = os.path.join("data", f"{os.path.basename(spec['package'])}.npz")
    if not os.path.exists(path):
        benchmarks.write_data(path + ".part", spec["inputs"])
        os.rename(path + ".part", path)
    return path


def longest_ops(kernels):
    """Returns the ops of a step that take longest, each with its part of the seconds of all."""
    total = sum(one["seconds"] for one in kernels)
    return [{**one, "share": one["seconds"] / total} for one in sorted(kernels, key=lambda one: -one["seconds"])[:LONGEST] if total > 0]


def kerf_speed(check, spec, steps=STEPS):
    def step(seconds):
        one = {"name": f"bench {spec['name']}", "package": spec["package"], "data": data_of(spec), "steps": STANDIN_STEPS if check.standin else steps,
               "lr": spec["lr"], "seed": 0}
        done, losses, said = train(one, seconds, DEVICE)
        if done.status != 0:
            check.rows.add("benchmark", f"{spec['name']} Kerf", FAILED, done.why(), done.seconds, log=done.err[-2000:])
            return
        measured = said["measured"]
        speed_row(check, spec, "Kerf", done, said["step_seconds"], losses, max(measured["stage_peak_bytes"]), done.first_line_seconds or done.seconds,
                  recorded_steps=measured["recorded_steps"], start=measured["start"], kernels=measured["kernels"], longest=longest_ops(measured["kernels"]))
        memory_row(check.rows, f"{spec['name']} benchmark", spec["planned_bytes"], measured["stage_peak_bytes"])
    return step


def torch_speed(check, spec, mode):
    def step(seconds):
        name = f"{spec['name']} PyTorch {mode}"
        done = command([sys.executable, os.path.join(HERE, "torch_step.py"), mode, check.benchmark_steps(), json.dumps(spec)], seconds, log_of(name))
        if done.status == 77:
            check.rows.add("benchmark", name, SKIPPED, done.out.strip(), done.seconds)
        elif done.status != 0:
            check.rows.add("benchmark", name, FAILED, done.why(), done.seconds, log=done.err[-2000:])
        else:
            said = json.loads(done.out.splitlines()[-1])
            speed_row(check, spec, f"PyTorch {said['version']} {mode}", done, said["seconds"], said["losses"], said["peak_bytes"], said["first_step_seconds"])
    return step


def benchmark(check, spec):
    if check.standin and not check.manifest["small"]:
        if not check.rows.has("benchmark", spec["name"]):
            check.rows.add("benchmark", spec["name"], SKIPPED, "too large for stand-ins; `pack --small` makes small models")
        return
    check.rows.run("benchmark", f"{spec['name']} Kerf", 120, kerf_speed(check, spec))
    for mode in check.torch_modes if spec["dtype"] == "bf16" else ():
        if not any(row["name"].startswith(f"{spec['name']} PyTorch") and row["name"].endswith(f" {mode}") for row in check.rows.rows):
            check.rows.run("benchmark", f"{spec['name']} PyTorch {mode}", TORCH_MODES[mode], torch_speed(check, spec, mode))


def plans(check):
    """Measures models under plans of which `gpu-check.sh predict` tells the predicted step, too."""
    for spec in check.manifest["plans"]:
        if check.standin and not check.manifest["small"]:
            continue
        check.rows.run("benchmark", f"{spec['name']} Kerf", 60, kerf_speed(check, spec, PLAN_STEPS))


def first_benchmark(check):
    for spec in check.manifest["benchmarks"][:1]:
        benchmark(check, spec)


def other_benchmarks(check):
    for spec in check.manifest["benchmarks"][1:]:
        benchmark(check, spec)


# ---- Tests, the sanitizer, kernels of packages -----------------------------------------------------------------------------------------------

def tests(check):
    for name, program, which, env in (("device", "RuntimeTests", DEVICE_TESTS, {}),
                                      ("kernels", "KernelTests", KERNEL_TESTS, {"KERF_KERNEL_DEVICE": DEVICE})):
        def step(seconds, name=name, program=program, which=which, env=env):
            done = command([f"bin/{program}", which], seconds, log_of(f"tests {name}"), {**LIBRARIES, **env})
            counts = re.findall(r"^\[  (PASSED|SKIPPED|FAILED) +\] (\d+) tests?\b", done.out, re.MULTILINE)
            ran = done.status == 0 and any(word == "PASSED" and int(count) > 0 for word, count in counts)
            failed = re.findall(r"^\[  FAILED  \] (\S+)$", done.out, re.MULTILINE)
            text = ", ".join([f"{count} {word.lower()}" for word, count in counts] + failed[:4]) if counts and done.status is not None else done.why()
            check.rows.add("tests", name, PASSED if ran else FAILED, text, done.seconds, log="" if ran else done.out[-2000:])
        if os.path.exists(f"bin/{program}"):
            check.rows.run("tests", name, 240, step)


def sanitizer(check):
    """Trains a few small packages for two steps under each tool of compute-sanitizer. No step is recorded, so every kernel is seen."""
    program = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if not program:
        if not check.rows.has("sanitizer", "compute-sanitizer"):
            check.rows.add("sanitizer", "compute-sanitizer", SKIPPED, "not installed")
        return
    chosen = [one for one in check.manifest["parity"] if one["name"] in check.manifest["sanitized"]]
    for one in chosen:
        for tool, libraries, env in SANITIZERS:
            name = f"{tool} {one['name']}{libraries}"

            def step(seconds, tool=tool, one=one, name=name, env=env):
                log = os.path.abspath(log_of(name) + ".sanitizer")
                done, losses, _ = train({**one, "name": name}, seconds, DEVICE, steps=2, env=env,
                                        before=(program, "--tool", tool, "--error-exitcode", "9", "--log-file", log))
                said = ""
                if os.path.exists(log):
                    with open(log, errors="replace") as file:
                        said = file.read()
                found = [line.strip("= ") for line in said.splitlines() if "ERROR SUMMARY" in line or "RACECHECK SUMMARY" in line]
                fine = done.status == 0 and len(losses) == 2
                check.rows.add("sanitizer", name, PASSED if fine else FAILED, (found or [done.why()])[-1], done.seconds,
                               log="" if fine else said[:3000] + done.err[-1000:])
            check.rows.run("sanitizer", name, 60, step)


def fused(check):
    """Trains packages for two steps with their PTX and without: the trained weights must have the same bits."""
    for one in check.manifest["parity"]:
        if one["ranks"] != 1 or "seed" in one:
            continue

        def step(seconds, one=one):
            plain, saved = os.path.join("logs", "plain"), {}
            shutil.rmtree(plain, ignore_errors=True)
            shutil.copytree(one["package"], plain)
            images = [name for name in os.listdir(plain) if name.endswith(".ptx")]
            for name in images:
                os.remove(os.path.join(plain, name))
            for kind, package in (("fused", one["package"]), ("plain", plain)):
                saved[kind] = os.path.join("logs", f"{kind}.safetensors")
                done, _, _ = train({**one, "name": f"{one['name']} {kind}", "package": package}, seconds / 2, DEVICE, "--deterministic", "--save", saved[kind],
                                   steps=2)
                if done.status != 0:
                    check.rows.add("fused", one["name"], FAILED, done.why(), done.seconds)
                    return
            same = bool(images) and filecmp.cmp(saved["fused"], saved["plain"], shallow=False)
            text = "the same bits as op by op" if same else "NOT the bits of op by op" if images else "the package has no PTX"
            check.rows.add("fused", one["name"], PASSED if same else FAILED, text)
        check.rows.run("fused", one["name"], 60, step)
