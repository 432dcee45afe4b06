# SPDX-License-Identifier: Apache-2.0
"""Jobs of several processes, and what is asked of them when one is killed. Only Python's standard library."""
import os
import signal
import time

from support import KERF

SECONDS_TO_END = 10


def mpirun(ranks, *args):
    # More ranks than cores, and root, are normal where tests run.
    return ["mpirun", "-n", str(ranks), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", KERF, *map(str, args)]


def children(process):
    """The ids of the processes below `process` that run kerf, oldest first."""
    parents, names = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    name, rest = file.read().rsplit(")", 1)
            except OSError:
                continue  # ended meanwhile
            parents[int(entry)], names[int(entry)] = int(rest.split()[1]), name.split("(", 1)[1]
    below, grown = {process}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        below, grown = below | more, bool(more)
    return sorted(pid for pid in below if names.get(pid) == "kerf")


def runs(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def kill_one(test, job, ranks, victim):
    """Kills one of the ranks of `job`, whose output is piped: the job ends soon with a message, and leaves no rank over."""
    os.kill(victim, signal.SIGKILL)
    killed = time.monotonic()
    said, _ = job.communicate(timeout=60)
    test.assertLess(time.monotonic() - killed, SECONDS_TO_END)
    test.assertNotEqual(job.returncode, 0)
    test.assertRegex(said, r"(?i)killed|signal 9|rank")
    while any(runs(process) for process in ranks):
        test.assertLess(time.monotonic() - killed, SECONDS_TO_END, "ranks are left over")
        time.sleep(0.05)
