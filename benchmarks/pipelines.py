#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how close a pipeline of two stages, one thread each, comes to the step time that its bubble allows.

`pipelines.py [KERF]` (default build/bin/kerf) trains a GPT of 8 layers on one rank with one thread, and as two stages of one thread under each schedule, with 8
microbatches in all cases. The runs alternate, so that other load on the machine slows all of them alike. The program prints the time that the bubble allows, one rank's
time / 2 x (1 + (stages - 1) / microbatches), divided by the measured time of the two stages; zero-bubble schedules are compared with the same time.
"""
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test", "e2e"))
from support import write_npz  # noqa: E402

KERF = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "bin", "kerf")
BATCH, SEQUENCE, MICROBATCHES, STEPS, ROUNDS = 16, 128, 8, 6, 3
CONFIG = {"model_type": "gpt2", "n_layer": 8, "n_head": 8, "n_embd": 256, "n_positions": SEQUENCE, "vocab_size": 512}
# The head takes as long as half a layer here.
PLANS = {"one rank": {"mesh": {"stage": 1, "data": 1}, "microbatch": BATCH // MICROBATCHES}}
for name, more in {"gpipe": {}, "1f1b": {}, "interleaved": {"chunks": 2}, "zero-bubble": {}}.items():
    PLANS[name] = {"mesh": {"stage": 2, "data": 1}, "microbatch": BATCH // MICROBATCHES, "schedule": {"name": name, **more}}


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        json.dump(CONFIG, open(path("config.json"), "w"))
        tokens = struct.pack(f"<{STEPS * BATCH * SEQUENCE}q", *(random.randrange(512) for _ in range(STEPS * BATCH * SEQUENCE)))
        write_npz(path("data.npz"), {name: ("<i8", [STEPS, BATCH, SEQUENCE], tokens) for name in ("input_ids", "labels")})
        seconds = {name: [] for name in PLANS}
        for _ in range(ROUNDS):
            for name, plan in PLANS.items():
                json.dump({"kerf": 1, **plan}, open(path("plan.json"), "w"))
                done = subprocess.run([KERF, "train", path("config.json"), "--data", path("data.npz"), "--global-batch", str(BATCH), "--sequence",
                                       str(SEQUENCE), "--plan", path("plan.json"), "--optimizer", "adamw", "--steps", str(STEPS), "--seed", "1", "--json"],
                                      env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=True)
                seconds[name] += json.loads(done.stdout)["step_seconds"][1:]
        best = {name: statistics.median(times) for name, times in seconds.items()}
        print(f"one rank, one thread: {best['one rank'] * 1e3:.1f} ms a step")
        for name in PLANS:
            if name == "one rank":
                continue
            chunks = PLANS[name]["schedule"].get("chunks", 1)
            allowed = best["one rank"] / 2 * (1 + 1 / (MICROBATCHES * chunks))
            print(f"{name:<12} {best[name] * 1e3:7.1f} ms a step, {100 * allowed / best[name]:5.1f} % of what its bubble allows")


if __name__ == "__main__":
    main()
