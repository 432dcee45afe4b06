#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes PTX texts as a table of C++: embed.py TABLE TEXT.ptx ...   Each row is {file, type, bytes, compressed bytes, compressed text}.

Lines without meaning (comments and empty lines) are left out, and the rest is compressed as zlib does."""
import os
import re
import sys
import zlib


def literal(data, width=8000):
    """Returns the bytes as string literals of C++, one below the other."""
    return "\n".join('"' + "".join(f"\\{byte:o}" if following not in b"01234567" else f"\\{byte:03o}"
                                   for byte, following in zip(data[at:at + width], data[at + 1:at + width] + b"8")) + '"'
                     for at in range(0, len(data), width))


def main():
    table, texts = sys.argv[1], sys.argv[2:]
    rows = []
    for path in texts:
        with open(path) as file:
            text = re.sub(r"[ \t]*//[^\n]*", "", file.read())
        text = re.sub(r"\n\s*\n+", "\n", text)
        file, dtype = os.path.basename(path).split(".")[:2]
        packed = zlib.compress(text.encode(), 9)
        rows.append(f'{{"{file}", "{dtype.lower()}", {len(text)}, {len(packed)},\n{literal(packed)}}},\n')
    with open(table + ".new", "w") as file:
        file.writelines(rows)
    os.replace(table + ".new", table)


if __name__ == "__main__":
    main()
