# SPDX-License-Identifier: Apache-2.0
"""Files that start one process for each rank of a plan, numbered as the plan numbers ranks.

A plan numbers its ranks along its axes, the last axis of `order` fastest, and fills one machine before the next. Every
launcher here numbers processes machine by machine too, so process r is rank r of the plan.

    print(kerf.launcher.script(plan, "slurm", ["kerf-run", "package", "--data", "batches.npz"]))

`python3 -m kerf.launcher plan.json slurm -- kerf-run package --data batches.npz` prints the same file.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
from typing import Callable, Optional, Sequence

from .errors import Error, InputError
from .plans import Plan, PlanLike, as_plan


@dataclasses.dataclass(frozen=True)
class Shape:
    """The processes of a plan: their number, how many machines there are, and how many processes run on each."""

    ranks: int
    nodes: int
    per_node: int
    gpus: bool  # whether the processes drive GPUs
    order: str  # the order of the mesh's axes, for the comment in the file


def shape(plan: PlanLike, *, per_node: Optional[int] = None) -> Shape:
    """Returns how many processes a plan has on how many machines.

    The devices of a machine are those of the first level of the cluster in the plan's job; `per_node` replaces them.
    """
    its = as_plan(plan)
    if per_node is not None and (isinstance(per_node, bool) or not isinstance(per_node, int)):
        raise TypeError(f"per_node is a number of processes, not a {type(per_node).__name__}")
    content = its.to_dict()
    cluster = content.get("job", {}).get("cluster", {})
    if cluster.get("groups"):
        raise InputError("the plan's cluster is mixed: launchers start the same number of processes on every machine; start the groups yourself")
    levels = cluster.get("levels", [])
    size = per_node if per_node is not None else levels[0]["size"] if levels else its.ranks
    if size < 1:
        raise InputError(f"per_node={size} is not a number of processes, which is 1 or more")
    size = min(size, its.ranks)
    if its.ranks % size:
        raise InputError(f"the plan has {its.ranks} ranks, which do not fill machines of {size}: the last machine would get {its.ranks % size}; "
                         f"plan for a multiple of {size} ranks, or give per_node=")
    kind = cluster.get("device", {}).get("kind", "cpu") if isinstance(cluster.get("device"), dict) else "cpu"
    mesh = its.mesh
    axes = its.order or tuple(mesh)
    order = ", ".join(f"{axis} {mesh.get(axis, 1)}" for axis in axes if mesh.get(axis, 1) > 1) or "one rank"
    return Shape(its.ranks, its.ranks // size, size, kind != "cpu", order)


def _head(shape: Shape) -> str:
    return (f"# {shape.ranks} ranks on {shape.nodes} machine{'s' if shape.nodes > 1 else ''}, {shape.per_node} on each, by kerf.launcher.\n"
            f"# Process r is rank r of the plan: axes, the last one fastest: {shape.order}.\n")


def _program(command: Sequence[str]) -> list[str]:
    """Returns torchrun's own words for a program: a Python file or module is started by Python, as torchrun does itself.

    torchrun takes options of the program for its own, such as --log for --log-dir, unless -- stands before the program.
    """
    if command[0] == "-m":
        return ["-m", "--", *command[1:]]
    return ["--", *command] if command[0].endswith(".py") else ["--no-python", "--", *command]


def _words(command: Sequence[str]) -> list[str]:
    """Returns the words of a program for launchers that start any program."""
    return ["python3", *command] if command[0].endswith(".py") or command[0] == "-m" else list(command)


def _torchrun_words(shape: Shape, command: Sequence[str], rendezvous: str) -> str:
    return f"torchrun {rendezvous} --nproc-per-node {shape.per_node} \\\n  {shlex.join(_program(command))}"


def _torchrun(shape: Shape, command: Sequence[str]) -> str:
    head = "#!/bin/bash\n" + _head(shape)
    if shape.nodes == 1:
        return head + "set -eu\n" + _torchrun_words(shape, command, "--standalone --nnodes 1") + "\n"
    return (head + "# Start it on every machine, with NODE_RANK 0 on the machine MASTER_ADDR, and 1, 2, ... on the others.\nset -eu\n"
            ': "${NODE_RANK:?the number of this machine, from 0}" "${MASTER_ADDR:?the address of machine 0}"\nMASTER_PORT=${MASTER_PORT:-29500}\n'
            + _torchrun_words(shape, command, f'--nnodes {shape.nodes} --node-rank "$NODE_RANK" --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT"')
            + "\n")


def _slurm(shape: Shape, command: Sequence[str]) -> str:
    gpus = f" --gpus-per-node={shape.per_node}" if shape.gpus else ""
    # One task for each rank; block distribution fills a machine before the next one.
    words = shlex.join(_words(command))
    return ("#!/bin/bash\n"
            f"#SBATCH --nodes={shape.nodes} --ntasks={shape.ranks} --ntasks-per-node={shape.per_node}{gpus} --distribution=block\n"
            "#SBATCH --time=24:00:00\n#SBATCH --signal=TERM@120\n" + _head(shape) + "set -eu\n"
            'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
            "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000)) KERF_SECRET=$SLURM_JOB_ID\n"
            "# srun gives every task its number; these are the names that other programs read.\n"
            "srun --mpi=none --distribution=block bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS; "
            f"exec \"$@\"' rank \\\n  {words}\n")


def _indented(text: str, spaces: int) -> str:
    return "".join(" " * spaces + line + "\n" for line in text.splitlines())


def _skypilot(shape: Shape, command: Sequence[str]) -> str:
    call = _torchrun_words(shape, command, f'--nnodes "$SKYPILOT_NUM_NODES" --node-rank "$SKYPILOT_NODE_RANK" '
                           '--master-addr "$(echo "$SKYPILOT_NODE_IPS" | head -n 1)" --master-port 29500')
    gpus = f"resources:\n  accelerators: YOUR_GPU:{shape.per_node}  # the name of the device at SkyPilot\n" if shape.gpus else ""
    return _head(shape) + f"name: kerf\nnum_nodes: {shape.nodes}\n{gpus}run: |\n{_indented(call, 2)}"


def _kubeflow(shape: Shape, command: Sequence[str]) -> str:
    gpus = f"    resourcesPerNode:\n      limits:\n        nvidia.com/gpu: {shape.per_node}\n" if shape.gpus else ""
    # The runtime tells torchrun the machines by the variables PET_*.
    return (_head(shape) + "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata:\n  name: kerf\nspec:\n"
            "  runtimeRef:\n    name: torch-distributed\n  trainer:\n    image: YOUR_IMAGE  # with the program and its data\n"
            f"    numNodes: {shape.nodes}\n    numProcPerNode: {shape.per_node}\n{gpus}"
            f"    command: {json.dumps(['torchrun', *_program(command)])}\n")


def _ray(shape: Shape, command: Sequence[str]) -> str:
    return ("#!/usr/bin/env python3\n" + _head(shape) +
            "import os\nimport subprocess\n\nimport ray.train\nfrom ray.train import ScalingConfig\nfrom ray.train.torch import TorchTrainer\n\n"
            f"PER_NODE = {shape.per_node}\nCOMMAND = {_words(command)!r}\n\n\n"
            "def worker():\n"
            "    context = ray.train.get_context()\n"
            "    rank, local = context.get_world_rank(), context.get_local_rank()\n"
            "    if (rank // PER_NODE, rank % PER_NODE) != (context.get_node_rank(), local):\n"
            "        raise RuntimeError(f\"Ray placed rank {rank} as process {local} of machine {context.get_node_rank()}; the plan wants "
            "{PER_NODE} ranks on each machine\")\n"
            "    variables = {\"RANK\": str(rank), \"LOCAL_RANK\": str(local), \"WORLD_SIZE\": str(context.get_world_size())}\n"
            "    subprocess.run(COMMAND, check=True, env={**os.environ, **variables})\n\n\n"
            f"scaling = ScalingConfig(num_workers={shape.ranks}, use_gpu={shape.gpus}, placement_strategy=\"PACK\")\n"
            "TorchTrainer(worker, scaling_config=scaling).fit()\n")


LAUNCHERS: dict[str, Callable[[Shape, Sequence[str]], str]] = {
    "torchrun": _torchrun, "slurm": _slurm, "skypilot": _skypilot, "kubeflow": _kubeflow, "ray": _ray}


def script(plan: PlanLike, launcher: str, command: Sequence[str], *, per_node: Optional[int] = None) -> str:
    """Returns the text of a file that starts `command` once for each rank of the plan.

    `command` is the program with its arguments: kerf-run and a package, or a Python file that reads RANK, WORLD_SIZE and
    LOCAL_RANK. `launcher` is one of LAUNCHERS.
    """
    if launcher not in LAUNCHERS:
        raise InputError(f"launcher='{launcher}' is not one of {', '.join(LAUNCHERS)}")
    if isinstance(command, str) or not command or not all(isinstance(word, str) for word in command):
        raise InputError("command= is a list of words, the program first: ['kerf-run', 'package', '--data', 'batches.npz']")
    return LAUNCHERS[launcher](shape(plan, per_node=per_node), list(command))


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Prints the file for a plan: python3 -m kerf.launcher plan.json LAUNCHER [--per-node N] -- COMMAND..."""
    parser = argparse.ArgumentParser(prog="python3 -m kerf.launcher", description="Print a file that starts one process for each rank of a plan.")
    parser.add_argument("plan", help="plan.json, as kerf plan -o writes it")
    parser.add_argument("launcher", choices=list(LAUNCHERS))
    parser.add_argument("--per-node", type=int, help="processes on each machine (default: the devices of a machine in the plan's cluster)")
    parser.add_argument("command", nargs="+", help="after --: the program of each rank with its arguments")
    given = parser.parse_args(arguments)
    try:
        print(script(Plan.load(given.plan), given.launcher, given.command, per_node=given.per_node), end="")
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
