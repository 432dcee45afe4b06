#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example of docs/adding-an-operator.md, carried out.

Puts the page's blocks into a copy of the tree, builds kerf and kerf-opt there and runs the page's lit test: minutes. With --check
only says whether the blocks still fit the tree, which takes no time.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = "docs/adding-an-operator.md"
MOST_FILES = 4
BLOCK = re.compile(r'^<!-- (?:insert in (?P<file>\S+) (?P<where>after|before) "(?P<anchor>[^\n]*)"|create (?P<new>\S+)) -->\n```\S*\n(?P<code>.*?)^```$',
                   re.MULTILINE | re.DOTALL)


def edits():
    """path -> new content."""
    with open(os.path.join(ROOT, PAGE)) as file:
        page = file.read()
    changed = {}
    for block in BLOCK.finditer(page):
        if block["new"]:
            if os.path.exists(os.path.join(ROOT, block["new"])):
                sys.exit(f"{PAGE}: {block['new']} is there already")
            changed[block["new"]] = block["code"]
            continue
        path = block["file"]
        if path not in changed:
            with open(os.path.join(ROOT, path)) as file:
                changed[path] = file.read()
        lines = changed[path].splitlines(keepends=True)
        at = [i for i, line in enumerate(lines) if block["anchor"] in line]
        if len(at) != 1:
            sys.exit(f"{PAGE}: {path} has {len(at)} lines with {block['anchor']!r}, not one")
        index = at[0] + (block["where"] == "after")
        changed[path] = "".join(lines[:index]) + block["code"] + "".join(lines[index:])
    if not 0 < len(changed) <= MOST_FILES:
        sys.exit(f"{PAGE}: the example touches {len(changed)} files, at most {MOST_FILES} are promised")
    return changed


def run(*command):
    print("+", *command, flush=True)
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="only whether the blocks fit")
    arguments.add_argument("--folder", help="where the copy goes and stays (default: a temporary folder)")
    options = arguments.parse_args()
    changed = edits()
    if options.check:
        print(f"the example fits: {', '.join(changed)}")
        return
    folder = options.folder or tempfile.mkdtemp(prefix="kerf-operator-")
    try:
        tree = os.path.join(folder, "kerf")
        shutil.copytree(ROOT, tree, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build*", ".git", "__pycache__"))
        for path, content in changed.items():
            with open(os.path.join(tree, path), "w") as file:
                file.write(content)
        os.chdir(tree)
        run("cmake", "--preset", "release")
        run("cmake", "--build", "--preset", "release", "--target", "kerf", "kerf-opt")
        lit = shutil.which("lit") or "/usr/lib/llvm-22/bin/lit"
        for path in changed:
            if path.startswith("test/lit/"):
                run(lit, "-v", os.path.join("build", path))
    finally:
        if not options.folder:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
