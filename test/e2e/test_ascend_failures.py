#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the device `ascend` says where CANN or an NPU fails, on the stand-ins (test/standins/cann): each failure is one message with the function or
operator, its code and CANN's text; nothing is left, and no rank waits for ever.

By default some functions fail once, with one code, and some places of a run on two NPUs with some codes. `--all`: every place of the program that calls a function of CANN fails once with each code of its
library, and so does the work of every operator on the stream; the last line says how many failures that were. KERF_RUN names the program that runs
the compiled plans (default kerf-run beside kerf), such as one with sanitizers; the stand-ins are those of its build folder."""
import concurrent.futures
import json
import math
import os
import re
import shutil
import subprocess
import sys
import unittest
from unittest import mock

from support import CLUSTERS, KERF, KerfTest, file_of, main
from test_dropout import transformer
from test_pipelines import ALL, plan, schedule

RUN = os.environ.get("KERF_RUN", os.path.join(os.path.dirname(KERF), "kerf-run"))
STANDINS = os.path.join(os.path.dirname(os.path.dirname(KERF)), "standins", "ascend")
STANDINS_OF_RUN = os.path.join(os.path.dirname(os.path.dirname(RUN)), "standins", "ascend")
CODE = 507899
# Codes of each library, and of work that fails on a stream: wrong arguments, missing resources, failures of the runtime, of the NPU and of its memory
# and links (torch-npu 2.14.0: acl/error_codes/rt_error_codes.h, hccl/hccl_types.h; hicann/docs: "aclnn return codes").
ACL_CODES = [100000, 107000, 107002, 107003, 107022, 107030, 207000, 207001, 207018, 507000, 507015, 507899]
OPERATOR_CODES = [161001, 161002, 361001, 561000, 561002, 561003, 561101, 561103]
HCCL_CODES = [*range(1, 25)]
WORK_CODES = [507014, 507015, 507018, 507035, 507054, 507057]
# Functions whose failure is no failure of the run: without repeatable executors and captures, steps are enqueued call by call; names are for
# messages; and what is released is not needed any more.
HARMLESS = re.compile(r"aclSetAclOpExecutorRepeatable|aclmdlRICapture(Begin|End)|aclrtGet(MemInfo|Version|SocName)|aclsysGetCANNVersion|aclrtStreamAbort|HcclCommDestroy|"
                      r"acl(Destroy\w+|rtDestroy\w+|rtFree|rtFreeHost|rtResetDevice|mdlRIDestroy)")
# Functions that are called again and again while a run ends: the failure may come when it is over.
MAY_COME_LATE = {"aclrtSetCurrentContext", "aclrtStreamQuery", "HcclGetCommAsyncError"}
SAMPLED = 20  # about as many failures of test_each_call run by default
# Calls that fail in the default test: of one NPU, and of two that exchange gradients.
OF_ONE = ["aclInit", "aclrtSetDevice", "aclrtMallocAlign32", "aclCreateTensor", "aclnnMatmulGetWorkspaceSize", "aclnnMatmul", "aclnnMatmul@run",
          "aclrtRecordEvent", "aclrtSynchronizeStream", "aclrtMemcpyAsync", "aclmdlRICaptureBegin", "aclmdlRIExecuteAsync", "aclSetAclOpExecutorRepeatable",
          "aclrtFree", "aclDestroyTensor"]
OF_TWO = ["HcclGetRootInfo", "aclnnGeluV2GetWorkspaceSize", "HcclCommInitRootInfo", "HcclAllReduce", "HcclAllReduce@run", "aclnnGeluV2@run",
          "aclrtEventElapsedTime"]
# name -> (model, plan, options of the run, steps). A place fails in the first of them that reaches it.
SCENARIOS = {
    "one NPU": ("mlp", plan(data=1), [], 4),
    "two NPUs": ("mlp", plan(data=2), ["--deterministic"], 4),
    "attention": ("gpt2", plan(data=1), [], 1),
    "gradients": ("gpt2", plan(data=2), [], 2),
    "ZeRO 3": ("gpt2", plan(data=2, optimizer_sharding=3, microbatch=2), [], 2),
    "stages": ("gpt2", plan(stage=2, microbatch=2, **schedule("1f1b")), [], 2),
    "LLaMA": ("llama", plan(model=2), [], 1),
    "CNN": ("cnn", plan(data=1), [], 1),
    "ResNet": ("resnet", plan(data=1), [], 1),
    "Mixtral": ("mixtral", plan(data=1), [], 1),
    "dropout": ("dropout", plan(data=1), [], 1),
}


def codes_of(site):
    return WORK_CODES if "@run" in site else HCCL_CODES if site.startswith("Hccl") else OPERATOR_CODES if site.startswith("aclnn") else ACL_CODES


class AscendFailures(KerfTest):
    def setUp(self):
        super().setUp()
        self.clean = {name: value for name, value in os.environ.items() if not name.startswith("KERF_STANDIN")}
        self.suppressions = self.write("suppressions", "leak:libhccl.so\n")  # where KERF_RUN has sanitizers: communicators whose other ranks are gone
        patch = mock.patch.dict(os.environ, {**self.clean, "KERF_ASCEND_LIBRARIES": STANDINS}, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def compile(self, name):
        """Compiles a scenario; returns the arguments of its runs."""
        model, chosen, options, steps = SCENARIOS[name]
        if model == "dropout":
            made, loss = transformer()
            made.write(self, loss)
            file, data = self.path("model.onnx"), self.path("data.npz")
        else:
            file, data = file_of(model), file_of(model, "batches.npz")
        self.succeed("compile", file, "--plan", self.write("plan.json", chosen), "-o", self.path(name))
        return [self.path(name), "--data", data, "--steps", steps, "--device", "ascend", "--lr", 0.01, *options]

    def run_once(self, args, fail=None, number=0):
        report = self.path(f"report-{number}.json")
        environment = {**self.clean, "KERF_ASCEND_LIBRARIES": STANDINS_OF_RUN, "KERF_STANDIN_ASCEND_REPORT": report,
                       "LSAN_OPTIONS": f"suppressions={self.suppressions}:print_suppressions=0",
                       **({"KERF_STANDIN_ASCEND_FAIL": fail} if fail else {})}
        command = [RUN, *map(str, args)]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, env=environment)
        except subprocess.TimeoutExpired as late:
            done = subprocess.CompletedProcess(command, "none after 300 s", "", (late.stderr or b"").decode())
        try:
            with open(report, encoding="utf-8") as file:
                counted = json.load(file)
            os.remove(report)
        except OSError:
            counted = None  # the process did not end by itself
        return done, counted

    def fail_once(self, args, site, call, code, isLast=False, number=0):
        """Makes one call fail; returns what is wrong with what happens then, an empty list where nothing is. The last call of a place may be part of a
        captured step, whose failure makes the steps run call by call, or come when all losses are known."""
        failed, left = self.run_once(args, f"{site}:{call}:{code}", number)
        name, said, wrong = site.split("+")[0], failed.stderr, []
        if left is None:
            return [f"{site}, call {call}, code {code}: the process did not end by itself: status {failed.returncode}\n{said[-1500:]}"]
        # HCCL cannot end a communicator whose ranks are gone, and a thread that waits for them to join keeps its device.
        kept = {"communicators", "devices"} if failed.returncode and "HcclCommInitRootInfo" in left["calls"] else set()
        leaks = {kind: number for kind, number in left["objects"].items() if number and kind not in kept}
        if leaks:
            wrong.append(f"left: {leaks}")
        if re.search("Sanitizer|runtime error:", said):
            wrong.append("a sanitizer found an error")
        if HARMLESS.fullmatch(name) or failed.returncode == 0 and (isLast or name in MAY_COME_LATE):
            if failed.returncode != 0:
                wrong.append(f"status {failed.returncode} in place of 0")
        else:
            if failed.returncode not in (1, 2):
                wrong.append(f"status {failed.returncode} in place of 1 or 2")
            if said.count("error: ") != 1:
                wrong.append(f"{said.count('error: ')} errors")
            if "fails as it was asked to" not in said:
                wrong.append("CANN's own text is missing")
            if str(code) not in said and not name.startswith("aclCreate"):  # these give an object or none, and no code
                wrong.append("the code is missing")
        return [f"{site}, call {call}, code {code}: {', '.join(wrong)}\n{said[-1500:]}"] if wrong else []

    def fail_some(self, scenario, functions):
        args = self.compile(scenario)
        done, report = self.run_once(args)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(set(functions), set(report["calls"]))
        for name in functions:
            with self.subTest(name):
                self.assertEqual(self.fail_once(args, name, (report["calls"][name] + 1) // 2, codes_of(name)[0] if name.startswith("Hccl") else CODE), [])

    def test_some_calls_of_one_npu(self):
        self.fail_some("one NPU", OF_ONE)

    def test_some_calls_of_two_npus(self):
        self.fail_some("gradients", OF_TWO)

    def test_each_call(self):
        seen, count = set(), 0
        for scenario in SCENARIOS if ALL else ["two NPUs"]:
            args = self.compile(scenario)
            done, report = self.run_once(args)
            self.assertEqual(done.returncode, 0, done.stderr)
            cases = [(site, 1, code, False) for site in sorted(set(report["sites"]) - seen) for code in codes_of(site)]
            # Besides, one code at the last call of each place, when other things are alive.
            cases += [(site, report["sites"][site], CODE, True) for site in sorted(set(report["sites"]) - seen) if not site.startswith("Hccl")]
            if math.prod(SCENARIOS[scenario][1]["mesh"].values()) > 1:  # whatever fails on one rank, the others end too
                cases += [(site, 1, codes_of(site)[0], False) for site in sorted(seen & set(report["sites"]))]
            seen |= set(report["sites"])
            cases = cases if ALL else cases[:: max(len(cases) // SAMPLED, 1)]
            count += len(cases)
            with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("KERF_TEST_JOBS", "2"))) as pool:
                for wrong in pool.map(lambda case: self.fail_once(args, *case[1], number=case[0]), enumerate(cases)):
                    if wrong:
                        print(wrong[0], file=sys.stderr, flush=True)
                        with self.subTest(scenario):
                            self.fail(wrong[0])
            print(f"{scenario}: {len(cases)} failures", file=sys.stderr, flush=True)
        print(f"{count} failures at {len(seen)} places", file=sys.stderr)

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
        missing = ["CANN 8.2.RC1 has no operator aclnn", "looked in libopapi_math.so, libopapi_transformer.so;", "libopapi_nn.so cannot be opened", "train on the device cpu"]
        self.refuse_train(missing, KERF_ASCEND_LIBRARIES=part)
        self.refuse_train(["CANN with AscendCL 1.15.0 has no operator aclnn"], KERF_ASCEND_LIBRARIES=part,
                          KERF_STANDIN_ASCEND_FAIL="aclsysGetCANNVersion:1:100000")
        with mock.patch.dict(os.environ, KERF_ASCEND_LIBRARIES=part):  # the ranks of both stages fail while they wait for each other's communicators
            self.refuse(2, missing, "train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 1, "--device", "ascend", "--plan",
                        self.write("stages.json", SCENARIOS["stages"][1]), timeout=60)

    def test_what_no_npu_computes_is_refused_when_it_is_compiled(self):
        """The model's op and what CANN lacks are named where neither an NPU nor CANN is there, for a cluster file that says NPUs had these types."""
        with open(os.path.join(CLUSTERS, "ascend-910b.json"), encoding="utf-8") as file:
            cluster = json.load(file)
        cluster["device"]["peak_flops"].update(f8=6e14, f64=1e12)
        path = self.write("cluster.json", cluster)
        with mock.patch.dict(os.environ, KERF_ASCEND_LIBRARIES="/nowhere"):
            for dtype, words in (("f8", ["h.0.attn.c_attn", "CANN has no operator for 'quantize'"]), ("f64", ["h.0.ln_1", "f64", "aclnnLayerNorm"])):
                self.refuse(1, [*words, "train on the device cpu"], "compile", file_of("gpt2"), "--cluster", path, "--ranks", 1, "--dtype", dtype, "-o",
                            self.path("package"))
            self.refuse(1, ["Ascend 910A", "bf16", "--dtype f16"], "compile", file_of("gpt2"), "--cluster", os.path.join(CLUSTERS, "ascend-910a.json"),
                        "--ranks", 1, "--dtype", "bf16", "-o", self.path("package"))

    def test_types_that_cann_does_not_compute(self):
        for dtype, words in (("f64", ["f64", "aclnn", "train on the device cpu"]), ("f8", ["quantize", "train on the device cpu"])):
            self.refuse(1, words, "train", file_of("gpt2"), "--data", file_of("gpt2", "batches.npz"), "--steps", 1, "--device", "ascend", "--ranks", 1,
                        "--dtype", dtype)


if __name__ == "__main__":
    main()
