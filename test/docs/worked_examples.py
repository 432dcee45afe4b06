#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of pages that say how to add something (docs/adding-*.md), carried out.

    python3 test/docs/worked_examples.py adding-a-schedule adding-a-trainer    builds and runs both in one tree
    python3 test/docs/worked_examples.py adding-a-schedule --check             only says whether its blocks fit the tree, which takes no time
    python3 test/docs/worked_examples.py adding-an-operator                    compares the page with the tree, which has the example

Puts the pages' blocks into a copy of the tree, builds there what they are part of, and runs their tests. The example of adding-an-operator
stands in the tree: an op changes the dialect's headers, and whatever sees them would be compiled a second time.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# name: (most files that the example changes, what is built, the tests of CTest that are run beside the tests it adds, and which cases of them)
PAGES = {"adding-an-operator": (4, [], None, None),
         "adding-a-schedule": (3, ["ScheduleTests"], "^ScheduleTests$", "*"),
         "adding-a-trainer": (1, ["CostModelTests"], "^CostModelTests$", "*"),
         "adding-an-optimizer": (2, ["kerf"], None, None),
         "adding-a-collective": (4, ["kerf-tablegen", "RuntimeTests"], "^RuntimeTests$", "Collectives*"),
         "adding-a-device": (3, ["RuntimeTests"], "^RuntimeTests$", "Devices*:Kinds/*")}
BLOCK = re.compile(r'^<!-- (?:(?:insert|replace) in (?P<file>\S+) (?:(?P<where>after|before) )?"(?P<anchor>[^\n]*)"|create (?P<new>\S+)) -->\n```\S*\n(?P<code>.*?)^```$',
                   re.MULTILINE | re.DOTALL)
# A block that the tree has: a part of a file, or a whole one.
SHOWN = re.compile(r'^<!-- (?P<what>part of|whole) (?P<file>\S+) -->\n```\S*\n(?P<code>.*?)^```$', re.MULTILINE | re.DOTALL)
# The op of adding-an-operator, and the rooms beside its files that name it: front ends and the devices of "Further parts".
SHOWN_NAMES = re.compile(r'"sine"|\bSineOp\b|\bkerf\.sine\b')
SHOWN_ELSEWHERE = ("lib/Frontend/", "lib/Runtime/Cuda/", "lib/Runtime/Ascend/")


def edits(name):
    """Returns the files that a page's blocks change (path -> new content)."""
    where, most = f"docs/{name}.md", PAGES[name][0]
    with open(os.path.join(ROOT, where)) as file:
        page = file.read()
    changed = {}
    for block in BLOCK.finditer(page):
        if block["new"]:
            if os.path.exists(os.path.join(ROOT, block["new"])):
                sys.exit(f"{where}: {block['new']} is there already")
            changed[block["new"]] = block["code"]
            continue
        path = block["file"]
        if path not in changed:
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
    return changed


def compare(name):
    """Compares the blocks of a page with the files of the tree that have them, and looks for further files that name the op."""
    with open(os.path.join(ROOT, f"docs/{name}.md")) as file:
        blocks = list(SHOWN.finditer(file.read()))
    files = sorted({block["file"] for block in blocks})
    for block in blocks:
        with open(os.path.join(ROOT, block["file"])) as file:
            text = file.read()
        if block["code"] != text if block["what"] == "whole" else text.count(block["code"]) != 1:
            sys.exit(f"docs/{name}.md: {block['file']} does not have this block:\n{block['code']}")
    if not 0 < len(files) <= PAGES[name][0]:
        sys.exit(f"docs/{name}.md shows {len(files)} files, at most {PAGES[name][0]} are promised")
    for folder, _, names in [entry for top in ("include", "lib", "tools") for entry in os.walk(os.path.join(ROOT, top))]:
        for path in (os.path.relpath(os.path.join(folder, name), ROOT) for name in names):
            with open(os.path.join(ROOT, path)) as file:
                named = SHOWN_NAMES.search(file.read())
            if named and path not in files and not path.startswith(SHOWN_ELSEWHERE):
                sys.exit(f"docs/{name}.md does not say that {path} names the op: {named[0]}")
    print(f"{name} shows what {', '.join(files)} have", flush=True)


def run(*command):
    print("+", *command, flush=True)
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def together(examples):
    """Returns the pages in groups that are built at once: pages that run the same tests and change different files."""
    groups = []
    for page, changed in examples.items():
        last = groups[-1] if groups else []
        tests = PAGES[page][2]
        if last and tests and all(PAGES[other][2] == tests and not set(examples[other]) & set(changed) for other in last):
            last.append(page)
        else:
            groups.append([page])
    return groups


def follow(pages, changed):
    """Puts the blocks of some pages into the tree of the current folder, builds and tests them there, and takes them out again: what other
    pages build is then what ccache has from the build of this tree."""
    for path, content in changed.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(content)
    targets = dict.fromkeys(target for page in pages for target in PAGES[page][1])
    run("cmake", "--build", "--preset", "release", "--target", *targets)
    tests = PAGES[pages[0]][2]
    if tests:
        os.environ["GTEST_FILTER"] = ":".join(PAGES[page][3] for page in pages)
        run("ctest", "--test-dir", "build", "--output-on-failure", "--no-tests=error", "--tests-regex", tests)
    for path in changed:
        if path.startswith("test/e2e/"):
            run(sys.executable, path)
    for path in changed:
        original = os.path.join(ROOT, path)
        if os.path.exists(original):
            shutil.copyfile(original, path)
        else:
            os.remove(path)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("page", choices=PAGES, nargs="+")
    arguments.add_argument("--check", action="store_true", help="only whether the blocks fit")
    arguments.add_argument("--folder", help="where the copy goes and stays (default: a temporary folder)")
    options = arguments.parse_args()
    examples = {}
    for page in options.page:
        if not PAGES[page][1]:
            compare(page)
            continue
        examples[page] = edits(page)
        print(f"{page} changes {', '.join(examples[page])}", flush=True)
    if options.check or not examples:
        return
    folder = options.folder or tempfile.mkdtemp(prefix="kerf-example-")
    try:
        tree = os.path.join(folder, "kerf")
        shutil.copytree(ROOT, tree, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build*", ".git", "__pycache__"))
        os.chdir(tree)
        os.environ["KERF"] = os.path.join(tree, "build", "bin", "kerf")
        run("cmake", "--preset", "release")
        for pages in together(examples):
            follow(pages, {path: content for page in pages for path, content in examples[page].items()})
    finally:
        if not options.folder:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
