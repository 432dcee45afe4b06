#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes PTX texts as a table of C++: embed.py TABLE FILE.TYPE.ptx ...   Each row is {file, parts, bytes, compressed bytes, compressed text}.

The texts of a file for all element types are one text, in which functions of the same name follow each other, because they compress well
together. `parts` says to which types they belong: "f32 120,bf16 118,f32 64,..." are the type and the bytes of each part. Lines without meaning
(comments and empty lines) are left out, and the rest is compressed as zlib does."""
import collections
import os
import re
import sys
import zlib


def literal(data, width=8000):
    """Returns the bytes as string literals of C++, one below the other."""
    return "\n".join('"' + "".join(f"\\{byte:o}" if following not in b"01234567" else f"\\{byte:03o}"
                                   for byte, following in zip(data[at:at + width], data[at + 1:at + width] + b"8")) + '"'
                     for at in range(0, len(data), width))


def functions_of(path):
    """Returns the text in pieces, each of which begins with a function, except for the first one."""
    with open(path) as file:
        text = re.sub(r"[ \t]*//[^\n]*", "", file.read())
    return re.split(r"(?=\n\.(?:visible|weak|func))", re.sub(r"\n\s*\n+", "\n", text))


def main():
    table, texts = sys.argv[1], sys.argv[2:]
    files = collections.defaultdict(list)
    for path in texts:
        file, dtype = os.path.basename(path).split(".")[:2]
        files[file] += [(number, dtype.lower(), text) for number, text in enumerate(functions_of(path))]
    rows = []
    for file, pieces in files.items():
        pieces.sort(key=lambda piece: piece[:2])
        whole = "".join(text for _, _, text in pieces).encode()
        parts, packed = ",".join(f"{dtype} {len(text.encode())}" for _, dtype, text in pieces), zlib.compress(whole, 9)
        rows.append(f'{{"{file}",\n{literal(parts.encode())}, {len(whole)}, {len(packed)},\n{literal(packed)}}},\n')
    with open(table + ".new", "w") as file:
        file.writelines(rows)
    os.replace(table + ".new", table)


if __name__ == "__main__":
    main()
