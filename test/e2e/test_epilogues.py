#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Products with a bias, another tensor, GELU, its gradient and the sums of biases' gradients as single calls of cuBLASLt, on stand-ins of NVIDIA's libraries
(test/standins). The stand-in counts the products by epilogue. The losses are those of the same package whose instructions run one by one."""
import json
import os
import shutil
import sys
import unittest

from support import KERF, KerfTest, file_of, losses_of, main
from test_pipelines import plan, schedule

STANDINS = os.path.join(os.path.dirname(os.path.dirname(KERF)), "standins")
BIAS, BIAS_GELU, KEPT_GELU, GRADIENT, GRADIENT_SUMS, SUMS_A = "4", "36", "164", "192", "208", "256"  # cublasLtEpilogue_t
PLAIN, ADDEND, BIAS_ADDEND = "1", "1+C", "4+C"  # with "+C", another tensor is added (beta is 1)
LAYERS, STEPS = 2, 2
PLANS = {  # name: plan, options, the numbers of epilogues in a step on all ranks, and the tolerance of the losses
    # In bf16 the float32 sums of GELU's gradient are joined with the weight's gradient, whose result is float32.
    "bf16": (plan(), ["--dtype", "bf16"], {BIAS: 2, BIAS_ADDEND: 4, KEPT_GELU: 2, GRADIENT: 2, SUMS_A: 4}, 5e-4),
    "model 2": (plan(model=2), [], {BIAS: 4, KEPT_GELU: 4, GRADIENT_SUMS: 4, SUMS_A: 8}, 1e-5),
    # From the second microbatch on, the weights' gradients add to their sums.
    "microbatches": (plan(microbatch=2), [], {BIAS: 8, BIAS_ADDEND: 16, KEPT_GELU: 8, GRADIENT_SUMS: 8, SUMS_A: 2}, 1e-5),
    # The forward keeps nothing and runs again in the backward; the sums of GELU's gradient belong to another task.
    "two stages, zero-bubble, recompute": (plan(stage=2, microbatch=2, recompute="full", **schedule("zero-bubble")), [],
                                           {BIAS: 8, BIAS_ADDEND: 16, BIAS_GELU: 8, GRADIENT: 8, SUMS_A: 8}, 1e-5),
}


def split(program):
    """Writes each joined group as single instructions. Returns how many groups there were."""
    count = 0
    for number, steps in enumerate(program["steps"]["stages"]):
        entries = []
        for entry in steps:
            if "join" not in entry:
                entries.append(entry)
                continue
            count += 1
            more = {key: value for key, value in entry.items() if key != "join"}
            entries += [{"run": [op, op], **more} for op in entry["join"]]
        program["steps"]["stages"][number] = entries
    return count


@unittest.skipIf("KERF_CUDA_LIBRARIES" in os.environ and not os.environ["KERF_CUDA_LIBRARIES"], "needs the stand-ins, which count")
class Epilogues(KerfTest):
    def setUp(self):
        super().setUp()
        os.environ.update(KERF_CUDA_LIBRARIES=STANDINS, KERF_STANDIN_DEVICES="8", KERF_STANDIN_PRODUCTS=self.path("products"))
        for name in ("KERF_STANDIN_CUBLASLT", "KERF_CUBLASLT"):
            os.environ.pop(name, None)

    def compile(self, name, model, *more):
        self.succeed("compile", file_of(model), "-o", self.path(name), "--optimizer", "adamw", *more)
        with open(self.path(f"{name}/program.json")) as text:
            return json.load(text)

    def run_package(self, name, model, *more, device="cuda", **environment):
        """Returns the losses, the measured report, and the numbers of products by epilogue."""
        os.environ.update(environment)
        self.write("products", "{}")
        done = self.succeed("run", self.path(name), "--data", file_of(model, "batches.npz"), "--steps", STEPS, "--log", self.path("log"), "--device", device,
                            "--json", *more)
        for variable in environment:
            del os.environ[variable]
        return losses_of(self.path("log")), json.loads(done.stdout), json.loads(self.read("products").decode())

    def check(self, model, counts, tolerance, *more):
        """The joined package runs with these numbers of epilogues in a step, and its losses are close to those of the split one."""
        program = self.compile("joined", model, *more)
        losses, report, used = self.run_package("joined", model)
        sums = {PLAIN, ADDEND} - set(counts)  # products that add to sums over microbatches are not counted
        self.assertEqual({epilogue: count / STEPS for epilogue, count in used.items() if epilogue not in sums}, counts)
        measured = report["measured"]
        shutil.rmtree(self.path("apart"), ignore_errors=True)
        shutil.copytree(self.path("joined"), self.path("apart"))
        self.assertGreater(split(program), 0)
        with open(self.path("apart/program.json"), "w") as text:
            json.dump(program, text)
        apart, _, plain = self.run_package("apart", model)
        self.assertLessEqual(set(plain), {PLAIN, ADDEND}, "no epilogue without groups")
        self.close(losses, apart, tolerance, f"{model} {more}: joined and apart")
        return apart, measured

    def test_float32(self):
        apart, measured = self.check("gpt2", {BIAS: LAYERS, BIAS_ADDEND: 2 * LAYERS, KEPT_GELU: LAYERS, GRADIENT_SUMS: LAYERS, SUMS_A: 2 * LAYERS}, 1e-5,
                                     "--ranks", 1)
        # A library without epilogues runs the instructions one by one, in the same memory.
        again, report, used = self.run_package("joined", "gpt2", KERF_STANDIN_CUBLASLT="plain")
        self.assertEqual((again, set(used)), (apart, {PLAIN}))
        self.assertEqual(report["measured"]["arena_bytes"], measured["arena_bytes"])

    def test_additions(self):
        """In LLaMA's layers two products add the residual, and of the gradients, one adds the gate's to that of `up`, and two add up those of queries,
        keys and values. A wrong beta, or a result over the added tensor while it is still read, gives other losses."""
        for dtype, tolerance in (("f32", 1e-5), ("bf16", 5e-4)):
            with self.subTest(dtype):
                apart = self.check("llama", {ADDEND: 5 * LAYERS}, tolerance, "--ranks", 1, "--dtype", dtype)[0]
                self.close(apart, self.run_package("joined", "llama", device="cpu")[0], tolerance, f"{dtype}: on a GPU and on a processor")

    def test_a_processor_runs_one_by_one(self):
        program = self.compile("joined", "gpt2", "--ranks", 1)
        joined = self.run_package("joined", "gpt2", "--save", self.path("a.safetensors"), device="cpu")[0]
        split(program)
        with open(self.path("joined/program.json"), "w") as text:
            json.dump(program, text)
        self.assertEqual(joined, self.run_package("joined", "gpt2", "--save", self.path("b.safetensors"), device="cpu")[0])
        self.assertEqual(self.read("a.safetensors"), self.read("b.safetensors"))

    def test_plans(self):
        for name, (its, more, counts, tolerance) in PLANS.items() if "--all" in sys.argv else []:
            with self.subTest(name):
                self.check("gpt2", counts, tolerance, "--plan", self.write("plan.json", its), *more)


if __name__ == "__main__":
    main()
