#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands that README.md and docs/*.md show, page by page and in order, and compares what they print with the page.

The first word of a fenced block says what becomes of it; the words behind it are options:

    ```sh                    a script; it has to end with status 0
    ```console               lines that begin with "$ " are commands, the lines below each are its output: errors, warnings and notes
                             first, then standard output; progress on standard error is left out
    ```json file=plan.json   the block is written to this file, for the commands after it; any language
    ```                      shown only; it may hold no command

    exit=N                   the (last) command of the block ends with this status
    varying                  console: numbers depend on the machine, so that only the words between them are compared
    needs=torch,onnx         the page ends here where one of these Python packages is missing
    elsewhere                the block is not run: it needs several machines, or installs packages

A line <!-- run: COMMAND --> runs a command that a reader does not see, for files that the page's commands begin with.
In the output on a page a line "..." stands for any number of lines. Spaces are not compared.
Pages that other tests run (OTHER_TESTS) are left to them.
Each page runs in a folder of its own that has links to build, clusters, docs, examples, scripts and test; kerf is on the PATH.

Use: run_pages.py [--update] [PAGE ...]    (default: all pages that have something to run)

--update writes what the commands print now into the pages, where that differs from what they show; read the difference before you commit it.
"""
import glob
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERF = os.path.abspath(os.environ.get("KERF", os.path.join(ROOT, "build", "bin", "kerf")))
LINKS = ("clusters", "docs", "examples", "scripts", "test")
SECONDS = 300  # that one command may take
OTHER_TESTS = {"exporting.md": "test/e2e/test_exporting.py", "messages.md": "test/e2e/test_messages.py"}  # they run these pages
FENCE = re.compile(r"^```(.*)$")
HIDDEN = re.compile(r"^<!-- run: (.*) -->$")
SAID = re.compile(r"^(error|warning|note): ")
COMMAND = re.compile(r"^(\$ )?(build/bin/)?(kerf(-opt|-run)?|mpirun|make|srun|sbatch|ctest|pip|python3?) ")
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")
UNIT = re.compile(r"# (us|ms|s|min|h|B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)\b")


class Block:
    def __init__(self, info, line):
        words = info.split()
        self.language = words[0] if words else ""
        self.options = dict(word.split("=", 1) if "=" in word else (word, "") for word in words[1:])
        self.line = line
        self.lines = []

    def text(self):
        return "\n".join(self.lines) + "\n"


def blocks_of(page):
    """The fenced blocks of a page. A fence inside of a list is not looked at."""
    blocks, block = [], None
    with open(page) as file:
        for at, line in enumerate(file, 1):
            fence = FENCE.match(line.rstrip("\n"))
            hidden = HIDDEN.match(line.rstrip("\n"))
            if hidden and not block:
                blocks.append(Block("sh", at))
                blocks[-1].lines.append(hidden.group(1))
            elif not fence:
                if block:
                    block.lines.append(line.rstrip("\n"))
            elif block:
                blocks.append(block)
                block = None
            else:
                block = Block(fence.group(1), at)
    return blocks


def commands_of(block):
    """[(command, lines of its output)] of a console block."""
    commands = []
    continued = False
    for line in block.lines:
        if continued:
            commands[-1][0].append(line)
        elif line.startswith("$ "):
            commands.append(([line[2:]], []))
        elif commands:
            commands[-1][1].append(line)
        continued = (continued or line.startswith("$ ")) and line.endswith("\\")
    return [("\n".join(command), output) for command, output in commands]


def normal(line, varying):
    """The line as it is compared: spaces folded; of varying numbers only that there is one, of any unit of its kind."""
    line = " ".join(line.split())
    if not varying:
        return line
    return UNIT.sub("# unit", NUMBER.sub("#", line))


def shown(expected, actual, varying):
    """The first line of the page that the output does not have in its place, or None."""
    want = [normal(line, varying) for line in expected if line.strip()]
    have = [normal(line, varying) for line in actual if line.strip()]
    at, anywhere = 0, False
    for line in want:
        if line == "...":
            anywhere = True
            continue
        if anywhere:
            while at < len(have) and have[at] != line:
                at += 1
        if at == len(have) or have[at] != line:
            return line
        at, anywhere = at + 1, False
    return None if anywhere or at == len(have) else f"(the end; the output goes on with: {have[at]})"


def missing_package(block):
    for package in filter(None, block.options.get("needs", "").split(",")):
        if importlib.util.find_spec(package) is None:
            return package
    return None


def runs(page):
    return os.path.basename(page) not in OTHER_TESTS and any(block.language in ("sh", "console") for block in blocks_of(page))


class Pages(unittest.TestCase):
    def run_script(self, script, folder):
        # Root, and more processes than cores, are normal where tests run.
        environment = dict(os.environ, PATH=os.path.dirname(KERF) + os.pathsep + os.environ["PATH"], OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                           OMPI_MCA_hwloc_base_binding_policy="none")
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS)
        said = [line for line in done.stderr.splitlines() if SAID.match(line)]
        return done, said + done.stdout.splitlines()

    def run_block(self, name, block, folder):
        """Runs the block's commands. Gives the lines that it should have, where outputs are to be updated."""
        status = int(block.options.get("exit", 0))
        if block.language == "sh":
            done, printed = self.run_script(block.text(), folder)
            self.assertEqual(done.returncode, status, f"{name}:{block.line}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
            return block.lines
        commands = commands_of(block)
        lines = []
        for k, (command, output) in enumerate(commands):
            done, printed = self.run_script(command, folder)
            where = f"{name}:{block.line}: $ {command}\n{done.stdout[-6000:]}{done.stderr[-2000:]}"
            self.assertEqual(done.returncode, status if k == len(commands) - 1 else 0, where)
            absent = shown(output, printed, "varying" in block.options) if output else None
            if not UPDATE:
                self.assertIsNone(absent, f"{where}\nnot as the page shows it: {absent}")
            lines += ["$ " + command] + (printed if absent else output)
        return lines

    def run_page(self, page):
        name = os.path.relpath(page, ROOT)
        with open(page) as file:
            text = file.read().split("\n")
        moved = 0  # lines that updates have added so far
        with tempfile.TemporaryDirectory(prefix="kerf-page-") as folder:
            for link in LINKS:
                os.symlink(os.path.join(ROOT, link), os.path.join(folder, link))
            os.symlink(os.path.dirname(os.path.dirname(KERF)), os.path.join(folder, "build"))
            for block in blocks_of(page):
                package = missing_package(block)
                if package:
                    self.skipTest(f"{name}:{block.line} and what follows need the Python package {package}")
                if "file" in block.options:
                    path = os.path.join(folder, block.options["file"])
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "w") as file:
                        file.write(block.text())
                elif block.language in ("sh", "console") and "elsewhere" not in block.options:
                    lines = self.run_block(name, block, folder)
                    if block.language == "console":
                        text[block.line + moved:block.line + moved + len(block.lines)] = lines
                        moved += len(lines) - len(block.lines)
        if UPDATE:
            with open(page, "w") as file:
                file.write("\n".join(text))

    def test_no_command_is_left_untested(self):
        for page in pages():
            for block in blocks_of(page):
                if block.language in ("sh", "console") or "file" in block.options:
                    continue
                commands = [line for line in block.lines if COMMAND.match(line)]
                self.assertEqual(commands, [], f"{page}:{block.line}: commands belong into a block of sh or console")

    def test_comparison(self):
        self.assertIsNone(shown(["a  1 ms", "...", "c"], ["a 2 us", "x", "y", "c"], varying=True))
        self.assertIsNone(shown(["..."], ["x"], varying=False))
        self.assertEqual(shown(["a 1"], ["a 2"], varying=False), "a 1")
        self.assertEqual(shown(["a 1 ms"], ["b 1 ms"], varying=True), "a # unit")
        self.assertEqual(shown(["a", "c"], ["a", "b", "c"], varying=False), "c")
        self.assertIsNotNone(shown(["a"], ["a", "b"], varying=False))


def pages():
    return [os.path.join(ROOT, "README.md")] + sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))


def add_test(page):
    name = "test_" + re.sub(r"\W", "_", os.path.relpath(page, ROOT)[:-len(".md")])  # README.md and docs/README.md are two tests
    setattr(Pages, name, lambda self: self.run_page(page))


UPDATE = "--update" in sys.argv
for one in [os.path.abspath(argument) for argument in sys.argv[1:] if argument != "--update"] or pages():
    if runs(one):
        add_test(one)

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
