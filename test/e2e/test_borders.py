#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fact about a schedule or an optimizer stands in its record. Other rooms ask the record, so that a new one is added in one place
(docs/adding-a-schedule.md, docs/adding-an-optimizer.md)."""
import glob
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Where a name may stand, and why.
ALLOWED = {
    "schedules": {"lib/Schedule/Records.cpp": "the records",
                  "lib/Export/": "what the trainers call them, and which of them they run",
                  "lib/Frontend/Onnx/OnnxAttention.cpp": "an attribute of ONNX's RotaryEmbedding that is called 'interleaved'",
                  "lib/PlanSearch/Bounds.cpp": "a bound takes the schedule with the smallest bubble, since no other is faster"},
    "optimizers": {"lib/Transforms/Optimizers.cpp": "the records",
                   "lib/Export/": "what the trainers call them",
                   "lib/CostModel/Trainers.cpp": "which of them the trainers have",
                   "include/kerf/Export/Export.h": "the default",
                   "include/kerf/Transforms/Optimizer": "the default, and names in comments",
                   "tools/kerf/Options.h": "the default",
                   "tools/kerf/Remedies.cpp": "where a model does not fit, an optimizer without states is tried"},
}


def sources():
    for folder in ("include", "lib", "tools"):
        for path in sorted(glob.glob(os.path.join(ROOT, folder, "**", "*"), recursive=True)):
            if path.endswith((".h", ".cpp", ".td")):
                with open(path) as file:
                    yield os.path.relpath(path, ROOT), file.read()


def optimizers():
    with open(os.path.join(ROOT, "lib", "Transforms", "Optimizers.cpp")) as file:
        return re.findall(r"\.name = \"(\w+)\"", file.read())


def records():
    with open(os.path.join(ROOT, "lib", "Schedule", "Records.cpp")) as file:
        text = file.read()
    words = set(re.findall(r"\.(?:name|variant) = \"([^\"]+)\"", text))
    kinds = set(re.findall(r"\.kind = ScheduleKind::(\w+)", text))
    return words, kinds


class Borders(unittest.TestCase):
    def test_schedules(self):
        words, kinds = records()
        self.assertIn("1f1b", words)
        self.assertIn("GPipe", kinds)
        pattern = re.compile("|".join([f'"{re.escape(word)}"' for word in sorted(words)] + [rf"ScheduleKind::{kind}\b" for kind in sorted(kinds)]))
        used = set()
        for path, text in sources():
            for number, line in enumerate(text.splitlines(), 1):
                if not pattern.search(line.split("//")[0]):
                    continue
                reason = next((place for place in ALLOWED["schedules"] if path.startswith(place)), None)
                # The default of a member is no decision by a name.
                if reason is None and not re.search(r"ScheduleKind \w+ = ScheduleKind::\w+;", line):
                    self.fail(f"{path}:{number} names a schedule; ask its record (kerf/Schedule/Schedule.h): {line.strip()}")
                used.add(reason)
        self.assertEqual(set(ALLOWED["schedules"]) - used, set(), "places of the allow list that name no schedule")

    def test_optimizers(self):
        names = optimizers()
        self.assertIn("adamw", names)
        pattern, used = re.compile("|".join(f'"{name}"' for name in names)), set()
        for path, text in sources():
            for number, line in enumerate(text.splitlines(), 1):
                if not pattern.search(line.split("//")[0]):
                    continue
                reason = next((place for place in ALLOWED["optimizers"] if path.startswith(place)), None)
                self.assertIsNotNone(reason, f"{path}:{number} names an optimizer; ask its record (kerf/Transforms/OptimizerRecord.h): {line.strip()}")
                used.add(reason)
        self.assertEqual(set(ALLOWED["optimizers"]) - used, set(), "places of the allow list that name no optimizer")


if __name__ == "__main__":
    unittest.main()
