#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the pages: every link leads to a file or a heading that exists, every page is in the index docs/README.md, every page that comments or
messages name exists, and lines of prose are at most 120 characters wide."""
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GENERATED = {"docs/operators.md", "docs/passes.md", "docs/messages-list.md"}
MOST_CHARACTERS = 120
LINK = re.compile(r"(?<!!)\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^()\s]+(?:\([^()\s]*\))?)\)")


def anchors(path):
    """The anchors that a page's headings get, as forges make them: lower case, no punctuation, hyphens for spaces."""
    found, fenced = set(), False
    with open(path) as file:
        for line in file:
            fenced ^= line.lstrip().startswith("```")
            if not fenced and re.match(r"#+ ", line):
                heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("# ").strip()).lower()
                base = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
                name, number = base, 0
                while name in found:
                    number += 1
                    name = f"{base}-{number}"
                found.add(name)
            found.update(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line))
    return found


def check(pages):
    wrong = []
    for page in pages:
        with open(os.path.join(ROOT, page)) as file:
            text = file.read()
        prose = re.sub(r"(?ms)^\s*```.*?^\s*```", lambda block: "\n" * block[0].count("\n"), text)
        for match in LINK.finditer(re.sub(r"`[^`\n]*`", lambda code: " " * len(code[0]), prose)):
            target, _, anchor = match[1].partition("#")
            line = prose.count("\n", 0, match.start()) + 1
            if re.match(r"\w+:", target):
                continue
            path = os.path.normpath(os.path.join(ROOT, os.path.dirname(page), target)) if target else os.path.join(ROOT, page)
            if not os.path.exists(path):
                wrong.append(f"{page}:{line}: there is no {target}")
            elif anchor and path.endswith(".md") and anchor not in anchors(path):
                wrong.append(f"{page}:{line}: {os.path.relpath(path, ROOT)} has no heading #{anchor}")
        if page not in GENERATED and (page.startswith("docs/") or page == "README.md"):
            wrong += [f"{page}:{number}: {len(line)} characters, at most {MOST_CHARACTERS}" for number, line in enumerate(prose.split("\n"), 1)
                      if len(line) > MOST_CHARACTERS and not re.match(r"\s*(\||<!--|#)", line) and len(line.split()) > 3]
    with open(os.path.join(ROOT, "docs", "README.md")) as file:
        listed = set(re.findall(r"\]\(([\w-]+\.md)\)", file.read()))
    wrong += [f"docs/README.md does not list {page[5:]}" for page in pages if page.startswith("docs/") and page[5:] not in listed | {"README.md"}]
    return wrong


def named(files):
    """Pages that sources and scripts speak of and that are not there."""
    wrong = []
    for path in files:
        with open(os.path.join(ROOT, path), errors="ignore") as file:
            for number, line in enumerate(file, 1):
                wrong += [f"{path}:{number}: there is no {page}" for page in re.findall(r"(?<![\w/.])docs/[\w-]+\.md", line) if not os.path.exists(os.path.join(ROOT, page))]
    return wrong


def main():
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True, capture_output=True).stdout.split("\n")
    if not any(tracked):  # no checkout: all files
        tracked = [os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, "**", "*"), recursive=True)]
    tracked = [path for path in tracked if os.path.isfile(os.path.join(ROOT, path))]
    wrong = check([path for path in tracked if path.endswith(".md")])
    wrong += named([path for path in tracked if path.endswith((".h", ".cpp", ".td", ".py", ".sh", ".txt")) and "worked_examples" not in path])
    print("\n".join(wrong + [f"{len(wrong)} wrong links, pages and lines"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
