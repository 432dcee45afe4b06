#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares training steps and forwards of Kerf and PyTorch on this machine in one run, and both with the limits of the machine.

    PYTHON benchmarks/training.py [--kerf build/bin/kerf] [--rounds 5] [--steps 3] [CASE...]

PYTHON must have PyTorch. The cases (default: all) are rows of CASES in training_models.py:

    gpt2          GPT-2 124M, batch 4 x 128, f32, AdamW, one rank of two threads
    gpt2-ranks    the same on two ranks of one thread: Kerf in one process, PyTorch with DDP over gloo
    gpt2-bf16     the same on one rank in bf16: Kerf with --dtype bf16, PyTorch with torch.autocast and f32 weights
    gpt2-forward  only the forward with its loss, in f32
    llama         a model like LLaMA: 8 layers of width 768, 12 heads with 4 key/value heads, SwiGLU of 2,048, RMSNorm, rotary positions, batch 4 x 128
    llama-bf16    the same in bf16
    vit           ViT-S/16 on 8 x 3 x 224 x 224
    cnn           a ResNet-18 on 16 x 3 x 64 x 64 with batch statistics
    cnn-bf16      the same in bf16

PyTorch runs eager and under torch.compile, with fused AdamW. It keeps freed memory (MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_), because page faults would
otherwise cost it a quarter of a step. Both sides begin with random weights of their own and get random inputs of the same sizes. A case ends with an error if the
two models do not have equally many parameters.

Kerf has no command that runs forwards only. For gpt2-forward, `kerf train` evaluates 8 batches after each training step (--eval-every 1 --eval-steps 8), and the
time of the evaluation divided by 8 counts as that of a forward; the training step between two evaluations does not count. All parameters but those of the last norm
are frozen there (--frozen), so that Kerf's memory is nearly that of a forward. PyTorch's forwards run under torch.no_grad.

The contestants alternate in turns of --steps steps, --rounds times. All others are stopped meanwhile (SIGSTOP), so that other load on the machine slows all
contestants alike. The program prints the median step, the processor seconds of a step (user and system, all threads), the largest resident memory, and the
time from the start of the process to the end of the first step. Ratios are Kerf's number divided by PyTorch's: below 1, Kerf is faster or smaller.

The column "of limit" is the limit divided by the step: 100 % is a step as fast as the machine's limits allow. With F the FLOPs of the products of a step, P the best
FLOP/s of large products in the dtype of the case, B the least bytes that a step moves and M the bytes per second (read and written) of a large copy,

    limit seconds = F / P + B / M.

F comes from the sizes of the model: a product of an m x k by a k x n matrix has 2 m k n FLOPs, a convolution is such a product with a row for each pixel of its
output, and a causal mask halves the products of attention; the backward pass has the same again for each factor with a gradient. B of a training step is what AdamW
reads and writes: weight, gradient and two states, f32, each read and written once (32 bytes a parameter); B of a forward is the weights read once (4 bytes a
parameter). Activations do not count in B. P and M are measured at the beginning of the run with two threads of PyTorch.

The last lines say for each case whether Kerf meets the project's bar: in f32 at most 0.9 of the step of the better of eager and torch.compile, or at most 1.15 of
the limit; in bf16 at most 0.9 of the better of the two under autocast, on processors with matrix units.
"""
import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from training_models import CASES, MODELS, ROOT

OPTIMIZER = ["--optimizer", "adamw", "--weight-decay", "0.01", "--lr", "1e-4"]  # LR and DECAY of training_torch.py
# glibc takes no higher threshold than 32 MiB.
TUNED = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(8 << 30)}
MANY_STEPS = 1 << 20  # large enough that a contestant runs until it is killed
FORWARDS = 8  # batches of one of Kerf's evaluations
MODES = ["eager", "compile"]
# The project's bar: Kerf's step is at most this share of PyTorch's, or (f32) at most this multiple of the limit.
SHARE_OF_PYTORCH, MULTIPLE_OF_LIMIT = 0.9, 1.15


# ---- Contestants ------------------------------------------------------------------------------------------------------------------------

class Contestant:
    """One contestant: processes that each lead a process group; the first prints its steps. It runs until the end of its first step and is then stopped.

    `timed(line)` returns the seconds that a line of output reports and the number of steps that took them, or None for other lines.
    """

    def __init__(self, name, commands, environment, timed):
        self.name, self.timed, self.seconds, self.processor_seconds, self.said = name, timed, [], [], []
        start = time.monotonic()
        self.processes = []
        for command in commands:
            self.processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1,
                                                   env={**os.environ, **environment}, process_group=0))
        try:
            self.step()
        except BaseException:  # a signal, or an end without a step
            self.end()
            raise
        self.first_step = time.monotonic() - start
        self.signal(signal.SIGSTOP)

    def signal(self, number):
        for process in self.processes:
            os.killpg(process.pid, number)

    def step(self):
        """Waits for the next line that reports a time; returns the seconds and the processor seconds of one step. Processor seconds count from the line before."""
        before = self.processor()
        for line in self.processes[0].stdout:
            timed = self.timed(line)
            if timed:
                seconds, count = timed
                return seconds / count, (self.processor() - before) / count
            self.said.append(line)
            before = self.processor()
        sys.exit(f"{self.name} ended:\n{''.join(self.said[-20:])}")

    def processor(self):
        """Returns the processor seconds of the contestant so far."""
        ticks = 0
        for process in self.processes:
            with open(f"/proc/{process.pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def turn(self, steps):
        self.signal(signal.SIGCONT)
        self.step()  # the contestant was stopped in the middle of this step
        for _ in range(steps):
            seconds, processor_seconds = self.step()
            self.seconds.append(seconds)
            self.processor_seconds.append(processor_seconds)
        self.signal(signal.SIGSTOP)

    def peak_bytes(self):
        peak = 0
        for process in self.processes:
            with open(f"/proc/{process.pid}/status") as file:
                peak += next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))
        return peak

    def end(self):
        self.signal(signal.SIGKILL)
        for process in self.processes:
            process.wait()


def kerf_step(line):
    """Returns the seconds in a line such as "step     3  loss 10.929345  2483.5 ms"."""
    words = line.split()
    return (float(words[-2]) / 1e3, 1) if words[:1] == ["step"] and words[2] == "loss" else None


def kerf_evaluation(line):
    """Returns the seconds and batches in a line such as "step     3  eval_loss 4.580707  eval_perplexity 97.583334  (8 batches, 61.5 ms)"."""
    words = line.split()
    return (float(words[-2]) / 1e3, int(words[-4].lstrip("("))) if words[:1] == ["step"] and words[2] == "eval_loss" else None


def torch_value(line, key):
    """Returns the value of a line such as {"seconds": 0.31}, or None for other lines, which are warnings."""
    try:
        return json.loads(line)[key]
    except (ValueError, TypeError, KeyError):
        return None


def torch_step(line):
    seconds = torch_value(line, "seconds")
    return (seconds, 1) if seconds is not None else None


def kerf_parameters(kerf, model, path):
    """Returns the number of trained elements that Kerf finds in the model."""
    done = subprocess.run([kerf, "import", path, *model.kerf_options, "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return sum(math.prod(each["shape"]) for each in json.loads(done.stdout)["arguments"] if each["trainable"])


def kerf_contestant(kerf, case, path, folder):
    model = MODELS[case.model]
    data = model.write_data(os.path.join(folder, "data.npz"), 1)
    command = [kerf, "train", path, "--data", data, *model.kerf_options, "--ranks", str(case.ranks), "--threads", str(2 // case.ranks),
               "--dtype", case.dtype, *OPTIMIZER, "--seed", "0", "--steps", str(MANY_STEPS)]
    if case.frozen:
        command += ["--eval-data", model.write_data(os.path.join(folder, "held-out.npz"), FORWARDS), "--eval-every", "1"]
        for pattern in case.frozen:
            command += ["--frozen", pattern]
    return Contestant("Kerf", [command], {}, kerf_evaluation if case.frozen else kerf_step)


def torch_contestant(name, case, mode, folder):
    rendezvous = os.path.join(folder, f"{name}-{mode}")
    commands = [[sys.executable, os.path.abspath(__file__), "--worker", name, mode, str(rank), rendezvous] for rank in range(case.ranks)]
    return Contestant(f"PyTorch {mode}" + (" DDP" if case.ranks > 1 else ""), commands, TUNED, torch_step)


def torch_parameters(contestant):
    return next(count for line in contestant.said if (count := torch_value(line, "parameters")) is not None)


# ---- Turns and tables -------------------------------------------------------------------------------------------------------------------

def compete(name, options, limits, folder):
    """Runs a case, prints its table, and returns its line of the summary."""
    case = CASES[name]
    path = MODELS[case.model].write(folder)
    parameters = kerf_parameters(options.kerf, MODELS[case.model], path)
    contestants = []
    try:
        contestants.append(kerf_contestant(options.kerf, case, path, folder))
        for mode in MODES:
            contestants.append(torch_contestant(name, case, mode, folder))
            if (count := torch_parameters(contestants[-1])) != parameters:
                sys.exit(f"{name}: Kerf's model has {parameters:,} parameters and PyTorch's has {count:,}: they are not the same model, so their steps are not "
                         "compared")
        for _ in range(options.rounds):
            for contestant in contestants:
                contestant.turn(options.steps)
        limit = limits.seconds(case.flops(), case.bytes(parameters), case.dtype)
        print(f"\n{name}: median of {len(contestants[0].seconds)} {'forwards' if case.frozen else 'steps'}; {parameters:,} parameters, "
              f"{case.flops() / 1e9:.1f} GFLOP of products in {case.dtype}, limit {limit * 1e3:.1f} ms")
        report(contestants, limit)
        return verdict(name, case, [statistics.median(each.seconds) for each in contestants], limit, limits.matrix_units)
    finally:
        for contestant in contestants:
            contestant.end()


def report(contestants, limit):
    rows = [(c.name, statistics.median(c.seconds), statistics.mean(c.processor_seconds), c.peak_bytes(), c.first_step) for c in contestants]
    print(f"{'':24}{'step':>11}{'processor':>12}{'memory':>11}{'first step':>12}{'of limit':>10}{'step ratio':>13}{'processor':>11}{'memory':>9}")
    for name, step, processor, peak, first in rows:
        line = f"{name:24}{step * 1e3:8.1f} ms{processor * 1e3:9.1f} ms{peak / 1e9:8.2f} GB{first:10.1f} s{100 * limit / step:8.0f} %"
        if name != "Kerf":
            spent = rows[0][2] / processor if processor else math.nan  # the kernel counts hundredths of a second
            line += f"{rows[0][1] / step:13.2f}{spent:11.2f}{rows[0][3] / peak:9.2f}"
        print(line)
    sys.stdout.flush()


def verdict(name, case, steps, limit, matrix_units):
    """Returns a line that says whether Kerf meets the bar; `steps` are the seconds of Kerf's step and of PyTorch's in the order of MODES."""
    kerf, best = steps[0], min(steps[1:])
    share, multiple = kerf / best, kerf / limit
    line = f"{name:14}{share:6.2f} of PyTorch's best ({MODES[steps[1:].index(best)]}), {multiple:.2f} of the limit: "
    if case.dtype == "bf16" and not matrix_units:
        return line + "no bar, because this processor has no matrix units"
    met = share <= SHARE_OF_PYTORCH or (case.dtype == "f32" and multiple <= MULTIPLE_OF_LIMIT)
    bar = f"{SHARE_OF_PYTORCH} of PyTorch's" + (f" or {MULTIPLE_OF_LIMIT} of the limit" if case.dtype == "f32" else "")
    return line + f"the bar ({bar}) is {'met' if met else 'not met'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--kerf", default=os.path.join(ROOT, "build", "bin", "kerf"))
    parser.add_argument("--rounds", type=int, default=5, help="number of turns of each contestant")
    parser.add_argument("--steps", type=int, default=3, help="number of steps of a turn")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := sorted(set(options.cases) - set(CASES)):
        sys.exit(f"there is no case {', '.join(unknown)}: take {', '.join(CASES)}")
    if options.rounds < 1 or options.steps < 1:
        sys.exit(f"--rounds {options.rounds} --steps {options.steps}: both have to be 1 or more")
    try:
        import torch  # noqa: F401
    except ImportError:
        sys.exit(f"{sys.executable} has no PyTorch: run this with a Python that has (pip install torch)")
    if options.worker:
        import training_torch
        name, mode, rank, rendezvous = options.worker
        return training_torch.work(CASES[name], mode, int(rank), rendezvous, MANY_STEPS)
    if not os.access(options.kerf, os.X_OK):
        sys.exit(f"{options.kerf} is not there: build first, or give --kerf")
    import training_limits
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # an exception, so that `compete` ends the contestants
    limits, lines = training_limits.measure(), []
    for name in options.cases or CASES:
        with tempfile.TemporaryDirectory() as folder:
            lines.append(compete(name, options, limits, folder))
    print("\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
