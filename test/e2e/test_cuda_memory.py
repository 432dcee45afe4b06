#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The memory that is planned for GPUs without a GPU is what a run on the device `cuda` allocates, byte for byte, on every stage. The runs use
the stand-ins of NVIDIA's libraries (test/standins); the plans are made where no such library is found."""
import json
import math
import os
from unittest import mock

from support import CLUSTERS, KERF, KerfTest, file_of, main
from test_pipelines import plan, schedule

STANDINS = os.path.join(os.path.dirname(os.path.dirname(KERF)), "standins")
A100, H100 = os.path.join(CLUSTERS, "dgx-a100.json"), os.path.join(CLUSTERS, "dgx-h100.json")
CONTEXT = {A100: 1.5 * 2**30, H100: 1.7 * 2**30}  # curves of the devices: what `kerf verify` adds for driver and libraries
PLANS = {
    "one rank": plan(microbatch=2),
    "data 2, zero 1": plan(data=2, optimizer_sharding=1),
    "data 2, zero 3": plan(data=2, microbatch=2, optimizer_sharding=3),
    "model 2": plan(model=2, microbatch=4),
    "model 2, sequence parallel": plan(model=2, sequence_parallel=True),
    "two stages, data 2, zero 2": plan(stage=2, data=2, microbatch=1, optimizer_sharding=2),
    "two stages, zero-bubble, recompute": plan(stage=2, microbatch=2, recompute="full", **schedule("zero-bubble")),
    "ring of 2": plan(context=2, microbatch=4),
}


class CudaMemory(KerfTest):
    def setUp(self):
        super().setUp()
        os.environ.update(KERF_STANDIN_DEVICES="8", KERF_CUDA_LIBRARIES="/nowhere")

    def planned(self, *args, cluster=A100):
        """The memory of each stage for the GPUs of the cluster."""
        done = self.succeed("verify", *args, "--cluster", cluster, "--json", timeout=300)
        full = json.loads(done.stdout)["full"]
        self.assertEqual(full["memory_rules"], "as the kernels of the device cuda need it" + (" in deterministic runs" if "--deterministic" in args else ""))
        return [math.ceil(bytes - CONTEXT[cluster]) for bytes in full["stage_bytes"]]

    def run_on_gpus(self, *args):
        os.environ["KERF_CUDA_LIBRARIES"] = STANDINS
        done = self.succeed("train", *args, "--steps", 1, "--device", "cuda", "--json", timeout=300)
        os.environ["KERF_CUDA_LIBRARIES"] = "/nowhere"
        return json.loads(done.stdout)

    def check(self, model, name, *more, runs=(), cluster=A100):
        """Compares the planned bytes with those of a run; `runs` are options of commands that plan or run programs."""
        path = self.write("plan.json", PLANS[name])
        common = [file_of(model), "--plan", path, "--optimizer", "adamw", *more]
        planned, data = self.planned(*common, *runs, cluster=cluster), ["--data", file_of(model, "batches.npz")]
        measured = self.run_on_gpus(*common, *runs, *data, "--cluster", cluster)["measured"]
        self.assertEqual(planned, measured["stage_peak_bytes"], f"{model}, {name}, {more}")
        report = self.run_on_gpus(*common, *runs, *data)["report"]  # the plan of `train` itself, without a cluster
        self.assertEqual(report["memory_bytes"]["total"], report["measured_memory_bytes"]["total"], f"{model}, {name}, {more}")
        return sum(planned)

    def test_sums_in_order_need_more_memory_than_those_of_nccl(self):
        ordered = self.check("gpt2", "data 2, zero 1", runs=["--deterministic"])
        self.assertGreater(ordered, self.check("gpt2", "data 2, zero 1"))

    def test_f32(self):
        for name in set(PLANS) - {"data 2, zero 1"}:
            with self.subTest(name):
                self.check("gpt2", name)

    def test_bf16(self):
        for name in ("one rank", "data 2, zero 3", "model 2, sequence parallel", "two stages, data 2, zero 2"):
            with self.subTest(name):
                self.check("gpt2", name, "--dtype", "bf16")
        with self.subTest("grouped heads"):
            self.check("llama", "two stages, zero-bubble, recompute", "--dtype", "bf16")

    def test_f8(self):
        """8-bit factors, on GPUs that multiply them; the copies of weights last the whole step."""
        with mock.patch.dict(os.environ, KERF_STANDIN_CAPABILITY="9.0"):
            for model, name in (("gpt2", "data 2, zero 3"), ("llama", "two stages, zero-bubble, recompute")):
                with self.subTest(model):
                    self.check(model, name, "--dtype", "f8", cluster=H100)

    def test_the_rules_are_those_of_the_device(self):
        """The CPU's plan of the same program is another, and devices without a runtime are planned with the CPU's rules."""
        path = self.write("plan.json", PLANS["one rank"])
        common = [file_of("gpt2"), "--plan", path, "--optimizer", "adamw"]
        cpu = json.loads(self.succeed("verify", *common, "--json", timeout=300).stdout)["full"]
        self.assertEqual(cpu["memory_rules"], "as the kernels of the device cpu need it")
        self.assertNotEqual(cpu["stage_bytes"], self.planned(*common))
        with open(A100) as file:
            cluster = json.load(file)
        cluster["device"].update(kind="abacus", curves={
            "processors": 1, "product_efficiency": 0.9, "product_overhead_k": 100, "product_quantization": 0.5, "attention_efficiency": 0.5,
            "attention_half_length": 100, "memory_efficiency": 0.8, "launch_seconds": 1e-6, "collective_seconds": 1e-6, "sustained": 1, "context_bytes": 0})
        done = self.succeed("verify", *common, "--cluster", self.write("abacus.json", cluster), timeout=300)
        self.assertIn("estimated with the CPU's kernels, because Kerf has none for the kind 'abacus'", done.stdout)
        done = self.succeed("verify", *common, "--dtype", "f16", "--cluster", os.path.join(CLUSTERS, "ascend-910b.json"), timeout=300)
        self.assertIn("as the kernels of the device ascend need it", done.stdout)


if __name__ == "__main__":
    main()
