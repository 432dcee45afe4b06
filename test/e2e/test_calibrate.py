#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kerf calibrate finds prices that were changed on purpose, and says what it does not know."""
import csv
import json
import os
import unittest

from support import ROOT, KerfTest, main

CLUSTER = os.path.join(ROOT, "clusters", "dgx-a100.json")
# Runs of a small GPT on 8 GPUs: of one rank's kernels, of tensor and of data parallelism.
RUNS = [{"id": name, "arch": "gpt", "layers": 8, "hidden": 2048, "heads": 16, "seq": 1024, "vocab": 32000, "gpus": 8, "tp": tp, "pp": pp, "dp": 8 // tp // pp,
         "mbs": micro, "gbs": 64, "zero": 0, "recompute": "none", "dtype": "bf16"}
        for name, tp, pp, micro in (("data", 1, 1, 8), ("tensor", 8, 1, 8), ("half", 2, 1, 4), ("pipeline", 1, 8, 4), ("mixed", 4, 2, 2))]


class Calibrate(KerfTest):
    def table(self, name, rows):
        path = self.path(name)
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
            writer.writeheader()
            writer.writerows(rows)
        return path

    def calibrate(self, rows, *more, cluster=CLUSTER):
        done = self.succeed("calibrate", cluster, "--for", "megatron", "--runs", self.table("runs.csv", rows), "--json", *more)
        return json.loads(done.stdout)

    def predicted(self, rows, cluster):
        """Returns the seconds that runs are predicted to take on a cluster."""
        told = self.calibrate([{**RUNS[0], "iter_time_s": 1}, *rows], cluster=cluster)
        return [run["before"] for run in told["runs"][1:]]

    def test_runs_recompute_what_their_column_says(self):
        rows = [{**RUNS[0], "iter_time_s": 1}] + [{**RUNS[0], "id": mode, "recompute": mode}
                                                    for mode in ("none", "pointwise", "selective", "except-attention", "full")]
        done = self.succeed("calibrate", CLUSTER, "--for", "kerf", "--runs", self.table("runs.csv", rows), "--json")
        none, pointwise, selective, kept, full = (run["before"] for run in json.loads(done.stdout)["runs"][1:])
        self.assertNotEqual(pointwise, selective)
        self.assertLess(none, min(pointwise, selective))
        self.assertLess(max(pointwise, selective), kept)
        self.assertLess(kept, full)

    def slower(self, **factors):
        """Writes a cluster whose links inside nodes are slower."""
        with open(CLUSTER) as file:
            cluster = json.load(file)
        for key in ("bandwidth", "switch_bandwidth"):
            if key in cluster["levels"][0]:
                cluster["levels"][0][key] /= factors["inside"]
        path = self.path("slower.json")
        with open(path, "w") as file:
            json.dump(cluster, file)
        return path

    def test_measurements_move_the_prices_towards_the_truth(self):
        runs = [*RUNS, {**RUNS[1], "id": "small", "mbs": 4}]  # one run alone with slow links would not be believed
        truth = self.predicted(runs, self.slower(inside=1.5))
        before = self.predicted(runs, CLUSTER)
        told = self.calibrate([{**run, "iter_time_s": seconds} for run, seconds in zip(runs, truth)], "-o", self.path("new.json"))
        prices = told["prices"]
        self.assertGreater(prices["links_inside"]["factor"], 1.15, prices)
        self.assertLess(abs(prices["products"]["factor"] - 1), 0.05, prices)
        self.assertLess(prices["links_inside"]["spread_after"], prices["links_inside"]["spread_before"])
        for run, old, seconds in zip(told["runs"], before, truth):
            self.assertLessEqual(abs(run["after"] / seconds - 1), max(0.03, abs(old / seconds - 1)), run)
            self.assertLessEqual(run["interval_after"][0], seconds)
            self.assertGreaterEqual(run["interval_after"][1], seconds)
            width = [high / low for low, high in (run["interval_before"], run["interval_after"])]
            self.assertLess(width[1], width[0], run)
        # The written cluster predicts what the report says.
        for run, seconds in zip(told["runs"], self.predicted(runs, self.path("new.json"))):
            self.assertAlmostEqual(seconds / run["after"], 1, places=6)

    def test_no_kernel_runs_above_the_peak_of_its_device(self):
        with open(CLUSTER) as file:
            cluster = json.load(file)
        cluster["device"]["memory_bandwidth"] *= 3  # of a cluster file with a wrong bandwidth, say
        with open(self.path("fast.json"), "w") as file:
            json.dump(cluster, file)
        runs = [*RUNS, {**RUNS[0], "id": "narrow", "hidden": 1024}, {**RUNS[2], "id": "short", "seq": 512}]
        truth = self.predicted(runs, self.path("fast.json"))
        told = self.calibrate([{**run, "iter_time_s": seconds} for run, seconds in zip(runs, truth)])
        self.assertGreater(told["leave_one_out"]["scale"], 0, told)
        self.assertGreaterEqual(told["prices"]["memory"]["factor"], 0.8 - 1e-6, "kernels that are bound by memory reach 0.8 of the peak before")
        for run, seconds in zip(told["runs"], truth):
            self.assertLessEqual(abs(run["after"] / seconds - 1), max(0.03, abs(run["before"] / seconds - 1)), run)

    def test_the_next_run_is_one_that_was_not_measured(self):
        seconds = self.predicted(RUNS[:1], CLUSTER)
        told = self.calibrate([{**RUNS[0], "iter_time_s": seconds[0]}, *RUNS[1:]], "--next", self.path("next.json"))
        self.assertIn(told["next"]["run"], [run["id"] for run in RUNS[1:]])
        self.assertNotEqual(told["next"]["run"], "data", "it is measured already")
        self.assertLess(told["next"]["spread_with_next"], told["next"]["spread_now"])
        with open(self.path("next.json")) as file:
            plan = json.load(file)
        run = next(run for run in RUNS if run["id"] == told["next"]["run"])
        self.assertEqual(plan["mesh"]["model"], run["tp"])
        # Without an unmeasured run, a variant of the measured one is proposed.
        self.assertIn("data with ", self.calibrate([{**RUNS[0], "iter_time_s": seconds[0]}])["next"]["run"])

    def nccl(self, name, scale, head=""):
        """Writes an output of nccl-tests whose all-reduces over 8 ranks take `scale` times as long as Kerf predicts for 300 GB/s."""
        path = self.path(name)
        with open(path, "w") as file:
            file.write(head)
            for rank in range(8):
                file.write(f"#  Rank {rank:2} Group  0 Pid   4242 on    node0 device {rank:2} [0x07] NVIDIA A100-SXM4-80GB\n")
            file.write("#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n")
            for size in (2**n for n in range(24, 31)):
                micro = scale * size * 2 * 7 / 8 / 230e9 * 1e6
                file.write(f"{size:13} {size // 4:13}     float     sum      -1 {micro:9.1f}  {size / micro / 1e3:6.2f}  {size / micro / 1e3 * 1.75:6.2f}      0 "
                           f"{micro:9.1f}  {size / micro / 1e3:6.2f}  {size / micro / 1e3 * 1.75:6.2f}      0\n")
            file.write("# Out of bounds values : 0 OK\n")
        return path

    def test_collectives_move_the_price_of_their_links(self):
        def price(path):
            return json.loads(self.succeed("calibrate", CLUSTER, "--nccl", path, "--json").stdout)["prices"]
        slow, fast = (price(self.nccl(f"all_reduce_perf-{scale}.txt", scale)) for scale in (1.3, 1))
        self.assertGreater(slow["links_inside"]["factor"], 1.1 * fast["links_inside"]["factor"])
        for prices in (slow, fast):
            self.assertAlmostEqual(prices["links_between"]["factor"], 1, places=1)
            self.assertAlmostEqual(prices["products"]["factor"], 1, places=1)
            self.assertLess(prices["links_inside"]["spread_after"], 0.5 * prices["links_inside"]["spread_before"])
        self.refuse(1, ["neither the text nor the name of the file says which collective"], "calibrate", CLUSTER, "--nccl", self.nccl("output.txt", 1))
        told = price(self.nccl("output.txt", 1, head="# Collective test starting: all_reduce_perf\n"))
        self.assertEqual(told, fast)
        with open(self.path("all_gather_perf.txt"), "w") as file:
            file.write("no table\n")
        self.refuse(1, ["has 0 lines of ranks"], "calibrate", CLUSTER, "--nccl", self.path("all_gather_perf.txt"))

    # Names of kernels as PyTorch's profiler and Nsight Systems print them, with their seconds in one step.
    def kernels(self, products):
        return [("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", 0.7 * products), ("sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", 0.3 * products),
                ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64>>(Flash_fwd_params)", 0.004),
                ("void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<>(Flash_bwd_params)", 0.01),
                ("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor, at::detail::Array>(int)", 0.02),
                ("triton_red_fused__to_copy_mm_native_layer_norm_3", 0.01), ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 5.0)]

    def trace(self, name, products, steps=2, **more):
        """Writes a trace of PyTorch's profiler."""
        events, at = [], 0.0
        for step in range(steps):
            events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step + 3}", "pid": 1, "tid": 1, "ts": at, "dur": 1e5})
            events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at, "dur": 9e9, "args": {"dur": 1, "cat": "kernel"}})
            events.append({"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7, "ts": at, "dur": 40})
            for kernel, seconds in self.kernels(products):
                events.append({"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 7, "ts": at, "dur": seconds * 1e6, "args": {"stream": 7}})
                at += seconds * 1e6
        return self.write(name, {"schemaVersion": 1, "deviceProperties": [{"name": "A100"}], "traceEvents": events, "traceName": "t", **more})

    def summary(self, name, products, steps=4):
        """Writes the table that nsys stats --report cuda_gpu_kern_sum --format csv prints."""
        lines = ["Processing [report1.sqlite] with [cuda_gpu_kern_sum.py]... ", "",
                 "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"]
        for kernel, seconds in self.kernels(products):
            lines.append(f'10.0,{round(seconds * steps * 1e9)},{steps},1.0,1.0,1,1,0.0,"{kernel}"')
        return self.write(name, "\n".join(lines) + "\n")

    def profiled(self, path, **columns):
        return self.calibrate([{**RUNS[0], "profile": os.path.basename(path), **columns}])["prices"]

    def test_profiles_move_the_prices_of_their_kernels(self):
        usual, slow = (self.profiled(self.trace(f"{seconds}.json", seconds)) for seconds in (0.1, 0.13))
        self.assertGreater(slow["products"]["factor"] / usual["products"]["factor"], 1.1)
        for price in ("attention", "memory"):
            self.assertAlmostEqual(slow[price]["factor"] / usual[price]["factor"], 1, places=1)
            self.assertLess(usual[price]["spread_after"], 0.5 * usual[price]["spread_before"])
        for price in ("links_inside", "links_between", "host"):  # NCCL's kernels wait for other ranks and say nothing
            self.assertAlmostEqual(usual[price]["factor"], 1, places=6)
        table = self.profiled(self.summary("kernels.csv", 0.1), profile_steps=4)
        for price, told in usual.items():
            self.assertAlmostEqual(table[price]["factor"], told["factor"], places=6)
        # The number of steps in the runs file counts, and a time of the step beside the profile counts too.
        self.assertGreater(usual["products"]["factor"], 1.2 * self.profiled(self.path("0.1.json"), profile_steps=4)["products"]["factor"])
        seconds = 2 * self.predicted(RUNS[:1], CLUSTER)[0]
        self.assertGreater(self.profiled(self.path("0.1.json"), iter_time_s=seconds)["all"]["factor"], usual["all"]["factor"])

    def test_files_that_are_no_profile(self):
        unfused = [{**RUNS[0], "attention": "unfused", "profile": os.path.basename(self.trace("steps.json", 0.1))}]
        self.refuse(1, ["of attention a step", "give the column 'attention'"], "calibrate",
                    CLUSTER, "--for", "megatron", "--runs", self.table("runs.csv", unfused))
        cases = [("zipped.json.gz", b"\x1f\x8b\x08 more", {}, "compressed by gzip"),
                 ("report.sqlite", "SQLite format 3\0", {}, "nsys stats --report cuda_gpu_kern_sum --format csv"),
                 ("cut.json", '{"traceEvents": [{"ph": "X", "cat": "kernel", "dur": 3', {}, "it is no JSON after byte"),
                 ("other.json", {"kerf": 1}, {}, "without a list 'traceEvents'"),
                 ("cpu.json", {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "dur": 3}]}, {}, "none of its 1 events is a kernel"),
                 ("negative.json", {"traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", "dur": -3}]}, {}, "event 1 ('gemm') has no duration"),
                 ("noduration.json", [{"ph": "X", "cat": "kernel", "name": "gemm", "args": {"dur": 3}}], {}, "event 1 ('gemm') has no duration"),
                 ("nosteps.json", {"traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", "dur": 3}]}, {}, "give their number in the column 'profile_steps'"),
                 ("table.csv", "a,b\n1,2\n", {}, "neither a trace of PyTorch's profiler"),
                 ("short.csv", "Total Time (ns),Name\n7\n", {}, "record 2 has 1 cells, and the heading 2"),
                 ("word.csv", "Total Time (ns),Name\nmuch,gemm\n", {}, "the total time 'much'"),
                 ("none.csv", "Total Time (ns),Name\n", {}, "its table has no kernel"),
                 ("stage.csv", "Total Time (ns),Name\n5,gemm\n", {"profile_steps": 1, "profile_stage": 1}, "profile_stage is 1, but the plan has 1 pipeline stages"),
                 ("steps.csv", "Total Time (ns),Name\n5,gemm\n", {"profile_steps": "two"}, "profile_steps is 'two'")]
        for name, content, columns, message in cases:
            with self.subTest(name=name):
                self.write(name, content)
                self.refuse(1, [message], "calibrate", CLUSTER, "--runs", self.table("runs.csv", [{**RUNS[0], "profile": name, **columns}]))
        self.refuse(1, ["missing.json"], "calibrate", CLUSTER, "--runs", self.table("runs.csv", [{**RUNS[0], "profile": "missing.json"}]))

    def products(self, name, tflops, head="m,n,k,dtype,tflops", row="{m},{n},{k},bf16,{tflops}"):
        lines = [row.format(m=m, n=n, k=k, tflops=tflops, ms=2e-9 * m * n * k / tflops) for m, n, k in ((4096, 4096, 4096), (8192, 4096, 8192), (2048, 8192, 2048))]
        return self.write(name, "\n".join([head, *lines]) + "\n")

    def test_products_move_their_price(self):
        def prices(path):
            return json.loads(self.succeed("calibrate", CLUSTER, "--products", path, "--json").stdout)["prices"]
        fast, slow = (prices(self.products(f"{rate}.csv", rate)) for rate in (250, 200))
        self.assertGreater(slow["products"]["factor"], 1.1 * fast["products"]["factor"])
        self.assertLess(fast["products"]["spread_after"], 0.8 * fast["products"]["spread_before"])
        for price in ("attention", "host", "links_inside"):
            self.assertAlmostEqual(slow[price]["factor"] / fast[price]["factor"], 1, places=1)
        # cutlass_profiler lists several kernels for a product; a library picks the fastest.
        several = prices(self.products("cutlass.csv", 250, "Operation,m,n,k,A,Runtime", "k1,{m},{n},{k},bf16:column,{ms}\nk2,{m},{n},{k},bf16:column,9000"))
        self.assertAlmostEqual(several["products"]["factor"], fast["products"]["factor"], places=6)
        for content, message in (("m,n,time\n1,2,3\n", "name the columns m, n, k and one of seconds"), ("m,n,k,ms\n", "it has 0 products"),
                                 ("m,n,k,ms\n8,8,0,1\n", "row 1: k is '0'"), ("m,n,k,ms\n8,8,8e12,1\n", "at most 1000000000"),
                                 ("m,n,k,ms\n8,8,8\n", "row 1: it has 3 cells"), ("m,n,k,ms,dtype\n8,8,8,1,int4\n", "dtype is 'int4'"),
                                 ("m,n,k,ms\n8,8,8,nan\n", "ms is 'nan'"), ("", "name the columns")):
            with self.subTest(message=message):
                self.refuse(1, [message], "calibrate", CLUSTER, "--products", self.write("wrong.csv", content))

    def test_steps_that_agree_with_nothing_change_nothing(self):
        seconds = self.predicted(RUNS[:3], CLUSTER)
        noisy = [{**RUNS[index], "id": f"{index} {factor}", "iter_time_s": seconds[index] * factor} for index in (0, 2) for factor in (1.1, 0.9)]
        told = self.calibrate(noisy, "-o", self.path("same.json"))
        self.assertEqual(told["leave_one_out"]["scale"], 0, told)
        for run in told["runs"]:
            self.assertEqual(run["before"], run["after"])
            for old, new in zip(run["interval_before"], run["interval_after"]):
                self.assertAlmostEqual(new / old, 1, places=9)
        self.assertEqual(self.predicted(RUNS[:3], self.path("same.json")), seconds)

    def test_a_system_that_is_off_as_a_whole_moves_further(self):
        seconds = self.predicted(RUNS, CLUSTER)
        told = self.calibrate([{**run, "iter_time_s": 1.8 * one} for run, one in zip(RUNS[:4], seconds)] + RUNS[4:])
        evidence = told["leave_one_out"]
        self.assertGreater(evidence["scale"], 1, evidence)
        self.assertLess(evidence["after"], 0.3 * evidence["before"])
        self.assertLess(abs(told["runs"][4]["after"] / (1.8 * seconds[4]) - 1), 0.1)

    def test_errors(self):
        cases = [([{**RUNS[0]}], "no run has a measured time"),
                 ([{**RUNS[0], "iter_time_s": "fast"}], "iter_time_s is 'fast'"),
                 ([{**RUNS[0], "iter_time_s": -1}], "iter_time_s is '-1'"),
                 ([{**RUNS[0], "iter_time_s": 1, "heads": ""}], "'heads' is missing"),
                 ([{**RUNS[0], "iter_time_s": 1, "gbs": ""}], "give two of 'gbs', 'mbs' and 'grad_accum'"),
                 ([{**RUNS[0], "iter_time_s": 1, "ep": 3}], "give an 'ep' that divides 'dp'"),
                 ([{"id": "x", "model": "none.json", "plan": "none.json", "iter_time_s": 1}], "none.json")]
        for rows, message in cases:
            with self.subTest(message=message):
                self.refuse(1, [message], "calibrate", CLUSTER, "--runs", self.table("runs.csv", rows))
        with open(self.path("empty.csv"), "w") as file:
            file.write("id,layers\n")
        self.refuse(1, ["has no rows"], "calibrate", CLUSTER, "--runs", self.path("empty.csv"))


if __name__ == "__main__":
    main()
