#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training that is interrupted, killed or moved to other ranks goes on as if nothing had been.

`--kills N` kills that many runs at random moments instead of a few (and a tenth as many ranks of runs under mpirun); `--seed S` chooses others.
"""
import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from mpi import children, kill_one, mpirun
from support import KERF, ROOT, SHARED, KerfTest, file_of, kerf, losses_of, main, write_npz

OPTIONS = argparse.ArgumentParser()
OPTIONS.add_argument("--kills", type=int, default=4)
OPTIONS.add_argument("--seed", type=int, default=20261)
OPTIONS, sys.argv[1:] = OPTIONS.parse_known_args()
KILLS_OF_RANKS = max(1, OPTIONS.kills // 10)

PLANS_AGREE = 1e-10  # relative, between plans in f64
STEPS_A_KILL = 8        # at most so many pass from one kill to the next
STEPS_A_RANK_KILL = 40  # under mpirun, where the moment is found out later
OLD = b"what was there before"

PIPELINE = {"mesh": {"stage": 2, "data": 2, "model": 2}, "microbatch": 1, "optimizer_sharding": 1, "recompute": "full"}
IN_GROUPS = {"mesh": {"data": 4}, "microbatch": 1, "optimizer_sharding": 2, "optimizer_sharding_ranks": 2}
MESHES = {"mesh": {"stage": 2}, "stages": [{"layers": [0, 0], "mesh": {"data": 4}}, {"layers": [1, 1], "mesh": {"data": 2, "model": 2}}],
          "microbatch": 1, "optimizer_sharding": 1}
SHARDED = {"mesh": {"stage": 1, "data": 2, "model": 1}, "microbatch": 2, "optimizer_sharding": 3}


class Checkpoints(KerfTest):
    def train(self, model, *args, ranks=1, mesh=None):
        """`mesh`: sizes of data and model, or a whole plan."""
        if mesh and "mesh" in mesh:
            return self.succeed("train", model, "--plan", self.write("plan.json", {"kerf": 1, **mesh}), *args)
        constraints = ["--constraints", self.write("mesh.json", {"kerf": 1, "mesh": mesh})] if mesh else []
        return self.succeed("train", model, "--ranks", ranks, "--all-ranks", *constraints, *args)

    def data(self, model):
        return ["--data", os.path.join(os.path.dirname(model), "batches.npz")]

    def same_plan(self, model, ranks, mesh, *args):
        """20 steps are 10 and 10, bit for bit."""
        what = f"{model} on {ranks} ranks, {mesh}"
        args = [*self.data(model), "--steps", 20, *args]
        self.train(model, *args, "--log", self.path("whole"), "--save", self.path("whole.safetensors"), ranks=ranks, mesh=mesh)
        ends = args.index("--steps") + 1
        first = [*args[:ends], 10, *args[ends + 1:], *(["--total", 20] if "--lr-schedule" in args else [])]
        self.train(model, *first, "--log", self.path("log"), "--checkpoint", self.path("saved"), "--every", 4, ranks=ranks, mesh=mesh)
        self.assertEqual(sorted(os.listdir(self.path("saved"))), ["latest", "step-000008", "step-000010"])
        done = self.train(model, *args, "--resume", self.path("saved"), "--log", self.path("log"), "--save", self.path("out.safetensors"),
                          ranks=ranks, mesh=mesh)
        self.assertRegex(done.stderr, r"resuming '.*step-000010': step 10 of 20, \d+ tensors")
        self.assertNotIn("note:", done.stderr)
        self.assertEqual(losses_of(self.path("log")), losses_of(self.path("whole")), what)  # the log's first lines stayed
        self.assertEqual(self.read("out.safetensors"), self.read("whole.safetensors"), what)
        shutil.rmtree(self.path("saved"))

    def test_same_plan_same_bits(self):
        adamw = ["--optimizer", "adamw", "--lr", 1e-3, "--lr-schedule", "cosine", "--warmup", 3]
        for ranks, mesh in ((1, None), (4, {"data": 2, "model": 2}), (3, {"data": 3, "model": 1}), (8, PIPELINE), (2, SHARDED), (4, IN_GROUPS), (8, MESHES)):
            self.same_plan(file_of("gpt2"), ranks, mesh, *adamw)
        for ranks, mesh in ((4, {"data": 1, "model": 4}), (2, None)):
            self.same_plan(file_of("mlp"), ranks, mesh, "--optimizer", "sgd", "--momentum", 0.9, "--lr", 0.05, "--dtype", "f64")

    def test_experts(self):
        folder = os.path.join(ROOT, "test", "models", "families", "mixtral")
        with open(os.path.join(folder, "golden.json")) as file:
            golden = json.load(file)
        self.same_plan(os.path.join(folder, "config.json"), 3, None, "--optimizer", "adamw", "--clip-norm", 1, "--global-batch",
                       golden["batch"], "--sequence", golden["sequence"])

    @unittest.skipUnless(os.path.isdir(os.path.join(SHARED, "models")), f"no models in {SHARED}")
    def test_other_exports(self):
        for name, ranks in (("gpt2", 3), ("llama", 2)):
            self.same_plan(os.path.join(SHARED, "models", name, "model.onnx"), ranks, None, "--optimizer", "adamw", "--clip-norm", 1)

    def test_other_ranks_and_axes(self):
        """8 ranks, then 6, then 1, then 4 that share states by twos, then 8 in two stages, of one mesh and of two, then 2 with everything sharded: what they have in
        common is the model."""
        model = file_of("gpt2")
        args = [*self.data(model), "--optimizer", "adamw", "--lr", 1e-3, "--lr-schedule", "linear", "--total", 20, "--dtype", "f64"]
        self.train(model, *args, "--steps", 20, "--log", self.path("whole"))
        resume, files = [], {}
        for ranks, mesh, end in ((8, {"data": 2, "model": 4}, 6), (6, {"data": 3, "model": 2}, 10), (1, None, 13), (4, IN_GROUPS, 15), (8, PIPELINE, 17), (8, MESHES, 19),
                                 (2, SHARDED, 20)):
            self.train(model, *args, "--steps", end, *resume, "--checkpoint", self.path("saved"), "--log", self.path("log"), ranks=ranks,
                       mesh=mesh)
            resume = ["--resume", self.path("saved")]
            files[end] = [name for name in os.listdir(self.path(f"saved/step-{end:06}")) if name.startswith("rank-")]
        self.close(losses_of(self.path("log")), losses_of(self.path("whole")), PLANS_AGREE, "8 ranks, 6, 1, 4, 8, 8 and 2")
        self.assertGreater(len(files[6]), 1)  # shards were written by those who hold them
        self.assertEqual(files[13], ["rank-00000.safetensors"])
        self.assertTrue(any(name > "rank-00004" for name in files[17]))  # the second stage is ranks 4 to 7

    def test_what_is_not_said_again_is_the_checkpoint_s(self):
        mlp = file_of("mlp")
        args = ["--optimizer", "adamw", *self.data(mlp), "--log", self.path("log")]
        schedule = ["--lr", 0.02, "--lr-schedule", "linear", "--warmup", 2, "--total", 12]
        self.train(mlp, *args, *schedule, "--steps", 12)
        losses = losses_of(self.path("log"))
        self.train(mlp, *args, *schedule, "--steps", 5, "--checkpoint", self.path("saved"))
        self.train(mlp, *args, "--steps", 12, "--resume", self.path("saved"))
        self.assertEqual(losses_of(self.path("log")), losses)
        done = self.train(mlp, *args, "--steps", 14, "--resume", self.path("saved"))
        self.assertIn("0 from step 12", done.stderr)
        done = self.train(mlp, *args, "--steps", 5, "--resume", self.path("saved"), "--save", self.path("out.safetensors"))
        self.assertIn("nothing is left", done.stderr)
        self.assertTrue(os.path.exists(self.path("out.safetensors")))


class Mistakes(KerfTest):
    """Each is one message before the first step; the log of before stays."""

    def setUp(self):
        super().setUp()
        self.plain = ["train", file_of("mlp"), "--data", file_of("mlp", "batches.npz")]
        self.train = [*self.plain, "--optimizer", "sgd", "--momentum", 0.9]
        self.succeed(*self.train, "--ranks", 4, "--all-ranks", "--steps", 4, "--checkpoint", self.path("saved"), "--every", 2)
        self.write("log", OLD)

    def refuse_run(self, words, *args, run=None):
        self.refuse(1, words, *(run or self.train), *args, "--log", self.path("log"))
        self.assertEqual(self.read("log"), OLD)

    def refuse_resume(self, words, *args, run=None):
        self.refuse_run(words, "--steps", 8, "--resume", self.path("saved"), *args, run=run)

    def test_nothing_to_resume(self):
        self.refuse_run(["nowhere", "does not exist"], "--resume", self.path("nowhere"))
        os.makedirs(self.path("empty"))
        self.refuse_run(["empty", "holds none", "step-"], "--resume", self.path("empty"))
        self.refuse_run(["log", "not a folder"], "--resume", self.path("log"))
        shutil.rmtree(self.path("saved/step-000004"))
        self.refuse_resume(["step-000004", "step-000002"])

    def test_damage(self):
        for name in sorted(os.listdir(self.path("saved/step-000004"))):
            path = f"saved/step-000004/{name}"
            whole = self.read(path)
            self.write(path, whole[:len(whole) // 2])
            self.refuse_resume([name])
            damaged = bytearray(whole)
            damaged[-9] ^= 1
            self.write(path, bytes(damaged))
            self.refuse_resume([name, "checksum"])
            os.remove(self.path(path))
            self.refuse_resume([name] if name != "index.json" else ["step-000004", "step-000002"])
            self.write(path, whole)
        self.succeed(*self.train, "--steps", 8, "--resume", self.path("saved"))

    def test_another_model_or_optimizer(self):
        gpt2 = ["train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz")]
        self.refuse_resume(["another model", "transformer"], run=gpt2)
        self.refuse_resume(["--optimizer is adamw", "made with sgd"], run=[*self.plain, "--optimizer", "adamw"])
        self.refuse_resume(["--momentum is 0,", "made with 0.9"], run=[*self.plain, "--momentum", 0])
        self.succeed("compile", file_of("mlp"), "-o", self.path("package"))
        self.refuse_resume(["--momentum 0,", "made with 0.9"], run=["run", self.path("package"), "--data", file_of("mlp", "batches.npz")])

    def test_another_shape(self):
        def config(width):
            return self.write(f"config{width}.json", {"model_type": "gpt2", "n_layer": 1, "n_embd": width, "n_head": 2, "vocab_size": 11,
                                                      "n_positions": 4})
        ids = self.path("ids.npz")
        write_npz(ids, {name: ("<i8", [2, 1, 4], bytes(64)) for name in ("input_ids", "labels")})
        self.succeed("train", config(8), "--seed", 1, "--data", ids, "--checkpoint", self.path("narrow"))
        self.refuse_run(["shape [24]", "[36]"], "--resume", self.path("narrow"), "--steps", 4, run=["train", config(12), "--data", ids])
        # No weights file and no --seed are needed to go on.
        self.succeed("train", config(8), "--data", ids, "--resume", self.path("narrow"), "--steps", 4)

    def test_folders_that_cannot_be_written(self):
        self.refuse_run(["saved", "up to step 4", "--resume"], "--checkpoint", self.path("saved"))
        self.refuse_run(["log"], "--checkpoint", self.path("log"))
        self.refuse_run(["/proc/kerf"], "--checkpoint", "/proc/kerf")
        many = 10 ** 15
        self.refuse_run(["MB", "free", "--keep"], "--checkpoint", self.path("new"), "--every", 1, "--keep", many, "--steps", many)

    def test_options_that_do_not_belong_together(self):
        self.refuse_run(["--every", "--checkpoint"], "--every", 3)
        self.refuse_run(["--keep", "--checkpoint"], "--keep", 3)
        self.refuse_run(["--steps", "3", "step 4"], "--resume", self.path("saved"), "--steps", 3)
        done = kerf(*self.train, "--checkpoint", self.path("new"), "--every", 0)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--every", done.stderr)


class Kills(KerfTest):
    """SIGKILL at random moments, saves included: a checkpoint every step makes them most of the time."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(OPTIONS.seed)

    def prepare(self, ranks, steps):
        self.succeed("compile", file_of("mlp"), "--ranks", ranks, "--all-ranks", "--optimizer", "adamw", "-o", self.path("package"))
        self.args = ["run", self.path("package"), "--data", file_of("mlp", "batches.npz"), "--steps", steps]
        self.succeed(*self.args, "--log", self.path("whole"))
        self.args += ["--log", self.path("log"), "--checkpoint", self.path("saved"), "--every", 1]

    def lines(self):
        try:
            with open(self.path("log"), "rb") as file:
                return file.read().count(b"\n")
        except OSError:
            return 0

    def resume(self):
        """The options to go on with; whatever was killed, what is announced is whole."""
        if not os.path.isdir(self.path("saved")) or not os.listdir(self.path("saved")):
            return []
        whole = [name for name in os.listdir(self.path("saved")) if re.fullmatch(r"step-\d{6,}", name)]
        for name in whole:
            index = json.loads(self.read(f"saved/{name}/index.json"))
            for file in index["files"]:
                self.assertEqual(os.path.getsize(self.path(f"saved/{name}/{file['name']}")), file["bytes"])
        return ["--resume", self.path("saved")] if whole else []

    def wait(self, job, steps):
        """Until that many more steps are logged (or it has ended), then a little longer."""
        goal, deadline = self.lines() + steps if steps else 0, time.monotonic() + 120
        while job.poll() is None and self.lines() < goal:
            self.assertLess(time.monotonic(), deadline, "no steps in two minutes")
            time.sleep(0.001)
        time.sleep(self.random.uniform(0, 0.05))

    def start(self, command):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def begin_again(self):
        self.assertEqual(losses_of(self.path("log")), losses_of(self.path("whole")))
        shutil.rmtree(self.path("saved"))
        os.remove(self.path("log"))

    def finish(self):
        done = self.succeed(*self.args, *self.resume())
        self.assertEqual(losses_of(self.path("log")), losses_of(self.path("whole")))
        return done

    def test_kill_the_process(self):
        self.prepare(2, STEPS_A_KILL * OPTIONS.kills)
        killed = 0
        while killed < OPTIONS.kills:
            job = self.start([KERF, *map(str, [*self.args, *self.resume()])])
            self.wait(job, self.random.randrange(STEPS_A_KILL))
            job.kill()
            said, _ = job.communicate()
            self.assertIn(job.returncode, (0, -signal.SIGKILL), said)
            killed += job.returncode != 0
            if job.returncode == 0:  # it was through before: from the beginning
                self.begin_again()
        self.finish()

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
    def test_kill_a_rank(self):
        ranks = 3
        self.prepare(ranks, STEPS_A_RANK_KILL * (KILLS_OF_RANKS + 1))
        killed = 0
        while killed < KILLS_OF_RANKS:
            job = self.start(mpirun(ranks, *self.args, *self.resume()))
            try:
                self.wait(job, 1 + self.random.randrange(STEPS_A_KILL))
                processes = children(job.pid)
                through = job.poll() is not None or not processes
                if not through:
                    kill_one(self, job, processes, self.random.choice(processes))
                    killed += 1
                said, _ = job.communicate()
            finally:
                if job.poll() is None:
                    job.kill()
                    job.wait()
            if through:
                self.assertEqual(job.returncode, 0, said)
                self.begin_again()
        print(f"{killed} ranks killed", file=sys.stderr)
        done = subprocess.run(mpirun(ranks, *self.args, *self.resume()), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("resuming", done.stderr)
        self.assertEqual(losses_of(self.path("log")), losses_of(self.path("whole")))


if __name__ == "__main__":
    main()
