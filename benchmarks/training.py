#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares training steps of Kerf and PyTorch, float32, in one run on this machine.

    PYTHON benchmarks/training.py [--kerf build/bin/kerf] [--rounds 5] [--steps 3] [gpt2] [gpt2-ranks] [cnn]

PYTHON must have PyTorch. The cases (default: all) are `gpt2`, GPT-2 124M, batch 4 x 128, AdamW, one rank of two threads; `gpt2-ranks`, the same on two
ranks of one thread, Kerf in one process, PyTorch with DDP over gloo; `cnn`, a ResNet-18 on 16 x 3 x 64 x 64 with batch statistics. PyTorch runs eager
and under torch.compile, with fused AdamW. It keeps freed memory (MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_), because page faults would otherwise
cost it a quarter of a step.

The contestants alternate in turns of --steps steps, --rounds times. All others are stopped meanwhile (SIGSTOP), so that other load on the machine slows all
contestants alike. The program prints the median step, the processor seconds of a step (user and system, all threads), the largest resident memory, and the
time from the start of the process to the end of the first step. Ratios are Kerf's number divided by PyTorch's: below 1, Kerf is faster or smaller.
"""
import argparse
import json
import os
import random
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test", "e2e"))
import images  # noqa: E402
from support import write_npz  # noqa: E402

GPT2 = {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024, "vocab_size": 50257}
BATCH, SEQUENCE = 4, 128
IMAGES, SIZE, CLASSES = 16, 64, 1000
LR, DECAY = 1e-4, 0.01
# glibc takes no higher threshold than 32 MiB.
TUNED = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(8 << 30)}
MANY_STEPS = 1 << 20  # large enough that a contestant runs until it is killed


# ---- PyTorch's side: a separate process that prints a line for each step ---------------------------------------------------------------------

def torch_gpt2():
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, s, d = x.shape
            q, k, v = (y.view(b, s, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(d, dim=2))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, s, d))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            width = GPT2["n_embd"]
            self.tokens, self.places = nn.Embedding(GPT2["vocab_size"], width), nn.Embedding(GPT2["n_positions"], width)
            self.blocks = nn.ModuleList(Block(width, GPT2["n_head"]) for _ in range(GPT2["n_layer"]))
            self.norm = nn.LayerNorm(width)
            for weight in (self.tokens.weight, self.places.weight):
                nn.init.normal_(weight, std=0.02)

        def forward(self, ids, labels):
            x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            logits = nn.functional.linear(self.norm(x), self.tokens.weight)
            return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

    return Model()


def torch_cnn():
    from torch import nn

    def unit(channels, outputs, size, stride):
        return nn.Sequential(nn.Conv2d(channels, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs))

    class Block(nn.Module):
        def __init__(self, channels, outputs, stride):
            super().__init__()
            self.first, self.second = unit(channels, outputs, 3, stride), unit(outputs, outputs, 3, 1)
            self.shortcut = unit(channels, outputs, 1, stride) if channels != outputs else nn.Identity()

        def forward(self, x):
            return nn.functional.relu(self.second(nn.functional.relu(self.first(x))) + self.shortcut(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            blocks = [Block(64 << max(stage - (not index), 0), 64 << stage, 2 if stage and not index else 1)
                      for stage in range(4) for index in range(2)]
            self.body = nn.Sequential(unit(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks)
            self.head = nn.Linear(512, CLASSES)

        def forward(self, pixels, labels):
            return nn.functional.cross_entropy(self.head(self.body(pixels).mean((2, 3))), labels)

    return Model()


def torch_worker(case, mode, rank, ranks, rendezvous):
    import torch
    torch.set_num_threads(2 // ranks)
    torch.manual_seed(0)
    model = torch_cnn() if case == "cnn" else torch_gpt2()
    call = model
    if ranks > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)
        call = torch.nn.parallel.DistributedDataParallel(model)
    if mode == "compile":
        call = torch.compile(call)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=DECAY, fused=True)
    if case == "cnn":
        batch = torch.randn(IMAGES // ranks, 3, SIZE, SIZE), torch.randint(CLASSES, (IMAGES // ranks,))
    else:
        batch = torch.randint(GPT2["vocab_size"], (2, BATCH // ranks, SEQUENCE)).unbind()
    for _ in range(MANY_STEPS):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = call(*batch)
        loss.backward()
        optimizer.step()
        loss.item()
        if rank == 0:
            print(json.dumps(time.perf_counter() - start), flush=True)


# ---- Kerf's side ------------------------------------------------------------------------------------------------------------------------

def resnet18(batch, size, classes):
    """Returns the same model as `torch_cnn`."""
    net = images.NetFromSeed()

    def unit(x, name, channels, outputs, kernel, stride):
        return net.norm(net.conv(x, f"{name}.conv", channels, outputs, kernel, stride, pads=[kernel // 2] * 4), f"{name}.norm", outputs, True)

    x = net.op("MaxPool", net.op("Relu", unit("images", "stem", 3, 64, 7, 2)), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage in range(4):
        for index in range(2):
            name, outputs, stride = f"stages.{stage}.{index}", 64 << stage, 2 if stage and not index else 1
            y = net.op("Relu", unit(x, f"{name}.1", channels, outputs, 3, stride))
            y = unit(y, f"{name}.2", outputs, outputs, 3, 1)
            shortcut = x if channels == outputs else unit(x, f"{name}.shortcut", channels, outputs, 1, stride)
            x, channels = net.op("Relu", net.op("Add", y, shortcut)), outputs
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    logits = net.op("Gemm", x, net.weight("head.weight", [classes, channels]), net.weight("head.bias", [classes]), transB=1)
    return net.model(logits, [batch, 3, size, size], classes)


def kerf_command(kerf, case, folder):
    data = os.path.join(folder, f"{case}.npz")
    rnd = random.Random(0)
    if case == "cnn":
        model = os.path.join(folder, "cnn.onnx")
        with open(model, "wb") as file:
            file.write(resnet18(IMAGES, SIZE, CLASSES))
        pixels = [rnd.gauss(0, 1) for _ in range(IMAGES * 3 * SIZE * SIZE)]
        labels = [rnd.randrange(CLASSES) for _ in range(IMAGES)]
        write_npz(data, {"images": ("<f4", [1, IMAGES, 3, SIZE, SIZE], struct.pack(f"<{len(pixels)}f", *pixels)),
                         "labels": ("<i8", [1, IMAGES], struct.pack(f"<{len(labels)}q", *labels))})
        sizes = []
    else:
        model = os.path.join(folder, "config.json")
        with open(model, "w") as file:
            json.dump(GPT2, file)
        tokens = {name: [rnd.randrange(GPT2["vocab_size"]) for _ in range(BATCH * SEQUENCE)] for name in ("input_ids", "labels")}
        write_npz(data, {name: ("<i8", [1, BATCH, SEQUENCE], struct.pack(f"<{len(ids)}q", *ids)) for name, ids in tokens.items()})
        sizes = ["--global-batch", str(BATCH), "--sequence", str(SEQUENCE)]
    ranks = ["--ranks", "2", "--threads", "1"] if case == "gpt2-ranks" else ["--ranks", "1", "--threads", "2"]
    return [kerf, "train", model, "--data", data, *sizes, *ranks, "--optimizer", "adamw", "--weight-decay", str(DECAY), "--lr", str(LR),
            "--seed", "0", "--steps", str(MANY_STEPS)]


# ---- Turns ------------------------------------------------------------------------------------------------------------------------------

class Contestant:
    """One contestant: processes that each lead a process group; the first prints its steps. It runs until the end of its first step and is then stopped."""

    def __init__(self, name, commands, environment, seconds_of):
        self.name, self.seconds_of, self.seconds, self.processor_seconds = name, seconds_of, [], 0.0
        start = time.monotonic()
        self.processes = []
        for command in commands:
            self.processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1,
                                                   env={**os.environ, **environment}, process_group=0))
        self.step()
        self.first_step = time.monotonic() - start
        self.signal(signal.SIGSTOP)

    def signal(self, number):
        for process in self.processes:
            os.killpg(process.pid, number)

    def step(self):
        said = []
        for line in self.processes[0].stdout:
            said.append(line)
            seconds = self.seconds_of(line)
            if seconds is not None:
                return seconds
        sys.exit(f"{self.name} ended:\n{''.join(said[-20:])}")

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
        before = self.processor()
        self.seconds += [self.step() for _ in range(steps)]
        self.processor_seconds += self.processor() - before
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


def kerf_seconds(line):
    """Returns the seconds in a line such as "step     3  loss 10.929345  2483.5 ms"."""
    words = line.split()
    return float(words[-2]) / 1e3 if words[:1] == ["step"] and words[-1] == "ms" else None


def torch_seconds(line):
    try:
        return float(line)
    except ValueError:
        return None  # a warning


def compete(case, options, folder):
    ranks = 2 if case == "gpt2-ranks" else 1
    modes = ["eager", "compile"]
    contestants = [Contestant("Kerf", [kerf_command(options.kerf, case, folder)], {}, kerf_seconds)]
    try:
        for mode in modes:
            rendezvous = os.path.join(folder, f"{case}-{mode}")
            commands = [[sys.executable, os.path.abspath(__file__), "--worker", case, mode, str(rank), str(ranks), rendezvous] for rank in range(ranks)]
            name = f"PyTorch {mode}" + (" DDP" if ranks > 1 else "")
            contestants.append(Contestant(name, commands, TUNED, torch_seconds))
        for _ in range(options.rounds):
            for contestant in contestants:
                contestant.turn(options.steps)
        report(case, contestants)
    finally:
        for contestant in contestants:
            contestant.end()


def report(case, contestants):
    rows = [(c.name, statistics.median(c.seconds), c.processor_seconds / len(c.seconds), c.peak_bytes(), c.first_step) for c in contestants]
    print(f"\n{case}: median of {len(contestants[0].seconds)} steps")
    print(f"{'':24}{'step':>11}{'processor':>12}{'memory':>11}{'first step':>12}{'step ratio':>13}{'processor':>11}{'memory':>9}")
    for name, step, processor, peak, first in rows:
        line = f"{name:24}{step * 1e3:8.1f} ms{processor * 1e3:9.1f} ms{peak / 1e9:8.2f} GB{first:10.1f} s"
        if name != "Kerf":
            line += f"{rows[0][1] / step:13.2f}{rows[0][2] / processor:11.2f}{rows[0][3] / peak:9.2f}"
        print(line)
    sys.stdout.flush()


def main():
    cases = ["gpt2", "gpt2-ranks", "cnn"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(cases))
    parser.add_argument("--kerf", default=os.path.join(ROOT, "build", "bin", "kerf"))
    parser.add_argument("--rounds", type=int, default=5, help="number of turns of each contestant")
    parser.add_argument("--steps", type=int, default=3, help="number of steps of a turn")
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError:
        sys.exit(f"{sys.executable} has no PyTorch: run this with a Python that has (pip install torch)")
    if options.worker:
        case, mode, rank, ranks, rendezvous = options.worker
        return torch_worker(case, mode, int(rank), int(ranks), rendezvous)
    if not os.access(options.kerf, os.X_OK):
        sys.exit(f"{options.kerf} is not there: build first, or give --kerf")
    if unknown := set(options.cases) - set(cases):
        sys.exit(f"there is no case {', '.join(sorted(unknown))}: take {', '.join(cases)}")
    with tempfile.TemporaryDirectory() as folder:
        for case in options.cases or cases:
            compete(case, options, folder)


if __name__ == "__main__":
    main()
