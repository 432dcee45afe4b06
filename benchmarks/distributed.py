#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares training steps of Kerf and PyTorch on 2 ranks of one thread each: sharded parameters (Kerf's optimizer sharding 3, FSDP2's `fully_shard`), and tensor
parallelism (`mesh.model`, DTensor's `parallelize_module`), over gloo.

`distributed.py [KERF]` (default build/bin/kerf) needs a Python with torch. Both train the same GPT-2 without shared embeddings: 4 layers of width 256, 128 tokens,
batch 8, float32, AdamW. The four contestants alternate, so that other load on the machine slows all of them alike. The program prints the median step without the
first two steps, and PyTorch's time divided by Kerf's.
"""
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test", "e2e"))
from support import write_npz  # noqa: E402

RANKS, LAYERS, WIDTH, HEADS, VOCABULARY, BATCH, SEQUENCE = 2, 4, 256, 8, 1024, 8, 128
STEPS, WARM_UP, ROUNDS = 10, 2, 3
CONFIG = {"model_type": "gpt2", "n_layer": LAYERS, "n_head": HEADS, "n_embd": WIDTH, "n_positions": SEQUENCE, "vocab_size": VOCABULARY,
          "tie_word_embeddings": False}
KINDS = {"sharded": ("optimizer sharding 3", "FSDP2", {"mesh": {"data": RANKS}, "optimizer_sharding": 3}),
         "tensor": ("tensor parallelism", "DTensor", {"mesh": {"model": RANKS}})}


def gpt2():
    import torch
    from torch import nn
    from torch.nn import functional

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

        def forward(self, x):
            heads = lambda y: y.unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
            y = functional.scaled_dot_product_attention(heads(self.q(x)), heads(self.k(x)), heads(self.v(x)), is_causal=True)
            return self.out(y.transpose(1, 2).flatten(2))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.down(functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(SEQUENCE, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

        def forward(self, ids):
            x = self.tokens(ids) + self.positions(torch.arange(SEQUENCE))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return Model()


def worker(kind, rank, port):
    """Runs one rank of PyTorch; rank 0 prints the seconds of its steps."""
    import contextlib

    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(RANKS))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (RANKS,))
    torch.manual_seed(1)
    model, samples, context = gpt2(), BATCH, contextlib.nullcontext
    if kind == "sharded":
        samples //= RANKS
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    else:
        context = loss_parallel
        for block in model.blocks:
            parallelize_module(block, mesh, {"attn.q": ColwiseParallel(), "attn.k": ColwiseParallel(), "attn.v": ColwiseParallel(),
                                             "attn.out": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()})
        parallelize_module(model, mesh, {"head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)})
    groups = [[each for each in model.parameters() if isinstance(each, DTensor) == cut] for cut in (False, True)]  # one call accepts one kind of parameter
    optimizer = torch.optim.AdamW([{"params": group} for group in groups if group], lr=1e-3, foreach=True)
    torch.manual_seed(2 + (rank if kind == "sharded" else 0))
    seconds = []
    for _ in range(STEPS):
        ids = torch.randint(VOCABULARY, (samples, SEQUENCE))
        dist.barrier()
        start = time.perf_counter()
        with context():
            logits = model(ids)
            loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps(seconds), flush=True)
    dist.destroy_process_group()


def torch_steps(kind):
    port = random.randrange(20000, 60000)
    command = lambda rank: [sys.executable, __file__, "--worker", kind, str(rank), str(port)]
    jobs = [subprocess.Popen(command(rank), env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for rank in range(RANKS)]
    said = [job.communicate() for job in jobs]
    for job, (_, error) in zip(jobs, said):
        if job.returncode:
            sys.exit(error)
    return json.loads(said[0][0])


def kerf_steps(kerf, plan, path):
    with open(path("plan.json"), "w") as file:
        json.dump({"kerf": 1, **plan}, file)
    done = subprocess.run([kerf, "train", path("config.json"), "--data", path("data.npz"), "--global-batch", str(BATCH), "--sequence", str(SEQUENCE), "--plan",
                           path("plan.json"), "--optimizer", "adamw", "--steps", str(STEPS), "--seed", "1", "--json"],
                          env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["step_seconds"]


def main():
    if sys.argv[1:2] == ["--worker"]:
        return worker(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    try:
        import torch
    except ImportError:
        sys.exit(f"{sys.executable} has no torch to compare with: run this with a Python that has it (pip install torch)")
    kerf = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "bin", "kerf")
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        with open(path("config.json"), "w") as file:
            json.dump(CONFIG, file)
        count = STEPS * BATCH * SEQUENCE
        tokens = struct.pack(f"<{count}q", *(random.randrange(VOCABULARY) for _ in range(count)))
        write_npz(path("data.npz"), {name: ("<i8", [STEPS, BATCH, SEQUENCE], tokens) for name in ("input_ids", "labels")})
        seconds = {}
        for _ in range(ROUNDS):
            for kind, (_, _, plan) in KINDS.items():
                seconds.setdefault((kind, "torch"), []).extend(torch_steps(kind)[WARM_UP:])
                seconds.setdefault((kind, "kerf"), []).extend(kerf_steps(kerf, plan, path)[WARM_UP:])
        for kind, (ours, theirs, _) in KINDS.items():
            mine, other = (statistics.median(seconds[kind, who]) for who in ("kerf", "torch"))
            print(f"{ours:<22} {mine * 1e3:7.1f} ms a step; PyTorch {torch.__version__} {theirs:<8} {other * 1e3:7.1f} ms: {other / mine:5.2f} times Kerf's")


if __name__ == "__main__":
    main()
