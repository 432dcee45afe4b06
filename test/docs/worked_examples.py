#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of pages that say how to add something (docs/adding-*.md), carried out.

    python3 test/docs/worked_examples.py adding-a-schedule adding-a-trainer    builds and runs both, in one tree
    python3 test/docs/worked_examples.py adding-an-operator --check            only says whether its blocks still fit the tree, which takes no time

Puts the pages' blocks into a copy of the tree, builds there what they are part of, and runs their tests.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# name: (most files that the example changes, what is built, the tests of CTest that are run beside the tests it adds)
PAGES = {"adding-an-operator": (4, ["kerf", "kerf-opt"], None),
         "adding-a-schedule": (3, ["ScheduleTests"], "^ScheduleTests$"),
         "adding-a-trainer": (1, ["CostModelTests"], "^CostModelTests$"),
         "adding-an-optimizer": (2, ["kerf"], None),
         "adding-a-collective": (4, ["RuntimeTests"], "^RuntimeTests$"),
         "adding-a-device": (3, ["RuntimeTests"], "^RuntimeTests$")}
BLOCK = re.compile(r'^<!-- (?:(?:insert|replace) in (?P<file>\S+) (?:(?P<where>after|before) )?"(?P<anchor>[^\n]*)"|create (?P<new>\S+)) -->\n```\S*\n(?P<code>.*?)^```$',
                   re.MULTILINE | re.DOTALL)


def edits(name, tree):
    """Adds a page's blocks to `tree` (path -> new content). Returns the paths that it changes."""
    where, most = f"docs/{name}.md", PAGES[name][0]
    with open(os.path.join(ROOT, where)) as file:
        page = file.read()
    changed = {}
    for block in BLOCK.finditer(page):
        if block["new"]:
            if block["new"] in tree or os.path.exists(os.path.join(ROOT, block["new"])):
                sys.exit(f"{where}: {block['new']} is there already")
            changed[block["new"]] = block["code"]
            continue
        path = block["file"]
        if path not in changed and path in tree:
            changed[path] = tree[path]
        elif path not in changed:
            with open(os.path.join(ROOT, path)) as file:
                changed[path] = file.read()
        lines = changed[path].splitlines(keepends=True)
        at = [i for i, line in enumerate(lines) if block["anchor"] in line]
        if len(at) != 1:
            sys.exit(f"{where}: {path} has {len(at)} lines with {block['anchor']!r}, not one")
        if not block["where"]:
            lines[at[0]] = lines[at[0]].replace(block["anchor"], block["code"].rstrip("\n"))
            changed[path] = "".join(lines)
            continue
        index = at[0] + (block["where"] == "after")
        changed[path] = "".join(lines[:index]) + block["code"] + "".join(lines[index:])
    if not 0 < len(changed) <= most:
        sys.exit(f"{where}: the example touches {len(changed)} files, at most {most} are promised")
    tree.update(changed)
    return list(changed)


def run(*command):
    print("+", *command, flush=True)
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("page", choices=PAGES, nargs="+")
    arguments.add_argument("--check", action="store_true", help="only whether the blocks fit")
    arguments.add_argument("--folder", help="where the copy goes and stays (default: a temporary folder)")
    options = arguments.parse_args()
    changed = {}
    for page in options.page:
        print(f"{page} changes {', '.join(edits(page, changed))}", flush=True)
    if options.check:
        return
    targets = sorted({target for page in options.page for target in PAGES[page][1]})
    tests = "|".join(sorted({PAGES[page][2] for page in options.page if PAGES[page][2]}))
    folder = options.folder or tempfile.mkdtemp(prefix="kerf-example-")
    try:
        tree = os.path.join(folder, "kerf")
        shutil.copytree(ROOT, tree, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build*", ".git", "__pycache__"))
        for path, content in changed.items():
            os.makedirs(os.path.dirname(os.path.join(tree, path)), exist_ok=True)
            with open(os.path.join(tree, path), "w") as file:
                file.write(content)
        os.chdir(tree)
        # The dialect's headers change, so that whatever sees them is compiled again; the rest, ccache has from the build of this tree.
        run("cmake", "--preset", "release", "-DKERF_DIALECT_OPTIONS=-O0")
        run("cmake", "--build", "--preset", "release", "--target", *targets)
        if tests:
            run("ctest", "--test-dir", "build", "--output-on-failure", "--no-tests=error", "--tests-regex", tests)
        lit = shutil.which("lit") or "/usr/lib/llvm-22/bin/lit"
        for path in changed:
            if path.startswith("test/lit/"):
                run(lit, "-v", os.path.join("build", path))
            if path.startswith("test/e2e/"):
                os.environ["KERF"] = os.path.join(tree, "build", "bin", "kerf")
                run(sys.executable, path)
    finally:
        if not options.folder:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
