#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks on GPUs that are processes, under mpirun and in the environment of torchrun: on the stand-ins of NVIDIA's libraries they have the
losses and weights of ranks that are threads, bit for bit, and a process that is killed ends the run and is named."""
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
import unittest

from mpi import children, kill_one, mpirun
from processes import environment, free_port
from support import KERF, KerfTest, file_of, losses_of, main, write_npz
from test_pipelines import ALL, plan, schedule

STANDINS = os.path.join(os.path.dirname(os.path.dirname(KERF)), "standins")
SECONDS_TO_END = 10
STEPS = 3  # two enqueued instruction by instruction, one as a graph
SMALL = {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8, "n_positions": 16, "vocab_size": 50}
PLANS = {  # by name: number of ranks, and the plan
    "two stages, data 2, zero 2": (4, plan(stage=2, data=2, microbatch=1, optimizer_sharding=2)),
    "model 2": (2, plan(model=2, microbatch=4)),
    "data 3": (3, plan(data=3)),
    "ring of 2": (2, plan(context=2, microbatch=4)),
    "zero 3": (2, plan(data=2, microbatch=2, optimizer_sharding=3)),
    "two stages, zero-bubble": (2, plan(stage=2, microbatch=2, **schedule("zero-bubble"))),
}


class CudaProcesses(KerfTest):
    device = "cuda"
    some = ["two stages, data 2, zero 2"]  # --all: all plans, and the whole GPT-2
    killed = [("data 3", 2)]  # plan and victim; --all: more
    kill_variable = "KERF_STANDIN_NCCL_KILL"  # the stand-in's: the number of the call that joins a communicator at which the process is killed

    def setUp(self):
        super().setUp()
        os.environ.update(KERF_CUDA_LIBRARIES=STANDINS, KERF_STANDIN_DEVICES="4")
        for name in ("DRIVER", "MEMORY", "ECC", "BUSY", "CAPABILITY", "CAPTURE", "NCCL", "NCCL_KILL"):
            os.environ.pop(f"KERF_STANDIN_{name}", None)

    def small(self):
        """The arguments of a run of a small GPT-2."""
        rnd = random.Random(1)
        tokens = [rnd.randrange(8) for _ in range(STEPS * 12 * 8)]
        pack = ("<i8", [STEPS, 12, 8], struct.pack(f"<{len(tokens)}q", *tokens))
        write_npz(self.path("data.npz"), {"input_ids": pack, "labels": pack})
        return ["train", self.write("config.json", SMALL), "--data", self.path("data.npz"), "--seed", 1, "--global-batch", 12, "--sequence", 8]

    def gpt2(self):
        return ["train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz")]

    def start(self, ranks, args, changes=None):
        """Starts one process for each rank. `changes` has variables for single ranks."""
        port = free_port()
        jobs = [subprocess.Popen([KERF, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env=environment(rank, ranks, port, **(changes or {}).get(rank, {}))) for rank in range(ranks)]
        for job in jobs:
            self.addCleanup(lambda job=job: job.poll() is None and job.kill())
        return jobs

    def ends(self, jobs):
        """Waits for all processes, and returns what each has written to standard error."""
        said = [None] * len(jobs)

        def wait(i):
            said[i] = jobs[i].communicate(timeout=200)[1]
        threads = [threading.Thread(target=wait, args=(i,)) for i in range(len(jobs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return said

    def same_as_threads(self, ranks, args):
        names = [["--log", self.path(f"{how}.jsonl"), "--save", self.path(f"{how}.safetensors")] for how in ("threads", "processes")]
        self.succeed(*args, *names[0])
        jobs = self.start(ranks, [*args, *names[1]])
        said = self.ends(jobs)
        self.assertEqual([job.returncode for job in jobs], [0] * ranks, said)
        self.assertEqual(losses_of(self.path("threads.jsonl")), losses_of(self.path("processes.jsonl")))
        self.assertEqual(self.read("threads.safetensors"), self.read("processes.safetensors"))

    def test_same_bits_as_threads(self):
        everything = ALL
        for name in PLANS if everything else self.some:
            ranks, chosen = PLANS[name]
            for model in ([self.small(), self.gpt2()] if everything and 12 % ranks == 0 and ranks != 3 else [self.small()]):
                for ordered in ([], ["--deterministic"]) if everything else (["--deterministic"],):
                    with self.subTest(plan=name, model=model[1], ordered=ordered):
                        self.same_as_threads(ranks, [*model, "--steps", STEPS, "--plan", self.write("plan.json", chosen), "--device", self.device,
                                                     "--optimizer", "adamw", "--lr", 0.01, *ordered])

    @unittest.skipUnless(shutil.which("mpirun") and ALL, "needs mpirun and --all")
    def test_under_mpirun(self):
        args = [*self.small(), "--steps", STEPS, "--plan", self.write("plan.json", PLANS["model 2"][1]), "--device", self.device, "--deterministic"]
        self.succeed(*args, "--log", self.path("threads"))
        done = subprocess.run(mpirun(2, *args, "--log", self.path("processes")), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(losses_of(self.path("threads")), losses_of(self.path("processes")))

    def ended_by(self, victim, jobs, killed):
        """The other processes end soon after `killed`, and one of them names the victim."""
        said = self.ends(jobs)
        self.assertLess(time.monotonic() - killed, SECONDS_TO_END)
        others = [job.returncode for rank, job in enumerate(jobs) if rank != victim]
        self.assertNotIn(0, others, said)
        errors = [line for text in said for line in text.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(errors), 1, said)
        self.assertIn(f"rank {victim} (process {jobs[victim].pid} on {socket.gethostname()})", errors[0])
        self.assertIn("has ended", errors[0])

    def until_it_trains(self, job):
        deadline = time.monotonic() + 120
        while not (os.path.exists(self.path("log")) and self.read("log").count(b"\n") > 2):
            self.assertIsNone(job.poll(), "ended by itself")
            self.assertLess(time.monotonic(), deadline, "no step in two minutes")
            time.sleep(0.1)

    def long_run(self, name):
        return [*self.small(), "--steps", 1000000, "--plan", self.write("plan.json", PLANS[name][1]), "--device", self.device, "--log", self.path("log")]

    def test_a_killed_process_ends_the_run_and_is_named(self):
        for name, victim in [("data 3", 2), ("two stages, data 2, zero 2", 0)] if ALL else self.killed:
            with self.subTest(name):
                jobs = self.start(PLANS[name][0], self.long_run(name))
                self.until_it_trains(jobs[0])
                jobs[victim].send_signal(signal.SIGKILL)
                self.ended_by(victim, jobs, time.monotonic())
                os.remove(self.path("log"))

    def test_a_process_that_is_killed_while_it_joins_is_named(self):
        jobs = self.start(2, self.long_run("model 2"), {1: {self.kill_variable: 1}})
        jobs[1].wait(timeout=100)
        self.ended_by(1, jobs, time.monotonic())

    @unittest.skipUnless(shutil.which("mpirun") and ALL, "needs mpirun and --all")
    def test_a_killed_process_ends_the_job_of_mpirun(self):
        job = subprocess.Popen(mpirun(2, *self.long_run("model 2")), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(lambda: job.poll() is None and job.kill())
        self.until_it_trains(job)
        ranks = children(job.pid)
        self.assertEqual(len(ranks), 2)
        kill_one(self, job, ranks, ranks[1])


if __name__ == "__main__":
    main()
