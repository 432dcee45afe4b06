#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks as processes over TCP, in the environments of torchrun, of srun and of a script: the same bits as threads, one message for
each mistake, and an end for all when one process is lost."""
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

from processes import environment, free_port, plain_environment
from support import KERF, KerfTest, file_of, losses_of, main, read_npz, write_npz

SECONDS_TO_END = 10
STANDINS = os.path.join(os.path.dirname(os.path.dirname(KERF)), "standins")


class Processes(KerfTest):
    def start(self, env, *args):
        process = subprocess.Popen([KERF, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=env)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def run_ranks(self, environments, *args, timeout=200):
        """Runs one process for each environment, and returns for each its status, its output and its messages."""
        processes = [self.start(env, *args) for env in environments]
        ends = [None] * len(processes)

        def wait(i):
            output, messages = processes[i].communicate(timeout=timeout)
            ends[i] = (processes[i].returncode, output, messages)
        threads = [threading.Thread(target=wait, args=(i,)) for i in range(len(processes))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return ends

    def package(self, model, ranks, *more):
        folder = self.path(f"{model}{ranks}")
        self.succeed("compile", file_of(model), "--ranks", ranks, "--all-ranks", "-o", folder, *more)
        return folder

    def same_as_threads(self, package, model, environments, steps=10):
        args = ["run", package, "--data", file_of(model, "batches.npz"), "--steps", steps]
        self.succeed(*args, "--log", self.path("threads"), "--save", self.path("threads.safetensors"))
        ends = self.run_ranks(environments, *args, "--log", self.path("processes"), "--save", self.path("processes.safetensors"))
        everything = "\n".join(f"rank {rank}: status {status}\n{messages}" for rank, (status, _, messages) in enumerate(ends))
        self.assertEqual([status for status, _, _ in ends], [0] * len(ends), everything)
        self.assertEqual([messages for _, _, messages in ends[1:]], [""] * (len(ends) - 1), "only rank 0 prints")
        self.assertEqual(losses_of(self.path("threads")), losses_of(self.path("processes")))
        self.assertEqual(self.read("threads.safetensors"), self.read("processes.safetensors"))

    def test_same_bits_as_threads(self):
        for model, ranks, mesh in (("gpt2", 2, {"data": 1, "model": 2}), ("gpt2", 4, {"data": 2, "model": 2}), ("mlp", 3, None)):
            constraints = ["--constraints", self.write("mesh.json", {"kerf": 1, "mesh": mesh})] if mesh else []
            port = free_port()
            self.same_as_threads(self.package(model, ranks, "--optimizer", "adamw", *constraints), model,
                                 [environment(rank, ranks, port) for rank in range(ranks)])

    def test_pipeline_has_the_same_bits(self):
        plan = self.write("stages.json", {"kerf": 1, "mesh": {"stage": 2, "data": 1, "model": 1}, "microbatch": 2})
        port = free_port()
        package = self.package("gpt2", 2, "--constraints", plan)
        self.same_as_threads(package, "gpt2", [environment(rank, 2, port) for rank in range(2)], steps=4)

    def test_under_srun_without_mpi_and_by_hand(self):
        package = self.package("mlp", 2)
        port = free_port()
        srun = [{**plain_environment(), "SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2",
                 "SLURM_LOCALID": str(rank), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)} for rank in range(2)]
        self.same_as_threads(package, "mlp", srun)
        port = free_port()
        self.same_as_threads(package, "mlp", [environment(rank, 2, None, TORCHELASTIC_RUN_ID=None, LOCAL_RANK=None, KERF_PORT=port,
                                                          KERF_SECRET="a word") for rank in range(2)])

    def test_a_batch_script_with_master_addr_runs_alone(self):
        env = {**plain_environment(), "SLURM_PROCID": "0", "SLURM_NTASKS": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        [(status, _, messages)] = self.run_ranks([env], "run", self.package("mlp", 2), "--data", file_of("mlp", "batches.npz"))
        self.assertEqual(status, 0, messages)

    def test_train_takes_its_ranks_from_the_environment(self):
        args = ["train", file_of("mlp"), "--data", file_of("mlp", "batches.npz"), "--steps", 5]
        port = free_port()
        for status, _, messages in self.run_ranks([environment(rank, 2, port) for rank in range(2)], *args, "--log", self.path("processes")):
            self.assertEqual(status, 0, messages)
        self.succeed(*args, "--ranks", 2, "--all-ranks", "--log", self.path("threads"))
        self.assertEqual(losses_of(self.path("threads")), losses_of(self.path("processes")))

    def one_message(self, ends, words, messages=1):
        """All processes fail, and together they print `messages` errors, each of which holds the words."""
        said = "".join(text for _, _, text in ends)
        self.assertNotIn(0, [status for status, _, _ in ends], said)
        self.assertEqual(said.count("error: "), messages, said)
        for line in said.splitlines():
            if line.startswith("error: "):
                for word in words:
                    self.assertIn(word, line)

    def test_wrong_number_of_processes(self):
        package = self.package("mlp", 4)
        port = free_port()
        ends = self.run_ranks([environment(rank, 2, port) for rank in range(2)], "run", package, "--data", file_of("mlp", "batches.npz"))
        self.one_message(ends, ["4 ranks", "2 processes"])

    def test_variables_that_are_missing_or_wrong(self):
        package = self.package("mlp", 2)
        for more, words in (({"RANK": None}, ["RANK is not set"]), ({"WORLD_SIZE": None}, ["WORLD_SIZE is not set"]),
                            ({"MASTER_ADDR": None}, ["MASTER_ADDR is not set"]), ({"RANK": "2"}, ["RANK is '2'", "from 0 to 1"]),
                            ({"WORLD_SIZE": "two"}, ["WORLD_SIZE is 'two'"]), ({"MASTER_PORT": "65535"}, ["MASTER_PORT", "65534"]),
                            ({"KERF_PORT": "0"}, ["KERF_PORT is '0'"]), ({"KERF_JOIN_SECONDS": "-1"}, ["KERF_JOIN_SECONDS is '-1'"]),
                            ({"MASTER_ADDR": "no-such-machine.invalid"}, ["no-such-machine.invalid", "MASTER_ADDR"]),
                            ({"MASTER_ADDR": "192.0.2.1"}, ["192.0.2.1", "is no address of its machine"])):
            with self.subTest(more):
                ends = self.run_ranks([environment(0, 2, 29900, **more)], "run", package, "--data", file_of("mlp", "batches.npz"))
                self.one_message(ends, words)

    def test_a_port_in_use(self):
        package = self.package("mlp", 2)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            args = ["run", package, "--data", file_of("mlp", "batches.npz")]
            self.one_message(self.run_ranks([environment(0, 2, port - 1)], *args), [f"127.0.0.1:{port}", "in use", "KERF_PORT"])

    def test_a_rank_that_does_not_come(self):
        package = self.package("mlp", 3)
        port = free_port()
        ends = self.run_ranks([environment(rank, 3, port, KERF_JOIN_SECONDS=2) for rank in (0, 2)], "run", package, "--data",
                              file_of("mlp", "batches.npz"))
        self.one_message(ends, ["rank 0 has waited 2 s for 1 of 3 ranks: 1"], messages=2)
        ends = self.run_ranks([environment(1, 3, port, KERF_JOIN_SECONDS=1)], "run", package, "--data", file_of("mlp", "batches.npz"))
        self.one_message(ends, ["rank 1 could not reach rank 0", f"127.0.0.1:{port + 1}"])

    def test_an_error_of_one_rank_ends_all_with_its_message(self):
        package = self.package("gpt2", 2, "--constraints", self.write("mesh.json", {"kerf": 1, "mesh": {"data": 2, "model": 1}}))
        arrays = read_npz(file_of("gpt2", "batches.npz"))
        name = "labels" if "labels" in arrays else sorted(arrays)[-1]
        dtype, shape, data = arrays[name]
        arrays[name] = (dtype, shape, data[:-8] + (10 ** 6).to_bytes(8, "little"))  # the last label is out of range
        batches = write_npz(self.path("batches.npz"), arrays)
        port = free_port()
        ends = self.run_ranks([environment(rank, 2, port) for rank in range(2)], "run", package, "--data", batches, "--steps", 100)
        self.one_message(ends, ["rank 1", "1000000"])

    def kill_one(self, victim):
        package = self.package("gpt2", 3)
        port = free_port()
        processes = [self.start(environment(rank, 3, port), "run", package, "--data", file_of("gpt2", "batches.npz"), "--steps", 1000000,
                                "--log", self.path("log")) for rank in range(3)]
        deadline = time.monotonic() + 120
        while not (os.path.exists(self.path("log")) and self.read("log")):  # until it trains
            self.assertLess(time.monotonic(), deadline, "no step in two minutes")
            time.sleep(0.1)
        processes[victim].send_signal(signal.SIGKILL)
        killed = time.monotonic()
        ends = []
        for rank, process in enumerate(processes):
            _, messages = process.communicate(timeout=60)
            if rank != victim:
                ends.append((process.returncode, "", messages))
        self.assertLess(time.monotonic() - killed, SECONDS_TO_END)
        self.one_message(ends, [f"rank {victim} (process {processes[victim].pid} on {socket.gethostname()})", "has ended"])

    def test_a_killed_rank_ends_the_run_and_is_named(self):
        self.kill_one(2)

    def test_the_others_tell_that_rank_0_was_killed(self):
        self.kill_one(0)

    def test_a_signal_ends_all_ranks_after_the_same_step(self):
        package = self.package("mlp", 2)
        port = free_port()
        processes = [self.start(environment(rank, 2, port), "run", package, "--data", file_of("mlp", "batches.npz"), "--steps", 100000000,
                                "--log", self.path("log")) for rank in range(2)]
        while not (os.path.exists(self.path("log")) and self.read("log")):
            time.sleep(0.05)
        processes[1].send_signal(signal.SIGTERM)
        for process, status in zip(processes, (143, 0)):  # rank 0 gives the status of the run
            _, messages = process.communicate(timeout=30)
            self.assertEqual(process.returncode, status, messages)

    @unittest.skipUnless(os.path.exists(os.path.join(STANDINS, "libcuda.so.1")), "the stand-ins are not built")
    def test_gpu_of_a_process_is_its_local_rank(self):
        package = self.package("mlp", 1)
        args = ["run", package, "--data", file_of("mlp", "batches.npz"), "--steps", 1, "--device", "cuda"]
        gpus = {"KERF_CUDA_LIBRARIES": STANDINS, "KERF_STANDIN_DEVICES": 4}
        for local, fails in ((3, False), (5, True)):
            [end] = self.run_ranks([environment(0, 1, 29900, LOCAL_RANK=local, **gpus)], *args)
            if fails:
                self.one_message([end], ["GPU 5"])
            else:
                self.assertEqual(end[0], 0, end[2])
        self.one_message(self.run_ranks([environment(0, 1, 29900, LOCAL_RANK=None, **gpus)], *args), ["LOCAL_RANK"])

    @unittest.skipUnless(shutil.which("torchrun"), "no torchrun here")
    def test_under_torchrun(self):
        package = self.package("mlp", 2)
        args = ["run", package, "--data", file_of("mlp", "batches.npz"), "--steps", 5]
        self.succeed(*args, "--log", self.path("threads"), "--save", self.path("threads.safetensors"))
        for how in (["--standalone"], ["--master_addr", "127.0.0.1", "--master_port", str(free_port())]):
            log = self.path("log" + how[0])
            done = subprocess.run(["torchrun", *how, "--nproc_per_node", "2", "--no_python", KERF, *map(str, args), "--log", log, "--save",
                                   self.path("torchrun.safetensors")],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, env=plain_environment())
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(losses_of(self.path("threads")), losses_of(log))
            self.assertEqual(self.read("threads.safetensors"), self.read("torchrun.safetensors"))


if __name__ == "__main__":
    main()
