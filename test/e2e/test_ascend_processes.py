#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks on NPUs that are processes: the tests of GPUs (test_cuda_processes.py), on the stand-ins of CANN's libraries. In the environment of torchrun
and under mpirun, ranks have the losses and weights of ranks that are threads, bit for bit, and a process that is killed ends the run and is named.

Several machines are processes of this one in Linux namespaces: each machine has a name and NPUs of its own, and with network namespaces an address of
its own. The stand-in of HCCL connects them by sockets that are files. Namespaces need root: without it, these tests skip."""
import os
import shlex
import subprocess
import unittest
from unittest import mock

import test_cuda_processes
from support import KERF, ROOT, losses_of, main
from test_pipelines import plan

STANDINS = os.path.join(os.path.dirname(os.path.dirname(KERF)), "standins", "ascend")
NETWORK = os.path.join(ROOT, "scripts", "shaped-network.sh")
AS_MACHINE = ["unshare", "--uts", "sh", "-c"]  # a shell with a host name of its own


def works(*command):
    """Returns whether this user can make namespaces by a command."""
    try:
        return subprocess.run([*command, "true"], capture_output=True).returncode == 0
    except OSError:
        return False


class AscendProcesses(test_cuda_processes.CudaProcesses):
    device = "ascend"
    some = ["zero 3"]
    killed = [("model 2", 1)]
    kill_variable = "KERF_STANDIN_ASCEND_KILL"

    def setUp(self):
        super().setUp()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KERF_STANDIN")}
        patch = mock.patch.dict(os.environ, {**clean, "KERF_ASCEND_LIBRARIES": STANDINS, "KERF_STANDIN_DEVICES": "4"}, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def on_machines(self, chosen, npus, start):
        """Trains with ranks that are threads, and with processes that `start` starts on machines with so many NPUs: the losses have the same bits."""
        args = [*self.small(), "--steps", test_cuda_processes.STEPS, "--plan", self.write("plan.json", chosen), "--device", "ascend", "--deterministic"]
        self.succeed(*args, "--log", self.path("threads"))
        with mock.patch.dict(os.environ, KERF_STANDIN_DEVICES=str(npus), KERF_STANDIN_WIRE=self.path("")):
            done = subprocess.run(start([KERF, *map(str, args), "--log", self.path("processes")]), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(losses_of(self.path("threads")), losses_of(self.path("processes")))

    @unittest.skipUnless(works("unshare", "--uts") and works("mpirun", "--version"), "machines with names of their own need root, unshare and mpirun")
    def test_two_machines_under_mpirun(self):
        """Each machine has two NPUs, which its ranks take by their number on the machine: rank 2 takes NPU 0 of the second one."""
        agent = self.write("agent", '#!/bin/sh\nhost=$1\nshift\nexec unshare --uts sh -c "hostname $host; $*"\n')
        os.chmod(agent, 0o755)
        self.on_machines(plan(stage=2, data=2, microbatch=1, optimizer_sharding=2), 2, lambda command: [
            "mpirun", "--allow-run-as-root", "--bind-to", "none", "--mca", "btl_tcp_if_include", "lo", "--host", "machine1:2,machine2:2", "-n", "4", "--mca", "plm_rsh_agent", agent,
            "-x", "KERF_ASCEND_LIBRARIES", "-x", "KERF_STANDIN_DEVICES", "-x", "KERF_STANDIN_WIRE", *command])

    @unittest.skipUnless(works(NETWORK, "--ranks", "2", "--"), "machines with addresses of their own need root, ip and tc")
    def test_two_machines_with_addresses(self):
        """HCCL's root information goes over the ranks' connections between the two addresses. Each machine has one NPU."""
        self.on_machines(plan(data=2, microbatch=2, optimizer_sharding=3), 1, lambda command: [
            NETWORK, "--ranks", "2", "--", *AS_MACHINE, f"hostname machine$RANK; LOCAL_RANK=0 exec {shlex.join(command)}"])

    @unittest.skipUnless(works(NETWORK, "--ranks", "2", "--"), "machines with addresses of their own need root, ip and tc")
    def test_the_machine_of_a_process_that_is_killed_is_named(self):
        with mock.patch.dict(os.environ, KERF_STANDIN_DEVICES="1", KERF_STANDIN_WIRE=self.path("")):
            command = [KERF, *map(str, self.long_run("model 2"))]
            done = subprocess.run([NETWORK, "--ranks", "2", "--", *AS_MACHINE, "hostname machine$RANK; [ $RANK = 0 ] || export KERF_STANDIN_ASCEND_KILL=1; "
                                   f"LOCAL_RANK=0 exec {shlex.join(command)}"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200)
        self.assertNotEqual(done.returncode, 0)
        errors = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("error: ")]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertRegex(errors[0], r"rank 1 \(process \d+ on machine1\).*has ended")


if __name__ == "__main__":
    main()
