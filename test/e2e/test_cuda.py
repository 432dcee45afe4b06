#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training on the device `cuda`, on stand-ins of NVIDIA's libraries (test/standins): the losses are PyTorch's, on one GPU and on several, and
each broken machine gets one message that says what to do. On a machine with a GPU: `KERF_CUDA_LIBRARIES= python3 test/e2e/test_cuda.py`."""
import os
import sys
import unittest

from support import FOLDERS, KERF, SHARED_EXPORTS, KerfTest, file_of, golden_of, losses_of, main, optimizer_flags
from test_pipelines import PLANS

STANDINS = os.environ.get("KERF_CUDA_LIBRARIES", os.path.join(os.path.dirname(os.path.dirname(KERF)), "standins"))
TOLERANCE = 2e-4  # relative, as on the CPU
SOME = ["microbatches, data 2", "sequence parallel", "zero 3", "offload, 1f1b, ring, zero 2", "3-D, zero-bubble, zero 2, sequence parallel"]


class Cuda(KerfTest):
    def setUp(self):
        super().setUp()
        os.environ.update(KERF_CUDA_LIBRARIES=STANDINS, KERF_STANDIN_DEVICES="8")
        for name in ("DRIVER", "MEMORY", "ECC", "BUSY", "CAPABILITY"):
            os.environ.pop(f"KERF_STANDIN_{name}", None)

    def train(self, model, *more, steps=2):
        golden = golden_of(model)
        step, run = optimizer_flags(golden, "adamw")
        self.succeed("train", file_of(model), "--data", file_of(model, "batches.npz"), "--steps", steps, "--device", "cuda", "--log",
                     self.path("log"), *step, *run, *more)
        self.close(losses_of(self.path("log")), golden["losses"]["adamw"]["float64"][:steps], TOLERANCE, f"{model} {more}")

    def test_one_gpu(self):
        models = [*FOLDERS, *SHARED_EXPORTS] if "--all" in sys.argv else ["mlp", "gpt2"]
        for model in models:
            with self.subTest(model):
                self.train(model, "--ranks", 1)

    def test_several_gpus(self):
        for name in PLANS if "--all" in sys.argv else SOME:
            with self.subTest(name):
                self.train("gpt2", "--plan", self.write("plan.json", PLANS[name]))

    def test_bf16(self):
        golden, losses = golden_of("gpt2"), {}
        step, run = optimizer_flags(golden, "adamw")
        for device in ("cpu", "cuda"):
            self.succeed("train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 2, "--device", device, "--dtype", "bf16",
                         "--ranks", 1, "--log", self.path("log"), *step, *run)
            losses[device] = losses_of(self.path("log"))
        self.close(losses["cuda"], losses["cpu"], 5e-4, "bf16: sums come in another order before they are rounded")

    def refuse_train(self, status, texts, device="cuda"):
        golden = golden_of("mlp")
        step, run = optimizer_flags(golden, "adamw")
        self.refuse(status, texts, "train", file_of("mlp"), "--data", file_of("mlp", "batches.npz"), "--steps", 1, "--ranks", 1,
                    "--device", device, *step, *run)

    @unittest.skipIf(not STANDINS, "needs the stand-ins")
    def test_broken_machines(self):
        for variable, value, status, texts in [
            ("DEVICES", "0", 2, ["cannot start the driver", "CUDA_ERROR_NO_DEVICE", "nvidia-smi"]),
            ("DRIVER", "11080", 2, ["supports CUDA 11.8", "12.0 is the oldest", "update the driver"]),
            ("CAPABILITY", "7.5", 2, ["GPU 0 has compute capability 7.5", "8.0 is the lowest"]),
            ("BUSY", "1", 2, ["GPU 0 cannot be opened", "CUDA_ERROR_DEVICE_UNAVAILABLE", "choose another GPU"]),
            ("MEMORY", "65536", 2, ["GPU 0 cannot allocate", "of its 65536 bytes are free", "use more ranks"]),
            ("ECC", "5", 1, ["GPU 0", "CUDA_ERROR_ECC_UNCORRECTABLE", "resume from the last checkpoint"]),
        ]:
            with self.subTest(variable):
                before = os.environ.get(f"KERF_STANDIN_{variable}")
                os.environ[f"KERF_STANDIN_{variable}"] = value
                self.refuse_train(status, texts)
                os.environ.pop(f"KERF_STANDIN_{variable}") if before is None else os.environ.update({f"KERF_STANDIN_{variable}": before})

    @unittest.skipIf(not STANDINS, "needs the stand-ins")
    def test_a_rank_that_fails_ends_the_run(self):
        golden = golden_of("gpt2")
        step, run = optimizer_flags(golden, "adamw")
        for name, call in (("zero 2", 9), ("1f1b, 4 stages", 5)):
            with self.subTest(name):
                os.environ["KERF_STANDIN_NCCL"] = str(call)
                try:
                    self.refuse(1, ["rank ", "NCCL says 'unhandled cuda error' (1)", "NCCL_DEBUG"], "train", file_of("gpt2"), "--data",
                                file_of("gpt2", "batches.npz"), "--steps", 1, "--device", "cuda", "--plan", self.write("plan.json", PLANS[name]),
                                *step, *run)
                finally:
                    del os.environ["KERF_STANDIN_NCCL"]

    @unittest.skipIf(not STANDINS, "needs the stand-ins")
    def test_missing_libraries_and_gpus(self):
        self.refuse_train(2, ["there is no GPU 8", "this machine has 8 (0 to 7)"], "cuda:8")
        self.refuse_train(1, ["'x' is given", "cuda:0"], "cuda:x")
        os.environ["KERF_CUDA_LIBRARIES"] = self.path("")
        self.refuse_train(2, ["the NVIDIA driver's library cannot be loaded", "libcuda.so.1", "install the driver"])


if __name__ == "__main__":
    main()
