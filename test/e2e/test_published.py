#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A quick look at the predictions of published runs: one row of each line of benchmarks/published/conventions.csv. Skips without the data in ../shared."""
import csv
import math
import os
import statistics
import subprocess
import sys
import unittest

from support import KERF, ROOT, KerfTest, main

DATA = os.path.join(os.path.dirname(ROOT), "shared", "data", "published")
# For each file: the number of rows that are predicted, and the largest allowed median and maximum of the relative errors. The limits are a
# little above today's values.
LIMITS = {"calibration": (9, 0.06, 0.25), "development": (7, 0.08, 0.15), "development2": (16, 0.10, 0.50)}
sys.path.insert(0, os.path.join(ROOT, "benchmarks", "published"))
import conventions  # noqa: E402
import scores  # noqa: E402


class Published(KerfTest):
    def predicted(self, file, *more):
        rows = self.path("rows.csv")
        done = subprocess.run([sys.executable, os.path.join(ROOT, "benchmarks", "published", "predict.py"), os.path.join(DATA, file + ".csv"), "--kerf", KERF,
                               "--quick", "--rows", rows, *more], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(rows, newline="") as written:
            return list(csv.DictReader(written)), done.stdout

    @unittest.skipUnless(os.path.isdir(DATA), f"{DATA} is not there: the published runs are not part of the repository")
    def test_quick(self):
        predicted = []
        for file, (count, median, most) in LIMITS.items():
            with self.subTest(file=file):
                rows, printed = self.predicted(file)
                errors = [abs(float(row["error"])) for row in rows if row["error"]]
                self.assertEqual(len(rows), count, printed)
                self.assertLessEqual(statistics.median(errors), median, printed)
                self.assertLessEqual(max(errors), most, printed)
                decided = {bool(row["influenced"]) for row in rows}
                self.assertIn("rows that decided one" if decided == {True} else "rows that decided no constant", printed)
                self.assertRegex(printed, r"(?m)^step time, all rows: median +\d+ +\d+\.\d %  at most 8 % +(yes|no)$")
                predicted += [row for row in rows if row["error"]]
        # One row of each line of conventions.csv is harder than the average row: of all rows 81 % lie inside (docs/cost-model.md).
        inside = [float(row["low"]) <= float(row["measured"]) <= float(row["high"]) for row in predicted]
        self.assertGreaterEqual(statistics.mean(inside), 0.65)
        self.assertLess(statistics.median(math.sqrt(float(row["high"]) / float(row["low"])) for row in predicted), 1.2, "the intervals are too wide")

    def test_the_risk_of_memory_follows_from_the_interval(self):
        def risk(*stages):
            return scores.memory_risk({"memory": [{"device_bytes": middle, "limit_bytes": limit} for middle, limit, _ in stages],
                                       "interval": {"device_bytes": [[middle / factor, middle * factor] for middle, _, factor in stages]}})
        self.assertAlmostEqual(risk((10, 10, 1.1)), 0.5)
        self.assertAlmostEqual(risk((10, 11, 1.1)), 0.1, places=4)  # the end of an 80 % interval
        self.assertAlmostEqual(risk((11, 10, 1.1)), 0.9, places=4)
        self.assertAlmostEqual(risk((5, 11, 1.1), (10, 11, 1.1)), 0.1, places=4)  # the fullest stage counts
        self.assertEqual((risk((9, 10, 1)), risk((11, 10, 1))), (0, 1))
        self.assertEqual([scores.runs_out({"memory_risk": risk}) for risk in (0.1, 0.3)], [False, True])

    def test_every_row_has_one_line_and_every_line_its_source(self):
        """Conventions are data: words that the script knows, trainers that kerf knows, cluster files that are there."""
        trainers = self.succeed("simulate", "--help").stdout
        for line in conventions.LINES:
            self.assertTrue(line["rows"] or line["where"])
            self.assertIn(line["trainer"], trainers)
            self.assertTrue(line["source"], line["rows"])
            self.assertIn(line["attention"], ("fused", "unfused"))
            self.assertIn(line["gradient_dtype"], ("f32", "f16"))
            self.assertIn(line["dropout"], ("yes", "no"))
            self.assertIn(line["ends"], ("", "embedding", "filled"))
            self.assertIn(line["search"], ("", "yes"))
            self.assertLessEqual(set(line["overlap"].split()), {"none", "gradients", "parameters", "tensor", "stage", "products"})
            for column in ("where", "fills", "blind"):
                list(conventions.pairs_of(line[column]))
            # A line that something was fitted to says what a blind prediction takes instead.
            if line["where"] and line["influenced"]:
                self.assertTrue(line["blind"], line["where"])
            if line["cluster"]:
                self.assertTrue(os.path.exists(os.path.join(ROOT, "clusters", line["cluster"] + ".json")), line["cluster"])
        if os.path.isdir(DATA):
            for file in ("calibration", "development", "development2"):
                with open(os.path.join(DATA, file + ".csv"), newline="") as rows:
                    for row in csv.DictReader(rows):
                        conventions.convention_of(row)

    def test_lines_are_found_by_id_and_by_columns(self):
        by_id = conventions.convention_of({"id": "bigscience_bloom#36", "system": "Megatron-DeepSpeed (BigScience)", "hardware": "A100-80GB"})
        self.assertEqual(by_id["gradient_dtype"], "f16")
        unseen = {"id": "new#1", "system": "Megatron-DeepSpeed (BigScience)", "hardware": "V100-16GB (Jean Zay)", "pp": "4"}
        self.assertEqual(conventions.convention_of(unseen)["cluster"], "jean-zay-v100-16gb")
        torchtitan = {"id": "new#2", "system": "torchtitan", "hardware": "H100", "pp": "8", "grad_accum": ""}
        self.assertEqual(conventions.completed(torchtitan)["grad_accum"], "8")
        self.assertEqual(conventions.completed({**torchtitan, "grad_accum": "4"})["grad_accum"], "4")
        with self.assertRaisesRegex(conventions.CannotExpress, "no line"):
            conventions.convention_of({"id": "other#1", "system": "unheard of"})


if __name__ == "__main__":
    main()
