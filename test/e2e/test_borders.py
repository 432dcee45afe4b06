#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fact about an operator, a schedule or an optimizer stands in its record. Other rooms ask the record, so that a new one is added in one
place (docs/adding-an-operator.md, docs/adding-a-schedule.md, docs/adding-an-optimizer.md). A library's message names settings, which the
command line writes as its options."""
import glob
import os
import re
import subprocess
import unittest

from support import KERF

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMANDS = ("train", "import", "plan", "compile", "run", "explain", "simulate", "profile", "export", "verify", "calibrate")
# Where a name may stand, and why.
ALLOWED = {
    "schedules": {"lib/Schedule/Records.cpp": "the records",
                  "lib/Export/": "what the trainers call them, and which of them they run",
                  "lib/Frontend/Onnx/OnnxAttention.cpp": "an attribute of ONNX's RotaryEmbedding that is called 'interleaved'",
                  "lib/Compiler/RunsFile.cpp": "what columns of published runs call the schedules",
                  "lib/PlanSearch/FirstPlans.cpp": "the rule whose plans a search begins with takes 1F1B",
                  "lib/PlanSearch/Bounds.cpp": "a bound takes the schedule with the smallest bubble, since no other is faster"},
    "optimizers": {"lib/Optimizer/Optimizers.cpp": "the records",
                   "lib/Export/": "what the trainers call them",
                   "lib/CostModel/Trainers.cpp": "which of them the trainers have",
                   "include/kerf/Export/Export.h": "the default",
                   "include/kerf/Optimizer/": "the default, and names in comments",
                   "include/kerf/Compiler/JobSettings.h": "the default",
                   "include/kerf/Compiler/Calibrate.h": "the default of a column",
                   "lib/Compiler/Remedies.cpp": "where a model does not fit, an optimizer without states is tried"},
    "options": {"lib/Export/": "the arguments of the trainers that a plan is exported for",
                "lib/Compiler/KernelProfile.cpp": "arguments of Nsight's nsys",
                "lib/CostModel/Trainers.cpp": "arguments of the trainers",
                "lib/Report/": "a report for people says which command tells more"},
    # Lists of operators that a pass treats alike.
    "lists of operators": {"lib/Codec/ApplyToBlocks.cpp": "the operators that codecs may have, and whose attributes name dimensions",
                           "lib/Transforms/QuantizeOnce.cpp": "the operators of which a quantization is made",
                           "lib/Transforms/FuseRows.cpp": "the operators that pack codes and look up elements, which row kernels know beside pointwise ones",
                           "lib/Transforms/StepKernels.cpp": "the operators that the epilogue of a product computes",
                           "lib/Transforms/Recognize": "the operators of which a composite's formula is made",
                           "lib/Transforms/CausalMask.cpp": "a mask is followed through the operators that make it",
                           "lib/Transforms/RecomputeWidened.cpp": "a tensor is followed through the operators that keep what it was widened from",
                           "lib/Transforms/FoldTransposes.cpp": "the dimensions in these operators' attributes are permuted",
                           "lib/Transforms/PutChannelsLast.cpp": "the dimensions in these operators' attributes and tensors are permuted",
                           "lib/Transforms/Layout.cpp": "a part of the stream's width that these operators take or put in place is a width too"},
    # Names of operators in text: what reads a package has no operators but these names.
    "names of operators": {"lib/Codegen/ElementOps": "the scalar code of operators",
                           "lib/Codegen/KernelIr.cpp": "constants, broadcasts and reductions are no steps of a kernel",
                           "lib/Codegen/RowKernelIr.cpp": "reductions, broadcasts and packing decide the stages of a row's kernel",
                           "lib/Codegen/RowOpIr.cpp": "the code of operators that read and write a row in memory",
                           "lib/Package/RowKernel.cpp": "reductions, broadcasts, packing and choices of elements decide how a row's elements lie",
                           "lib/Codegen/PtxIr.cpp": "constants, broadcasts and reductions are no steps of a kernel",
                           "lib/Compiler/RunsFile.cpp": "columns of published runs",
                           "lib/Compiler/CalibrationReport.cpp": "what reports call the kinds of work",
                           "lib/Compiler/KernelProfile.cpp": "parts of the names of other programs' kernels",
                           "lib/Package/PtxReduction.cpp": "constants, broadcasts and reductions decide which elements an item has",
                           "lib/Profile/DeviceTimer.cpp": "launches are timed with a small addition",
                           "lib/Runtime/AttentionRows.cpp": "slices and concatenations around attention are rows of a wider tensor",
                           "lib/Package/Epilogue.cpp": "the operators of which an epilogue of a product is made",
                           "lib/Package/FlatProgram.cpp": "a reshape makes nothing: its result is its operand's memory",
                           "lib/Package/KernelSpace.cpp": "constants, broadcasts and reductions decide how a kernel's elements lie",
                           "lib/Transforms/ModelWork.cpp": "what reports call the part of a model before its layers",
                           "lib/Profile/KernelSpecs.cpp": "the kernels that a profile times"},
}


def sources():
    for folder in ("include", "lib", "tools"):
        for path in sorted(glob.glob(os.path.join(ROOT, folder, "**", "*"), recursive=True)):
            if path.endswith((".h", ".cpp", ".td")):
                with open(path) as file:
                    yield os.path.relpath(path, ROOT), file.read()


def optimizers():
    with open(os.path.join(ROOT, "lib", "Optimizer", "Optimizers.cpp")) as file:
        return re.findall(r"\.name = \"(\w+)\"", file.read())


def records():
    with open(os.path.join(ROOT, "lib", "Schedule", "Records.cpp")) as file:
        text = file.read()
    words = set(re.findall(r"\.(?:name|variant) = \"([^\"]+)\"", text))
    kinds = set(re.findall(r"\.kind = ScheduleKind::(\w+)", text))
    return words, kinds


# Rooms in which a word between quotes that is an operator's name means the operator.
ROOMS_OF_OPERATORS = ("lib/Codegen/", "lib/Package/", "lib/Profile/", "lib/Runtime/", "lib/Transforms/", "lib/Compiler/")
# The operators' own rooms: definitions, front ends, kernels of a device.
OWN_ROOMS = ("lib/Dialect/", "include/kerf/Dialect/", "lib/Frontend/", "lib/Runtime/Cpu/Kernels/", "lib/Runtime/Cuda/Calls", "lib/Runtime/Ascend/Calls")
# Names of operators that are also other words: a kind of argument, a schedule of learning rates.
WORDS = {"constant", "cosine"}


def operators():
    """Classes and names of the operators of models. The structure of a program (calls, collectives, waits) is DeviceOps.td."""
    found = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "include", "kerf", "Dialect", "Kerf", "*Ops.td"))):
        if not path.endswith(("DeviceOps.td", "KerfOps.td", "TrainingOps.td")):
            with open(path) as file:
                found.update(re.findall(r"^def Kerf_(\w+Op) : Kerf_\w+<\"(\w+)\"", file.read(), re.M))
    return found


class Borders(unittest.TestCase):
    def test_lists_of_operators(self):
        classes, used = set(operators()), set()
        self.assertIn("SoftmaxOp", classes)
        for path, text in sources():
            if path.startswith(OWN_ROOMS):
                continue
            for match in re.finditer(r"(?:isa|isa_and_nonnull|isa_and_present|Case|dyn_cast|IsaPred)<([^<>;]*)>", text):
                named = [name for name in re.split(r"[,\s]+", match.group(1)) if name in classes]
                if len(named) < 2:
                    continue
                reason = next((place for place in ALLOWED["lists of operators"] if path.startswith(place)), None)
                line = text.count("\n", 0, match.start()) + 1
                self.assertIsNotNone(reason, f"{path}:{line} treats {', '.join(named)} alike; ask a fact of them (kerf/Dialect/Kerf/OpFacts.h)")
                used.add(reason)
        self.assertEqual(set(ALLOWED["lists of operators"]) - used, set(), "places of the allow list that list no operators")

    def test_names_of_operators(self):
        names = set(operators().values()) - WORDS
        pattern, used = re.compile("|".join(f'"{name}"' for name in sorted(names))), set()
        for path, text in sources():
            if not path.startswith(ROOMS_OF_OPERATORS) or path.startswith(OWN_ROOMS):
                continue
            for number, line in enumerate(text.splitlines(), 1):
                if not pattern.search(line.split("//")[0]):
                    continue
                reason = next((place for place in ALLOWED["names of operators"] if path.startswith(place)), None)
                self.assertIsNotNone(reason, f"{path}:{number} names an operator: {line.strip()}")
                used.add(reason)
        self.assertEqual(set(ALLOWED["names of operators"]) - used, set(), "places of the allow list that name no operator")

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
                self.assertIsNotNone(reason, f"{path}:{number} names an optimizer; ask its record (kerf/Optimizer/Record.h): {line.strip()}")
                used.add(reason)
        self.assertEqual(set(ALLOWED["optimizers"]) - used, set(), "places of the allow list that name no optimizer")

    def test_options(self):
        """No text of a library names an option of the command line: it names the setting, as <ranks>, and the command line has an option of that name."""
        known = {name for command in COMMANDS for name in re.findall(r"--([a-z][a-z-]*)", subprocess.run([KERF, command, "--help"], text=True, capture_output=True).stdout)}
        self.assertIn("ranks", known)
        used, settings = set(), set()
        for path, text in sources():
            if not path.startswith("lib/"):
                continue
            for number, line in enumerate(text.splitlines(), 1):
                code = "" if line.lstrip().startswith("//") else line
                for literal in re.findall(r'"(?:[^"\\]|\\.)*"', code):
                    settings.update((name, f"{path}:{number}") for name in re.findall(r"(?<![\w<])<([a-z][a-z-]*)>", literal) if not path.startswith("lib/Report/"))
                    if not re.search(r"(?<![\w-])--[a-z]", literal):
                        continue
                    reason = next((place for place in ALLOWED["options"] if path.startswith(place)), None)
                    self.assertIsNotNone(reason, f"{path}:{number} names an option; name the setting as <name> (kerf/Support/Settings.h): {literal}")
                    used.add(reason)
        self.assertEqual(set(ALLOWED["options"]) - used, set(), "places of the allow list that name no option")
        self.assertIn("ranks", {name for name, place in settings})
        unknown = sorted(f"{place}: <{name}>" for name, place in settings if name not in known)
        self.assertEqual(unknown, [], "settings that the command line has no option for")

    def test_types_have_one_definition(self):
        """Two types of one name in one namespace make a program that compiles and may fail at any time: the linker keeps one of their destructors."""
        found = {}
        for path, text in sources():
            if path.endswith(".td"):
                continue
            text = re.sub(r"//[^\n]*|\"(?:\\.|[^\"\n])*\"|'(?:\\.|[^'\n])*'", "", text)
            around, depth = [], 0  # namespaces, each with the depth of its braces
            for mark in re.finditer(r"namespace\s*([\w:]*)\s*\{|^(?:struct|class|enum class|union)\s+(\w+)(?:\s+final)?(?:\s*:(?!:)[^{;]*)?\s*\{|[{}]", text,
                                    re.MULTILINE):
                if mark[2] and len(around) == depth and "" not in [name for name, _ in around]:
                    found.setdefault("::".join([name for name, _ in around] + [mark[2]]), []).append(path)
                if mark[0].startswith("namespace"):
                    around.append((mark[1], depth))
                depth += -1 if mark[0] == "}" else 1
                while around and around[-1][1] >= depth:
                    around.pop()
        self.assertGreater(len(found), 300)
        self.assertEqual({name: paths for name, paths in found.items() if len(paths) > 1}, {})

    def test_embedding_page(self):
        """The page has the program that is built and run."""
        with open(os.path.join(ROOT, "docs", "embedding.md")) as file:
            page = file.read()
        with open(os.path.join(ROOT, "unittests", "Trainer", "EmbeddingExample.cpp")) as file:
            self.assertIn(file.read().split("\n", 1)[1].strip("\n"), page)


if __name__ == "__main__":
    unittest.main()
