#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks as processes under mpirun: the same bits as threads, and an end for all when one is lost."""
import json
import os
import shutil
import subprocess
import time
import unittest

from mpi import children, kill_one, mpirun
from support import KERF, KerfTest, file_of, losses_of, main


@unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
class Mpi(KerfTest):
    def test_same_bits_as_threads(self):
        for model, ranks, mesh in (("gpt2", 2, {"data": 1, "model": 2}), ("gpt2", 4, {"data": 2, "model": 2}), ("mlp", 4, None)):
            constraints = ["--constraints", self.write("mesh.json", {"kerf": 1, "mesh": mesh})] if mesh else []
            package = self.path(f"{model}{ranks}")
            self.succeed("compile", file_of(model), "--ranks", ranks, "--all-ranks", "--optimizer", "adamw", *constraints, "-o", package)
            args = ["run", package, "--data", file_of(model, "batches.npz"), "--steps", 10]
            self.succeed(*args, "--log", self.path("threads"), "--save", self.path("threads.safetensors"))
            done = subprocess.run(mpirun(ranks, *args, "--log", self.path("processes"), "--save", self.path("processes.safetensors"),
                                         "--trace", self.path("trace.json")),
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(losses_of(self.path("threads")), losses_of(self.path("processes")), f"{model} on {ranks} ranks")
            self.assertEqual(self.read("threads.safetensors"), self.read("processes.safetensors"))
            events = json.loads(self.read("trace.json"))["traceEvents"]
            self.assertEqual({event["pid"] for event in events if event["ph"] == "X"}, set(range(ranks)))

    def test_train_takes_its_ranks_from_mpirun(self):
        args = ["train", file_of("mlp"), "--data", file_of("mlp", "batches.npz"), "--steps", 5]
        done = subprocess.run(mpirun(2, *args, "--log", self.path("processes")), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.succeed(*args, "--ranks", 2, "--all-ranks", "--log", self.path("threads"))
        self.assertEqual(losses_of(self.path("threads")), losses_of(self.path("processes")))

    def test_wrong_number_of_processes(self):
        self.succeed("compile", file_of("mlp"), "--ranks", 4, "--all-ranks", "-o", self.path("package"))
        done = subprocess.run(mpirun(2, "run", self.path("package"), "--data", file_of("mlp", "batches.npz")),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("4 ranks", done.stderr)
        self.assertIn("2 processes", done.stderr)

    def test_killing_one_rank_ends_the_job(self):
        self.succeed("compile", file_of("gpt2"), "--ranks", 4, "--all-ranks", "-o", self.path("package"))
        job = subprocess.Popen(mpirun(4, "run", self.path("package"), "--data", file_of("gpt2", "batches.npz"), "--steps", 1000000, "--log",
                                      self.path("log")), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            deadline = time.monotonic() + 120
            while not (os.path.exists(self.path("log")) and self.read("log")):  # until it trains
                self.assertIsNone(job.poll(), "ended by itself")
                self.assertLess(time.monotonic(), deadline, "no step in two minutes")
                time.sleep(0.1)
            ranks = children(job.pid)
            self.assertEqual(len(ranks), 4)
            kill_one(self, job, ranks, ranks[2])
        finally:
            if job.poll() is None:
                job.kill()
                job.wait()


if __name__ == "__main__":
    main()
