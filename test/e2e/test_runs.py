#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs do not harm each other: two at once in one folder, signals, losses that are no numbers, full disks, options that change when a training goes on."""
import glob
import json
import math
import os
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import zlib

from mpi import children, mpirun, runs
from support import KERF, KerfTest, file_of, losses_of, main, read_npz, write_npz

SECONDS_TO_WAIT = 60
FOR_EVER = 10 ** 8  # steps: until a signal
MPI = unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
# mpirun waits so many seconds before it passes a signal on, and as many again before it kills what still runs.
PATIENT = ["--mca", "odls_base_sigkill_timeout", "3"]
STAGES = {"kerf": 1, "mesh": {"stage": 3}, "microbatch": 1, "stages": [{"until": "*gelu*"}, {"until": "mid/*"}, {}]}


def spoiled(path, step, number=math.inf):
    """The data of mlp with `number` in one element of the batch of `step`; the data without that batch, where `step` is left out."""
    dtype, shape, data = read_npz(file_of("mlp", "batches.npz"))["x"]
    size = len(data) // shape[0]
    data = bytearray(data)
    struct.pack_into("<f", data, step * size, number)
    labels = read_npz(file_of("mlp", "batches.npz"))["labels"]
    return write_npz(path, {"x": (dtype, shape, bytes(data)), "labels": labels})


def without(path, step):
    arrays = {}
    for name, (dtype, shape, data) in read_npz(file_of("mlp", "batches.npz")).items():
        size = len(data) // shape[0]
        arrays[name] = (dtype, [shape[0] - 1, *shape[1:]], data[:step * size] + data[(step + 1) * size:])
    return write_npz(path, arrays)


class RunTest(KerfTest):
    def setUp(self):
        super().setUp()
        self.jobs = []
        self.addCleanup(self.end_jobs)

    def end_jobs(self):
        for job in self.jobs:
            if job.poll() is None:
                for process in children(job.pid):
                    os.kill(process, signal.SIGKILL)
                job.kill()
                job.wait()
            job.said.close()

    def start(self, *command, **more):
        if command[0] != "mpirun":
            command = [KERF, *map(str, command)]
        said = tempfile.TemporaryFile("w+")  # a pipe would be full after some hundred steps
        job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, **more)
        job.said = said
        self.jobs.append(job)
        return job

    def train(self, *args, data=None):
        return ["train", file_of("mlp"), "--data", data or file_of("mlp", "batches.npz"), "--optimizer", "adamw", *args]

    def lines(self, name="log"):
        return self.read(name).count(b"\n") if os.path.exists(self.path(name)) else 0

    def entries(self, name="log"):
        def no_number(text):
            raise AssertionError(f"{text} is not JSON")
        return [json.loads(line, parse_constant=no_number) for line in self.read(name).decode().splitlines()]

    def wait(self, what, condition):
        deadline = time.monotonic() + SECONDS_TO_WAIT
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"{what}: not in {SECONDS_TO_WAIT} s")
            time.sleep(0.002)

    def wait_for_steps(self, job, steps, name="log"):
        goal = self.lines(name) + steps
        self.wait(f"{steps} steps", lambda: job.poll() is not None or self.lines(name) >= goal)
        self.assertIsNone(job.poll(), job.poll() is not None and self.end(job, job.returncode)[-3000:])

    def end(self, job, status=None):
        """What a job has said on standard error when it has ended, with `status`."""
        job.wait(timeout=SECONDS_TO_WAIT)
        job.said.seek(0)
        said = job.said.read()
        if status is not None:
            self.assertEqual(job.returncode, status, said[-3000:])
        return said


class TwoAtOnce(RunTest):
    def test_one_folder(self):
        """The second is refused, the first does not notice; a run after it finds the folder free."""
        args = self.train("--steps", FOR_EVER, "--checkpoint", self.path("saved"), "--every", 1, "--log", self.path("log"))
        first = self.start(*args)
        self.wait_for_steps(first, 3)
        for more in ((), ("--resume", self.path("saved"))):
            self.refuse(1, [f"process {first.pid} of this host", "since 20", "another folder"],
                        *self.train("--steps", FOR_EVER, "--checkpoint", self.path("saved"), *more))
        self.wait_for_steps(first, 20)
        first.send_signal(signal.SIGTERM)
        self.assertNotIn("note:", self.end(first, 143))
        self.assertEqual([name for name in os.listdir(self.path("saved")) if name.startswith(".")], [])
        steps = self.entries()[-1]["step"] + 1
        done = self.succeed(*self.train("--steps", steps + 1, "--checkpoint", self.path("saved"), "--resume", self.path("saved")))
        self.assertIn(f"step {steps} of {steps + 1}", done.stderr)

    def test_a_lock_that_a_killed_run_left(self):
        args = self.train("--steps", FOR_EVER, "--checkpoint", self.path("saved"), "--every", 1, "--log", self.path("log"))
        first = self.start(*args)
        self.wait_for_steps(first, 3)
        first.kill()
        self.end(first, -signal.SIGKILL)
        self.assertTrue(os.path.exists(self.path("saved/.lock")))
        done = self.succeed(*self.train("--steps", self.lines() + 20, "--checkpoint", self.path("saved"), "--resume", self.path("saved")))
        self.assertRegex(done.stderr, rf"note: the run of process {first.pid} .* has ended .* taken over")
        self.assertFalse(os.path.exists(self.path("saved/.lock")))

    def test_a_lock_of_another_host(self):
        os.makedirs(self.path("saved"))
        lock = self.write("saved/.lock", {"host": "node17", "pid": 4711, "start": "2026-01-02T03:04:05Z", "start_tick": 5})
        before = self.read("saved/.lock")
        self.refuse(1, ["process 4711 of host node17", "2026-01-02T03:04:05Z", f"remove '{lock}'"],
                    *self.train("--steps", 2, "--checkpoint", self.path("saved")))
        self.assertEqual(self.read("saved/.lock"), before)
        os.remove(lock)
        self.succeed(*self.train("--steps", 2, "--checkpoint", self.path("saved")))

    def test_one_log(self):
        first = self.start(*self.train("--steps", FOR_EVER, "--log", self.path("log")))
        self.wait_for_steps(first, 3)
        self.refuse(1, [f"another run writes its log to '{self.path('log')}'"], *self.train("--steps", 2, "--log", self.path("log")))
        self.wait_for_steps(first, 3)
        first.send_signal(signal.SIGINT)
        self.end(first, 130)
        self.assertEqual([entry["step"] for entry in self.entries()], list(range(self.lines())))

    @MPI
    def test_one_folder_under_mpirun(self):
        args = self.train("--steps", FOR_EVER, "--checkpoint", self.path("saved"), "--every", 1, "--log", self.path("log"))
        first = self.start(*mpirun(2, *args))
        self.wait_for_steps(first, 3)
        second = self.start(*mpirun(2, *self.train("--steps", 3, "--checkpoint", self.path("saved"), "--log", self.path("other"))))
        said = self.end(second, 1)
        self.assertEqual(said.count("error: "), 1, said)
        self.assertRegex(said, rf"process {children(first.pid)[0]} of this host")
        self.assertFalse(os.path.exists(self.path("other")) and self.read("other"))
        third = self.start(*mpirun(2, *self.train("--steps", 3, "--log", self.path("log"))))
        said = self.end(third, 1)
        self.assertEqual(said.count("error: "), 1, said)
        self.wait_for_steps(first, 3)


class Signals(RunTest):
    def goes_on(self, status, stop, *more):
        """The run ends after a whole step and has written all; going on gives the losses and weights of a run that was never stopped."""
        args = ["--lr-schedule", "cosine", "--total", 1000, *more]
        job = self.start(*self.train("--steps", FOR_EVER, "--checkpoint", self.path("saved"), "--every", FOR_EVER, "--log", self.path("log"),
                                     "--save", self.path("weights.safetensors"), "--report", self.path("report.json"), *args))
        self.wait_for_steps(job, 5)
        job.send_signal(stop)
        said = self.end(job, status)
        steps = self.lines()
        self.assertRegex(said, rf"stopped by {stop.name} after step {steps - 1}: wrote checkpoint '.*step-{steps:06}', weights '.*', log '.*'; --resume")
        self.assertEqual(said.count("stopped by"), 1)
        self.assertEqual(sorted(os.listdir(self.path("saved"))), ["latest", f"step-{steps:06}"])
        self.assertTrue(os.path.exists(self.path("report.json")))
        self.succeed(*self.train("--steps", steps + 5, "--resume", self.path("saved"), "--log", self.path("log"), "--save", self.path("end.safetensors"),
                                 *args))
        self.succeed(*self.train("--steps", steps + 5, "--log", self.path("whole"), "--save", self.path("whole.safetensors"), *args))
        self.assertEqual(losses_of(self.path("log")), losses_of(self.path("whole")))
        self.assertEqual(self.read("end.safetensors"), self.read("whole.safetensors"))
        shutil.rmtree(self.path("saved"))

    def test_one_signal(self):
        self.goes_on(130, signal.SIGINT)
        self.goes_on(143, signal.SIGTERM, "--ranks", 4, "--all-ranks")
        self.goes_on(143, signal.SIGTERM, "--plan", self.write("plan.json", STAGES))

    def test_of_a_package(self):
        self.succeed("compile", file_of("mlp"), "--ranks", 2, "--all-ranks", "-o", self.path("package"))
        job = self.start("run", self.path("package"), "--data", file_of("mlp", "batches.npz"), "--steps", FOR_EVER, "--log", self.path("log"))
        self.wait_for_steps(job, 5)
        job.send_signal(signal.SIGTERM)
        self.assertIn(f"stopped by SIGTERM after step {self.lines() - 1 if job.wait() else ''}: wrote log", self.end(job, 143))

    def test_a_second_signal_ends_at_once(self):
        """A step over this link takes seconds."""
        job = self.start("train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--ranks", 2, "--all-ranks", "--mode", "data", "--steps", FOR_EVER,
                         "--emulate-link", 200000, "--log", self.path("log"), "--checkpoint", self.path("saved"), "--every", FOR_EVER)
        self.wait_for_steps(job, 1)
        job.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        self.assertIsNone(job.poll())
        self.assertEqual(self.lines(), 1, "a step should take longer")
        job.send_signal(signal.SIGINT)
        sent = time.monotonic()
        said = self.end(job, -signal.SIGINT)
        self.assertLess(time.monotonic() - sent, 1)
        self.assertNotIn("stopped by", said)
        self.assertEqual(glob.glob(self.path("saved/step-*")), [])

    # Steps that are not too fast: while mpirun ends a job, nobody reads the lines of its progress.
    SLOW = ["train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz")]

    def mpi_job(self, *options):
        job = self.start(*[*mpirun(2)[:-1], *options, KERF, *self.SLOW, "--steps", str(FOR_EVER), "--checkpoint", self.path("saved"),
                           "--every", str(FOR_EVER), "--log", self.path("log")])
        self.wait_for_steps(job, 3)
        return job, children(job.pid)

    def whole_end(self, job, ranks, said, stop):
        self.assertEqual(said.count("stopped by"), 1, said)
        steps = self.lines()
        self.assertIn(f"stopped by {stop} after step {steps - 1}: wrote checkpoint", said)
        self.assertEqual(sorted(os.listdir(self.path("saved"))), ["latest", f"step-{steps:06}"])
        self.wait("the end of the ranks", lambda: not any(runs(rank) for rank in ranks))
        done = self.succeed(*self.SLOW, "--ranks", 2, "--all-ranks", "--steps", steps + 2, "--resume", self.path("saved"))
        self.assertIn(f"step {steps} of", done.stderr)
        shutil.rmtree(self.path("saved"))

    @MPI
    def test_of_one_rank_under_mpirun(self):
        """All ranks end after the same step, whichever has the signal."""
        for rank in (0, 1):
            job, ranks = self.mpi_job()
            os.kill(ranks[rank], signal.SIGTERM)
            self.whole_end(job, ranks, self.end(job, 143), "SIGTERM")

    @MPI
    def test_of_mpirun(self):
        for stop in (signal.SIGINT, signal.SIGTERM):
            job, ranks = self.mpi_job(*PATIENT)
            job.send_signal(stop)
            said = self.end(job)
            self.assertNotEqual(job.returncode, 0, said[-3000:])
            self.whole_end(job, ranks, said, "SIGTERM")  # what mpirun passes on


class NotFinite(RunTest):
    BAD = 5

    def test_stop_keeps_the_last_checkpoint(self):
        for number, name in ((math.inf, r"inf|nan|-nan"), (math.nan, r"nan|-nan")):
            data = spoiled(self.path("bad.npz"), self.BAD, number)
            for where in (["--ranks", 1], ["--ranks", 4, "--all-ranks"], ["--plan", self.write("plan.json", STAGES)]):
                args = self.train(*where, "--checkpoint", self.path("saved"), "--every", 2, "--keep", 1, "--log", self.path("log"),
                                  "--save", self.path("weights.safetensors"), data=data)
                done = self.refuse(1, [f"step {self.BAD}: the loss is ", f"the last checkpoint is '{self.path('saved')}/step-000004'", "--on-nan skip"],
                                   *args)
                self.assertRegex(done.stderr, rf"the loss is ({name});")
                self.assertEqual(sorted(os.listdir(self.path("saved"))), ["latest", "step-000004"])
                self.assertFalse(os.path.exists(self.path("weights.safetensors")))
                entries = self.entries()
                self.assertEqual([entry["step"] for entry in entries], list(range(self.BAD + 1)))
                self.assertEqual([entry["step"] for entry in entries if "nonfinite" in entry or entry["loss"] is None], [self.BAD])
                self.assertNotIn("skipped", entries[-1])
                # With better data it goes on.
                self.succeed(*self.train(*where, "--steps", 8, "--resume", self.path("saved"), "--checkpoint", self.path("saved")))
                shutil.rmtree(self.path("saved"))

    def skip(self, *options):
        """A step that is skipped is as if it had never been: a run without its batch has the same losses and weights, bit for bit."""
        where = [*options, "--lr", 0.01]
        bad = self.train(*where, "--on-nan", "skip", data=spoiled(self.path("bad.npz"), self.BAD))
        done = self.succeed(*bad, "--steps", 12, "--log", self.path("log"), "--save", self.path("skipped.safetensors"))
        self.assertIn("note: 1 of 12 steps were skipped", done.stderr)
        self.succeed(*self.train(*where, data=without(self.path("without.npz"), self.BAD)), "--steps", 11, "--log", self.path("whole"),
                     "--save", self.path("whole.safetensors"))
        entries = self.entries()
        self.assertEqual((entries[self.BAD]["loss"], entries[self.BAD]["skipped"]), (None, True))
        self.assertEqual(sum("skipped" in entry for entry in entries), 1)
        self.assertEqual([entry["loss"] for entry in entries if "skipped" not in entry], losses_of(self.path("whole")))
        self.assertEqual(self.read("skipped.safetensors"), self.read("whole.safetensors"))
        # Also where the training goes on after it.
        self.succeed(*bad, "--steps", 8, "--checkpoint", self.path("saved"))
        done = self.succeed(*bad, "--steps", 12, "--resume", self.path("saved"), "--save", self.path("resumed.safetensors"))
        self.assertIn("note: 1 of 12 steps were skipped", done.stderr)
        self.assertEqual(self.read("resumed.safetensors"), self.read("whole.safetensors"))
        shutil.rmtree(self.path("saved"))

    def test_skip(self):
        self.skip("--ranks", 1)
        self.skip("--ranks", 3, "--all-ranks", "--clip-norm", 1)
        self.skip("--plan", self.write("plan.json", STAGES))
        self.skip("--plan", self.write("plan.json", {"kerf": 1, "mesh": {"data": 13, "stage": 1}, "microbatch": 1, "optimizer_sharding": 3}))
        self.skip("--ranks", 2, "--all-ranks", "--dtype", "bf16")
        self.skip("--dtype", "f16")

    def test_continue_is_as_before(self):
        data = spoiled(self.path("bad.npz"), self.BAD)
        self.succeed(*self.train("--steps", 8, "--on-nan", "continue", "--log", self.path("log"), "--checkpoint", self.path("saved"), data=data))
        self.assertEqual([entry["loss"] is None for entry in self.entries()], [False] * self.BAD + [True] * 3)
        self.assertTrue(os.path.exists(self.path("saved/step-000008")))

    def test_updates_that_are_not_finite(self):
        """The loss of the last step is finite, what it makes of the parameters is not."""
        sgd = ["train", file_of("mlp"), "--data", file_of("mlp", "batches.npz"), "--ranks", 2, "--all-ranks", "--lr", 1e39, "--steps", 1]
        self.refuse(1, ["step 0: the loss is finite, but '", "no checkpoint was written"], *sgd, "--checkpoint", self.path("saved"))
        self.assertEqual(os.listdir(self.path("saved")), [])
        self.refuse(1, ["step 0: the loss is finite, but '"], *sgd, "--save", self.path("weights.safetensors"))
        self.assertFalse(os.path.exists(self.path("weights.safetensors")))
        done = self.succeed(*sgd, "--on-nan", "skip", "--save", self.path("weights.safetensors"), "--log", self.path("log"))
        self.assertIn("note: 1 of 1 steps were skipped", done.stderr)
        self.assertTrue(self.entries()[0]["skipped"])
        self.assertIsNotNone(self.entries()[0]["loss"])

    @MPI
    def test_under_mpirun(self):
        data = spoiled(self.path("bad.npz"), self.BAD)
        job = self.start(*mpirun(2, *self.train("--steps", 8, "--checkpoint", self.path("saved"), "--every", 2, data=data)))
        said = self.end(job, 1)
        self.assertEqual(said.count("error: "), 1, said)
        self.assertIn("step-000004", said)


class FullDisk(RunTest):
    """Files that must not grow beyond a size stand for a disk that is full."""

    def limited(self, size, *args):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        # Standard error is no file here, which would be limited too.
        done = subprocess.run([KERF, *map(str, args)], preexec_fn=limit, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_TO_WAIT)
        said = done.stderr
        self.assertEqual(done.returncode, 1, said[-3000:])
        self.assertEqual(said.count("error: "), 1, said)
        self.assertIn("File too large", said)
        return said

    def test_log(self):
        said = self.limited(1000, *self.train("--steps", 1000, "--log", self.path("log")))
        self.assertIn(self.path("log"), said)
        entries = self.entries()  # whole lines
        self.assertGreater(len(entries), 5)
        self.assertEqual(self.read("log")[-1:], b"\n")
        self.refuse(1, ["/dev/full", "No space"], *self.train("--steps", 3, "--log", "/dev/full"))

    def test_files_of_the_end(self):
        old = b"what was there before"
        for option, name in (("--save", "w.safetensors"), ("--trace", "t.json"), ("--report", "r.json"), ("--report", "r.txt"), ("--save-plan", "p.json"),
                             ("--gradient-norms", "n.json")):
            self.write(name, old)
            self.assertIn(name, self.limited(150, *self.train("--steps", 2, option, self.path(name))))
            self.assertEqual(self.read(name), old)
            self.assertEqual(os.listdir(self.folder), [name])
            os.remove(self.path(name))
            self.refuse(1, ["/dev/full", "No space"], *self.train("--steps", 2, option, "/dev/full"))

    def test_messages_that_nobody_can_keep_end_nothing(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([KERF, *map(str, self.train("--steps", 3, "--save", self.path("w.safetensors")))], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=full, timeout=SECONDS_TO_WAIT)
            self.assertEqual(done.returncode, 0)
            self.assertTrue(os.path.exists(self.path("w.safetensors")))
            done = subprocess.run([KERF, "train", self.path("nowhere.onnx"), "--data", "no.npz"], stdin=subprocess.DEVNULL, stderr=full)
            self.assertEqual(done.returncode, 1)

    def test_weights_come_before_the_trace(self):
        self.refuse(1, ["/dev/full"], *self.train("--steps", 2, "--trace", "/dev/full", "--save", self.path("w.safetensors")))
        self.assertTrue(os.path.exists(self.path("w.safetensors")))

    def test_files_of_other_commands(self):
        model = file_of("mlp")
        for args in (["plan", model, "-o"], ["plan", model, "--report"], ["import", model, "-o"], ["compile", model, "-o"]):
            folder = self.path("out")
            os.makedirs(folder)
            self.limited(150, *args, os.path.join(folder, "file.mlir"))
            self.assertEqual([name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name))], [])
            self.assertEqual(glob.glob(os.path.join(folder, "*", "*")), [])
            shutil.rmtree(folder)

    def test_a_package_is_replaced_whole(self):
        package = self.path("package")

        def files():
            return {name: self.read(f"package/{name}") for name in os.listdir(package)}
        self.succeed("compile", file_of("mlp"), "-o", package)
        old = files()
        smaller, larger = sorted((len(content) for name, content in old.items() if name in ("weights.safetensors", "program.json")))
        self.limited((smaller + larger) // 2, "compile", file_of("mlp"), "--optimizer", "adamw", "--ranks", 2, "-o", package)
        self.assertEqual(files(), old)
        self.succeed("compile", file_of("mlp"), "--optimizer", "adamw", "--ranks", 2, "-o", package)
        self.assertEqual(sorted(files()), sorted(old))
        self.assertNotEqual(files(), old)

    def test_checkpoints(self):
        args = self.train("--checkpoint", self.path("saved"), "--every", 2)
        self.succeed(*args, "--steps", 4)
        size = max(os.path.getsize(file) for file in glob.glob(self.path("saved/step-000004/*")))
        for limit in (size - 1, 5):
            said = self.limited(limit, *args, "--steps", 8, "--resume", self.path("saved"))
            self.assertIn(".lock" if limit == 5 else "checkpoint before step 6", said)
            self.assertEqual(sorted(os.listdir(self.path("saved"))), ["latest", "step-000002", "step-000004"])
        self.succeed(*args, "--steps", 8, "--resume", self.path("saved"))


class ResumedOptions(RunTest):
    def setUp(self):
        super().setUp()
        self.plain = ["train", file_of("mlp"), "--data", file_of("mlp", "batches.npz"), "--total", 12]
        self.options = ["--optimizer", "adamw", "--beta1", 0.8, "--beta2", 0.95, "--eps", 1e-4, "--weight-decay", 0.3, "--no-decay", "*bias",
                        "--clip-norm", 0.05, "--dtype", "f64", "--lr", 0.5, "--lr-schedule", "linear", "--frozen", "*mid*"]
        self.succeed(*self.plain, *self.options, "--steps", 12, "--log", self.path("whole"))
        self.succeed(*self.plain, *self.options, "--steps", 6, "--log", self.path("log"), "--checkpoint", self.path("saved"))

    def resume(self, *args):
        return self.succeed(*self.plain, *args, "--steps", 12, "--resume", self.path("saved"), "--log", self.path("log"))

    def test_what_is_not_given_is_the_checkpoint_s(self):
        done = self.resume()
        self.assertNotIn("note:", done.stderr)
        self.assertEqual(losses_of(self.path("log")), losses_of(self.path("whole")))
        done = self.resume(*["5e-2" if option == 0.05 else option for option in self.options])  # the same in other words
        self.assertNotIn("note:", done.stderr)
        self.assertEqual(losses_of(self.path("log")), losses_of(self.path("whole")))

    def test_what_cannot_change_is_refused(self):
        for option, value, made in (("--optimizer", "sgd", "adamw"), ("--beta1", "0.9", "0.8"), ("--beta2", "0.999", "0.95"), ("--eps", "1e-08", "0.0001"),
                                    ("--momentum", "0.5", "0"), ("--frozen", "*head*", "*mid*"), ("--trainable", "*x*", "none"), ("--loss", "loss", "none")):
            self.refuse(1, [option, value, made, "step-000006", "--save"], *self.plain, "--steps", 12, "--resume", self.path("saved"), option, value)

    def test_what_may_change_is_told(self):
        for option, value, made in (("--clip-norm", "0.01", "0.05"), ("--weight-decay", "0.1", "0.3"), ("--no-decay", "*weight", "*bias"), ("--lr", "0.1", "0.5"),
                                    ("--lr-schedule", "constant", "linear"), ("--warmup", "8", "0"), ("--seed", "3", "0"), ("--dtype", "f32", "f64")):
            done = self.resume(option, value)
            self.assertIn(f"note: these options differ from the checkpoint: {option} is {value}, was {made}\n", done.stderr)
            self.assertEqual(done.stderr.count("note:"), 1 + (option == "--dtype"), done.stderr)  # the graph is another one, too
            self.assertEqual(losses_of(self.path("log"))[:6], losses_of(self.path("whole"))[:6])
            if option not in ("--seed", "--no-decay"):
                self.assertNotEqual(losses_of(self.path("log")), losses_of(self.path("whole")), option)
        done = self.resume("--shuffle")
        self.assertIn("note: these options differ from the checkpoint: --shuffle is given, was not\n", done.stderr)
        done = self.resume("--lr", 0.1, "--clip-norm", 0)
        self.assertIn("--clip-norm is 0, was 0.05; --lr is 0.1, was 0.5", done.stderr)

    def test_packages(self):
        data = ["--data", file_of("mlp", "batches.npz"), "--total", 12, "--steps", 12, "--resume", self.path("saved"), "--log", self.path("log")]
        options = self.options[:self.options.index("--lr")] + self.options[-2:]

        def compile_with(option, value):
            changed = list(options)
            changed[changed.index(option) + 1] = value
            self.succeed("compile", file_of("mlp"), *changed, "-o", self.path("package"))
        compile_with("--eps", "0.0001")
        done = self.succeed("run", self.path("package"), *data)
        self.assertNotIn("note:", done.stderr)
        self.assertEqual(losses_of(self.path("log")), losses_of(self.path("whole")))
        compile_with("--beta1", 0.9)
        self.refuse(1, ["--beta1 0.9", "0.8", "compile the package with the same"], "run", self.path("package"), *data)
        compile_with("--clip-norm", 1)
        done = self.succeed("run", self.path("package"), *data)
        self.assertIn("--clip-norm of the package is 1, was 0.05", done.stderr)

    def test_a_checkpoint_of_before(self):
        """Without its options it still loads, and a note says whose they are."""
        path = "saved/step-000006/index.json"
        index = json.loads(self.read(path))
        del index["info"]["plan"]["job"], index["checksum"]
        text = json.dumps(index, separators=(",", ":"), ensure_ascii=False)
        self.write(path, json.dumps({**index, "checksum": zlib.crc32(text.encode())}))
        done = self.resume(*self.options)
        self.assertEqual(losses_of(self.path("log")), losses_of(self.path("whole")))
        self.assertIn("note: '", done.stderr)
        self.assertIn("does not store the options", done.stderr)


if __name__ == "__main__":
    main()
