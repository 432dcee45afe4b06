#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/package.md says what the code reads: every key of program.json, every kind of argument, phase and entry of a list of steps, both versions.

    python3 test/docs/package_page.py
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(*path):
    with open(os.path.join(ROOT, *path)) as file:
        return file.read()


def words_of(code, name):
    """The strings of `constexpr std::string_view NAME[] = {...};`"""
    listed = re.search(rf"constexpr std::string_view {name}\[\] = \{{(.*?)\}};", code, re.DOTALL)
    return re.findall(r'"(\w+)"', listed[1])


def number(text, pattern, where):
    found = re.search(pattern, text)
    if not found:
        sys.exit(f"{where}: nothing fits {pattern!r}")
    return int(found[1])


def main():
    page, reader = read("docs", "package.md"), read("lib", "Package", "ProgramFile.cpp")
    keys = re.findall(r'[mM]ember\(\w+, "(\w+)"', reader) + re.findall(r'strings\("(\w+)"\)', reader)
    kinds, phases = words_of(reader, "kKinds"), words_of(reader, "kPhases")
    entries = words_of(read("lib", "Package", "FlatProgram.cpp"), "kNames")
    if len(keys) < 20 or len(kinds) < 5 or len(phases) < 5 or len(entries) < 5:
        sys.exit("lib/Package/ProgramFile.cpp is written in another way than this test reads")
    faults = [f"'{word}' is read by lib/Package/ProgramFile.cpp, and docs/package.md does not name it"
              for word in dict.fromkeys(keys + kinds + phases + entries) if not re.search(rf'[`"]{word}[`"]', page)]
    versions = {
        "the version of the format": (number(page, r"version of the format: (\d+)", "docs/package.md"),
                                      number(read("include", "kerf", "Package", "Package.h"), r"kVersion = (\d+);", "Package.h")),
        "the interface of code": (number(page, r"`interface` \((\d+);", "docs/package.md"),
                                  number(read("include", "kerf", "Package", "Native.h"), r"kNativeInterface = (\d+);", "Native.h")),
        "the interface of PTX": (number(page, r"`ptx`: version (\d+)", "docs/package.md"),
                                 number(read("include", "kerf", "Package", "Ptx.h"), r"kPtxInterface = (\d+);", "Ptx.h")),
    }
    faults += [f"{what} is {said} in docs/package.md and {real} in the code" for what, (said, real) in versions.items() if said != real]
    for fault in faults:
        print(fault)
    print(f"{len(set(keys))} keys, {len(kinds)} kinds, {len(phases)} phases, {len(entries)} entries of lists, {len(versions)} versions: {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
