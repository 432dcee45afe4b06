#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what a new user types in the first hour, in order, on small models: train, plan, ask, pin, check, stop and go on, and the mistakes on the way.

Each step uses what the one before wrote. The details of every command have tests of their own; here the commands have to agree with each other.
"""
import json
import os
import signal
import subprocess
import time

from mpi import mpirun
from support import CLUSTERS, KERF, KerfTest, file_of, golden_of, kerf, losses_of, main

MODEL, DATA = file_of("gpt2"), file_of("gpt2", "batches.npz")
LLAMA = {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8, "num_attention_heads": 16,
         "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 4096}
CLUSTER = os.path.join(CLUSTERS, "dgx-a100.json")
ADAMW = ["--optimizer", "adamw", "--weight-decay", "0.01"]


class FirstHour(KerfTest):
    def read_json(self, name):
        with open(self.path(name)) as file:
            return json.load(file)

    # ---- here, on the ranks of this machine ----

    def test_train_then_run_the_saved_plan(self):
        """A plan that `train` saved trains the same way as a package, on threads and under mpirun, without being told the optimizer again."""
        self.succeed("train", MODEL, "--data", DATA, "--ranks", 4, "--steps", 10, "--lr", "1e-3", *ADAMW, "--log", self.path("train.jsonl"),
                     "--save-plan", self.path("plan.json"))
        golden = golden_of("gpt2")["losses"]["adamw"]["float64"][:10]
        self.close(losses_of(self.path("train.jsonl")), golden, 2e-4, "train")
        self.succeed("compile", MODEL, "--plan", self.path("plan.json"), "-o", self.path("package"))
        self.succeed("run", self.path("package"), "--data", DATA, "--steps", 10, "--lr", "1e-3", "--log", self.path("run.jsonl"))
        self.assertEqual(losses_of(self.path("run.jsonl")), losses_of(self.path("train.jsonl")))
        ranks = 1
        for size in self.read_json("plan.json")["mesh"].values():
            ranks *= size
        done = subprocess.run(mpirun(ranks, "run", self.path("package"), "--data", DATA, "--steps", 10, "--lr", "1e-3", "--log",
                                     self.path("mpi.jsonl")), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertEqual(losses_of(self.path("mpi.jsonl")), losses_of(self.path("train.jsonl")))

    def test_stop_look_and_go_on(self):
        """Ctrl-C leaves a checkpoint; a second run on the same folder is refused and harms nothing; resuming gives the losses of one run."""
        whole = ["train", MODEL, "--data", DATA, *ADAMW, "--lr", "1e-3"]
        self.succeed(*whole, "--steps", 400, "--log", self.path("whole.jsonl"))
        first = subprocess.Popen([KERF, *whole, "--steps", "400", "--checkpoint", self.path("saved"), "--every", "100000", "--log",
                                  self.path("log.jsonl")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            for _ in range(600):
                if os.path.exists(self.path("log.jsonl")) and len(losses_of(self.path("log.jsonl"))) >= 5:
                    break
                time.sleep(0.05)
            second = kerf(*whole, "--steps", 400, "--checkpoint", self.path("saved"))
            self.assertEqual(second.returncode, 1, second.stderr)
            self.assertIn(str(first.pid), second.stderr)
            self.assertIsNone(first.poll(), "the first run goes on")
            first.send_signal(signal.SIGINT)
            _, said = first.communicate(timeout=60)
        finally:
            first.kill()
        self.assertEqual(first.returncode, 130, said[-2000:])
        done = len(losses_of(self.path("log.jsonl")))
        self.assertIn(f"step-{done:06d}", os.listdir(self.path("saved")))
        self.succeed(*whole, "--steps", 400, "--checkpoint", self.path("saved"), "--resume", self.path("saved"), "--log", self.path("log.jsonl"))
        self.assertEqual(losses_of(self.path("log.jsonl")), losses_of(self.path("whole.jsonl")))

    # ---- for machines that are not here ----

    def test_plan_ask_pin_verify_export(self):
        config = self.write("config.json", LLAMA)
        job = ["--cluster", CLUSTER, "--ranks", 16, "--global-batch", 64, "--sequence", 2048, "--dtype", "bf16", "--optimizer", "adamw"]
        self.succeed("plan", config, *job, "-o", self.path("plan.json"))
        plan = self.read_json("plan.json")
        seconds, peak = plan["predicted"]["step_seconds"], plan["predicted"]["peak_bytes"]

        # Every command that takes the plan has the plan's job.
        simulated = json.loads(self.succeed("simulate", config, "--plan", self.path("plan.json"), "--json").stdout)
        self.assertEqual((simulated["step_seconds"], simulated["peak_bytes"]), (seconds, peak))
        other = self.succeed("simulate", config, "--plan", self.path("plan.json"), "--dtype", "f32", "--json")
        self.assertIn("--dtype", other.stderr)
        self.assertGreater(json.loads(other.stdout)["step_seconds"], seconds)
        self.succeed("verify", config, "--plan", self.path("plan.json"))
        self.succeed("export", config, "--plan", self.path("plan.json"), "--to", "megatron", "-o", self.path("train.sh"))
        script = self.read("train.sh").decode()
        for words in ("--bf16", "adam", "--nnodes 2", "--nproc-per-node 8", "--global-batch-size 64", "--seq-length 2048"):
            self.assertIn(words, script)

        # explain and plan agree: planning with an alternative's pins takes the seconds that explain printed for it.
        explained = json.loads(self.succeed("explain", self.path("plan.json"), "--json").stdout)
        self.assertEqual(explained["step_seconds"], seconds)
        compared = 0
        for alternative in explained["alternatives"]:
            if "constraints" not in alternative or not alternative["proven"]:
                continue
            pinned = self.succeed("plan", config, *job, "--constraints", self.write("pin.json", alternative["constraints"]), "--json")
            there = json.loads(pinned.stdout)["predicted"]["step_seconds"]
            self.assertLessEqual(abs(there - alternative["alternative"]["step_seconds"]), 1e-9 * there, alternative["decision"])
            self.assertGreaterEqual(there, seconds * (1 - 1e-9), alternative["decision"])
            compared += 1
        self.assertGreater(compared, 0)

    def test_mistakes(self):
        """Each ends with one message that names what is wrong and the way out."""
        config = self.write("config.json", LLAMA)
        self.refuse(1, ["mesch", "mesh"], "plan", config, "--cluster", CLUSTER, "--constraints", self.write("c.json", {"kerf": 1, "mesch": {}}))
        self.refuse(1, ["--optimiser", "--optimizer"], "plan", config, "--optimiser", "adamw")
        self.refuse(1, ["plam", "plan"], "plam", config)
        with open(CLUSTER) as file:
            cluster = json.load(file)
        cluster["levels"][1]["bandwidth"] = 25
        self.refuse(1, ["25", "bytes/s"], "plan", config, "--cluster", self.write("slow.json", cluster))
        self.refuse(1, ["layer 15", "8 layers", "0 to 7"], "plan", config, "--cluster", CLUSTER, "--ranks", 8, "--global-batch", 8, "--constraints",
                    self.write("s.json", {"kerf": 1, "mesh": {"stage": 2}, "stages": [{"layers": [0, 15]}, {"layers": [16, 31]}]}))
        self.refuse(2, ["GiB", "weights"], "plan", config, "--cluster", CLUSTER, "--ranks", 1, "--memory", 2 * 10 ** 9, "--global-batch", 8, "--dtype", "bf16",
                    "--optimizer", "adamw")


if __name__ == "__main__":
    main()
