#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks on NPUs that are processes: the tests of GPUs (test_cuda_processes.py), on the stand-ins of CANN's libraries. In the environment of torchrun
and under mpirun, ranks have the losses and weights of ranks that are threads, bit for bit, and a process that is killed ends the run and is named."""
import os
from unittest import mock

import test_cuda_processes
from support import KERF, main

STANDINS = os.path.join(os.path.dirname(os.path.dirname(KERF)), "standins", "ascend")


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


if __name__ == "__main__":
    main()
