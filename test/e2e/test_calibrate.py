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
        truth = self.predicted(RUNS, self.slower(inside=1.5))
        before = self.predicted(RUNS, CLUSTER)
        told = self.calibrate([{**run, "iter_time_s": seconds} for run, seconds in zip(RUNS, truth)], "-o", self.path("new.json"))
        prices = told["prices"]
        self.assertGreater(prices["links_inside"]["factor"], 1.15, prices)
        self.assertLess(abs(prices["products"]["factor"] - 1), 0.05, prices)
        self.assertLess(prices["links_inside"]["spread_after"], 0.8 * prices["links_inside"]["spread_before"])
        for run, old, seconds in zip(told["runs"], before, truth):
            self.assertLessEqual(abs(run["after"] / seconds - 1), max(0.03, abs(old / seconds - 1)), run)
            self.assertLessEqual(run["interval_after"][0], seconds)
            self.assertGreaterEqual(run["interval_after"][1], seconds)
            width = [high / low for low, high in (run["interval_before"], run["interval_after"])]
            self.assertLess(width[1], width[0], run)
        # The written cluster predicts what the report says.
        for run, seconds in zip(told["runs"], self.predicted(RUNS, self.path("new.json"))):
            self.assertAlmostEqual(seconds / run["after"], 1, places=6)

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
