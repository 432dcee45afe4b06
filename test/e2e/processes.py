#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes in the environment that torchrun gives them, without torchrun. Only Python's standard library.

    processes.py RANKS PROGRAM ARGUMENTS...    starts the program for each rank; fails if any of them fails
"""
import os
import socket
import subprocess
import sys


def free_port():
    """A port such that it and the next one are free."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
                return port
            except (OSError, OverflowError):
                continue


def plain_environment():
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "KERF_PORT", "KERF_SECRET",
             "KERF_JOIN_SECONDS")
    return {name: value for name, value in os.environ.items() if name not in names and not name.startswith("SLURM_")}


def environment(rank, ranks, port, **more):
    """What torchrun sets, as far as Kerf reads it. A None in `more` removes a variable."""
    values = {**plain_environment(), "RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks,
              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_USE_AGENT_STORE": "True",
              "KERF_JOIN_SECONDS": 60, **more}
    return {name: str(value) for name, value in values.items() if value is not None}


if __name__ == "__main__":
    count, own_port = int(sys.argv[1]), free_port()
    started = [subprocess.Popen(sys.argv[2:], env=environment(rank, count, own_port)) for rank in range(count)]
    sys.exit(max(abs(process.wait()) for process in started))
