#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks for words that a reader stumbles over in headers, pages, messages and comments: sentences that begin without a subject, and
words that mean something in this project alone. Looks too for messages that name no way out, with scripts/messages.py.

    plain_words.py               one line for each place; the exit status is 1 where there is any
    plain_words.py lib/Search    looks below these folders or files only
"""
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# A sentence that begins so has no subject: "Of layers, both passes.", "What suits none of this is left whole."
OPENINGS = re.compile(r"(?:^|(?<=[.:;!?] ))(Of|What|Those|Whoever|Whatever|Which|Whose|Than|Whichever)\b(?! (?:is|are|does|do|would|happens|can|has)\b[^.]*\?)")
# Names and phrases that had to be decoded, with what is said instead.
CODE = {r"turnsOf": "oversubscription", r"ways\(": "shardCount", r"Hunt": "a search budget", r"Ran": "what it holds", r"sow": "what it does", r"Moved": "what it holds",
        r"heldOf": "what it returns", r"wholeOf": "what it returns", r"LinkHeld": "activation bytes", r"Atoms": "sub-axes", r"than[,)]": "baseline", r"Handed": "what it holds",
        r"Until": "what it is", r"Sees": "what it does"}
PHRASES = {r"trained under its name for them": "", r"search everything": "whole-plan search", r"a mesh; all: ": "", r"decides it otherwise": "another value of the decision",
           r"made again": "recomputed", r"the strategies' ways": "", r"told twice": "given twice", r"is told once": "", r"what suits": "tensors that match",
           r"of what these need": "", r"where that says": "", r"what is linear takes": "", r"calls but those": "", r"a number of steps on it": "", r"decided greedily for the least bound": "",
           r"of one card": "of one network card's bandwidth", r"in the time in which": "how many times faster", r"what is said of it": "", r"copies beyond them": "tokens beyond the capacity"}


def comments(path):
    """(line, text) of each comment of a C++ or TableGen file; the lines of a block are joined."""
    block, begun = [], 0
    with open(path) as file:
        lines = file.read().split("\n")
    for number, line in enumerate(lines + [""], 1):
        match = re.match(r"\s*///?(?!/)\s?(.*)", line)
        if match and "SPDX" not in line:
            begun = begun or number
            block.append(match[1].strip())
            continue
        if block:
            yield begun, " ".join(block)
        block, begun = [], 0
        trailing = re.search(r"(?<![:\"'/])//(?!/)\s+(.*)", re.sub(r'"(?:[^"\\]|\\.)*"', '""', line))
        if trailing:
            yield number, trailing[1]


def paragraphs(path):
    """(line, text) of each paragraph of a page; code blocks and comments are left out."""
    with open(path) as file:
        lines = file.read().split("\n")
    block, begun, fenced = [], 0, False
    for number, line in enumerate(lines + [""], 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        plain = line.strip().lstrip("-*>0123456789. ") if not line.lstrip().startswith(("|", "#", "<!--", "```")) else ""
        starts = re.match(r"\s*([-*>]|\d+\.) ", line)
        if fenced or not plain or starts:
            if block:
                yield begun, " ".join(block)
            block, begun = [], 0
        if not fenced and plain:
            begun = begun or number
            block.append(plain)
    return


def descriptions(path):
    """(line, text) of the summaries and descriptions of a TableGen file."""
    with open(path) as file:
        text = file.read()
    for match in re.finditer(r"\[\{(.*?)\}\]|let summary = \"((?:[^\"\\]|\\.)*)\"", text, re.DOTALL):
        body = re.sub(r"```.*?```", "", match[1] or match[2] or "", flags=re.DOTALL)
        for paragraph in re.split(r"\n\s*\n|\n\s*- ", body):
            if "::" not in paragraph and ";\n" not in paragraph:
                yield text.count("\n", 0, match.start()) + 1, " ".join(paragraph.split())


def messages(path):
    """(line, text) of the literals of a C++ file that have several words."""
    with open(path) as file:
        text = re.sub(r"(?m)^\s*#include.*$|//[^\n]*", "", file.read())
    for match in re.finditer(r'"((?:[^"\\\n]|\\.)*)"(?:\s*"(?:[^"\\\n]|\\.)*")*', text):
        whole = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', match[0]))
        if len(whole.split()) > 3:
            yield text.count("\n", 0, match.start()) + 1, whole


def places(only):
    def files(*patterns):
        found = sorted({path for pattern in patterns for path in glob.glob(os.path.join(ROOT, pattern), recursive=True)})
        return [path for path in found if not only or any(os.path.relpath(path, ROOT).startswith(name.rstrip("/")) for name in only)]

    for path in files("include/**/*.h", "include/**/*.td", "lib/**/*.h", "lib/**/*.cpp", "tools/**/*.h", "tools/**/*.cpp", "unittests/**/*.cpp", "benchmarks/*.cpp"):
        for line, text in comments(path):
            yield path, line, text, True
        with open(path) as file:
            for number, line in enumerate(file, 1):
                code = re.sub(r'"(?:[^"\\]|\\.)*"|//.*', "", line)
                for name, instead in CODE.items():
                    if re.search(rf"(?<![\w:>.]){name}" + (r"\b" if name[-1].isalpha() else ""), code) and not (name == "ways(" and "." in code):
                        yield path, number, f"{code.strip()}  [{name}: {instead or 'say it plainly'}]", None
    for path in files("lib/**/*.cpp", "tools/**/*.cpp"):
        for line, text in messages(path):
            yield path, line, text, True
    for path in files("include/**/*.td"):
        for line, text in descriptions(path):
            yield path, line, text, True
    for path in files("README.md", "docs/*.md", "examples/**/*.md", "test/**/*.md", "benchmarks/**/*.md"):
        if os.path.basename(path) != "messages-list.md":
            for line, text in paragraphs(path):
                yield path, line, text, True


def without_way_out(only):
    """Lines for the messages that say neither what to do nor what would be right."""
    listed = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "messages.py"), "--without"], check=True, stdout=subprocess.PIPE, text=True)
    return [line for line in listed.stdout.splitlines() if not only or any(line.startswith(name.rstrip("/")) for name in only)]


def main():
    found = 0
    for line in without_way_out(sys.argv[1:]):
        print(f"no way out: {line}")
        found += 1
    for path, line, text, prose in places(sys.argv[1:]):
        where = f"{os.path.relpath(path, ROOT)}:{line}"
        if prose is None:
            print(f"{where}: {text}")
            found += 1
            continue
        opening = OPENINGS.search(text)
        phrase = next((words for words in PHRASES if re.search(words, text, re.IGNORECASE)), None)
        if opening or phrase:
            found += 1
            at = opening.start() if opening else re.search(phrase, text, re.IGNORECASE).start()
            print(f"{where}: {'no subject' if opening else phrase}: …{text[max(0, at - 20):at + 90]}")
    print(f"{found} places")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
