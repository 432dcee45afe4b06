#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the GPT-2 of examples/gpt2 on 4 ranks with compressed gradients: the loss with each codec, and the seconds to a loss on slow links.

The data are the pages of docs/ as text, a token for each printable ASCII character; every tenth piece of the text is kept for the evaluation. Each seed has initial
weights and an order of the text of its own. Needs numpy.

`convergence.py losses [--steps 2000] [--seeds 3] [CODEC...]` prints the evaluation's loss of each codec beside float32, as means over the seeds. With --dtype bf16 all
of them compute in 16 bits. With --fewer-ranks 2, the second half of each training resumes the checkpoint of the first half on 2 ranks.
`convergence.py times --rate 100mbit [--steps 200] [--python PYTHON] [CODEC...]` prints the seconds of a step on links of that rate (scripts/shaped-network.sh; needs
root). With the steps that the part `losses` needs to a loss, given as `--steps-to CODEC=N`, it prints the seconds to that loss. PYTHON has torch and transformers: the
table then has DistributedDataParallel over gloo without a hook, with fp16_compress_hook and with powerSGD_hook, in the same namespaces. KERF names the program.
`convergence.py all --results FOLDER [--rates 100mbit,1gbit,] [--minutes 9] [--python PYTHON]` does both. Each training and each timing is kept in FOLDER as soon as it
ends, so that the command may be stopped and run again; it stops by itself before a part that would begin after so many minutes, with the exit status 3, and prints
the tables when nothing is missing. The seconds to the loss use the steps that the same codec needed, and the steps of float32 for DistributedDataParallel. The way
"planned" has the codecs that `kerf plan --compress plan` chooses for links of each rate.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types

import numpy

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
START = time.monotonic()
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rows import TCP_SHARE, unlimited_bandwidth, write_cluster  # noqa: E402

KERF = os.path.abspath(os.environ.get("KERF", os.path.join(ROOT, "build", "bin", "kerf")))
MODEL = os.path.join(ROOT, "examples", "gpt2", "model.onnx")
RANKS, BATCH, SEQUENCE, VOCABULARY, RATE, MOMENTUM = 4, 8, 32, 97, 0.1, 0.9
CODECS = ("none", "bf16", "int8", "int4", "terngrad", "onebit", "topk", "powersgd")
HOOKS = ("ddp", "ddp-fp16", "ddp-powersgd")


def text():
    """The pages of docs/ as tokens: 0 a new line, 1 to 95 the printable characters, 96 all others."""
    tokens = []
    for page in sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))):
        with open(page, "rb") as file:
            tokens += [0 if byte == 10 else byte - 31 if 32 <= byte < 127 else 96 for byte in file.read()]
    return numpy.array(tokens[:len(tokens) // SEQUENCE * SEQUENCE], dtype=numpy.int64).reshape(-1, SEQUENCE)


def write_data(folder, seed, steps):
    """Writes the batches of a seed, and those of the evaluation, which are the same for all seeds."""
    rows = text()
    kept, trained = rows[::10], numpy.delete(rows, slice(None, None, 10), axis=0)
    order = numpy.concatenate([numpy.random.default_rng([seed, turn]).permutation(len(trained)) for turn in range(steps * BATCH // len(trained) + 1)])
    batches = trained[order[:steps * BATCH]].reshape(steps, BATCH, SEQUENCE)
    numpy.savez(os.path.join(folder, "data.npz"), input_ids=batches, labels=batches)
    few = kept[:len(kept) // BATCH * BATCH].reshape(-1, BATCH, SEQUENCE)[:40]
    numpy.savez(os.path.join(folder, "eval.npz"), input_ids=few, labels=few)


def shapes():
    """The names and shapes of the parameters, as kerf import prints them."""
    import re
    out = subprocess.run([KERF, "import", MODEL], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"%\w+: tensor<([0-9x]+)xf32> \{[^}]*kerf.kind = \"parameter\"[^}]*kerf.name = \"([^\"]+)\"", out)
    return {name: [int(size) for size in shape.split("x")] for shape, name in found}


def write_weights(folder, seed):
    """Initial weights as GPT-2 has them: normal with deviation 0.02, biases 0 and norms 1."""
    random = numpy.random.default_rng(1000 + seed)
    numpy.savez(os.path.join(folder, "weights.npz"), **{
        name: (numpy.ones(shape) if ".ln_" in name and name.endswith("weight") else numpy.zeros(shape) if len(shape) == 1 else
               random.normal(0, 0.02, shape)).astype(numpy.float32) for name, shape in shapes().items()})


def write_pins(folder, ranks, choices=None):
    """Writes plan.json: every gradient is summed over the ranks, also where gathering a few activations were faster. `choices` are those of codecs."""
    with open(os.path.join(folder, "plan.json"), "w") as file:
        json.dump({"kerf": 1, "mesh": {"data": ranks, "model": 1}, "optimizer_sharding": 0, "recompute": "none", "overlap": ["gradients"],
                   **({} if choices is None else {"compression": choices})}, file)
    return os.path.join(folder, "plan.json")


def arguments(folder, codec, steps, ranks=RANKS, choices=None):
    """The model and the options of a training with one codec for all matrices of the layers, or with `choices` of codecs."""
    pins = write_pins(folder, ranks, choices)
    compress = ["--compress", "*.ln_*=none", "--compress", f"transformer.h.*.weight={codec}", "--compress", "*=none"]  # norms are vectors, which stay plain
    if codec == "none" or choices is not None:
        compress = []
    return [MODEL, "--data", os.path.join(folder, "data.npz"), "--weights", os.path.join(folder, "weights.npz"), "--ranks", str(ranks), "--all-ranks",
            "--constraints", pins, "--search", "whole", "--optimizer", "sgd", "--lr", str(RATE), "--momentum", str(MOMENTUM), *compress,
            "--steps", str(steps)]


def trained(folder, codec, steps, dtype="f32", fewer=None, choices=None):
    """Trains one codec, and returns the loss of the evaluation and the loss of each step. With `fewer`, the second half runs on so many ranks."""
    curve, saved = [], os.path.join(folder, f"checkpoint-{codec}")
    halves = [(steps // 2, RANKS, ["--checkpoint", saved, "--every", str(steps)]), (steps, fewer, ["--resume", saved])] if fewer else [(steps, RANKS, [])]
    for end, ranks, more in halves:
        log = os.path.join(folder, f"{codec}-{end}.jsonl")
        done = subprocess.run([KERF, "train", *arguments(folder, codec, end, ranks, choices), "--dtype", dtype, "--eval-data", os.path.join(folder, "eval.npz"), "--log", log,
                               *more, "--json"], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{codec}: {done.stderr[-2000:]}")
        with open(log) as file:
            curve += [json.loads(line)["loss"] for line in file if '"loss"' in line]
    return json.loads(done.stdout)["evaluations"][-1]["eval_loss"], curve


def losses(options):
    table = {codec: [] for codec in options.codecs}
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            write_data(folder, seed, options.steps)
            write_weights(folder, seed)
            for codec in options.codecs:
                table[codec].append(trained(folder, codec, options.steps, options.dtype, options.fewer_ranks))
                print(f"seed {seed}, {codec}: {table[codec][-1][0]:.4f}", file=sys.stderr, flush=True)
    print_losses(options, table)


def steps_to(options, curve):
    """The number of steps after which the mean loss of 20 steps is at most that of the options; None if it never is."""
    return next((i + 1 for i in range(19, len(curve)) if statistics.mean(curve[i - 19:i + 1]) <= options.loss), None)


def print_losses(options, table):
    first = statistics.mean(value for value, _ in table[options.codecs[0]])
    print(f"{options.steps} steps, {options.seeds} seeds, {RANKS} ranks; steps to the loss {options.loss} as the mean of 20 steps\n")
    print("| codec | loss of the evaluation | relative to the first line | steps to the loss |\n|---|---|---|---|")
    for codec, runs in table.items():
        mean = statistics.mean(value for value, _ in runs)
        reached = [steps_to(options, curve) for _, curve in runs]
        print(f"| {codec} | {mean:.4f} | {mean / first:.3f} | {'-' if None in reached else round(statistics.mean(reached))} |")


DDP = """
import json, os, sys, time
import numpy, torch, transformers
from torch.nn.parallel import DistributedDataParallel
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
folder, hook, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(1)
torch.manual_seed(0)
torch.distributed.init_process_group("gloo")
rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
config = transformers.GPT2Config(n_layer=2, n_embd=64, n_head=4, n_positions=64, vocab_size={vocabulary}, bos_token_id=0, eos_token_id=0, resid_pdrop=0.0,
                                 embd_pdrop=0.0, attn_pdrop=0.0)
model = DistributedDataParallel(transformers.GPT2LMHeadModel(config))
if hook == "ddp-fp16":
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
if hook == "ddp-powersgd":
    model.register_comm_hook(powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
optimizer = torch.optim.SGD(model.parameters(), lr={rate}, momentum={momentum})
batches = numpy.load(folder + "/data.npz")["input_ids"]
share = batches.shape[1] // ranks
seconds = []
for step in range(steps):
    rows = torch.from_numpy(batches[step, rank * share:(rank + 1) * share])
    start = time.monotonic()
    loss = model(rows, labels=rows).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    seconds.append(time.monotonic() - start)
if rank == 0:
    print(json.dumps(seconds))
torch.distributed.destroy_process_group()
"""


def bits_of(rate):
    """The bits per second of a rate as tc writes it, such as 100mbit."""
    units = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
    number, unit = rate[:-4], rate[-4:]
    if unit not in units or not number.replace(".", "", 1).isdigit():
        raise SystemExit(f"the rate {rate!r} is not understood; write a number with kbit, mbit or gbit, such as 100mbit")
    return float(number) * units[unit]


def chosen(folder, rate):
    """The codecs that kerf plan chooses for links of a rate, as the key `compression` of its plan."""
    bandwidth = TCP_SHARE * bits_of(rate) / 8 if rate else unlimited_bandwidth(folder, 16)
    cluster = write_cluster(types.SimpleNamespace(cluster="", folder=folder), folder, bandwidth)
    plan = os.path.join(folder, "chosen.json")
    subprocess.run([KERF, "plan", MODEL, "--cluster", cluster, "--all-ranks", "--search", "whole", "--constraints", write_pins(folder, RANKS), "--optimizer", "sgd",
                    "--momentum", str(MOMENTUM), "--compress", "plan", "-o", plan], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(plan) as file:
        return json.load(file).get("compression", {})


def seconds_of_steps(options, folder, codec, rate, steps, choices=None):
    """The median seconds of a step with a codec, with `choices` of codecs, or with a hook of PyTorch, on links of a rate."""
    network = [os.path.join(ROOT, "scripts", "shaped-network.sh"), "--ranks", str(RANKS), *(["--rate", rate] if rate else []), "--"]
    if codec in HOOKS:
        script = os.path.join(folder, "ddp.py")
        with open(script, "w") as file:
            file.write(DDP.replace("{vocabulary}", str(VOCABULARY)).replace("{rate}", str(RATE)).replace("{momentum}", str(MOMENTUM)))
        done = subprocess.run([*network, options.python, script, folder, codec, str(steps)], capture_output=True, text=True)
        seconds = json.loads(done.stdout) if done.returncode == 0 else None
    else:
        log = os.path.join(folder, f"{codec}.jsonl")
        package = os.path.join(folder, "package")
        what = arguments(folder, codec, steps, choices=choices)
        compiled = subprocess.run([KERF, "compile", what[0], *what[3:-2], "-o", package], capture_output=True, text=True)
        if compiled.returncode:
            raise SystemExit(compiled.stderr[-2000:])
        done = subprocess.run([*network, KERF, "run", package, *what[1:3], *what[-2:], "--log", log], capture_output=True, text=True)
        if done.returncode == 0:
            with open(log) as file:
                seconds = [json.loads(line)["seconds"] for line in file]
    if done.returncode:
        raise SystemExit(f"{codec}: {done.stderr[-2000:]}")
    return statistics.median(seconds[3:])


def times(options):
    needed = dict(item.split("=") for item in options.steps_to)
    print(f"{options.steps} steps, {RANKS} ranks, links of {options.rate or 'no limited rate'}\n\n| codec | seconds of a step (median) | seconds to the loss |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        write_data(folder, 0, options.steps)
        write_weights(folder, 0)
        for codec in [*options.codecs, *(HOOKS if options.python else ())]:
            step = seconds_of_steps(options, folder, codec, options.rate, options.steps)
            print(f"| {codec} | {step:.4f} | {'-' if codec not in needed else format(step * int(needed[codec]), '.1f')} |", flush=True)


def kept(options, name, measure):
    """The result `name` in the folder of results, which is measured if it is missing."""
    path = os.path.join(options.results, name + ".json")
    if not os.path.exists(path):
        if time.monotonic() - START > 60 * options.minutes:
            print(f"{options.minutes} minutes are over before {name}; run the same command again", file=sys.stderr)
            raise SystemExit(3)
        with tempfile.TemporaryDirectory() as folder:
            result = measure(folder)
        with open(path + ".part", "w") as file:
            json.dump(result, file)
        os.replace(path + ".part", path)
        print(f"{name} is measured", file=sys.stderr, flush=True)
    with open(path) as file:
        return json.load(file)


def prepared(folder, seed, steps):
    write_data(folder, seed, steps)
    write_weights(folder, seed)
    return folder


def both(options):
    os.makedirs(options.results, exist_ok=True)
    steps, timed, rates = options.steps, options.timed_steps, options.rates.split(",")

    def losses_of(codec, name, choices=None):
        return [kept(options, f"loss-{steps}-{seed}-{name}", lambda folder: trained(prepared(folder, seed, steps), codec, steps, choices=choices))
                for seed in range(options.seeds)]

    table = {codec: losses_of(codec, codec) for codec in options.codecs}
    choices = {rate: kept(options, f"plan-{rate or 'unlimited'}", lambda folder: chosen(folder, rate)) for rate in rates}
    for rate in rates:
        table[f"planned, {rate or 'no limit'}"] = losses_of("planned", f"planned-{rate or 'unlimited'}", choices[rate])
    ways = [*options.codecs, "planned", *(HOOKS if options.python else ())]
    seconds = {(way, rate): kept(options, f"time-{timed}-{rate or 'unlimited'}-{way}", lambda folder: seconds_of_steps(
        options, prepared(folder, 0, timed), way, rate, timed, choices[rate] if way == "planned" else None)) for rate in rates for way in ways}
    print_losses(options, table)
    print(f"\nMedian seconds of {timed} steps, and seconds to the loss {options.loss}, on links of each rate\n")
    print(f"| way |{''.join(f' step, {rate or chr(45)} | to the loss |' for rate in rates)}\n|---|{'---|---|' * len(rates)}")
    for way in ways:
        cells = []
        for rate in rates:
            runs = table[f"planned, {rate or 'no limit'}" if way == "planned" else way if way in table else options.codecs[0]]
            reached = [steps_to(options, curve) for _, curve in runs]
            to_loss = "-" if None in reached else format(statistics.mean(reached) * seconds[way, rate], ".1f")
            cells.append(f" {seconds[way, rate]:.4f} | {to_loss} |")
        print(f"| {way} |{''.join(cells)}")
    for rate, one in choices.items():
        print(f"\nplanned, {rate or 'no limit'}: {json.dumps(one)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("losses", "times", "all"))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--loss", type=float, default=2.4, help="the loss to which steps are counted (default 2.4)")
    parser.add_argument("--dtype", default="f32", help="with `losses`: the type in which all codecs compute (default f32)")
    parser.add_argument("--fewer-ranks", type=int, default=None, metavar="N", help="with `losses`: the ranks of the second half of the steps")
    parser.add_argument("--rate", default="", help="rate of each link, as tc writes it; default: not limited")
    parser.add_argument("--steps-to", action="append", default=[], metavar="CODEC=N")
    parser.add_argument("--python", default="", help="a Python with torch and transformers, for DistributedDataParallel")
    parser.add_argument("--results", default="", help="with `all`: the folder that keeps what is measured")
    parser.add_argument("--rates", default="100mbit,1gbit,", help="with `all`: rates of links, separated by commas; an empty one is not limited")
    parser.add_argument("--minutes", type=float, default=9, help="with `all`: no part begins after so many minutes (default 9)")
    parser.add_argument("--timed-steps", type=int, default=60, help="with `all`: steps of a timing (default 60)")
    parser.add_argument("codecs", nargs="*", default=CODECS)
    options = parser.parse_intermixed_args()
    if options.part == "all" and not options.results:
        parser.error("`all` needs --results FOLDER")
    for rate in options.rates.split(",") if options.part == "all" else ():
        if rate:
            bits_of(rate)
    {"losses": losses, "times": times, "all": both}[options.part](options)


if __name__ == "__main__":
    main()
