#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Launch files: every file is valid, starts as many processes as the plan has ranks, and numbers them as the plan does."""
import ast
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import kerf
import kerf.launcher

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERF = os.environ.get("KERF", os.path.join(ROOT, "build", "bin", "kerf"))
MLP = os.path.join(ROOT, "test", "models", "mlp")
PLAN = {"mesh": {"stage": 2, "data": 2, "model": 2}, "order": ["stage", "data", "model"]}
PRINT = ["sh", "-c", "echo \"$RANK of $WORLD_SIZE, here $LOCAL_RANK: $1\"", "sh", "two words"]


def executable(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)
    return path


def run_script(text, folder, **variables):
    """Runs a launch file with the programs of a folder before all others; returns its lines in order."""
    path = executable(folder, "launch", text)
    environment = {**os.environ, **variables, "PATH": folder + os.pathsep + os.environ["PATH"]}
    done = subprocess.run(["bash", path], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


class Launchers(unittest.TestCase):
    def test_shell_files_parse(self):
        for launcher in ("torchrun", "slurm"):
            for per_node in (2, 8):
                text = kerf.launcher.script(PLAN, launcher, PRINT, per_node=per_node)
                done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), text)

    def test_yaml_files_have_the_machines(self):
        if importlib.util.find_spec("yaml") is None:
            self.skipTest("needs the Python package PyYAML")
        import yaml

        sky = yaml.safe_load(kerf.launcher.script(PLAN, "skypilot", PRINT, per_node=4))
        self.assertEqual(sky["num_nodes"], 2)
        self.assertEqual(subprocess.run(["bash", "-n"], input=sky["run"], text=True).returncode, 0)
        job = yaml.safe_load(kerf.launcher.script(PLAN, "kubeflow", PRINT, per_node=4))
        self.assertEqual((job["kind"], job["spec"]["trainer"]["numNodes"], job["spec"]["trainer"]["numProcPerNode"]), ("TrainJob", 2, 4))
        self.assertEqual(job["spec"]["trainer"]["command"], ["torchrun", "--no-python", "--", *PRINT])

    def test_torchrun_and_skypilot_give_torchrun_the_machines(self):
        # A torchrun that prints its arguments stands in for the real one.
        with tempfile.TemporaryDirectory() as folder:
            executable(folder, "torchrun", "#!/bin/sh\necho \"$@\"\n")
            said = run_script(kerf.launcher.script(PLAN, "torchrun", ["kerf-run", "package"], per_node=4), folder, NODE_RANK="1", MASTER_ADDR="a")
            self.assertEqual(said, ["--nnodes 2 --node-rank 1 --master-addr a --master-port 29500 --nproc-per-node 4 --no-python -- kerf-run package"])
            text = kerf.launcher.script(PLAN, "skypilot", ["train.py"], per_node=4)
            call = text[text.index("run: |\n") + len("run: |\n"):]
            said = run_script(call, folder, SKYPILOT_NUM_NODES="2", SKYPILOT_NODE_RANK="1", SKYPILOT_NODE_IPS="10.0.0.1\n10.0.0.2")
            self.assertEqual(said, ["--nnodes 2 --node-rank 1 --master-addr 10.0.0.1 --master-port 29500 --nproc-per-node 4 -- train.py"])

    def test_slurm_numbers_ranks_by_tasks(self):
        # A srun that starts the tasks of one machine after those of the other stands in for Slurm's.
        with tempfile.TemporaryDirectory() as folder:
            executable(folder, "scontrol", "#!/bin/sh\necho node1\necho node2\n")
            executable(folder, "srun", "#!/bin/bash\n[ \"$1 $2\" = '--mpi=none --distribution=block' ] || exit 1\nshift 2\n"
                       "for i in 0 1 2 3 4 5 6 7; do SLURM_PROCID=$i SLURM_LOCALID=$((i % 4)) SLURM_NTASKS=8 \"$@\"; done\n")
            said = run_script(kerf.launcher.script(PLAN, "slurm", PRINT, per_node=4), folder, SLURM_JOB_ID="7", SLURM_JOB_NODELIST="node[1-2]")
            self.assertEqual(said, [f"{i} of 8, here {i % 4}: two words" for i in range(8)])

    def test_ray_starts_every_rank_and_refuses_other_places(self):
        text = kerf.launcher.script(PLAN, "ray", PRINT, per_node=4)
        ast.parse(text)
        started, scaling, place = [], {}, {"node": lambda rank: rank // 4}

        class Context:
            def __init__(self, rank):
                self.get_world_rank, self.get_local_rank = lambda: rank, lambda: rank % 4
                self.get_node_rank, self.get_world_size = lambda: place["node"](rank), lambda: 8

        class Trainer:
            def __init__(self, worker, scaling_config):
                self.worker, self.ranks = worker, scaling_config["num_workers"]

            def fit(self):
                for rank in range(self.ranks):
                    ray.train.get_context = lambda rank=rank: Context(rank)
                    self.worker()

        ray = types.ModuleType("ray")
        ray.train = types.ModuleType("ray.train")
        ray.train.ScalingConfig = lambda **given: scaling.update(given) or given
        ray_torch = types.ModuleType("ray.train.torch")
        ray_torch.TorchTrainer = Trainer
        modules = {"ray": ray, "ray.train": ray.train, "ray.train.torch": ray_torch}
        with mock.patch.dict(sys.modules, modules), mock.patch("subprocess.run", lambda command, check, env: started.append((command, env["RANK"]))):
            exec(compile(text, "launch", "exec"), {})
            self.assertEqual(started, [(PRINT, str(rank)) for rank in range(8)])
            self.assertEqual(scaling["num_workers"], 8)
            place["node"] = lambda rank: rank
            with self.assertRaisesRegex(RuntimeError, "Ray placed rank 1 as process 1 of machine 1"):
                exec(compile(text, "launch", "exec"), {})

    def test_refusals(self):
        with self.assertRaisesRegex(kerf.InputError, "8 ranks, which do not fill machines of 3: the last machine would get 2"):
            kerf.launcher.script(PLAN, "torchrun", PRINT, per_node=3)
        with self.assertRaisesRegex(kerf.InputError, "launcher='mpi' is not one of torchrun, slurm, skypilot, kubeflow, ray"):
            kerf.launcher.script(PLAN, "mpi", PRINT)
        with self.assertRaisesRegex(kerf.InputError, "is a list of words"):
            kerf.launcher.script(PLAN, "torchrun", "kerf-run package")
        with self.assertRaisesRegex(kerf.InputError, "per_node=0"):
            kerf.launcher.script(PLAN, "torchrun", PRINT, per_node=0)

    def test_torchrun_trains(self):
        """Two processes of torchrun have the losses of two threads, bit for bit."""
        if importlib.util.find_spec("torch") is None:
            self.skipTest("needs the Python package torch, which has torchrun")
        with tempfile.TemporaryDirectory() as folder:
            package, data = os.path.join(folder, "package"), os.path.join(MLP, "batches.npz")
            plan = kerf.plan(os.path.join(MLP, "model.onnx"), ranks=2, constraints={"mesh": {"data": 2}}, progress=False)
            plan.save(os.path.join(folder, "plan.json"))
            subprocess.run([KERF, "compile", "--plan", os.path.join(folder, "plan.json"), "-o", package], check=True, capture_output=True)
            job = [KERF, "run", package, "--data", data, "--steps", "3"]
            losses = {}
            for name in ("threads", "processes"):
                log = os.path.join(folder, name)
                command = [*job, "--log", log]
                if name == "processes":
                    executable(folder, "torchrun", f"#!/bin/sh\nexec {sys.executable} -m torch.distributed.run \"$@\"\n")
                    run_script(kerf.launcher.script(plan, "torchrun", command), folder, OMP_NUM_THREADS="1")
                else:
                    subprocess.run(command, check=True, capture_output=True)
                with open(log) as file:
                    losses[name] = [json.loads(line).get("loss") for line in file]
            self.assertGreaterEqual(len([loss for loss in losses["threads"] if loss is not None]), 3)
            self.assertEqual(losses["processes"], losses["threads"])


if __name__ == "__main__":
    unittest.main()
