#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the device `ascend` says where CANN or an NPU fails, on the stand-ins (test/standins/cann): each function that it calls fails once, and each
failure is one message with the function or operator, its code and CANN's text; nothing is left, and no rank waits for ever."""
import json
import os
import shutil
from unittest import mock

from support import KERF, KerfTest, file_of, kerf, main
from test_ascend import STANDINS
from test_pipelines import ALL, plan

CODE = 507899
# Functions whose failure is no failure of the run: without repeatable executors and captures, steps are enqueued call by call.
HARMLESS = {"aclSetAclOpExecutorRepeatable", "aclmdlRICaptureBegin", "aclmdlRICaptureEnd", "aclrtGetMemInfo", "aclrtStreamAbort"}
# Functions that are called again and again while a run ends: the failure may come when it is over.
MAY_COME_LATE = {"aclrtSetCurrentContext", "aclrtStreamQuery", "HcclGetCommAsyncError"}
# Calls that fail in the default test: of one NPU, and of two that exchange gradients.
OF_ONE = ["aclInit", "aclrtSetDevice", "aclrtMallocAlign32", "aclCreateTensor", "aclnnMatmulGetWorkspaceSize", "aclnnMatmul", "aclnnMatmul@run",
          "aclrtRecordEvent", "aclrtSynchronizeStream", "aclrtMemcpyAsync", "aclmdlRICaptureBegin", "aclmdlRIExecuteAsync", "aclSetAclOpExecutorRepeatable"]
OF_TWO = ["HcclCommInitRootInfo", "HcclAllReduce", "HcclAllReduce@run", "aclnnGeluV2@run"]


class AscendFailures(KerfTest):
    def setUp(self):
        super().setUp()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KERF_STANDIN")}
        patch = mock.patch.dict(os.environ, {**clean, "KERF_ASCEND_LIBRARIES": STANDINS, "KERF_STANDIN_ASCEND_REPORT": self.path("report.json")}, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def run_once(self, ranks):
        model, plan_of = ("mlp", ["--ranks", 1]) if ranks == 1 else ("gpt2", ["--plan", self.write("plan.json", plan(data=2))])
        done = kerf("train", file_of(model), "--data", file_of(model, "batches.npz"), "--steps", 4, "--device", "ascend", *plan_of, "--lr", 0.01, timeout=100)
        return done, json.loads(self.read("report.json"))

    def fail_each(self, ranks, some):
        done, report = self.run_once(ranks)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(set(some), set(report["calls"]))
        for name in sorted(report["calls"]) if ALL else some:
            count = report["calls"][name]
            for number in sorted({1, (count + 1) // 2, count}) if ALL else [(count + 1) // 2]:
                with self.subTest(name, number=number), mock.patch.dict(os.environ, KERF_STANDIN_ASCEND_FAIL=f"{name}:{number}:{CODE}"):
                    failed, left = self.run_once(ranks)
                    said = failed.stderr
                    # HCCL cannot end a communicator whose ranks are gone, and a thread that waits for them to join keeps its device.
                    kept = {"communicators", "devices"} if name.startswith("Hccl") and failed.returncode else {"communicators"} if failed.returncode else set()
                    leaks = {kind: number for kind, number in left["objects"].items() if number and kind not in kept}
                    self.assertEqual(leaks, {}, said)
                    self.assertNotIn("Sanitizer", said)
                    if name in HARMLESS or failed.returncode == 0 and name in MAY_COME_LATE:
                        self.assertEqual(failed.returncode, 0, said)
                        continue
                    self.assertIn(failed.returncode, (1, 2), said)
                    self.assertEqual(said.count("error: "), 1, said)
                    self.assertIn("fails as it was asked to", said, "CANN's own text")
                    if not name.startswith("aclCreate"): # these give an object or none, and no code
                        self.assertIn(str(CODE), said)

    def test_each_call_of_one_npu(self):
        self.fail_each(1, OF_ONE)

    def test_each_call_of_two_npus(self):
        self.fail_each(2, OF_TWO)

    def refuse_train(self, texts, **environment):
        with mock.patch.dict(os.environ, environment):
            return self.refuse(2, texts, "train", file_of("mlp"), "--data", file_of("mlp", "batches.npz"), "--steps", 1, "--device", "ascend", "--ranks", 1)

    def test_machines_that_lack_something(self):
        self.refuse_train(["AscendCL", "cannot be loaded", "set_env.sh", "KERF_ASCEND_LIBRARIES"], KERF_ASCEND_LIBRARIES="/nowhere")
        self.refuse_train(["there is no NPU 0", "this machine has none"], KERF_STANDIN_DEVICES="0")
        self.refuse_train(["allocate", "bytes are free", "207001"], KERF_STANDIN_ASCEND_MEMORY="20000")
        part = self.path("part")
        os.mkdir(part)
        for name in os.listdir(STANDINS):
            if name != "libopapi_nn.so":
                shutil.copy(os.path.join(STANDINS, name), part)
        self.refuse_train(["CANN 1.15.0 has no operator aclnn", "libopapi_math.so", "train on the device cpu"], KERF_ASCEND_LIBRARIES=part)

    def test_the_library_of_older_releases(self):
        """It has all operators but attention, and is loaded where none of the newer ones is there."""
        with mock.patch.dict(os.environ, KERF_ASCEND_LIBRARIES=STANDINS + "_old"):
            self.succeed("train", file_of("mlp"), "--data", file_of("mlp", "batches.npz"), "--steps", 1, "--device", "ascend", "--ranks", 1)
            self.refuse(2, ["no operator aclnnFlashAttentionScore", "libopapi.so"], "train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"),
                        "--steps", 1, "--device", "ascend", "--ranks", 1)

    def test_types_that_cann_does_not_compute(self):
        for dtype, words in (("f64", ["f64", "aclnn", "train on the device cpu"]), ("f8", ["quantize", "train on the device cpu"])):
            self.refuse(1, words, "train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 1, "--device", "ascend", "--ranks", 1,
                        "--dtype", dtype)


if __name__ == "__main__":
    main()
