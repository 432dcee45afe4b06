#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws declarations of the public headers and paragraphs of the pages at random, to be read alone by people who know the field but not Kerf.

    reading_test.py --seed 1                    60 declarations, then 60 paragraphs
    reading_test.py --seed 1 --answers          the same with file and line, for whoever judges the readers' answers

A reader says in one sentence what each of them means. The draw is passed when 57 of the 60 declarations and 57 of the 60 paragraphs are
understood as they are meant. Mend what was misunderstood, then draw again with another seed.
"""
import argparse
import glob
import os
import random
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GENERATED = {"messages-list.md"}  # a table of messages has no paragraphs
BLOCK = 12  # most lines of a list, table, piece of code or enum that are shown


def stripped_code(line):
    """The line without strings, character literals and comments, for counting braces."""
    return re.sub(r"//.*", "", re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'', "", line))


TYPE = re.compile(r"\s*(?:template\s*<.*>\s*)?(struct|class|enum class|enum|union)\s+(?:\[\[\w+\]\]\s*|alignas\([^)]*\)\s*)*(\w+)[^;()]*\{$", re.DOTALL)
NOT_DRAWN = re.compile(r"(public|private|protected):|namespace\b|\}|using namespace|template class|\{|friend\b|extern\b|[A-Z][A-Z0-9_]+\(|[A-Z][A-Z0-9_]+$")


def declarations(path):
    """(line, text) of the header's declarations with their comments; a member has the names of the types around it above its comment.

    An enum is one declaration with its values. What stands inside of function bodies and macros is not drawn."""
    with open(path) as file:
        lines = file.read().split("\n")
    owners, comment, index = [], [], 0  # owners: the type's text, or "" for a namespace, of each brace that is open
    while index < len(lines):
        begun, stripped = index, lines[index].strip()
        index += 1
        if stripped.startswith("#"):
            while lines[index - 1].endswith("\\"):
                index += 1
            comment = []
            continue
        if re.match(r"///?(?!/)", stripped):
            comment.append(lines[begun])
            continue
        if not stripped or NOT_DRAWN.match(stripped):
            for brace in re.findall(r"[{}]", stripped_code(stripped)):
                if brace == "{":
                    owners.append("")
                elif owners:
                    owners.pop()
            comment = []
            continue
        text, code, depth = [lines[begun]], stripped_code(lines[begun]), 0
        while not re.search(r"[;{}]\s*$", code) or code.count("(") != code.count(")"):
            if index >= len(lines) or len(text) == 12:
                break
            text.append(lines[index])
            code += "\n" + stripped_code(lines[index])
            index += 1
        owner = " of ".join(name for name in reversed(owners) if name)
        opens = code.rstrip().endswith("{")
        named = TYPE.match(code.rstrip())
        if opens and named and not named[1].startswith("enum"):  # its members are declarations of their own
            text[-1] = re.sub(r"\{\s*(//.*)?$", "{ ... };", text[-1])
            owners.append(f"{named[1]} {named[2]}")
        elif opens:
            body, depth = [], code.count("{") - code.count("}")
            while depth > 0 and index < len(lines):
                body.append(lines[index])
                depth += stripped_code(lines[index]).count("{") - stripped_code(lines[index]).count("}")
                index += 1
            if named:
                text += body if len(body) <= BLOCK else body[:BLOCK] + ["  ..."]
            else:
                text[-1] = re.sub(r"\{\s*(//.*)?$", "{ ... }", text[-1])
        if comment or re.search(r"[;,]\s*//", lines[begun]):
            yield begun + 1, "\n".join(([f"(in {owner})"] if owner else []) + comment + text)
        comment = []


def block_after(lines, index):
    """The list, table or code that begins at or after line `index`, at most BLOCK lines of it, and the index behind it."""
    while index < len(lines) and (not lines[index].strip() or lines[index].startswith("<!--")):
        index += 1
    block, first = [], lines[index].lstrip() if index < len(lines) else "#"
    fenced = first.startswith("```")
    if not fenced and not re.match(r"(\||[-*] |\d+\. )", first):
        return [], index
    while index < len(lines) and (fenced or lines[index].strip()):
        block.append(lines[index])
        index += 1
        if fenced and len(block) > 1 and block[-1].lstrip().startswith("```"):
            break
    return block if len(block) <= BLOCK else block[:BLOCK] + ["..."], index


def paragraphs(path):
    """(line, text) of the page's paragraphs of prose, each with the heading that it stands under.

    A paragraph that does not end a sentence is drawn with the list, table or code that follows it."""
    with open(path) as file:
        lines = file.read().split("\n") + [""]
    heading, block, fenced, index = "", [], False, 0
    while index < len(lines):
        line = lines[index]
        index += 1
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if line.strip() and not fenced and not re.match(r"\s*(\||#|<|```)", line):
            block.append(line)
            continue
        if block:
            begun, after, words = index - len(block), [], len(" ".join(block).split())
            if not re.search(r"[.!?][)\"'*_`]*$", block[-1].rstrip()) and not re.match(r"\s*([-*] |\d+\. )", block[0]):
                if line.lstrip().startswith("```"):  # the code begins without an empty line
                    fenced = False
                after, behind = block_after(lines, index - 1)
                index = max(index, behind) if after else index
                fenced = False if after else fenced
            if words >= 12:
                yield begun, f"(under '{heading}')\n" + "\n".join(block + ([""] + after if after else []))
            block = []
            if after:
                continue
        if line.startswith("#") and not fenced:
            heading = line.lstrip("# ")


def draw(kind, patterns, count, seed):
    found = []
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True)):
            if os.path.basename(path) not in GENERATED:
                found += [(os.path.relpath(path, ROOT), line, text) for line, text in kind(path)]
    return random.Random(seed).sample(found, min(count, len(found))), len(found)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, required=True)
    options.add_argument("--count", type=int, default=60, help="how many of each kind are drawn")
    options.add_argument("--answers", action="store_true", help="print file and line above each")
    asked = options.parse_args()
    for title, letter, kind, patterns in (("Declarations", "D", declarations, ["include/**/*.h"]), ("Paragraphs", "P", paragraphs, ["README.md", "docs/*.md"])):
        drawn, total = draw(kind, patterns, asked.count, asked.seed)
        print(f"# {title}: {len(drawn)} of {total}, seed {asked.seed}\n")
        for number, (path, line, text) in enumerate(drawn, 1):
            print(f"[{letter}{number}]" + (f" {path}:{line}" if asked.answers else "") + f"\n{text}\n")


if __name__ == "__main__":
    main()
