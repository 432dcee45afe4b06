#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training on the device `cuda`, on stand-ins of NVIDIA's libraries (test/standins): the losses are PyTorch's, on one GPU and on several, and
each broken machine gets one message that says what to do. On a machine with a GPU: `KERF_CUDA_LIBRARIES= python3 test/e2e/test_cuda.py`."""
import itertools
import json
import os
import shutil
import subprocess
import sys
import unittest
from unittest import mock

from images import small_batches, small_net
from support import CLUSTERS, FOLDERS, KERF, SHARED_EXPORTS, KerfTest, file_of, golden_of, kerf, losses_of, main, optimizer_flags
from test_pipelines import ALL, PLANS, plan, schedule

STANDINS = os.environ.get("KERF_CUDA_LIBRARIES", os.path.join(os.path.dirname(os.path.dirname(KERF)), "standins"))
ASSEMBLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cuda", "assemble.py")
TOLERANCE = 2e-4  # relative, as on the CPU
SOME = ["microbatches, data 2", "sequence parallel", "zero 3", "offload, 1f1b, ring, zero 2", "3-D, zero-bubble, zero 2, sequence parallel"]


class Cuda(KerfTest):
    def setUp(self):
        super().setUp()
        os.environ.update(KERF_CUDA_LIBRARIES=STANDINS, KERF_STANDIN_DEVICES="8")
        for name in ("DRIVER", "MEMORY", "ECC", "BUSY", "CAPABILITY", "CUBLASLT", "CUDNN"):
            os.environ.pop(f"KERF_STANDIN_{name}", None)
        os.environ.pop("KERF_CUBLASLT", None)

    def train(self, model, *more, steps=2):
        golden = golden_of(model)
        step, run = optimizer_flags(golden, "adamw")
        self.succeed("train", file_of(model), "--data", file_of(model, "batches.npz"), "--steps", steps, "--device", "cuda", "--log",
                     self.path("log"), *step, *run, *more)
        self.close(losses_of(self.path("log")), golden["losses"]["adamw"]["float64"][:steps], TOLERANCE, f"{model} {more}")

    def test_one_gpu(self):
        models = [*FOLDERS, *SHARED_EXPORTS] if ALL else ["mlp", "gpt2"]
        for model in models:
            with self.subTest(model):
                self.train(model, "--ranks", 1)

    def test_several_gpus(self):
        for name in PLANS if ALL else SOME:
            with self.subTest(name):
                self.train("gpt2", "--plan", self.write("plan.json", PLANS[name]))

    @unittest.skipUnless(ALL, "40 plans: needs --all")
    def test_matrix_of_plans(self):
        """GPT-2 and LLaMA with data x model x stage x ZeRO. The table that it prints has the largest relative difference to PyTorch's losses."""
        print("| model | data | model | stage | zero | GPUs | largest difference |\n|---|---|---|---|---|---|---|")
        for model, stage, tensor, data in itertools.product(("gpt2", "llama"), (1, 2), (1, 2), (1, 2)):
            for zero in range(4) if data > 1 else (0,):
                sizes = {"stage": stage, "data": data, "model": tensor}
                with self.subTest(model, zero=zero, sizes=sizes):
                    more = {"optimizer_sharding": zero} if zero else {}
                    chosen = plan(**sizes, microbatch=2, **more, **(schedule("1f1b") if stage > 1 else {}))
                    self.train(model, "--plan", self.write("plan.json", chosen))
                    expected = golden_of(model)["losses"]["adamw"]["float64"]
                    largest = max(abs(a / b - 1) for a, b in zip(losses_of(self.path("log")), expected))
                    print(f"| {model} | {data} | {tensor} | {stage} | {zero} | {data * tensor * stage} | {largest:.1e} |", flush=True)

    def test_bf16(self):
        golden, losses = golden_of("gpt2"), {}
        step, run = optimizer_flags(golden, "adamw")
        for device in ("cpu", "cuda"):
            self.succeed("train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 2, "--device", device, "--dtype", "bf16",
                         "--ranks", 1, "--log", self.path("log"), *step, *run)
            losses[device] = losses_of(self.path("log"))
        self.close(losses["cuda"], losses["cpu"], 5e-4, "bf16: sums come in another order before they are rounded")

    @unittest.skipUnless("bert" in SHARED_EXPORTS, "needs the model bert of KERF_SHARED")
    def test_masks_in_bf16(self):
        """BERT's attention has a float32 mask of padding beside bf16 tensors. cuDNN computes it and its gradients in both layers."""
        train = ["train", file_of("bert"), "--data", file_of("bert", "batches.npz"), "--dtype", "bf16", "--ranks", 1, "--log", self.path("log"), "--lr", 1e-3]
        losses = {}
        for device in ("cpu", "cuda"):
            self.succeed(*train, "--steps", 2, "--device", device)
            losses[device] = losses_of(self.path("log"))
        self.close(losses["cuda"], losses["cpu"], 5e-4, "bf16 with masks")
        if STANDINS:
            os.environ["KERF_STANDIN_CUDNN"] = "4"
            self.refuse(1, ["lets execution 4 fail"], *train, "--steps", 1, "--device", "cuda")

    @unittest.skipUnless({"cnn", "resnet"} <= set(SHARED_EXPORTS), "needs the models cnn and resnet of KERF_SHARED")
    def test_convolutions_in_bf16(self):
        """Packages for GPUs have the channels of 16-bit convolutions last, and others have not. Both run on GPUs and on processors."""
        clusters = {"gpu": os.path.join(CLUSTERS, "dgx-h100.json"), "cpu": os.path.join(CLUSTERS, "cpu-4.json")}
        for model in ("cnn", "resnet"):
            losses = {}
            for cluster, file in clusters.items():
                package = self.path(f"{model}-{cluster}")
                self.succeed("compile", file_of(model), "--cluster", file, "--ranks", 1, "--dtype", "bf16", "-o", package)
                with open(os.path.join(package, "program.json"), encoding="utf-8") as program:
                    self.assertEqual("channels_last" in program.read(), cluster == "gpu", f"{model} for {cluster}")
                for device in ("cpu", "cuda"):
                    self.succeed("run", package, "--data", file_of(model, "batches.npz"), "--steps", 3, "--lr", 1e-2, "--device", device, "--log", self.path("log"))
                    losses[cluster, device] = losses_of(self.path("log"))
            for other in losses.values():
                self.close(other, losses["cpu", "cpu"], 1e-3, f"{model} in bf16: sums come in another order before they are rounded")

    def test_products(self):
        self.train("mlp", "--ranks", 1, "--deterministic")
        os.environ["KERF_CUBLASLT"] = "off"
        self.train("mlp", "--ranks", 1)

    def test_products_with_8_bit_factors(self):
        """cuBLASLt multiplies 8-bit factors from compute capability 8.9 on; other GPUs multiply 16-bit copies."""
        losses = {}
        for name, device, environment in (("cpu", "cpu", {}), ("8.0", "cuda", {"KERF_STANDIN_CAPABILITY": "8.0"}), ("9.0", "cuda", {"KERF_STANDIN_CAPABILITY": "9.0"})):
            with mock.patch.dict(os.environ, environment):
                self.succeed("train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 2, "--device", device, "--dtype", "f8",
                             "--ranks", 2, "--all-ranks", "--log", self.path("log"))
            losses[name] = losses_of(self.path("log"))
        self.close(losses["8.0"], losses["cpu"], 2e-3, "products of 16-bit copies on a GPU")
        self.close(losses["9.0"], losses["cpu"], 2e-3, "products of 8-bit factors on a GPU")

    def test_tf32(self):
        golden = golden_of("mlp")
        step, run = optimizer_flags(golden, "adamw")
        losses = {}
        for flags in ([], ["--tf32"]):
            self.succeed("train", file_of("mlp"), "--data", file_of("mlp", "batches.npz"), "--steps", 2, "--ranks", 1, "--device", "cuda",
                         "--log", self.path("log"), *flags, *step, *run)
            losses[len(flags)] = losses_of(self.path("log"))
        self.close(losses[1], losses[0], 2e-2, "TF32 has 10 bits of mantissa")
        self.assertNotEqual(losses[1], losses[0])
        self.refuse(1, ["the device 'cpu' cannot round to TF32", "leave --tf32 out"], "train", file_of("mlp"), "--data",
                    file_of("mlp", "batches.npz"), "--steps", 1, "--ranks", 1, "--tf32", *step, *run)

    def trained_fused_and_not(self, model, data, *more):
        """The trained weights, with the package's kernels and op by op, on a library that computes no kernel in the call of a product."""
        os.environ["KERF_STANDIN_CUBLASLT"] = "plain"
        for name, native in (("with", []), ("without", ["--no-native"])):
            self.succeed("train", model, "--data", data, "--steps", 2, "--device", "cuda", "--save", self.path(name), "--trace",
                         self.path("trace"), *more, *native)
            self.assertEqual('"op":"fused_' in self.read("trace").decode(), not native)
        return self.read("with"), self.read("without")

    def test_fused_kernels_change_no_bit(self):
        for model, more in (("gpt2", ["--ranks", 1]), ("gpt2", ["--ranks", 2, "--all-ranks", "--dtype", "bf16"]), ("llama", ["--ranks", 1, "--dtype", "f16"])):
            with self.subTest(model=model, more=more):
                a, b = self.trained_fused_and_not(file_of(model), file_of(model, "batches.npz"), "--optimizer", "adamw", *more)
                self.assertEqual(a, b)

    def test_fused_kernels_of_a_convolutional_network(self):
        self.write("model.onnx", small_net(training=True))
        small_batches(self.path("data.npz"))
        for more in (["--ranks", 1], ["--ranks", 1, "--dtype", "bf16"]):
            with self.subTest(more=more):
                a, b = self.trained_fused_and_not(self.path("model.onnx"), self.path("data.npz"), "--lr", 0.1, *more)
                self.assertEqual(a, b)

    def run_package(self, folder, device):
        done = kerf("run", folder, "--data", file_of("gpt2", "batches.npz"), "--steps", 2, "--device", device, "--save", self.path("weights"))
        return done.returncode, done.stderr

    def test_a_package_runs_fused_on_gpus_and_processors(self):
        folder, note = self.path("package"), "the machine code of the package is not used"
        os.environ["KERF_STANDIN_CUBLASLT"] = "plain"  # products that compute a bias and GELU too round differently
        self.succeed("compile", file_of("gpt2"), "-o", folder)
        ptx = os.path.join(folder, "kernels-sm_80.ptx")
        for device in ("cuda", "cpu"):
            status, said = self.run_package(folder, device)
            self.assertEqual(status, 0, said)
            self.assertNotIn(note, said)
        self.run_package(folder, "cuda")
        expected, text = self.read("weights"), self.read(ptx).decode()
        self.write(ptx, text.replace("add.rn.f32", "sub.rn.f32"))
        status, said = self.run_package(folder, "cuda")
        self.assertEqual(status, 1)
        self.assertIn("'kernels-sm_80.ptx' has the checksum", said)
        os.remove(ptx)
        status, said = self.run_package(folder, "cuda")
        self.assertEqual(status, 0, said)
        self.assertIn(note, said)
        self.assertIn("its file kernels-sm_80.ptx is missing", said)
        self.assertEqual(self.read("weights"), expected)

    @unittest.skipIf(not (shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")), "there is no ptxas")
    def test_the_assembler_takes_the_kernels_of_packages(self):
        self.write("net.onnx", small_net(training=True))
        for model in (file_of("gpt2"), file_of("llama"), self.path("net.onnx")):
            for dtype in ("f32", "bf16"):
                with self.subTest(model=model, dtype=dtype):
                    self.succeed("compile", model, "-o", self.path("package"), "--dtype", dtype)
                    done = subprocess.run([sys.executable, ASSEMBLE, self.path("package"), "sm_80", "sm_90"], capture_output=True, text=True, check=False)
                    self.assertEqual(done.stdout, "2 of 2 modules assembled for sm_80 and sm_90\n", "no errors and no spilled registers")

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
    def test_broken_cudnn(self):
        golden = golden_of("gpt2")
        step, run = optimizer_flags(golden, "adamw")
        train = ["train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 1, "--ranks", 1, "--device", "cuda", "--dtype", "bf16",
                 *step, *run]
        for value, status, texts in [
            ("old", 2, ["libcudnn_graph.so.9 has version 9.1, but 9.16 is the lowest", "pip install nvidia-cudnn-cu13", "KERF_CUDNN=off"]),
            ("2", 1, ["cuDNN 9.19.0 cannot run on GPU 0", "CUDNN_STATUS_EXECUTION_FAILED", "lets execution 2 fail", "KERF_CUDNN=off"]),
        ]:
            with self.subTest(value):
                os.environ["KERF_STANDIN_CUDNN"] = value
                self.refuse(status, texts, *train)
        os.environ["KERF_STANDIN_CUDNN"] = "none"  # cuDNN has no engine: Kerf's own kernels
        self.succeed(*train)
        os.makedirs(self.path("driver"))
        for library in ("libcuda.so.1", "libcublasLt.so.13", "libcudnn_graph.so.9"):
            os.symlink(os.path.join(STANDINS, library), os.path.join(self.path("driver"), library))
        os.environ["KERF_CUDA_LIBRARIES"] = self.path("driver")
        self.refuse(2, ["run-time compiler", "libnvrtc.so.13", "pip install nvidia-cuda-nvrtc", "KERF_CUDNN=off"], *train)
        os.remove(os.path.join(self.path("driver"), "libcudnn_graph.so.9"))
        self.refuse(2, ["cuDNN, which computes attention and convolutions on GPUs, cannot be loaded", "libcudnn_graph.so.9", "KERF_CUDNN=off"], *train)
        try:
            for value, status, texts in [("off", 0, []), ("on", 1, ["KERF_CUDNN is 'on'", "the only value that it takes is off"])]:
                os.environ["KERF_CUDNN"] = value
                self.succeed(*train) if status == 0 else self.refuse(status, texts, *train)
        finally:
            del os.environ["KERF_CUDNN"]

    def test_attention_reads_and_writes_parts_of_rows(self):
        """GPT-2's queries, keys and values lie side by side in rows, and so do their gradients. A processor copies both, a GPU neither."""
        golden = golden_of("gpt2")
        step, run = optimizer_flags(golden, "adamw")
        for dtype in ("f32", "bf16"):
            calls = {}
            for device in ("cpu", "cuda"):
                done = self.succeed("train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 1, "--ranks", 1, "--device", device,
                                    "--dtype", dtype, "--json", *step, *run)
                calls[device] = {kernel["op"]: kernel["calls"] for kernel in json.loads(done.stdout)["measured"]["kernels"]}
            layers = calls["cuda"]["attention_backward"]
            self.assertEqual(calls["cpu"]["concatenate"], layers)
            self.assertNotIn("concatenate", calls["cuda"])
            self.assertEqual(calls["cpu"]["slice"] - calls["cuda"].get("slice", 0), 3 * layers)

    @unittest.skipIf(not STANDINS, "needs the stand-ins")
    def test_deterministic_runs_take_only_plans_with_equal_bits(self):
        golden = golden_of("gpt2")
        step, run = optimizer_flags(golden, "adamw")
        train = ["train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 1, "--ranks", 1, "--device", "cuda", "--dtype", "bf16",
                 *step, *run]
        os.environ["KERF_STANDIN_CUDNN"] = "deterministic"  # engines and graphs whose sums change from run to run fail
        self.succeed(*train, "--deterministic")
        self.refuse(1, ["Kerf must not run engine"], *train)

    @unittest.skipIf(not STANDINS, "needs the stand-ins")
    def test_only_tested_gpus_take_gradients_of_attention_from_cudnn(self):
        golden = golden_of("gpt2")
        step, run = optimizer_flags(golden, "adamw")
        train = ["train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 1, "--ranks", 1, "--device", "cuda", "--dtype", "bf16",
                 *step, *run]
        os.environ["KERF_STANDIN_CUDNN"] = "3"  # the model has two layers: the third execution is that of a gradient, and fails
        self.refuse(1, ["lets execution 3 fail"], *train)
        os.environ["KERF_STANDIN_CAPABILITY"] = "10.0"
        self.succeed(*train)

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
    def test_broken_cublaslt(self):
        plain = "KERF_CUBLASLT=off"
        for value, status, texts in [
            ("old", 2, ["cuBLASLt at", "has version 11.4.1", "12.0.0 is the lowest", "pip install nvidia-cublas", plain]),
            ("none", 1, ["GPU 0 cannot find an algorithm for 1 product of", "CUBLAS_STATUS_NOT_SUPPORTED", plain]),
            ("3", 1, ["GPU 0 cannot enqueue 1 product of", "in f32", "CUBLAS_STATUS_EXECUTION_FAILED", plain]),
        ]:
            with self.subTest(value):
                os.environ["KERF_STANDIN_CUBLASLT"] = value
                self.refuse_train(status, texts)
        del os.environ["KERF_STANDIN_CUBLASLT"]
        os.environ["KERF_STANDIN_DRIVER"] = "12080"  # no library of CUDA 13 runs with it, and the stand-in is one
        self.refuse_train(2, ["cuBLASLt, which multiplies matrices, cannot be loaded", "libcublasLt.so.12", "nvidia-cublas-cu12", plain])
        del os.environ["KERF_STANDIN_DRIVER"]
        os.environ["KERF_CUBLASLT"] = "fast"
        self.refuse_train(1, ["KERF_CUBLASLT is 'fast'", "the only value that it takes is off"])
        del os.environ["KERF_CUBLASLT"]
        os.makedirs(self.path("some"))
        for library in ("libcuda.so.1", "libnccl.so.2"):
            os.symlink(os.path.join(STANDINS, library), os.path.join(self.path("some"), library))
        os.environ["KERF_CUDA_LIBRARIES"] = self.path("some")
        self.refuse_train(2, ["cuBLASLt, which multiplies matrices, cannot be loaded", "libcublasLt.so.13", "pip install nvidia-cublas", plain])

    @unittest.skipIf(not STANDINS, "needs the stand-ins")
    def test_missing_libraries_and_gpus(self):
        self.refuse_train(2, ["there is no GPU 8", "this machine has 8 (0 to 7)"], "cuda:8")
        self.refuse_train(1, ["'x' is given", "cuda:0"], "cuda:x")
        os.environ["KERF_CUDA_LIBRARIES"] = self.path("")
        self.refuse_train(2, ["the NVIDIA driver's library cannot be loaded", "libcuda.so.1", "install the driver"])

    @unittest.skipIf(not STANDINS, "needs the stand-ins")
    def test_libraries_of_python_packages_are_found(self):
        driver, packages = self.path("driver"), self.path("env/lib/python3.11/site-packages/nvidia/cu13/lib")
        for folder, library in ((driver, "libcuda.so.1"), (packages, "libcublasLt.so.13")):
            os.makedirs(folder)
            os.symlink(os.path.join(STANDINS, library), os.path.join(folder, library))
        with mock.patch.dict(os.environ, {"KERF_CUDA_LIBRARIES": driver}):
            self.refuse_train(2, ["cuBLASLt", "cannot be loaded"])
            os.environ["VIRTUAL_ENV"] = self.path("env")
            self.train("mlp", "--ranks", 1, steps=1)
            self.write("driver/libcublasLt.so.13", "")  # a file that is no library does not hide the package's
            self.train("mlp", "--ranks", 1, steps=1)


if __name__ == "__main__":
    main()
