# SPDX-License-Identifier: Apache-2.0
"""What conventions.csv says about a row of published runs: who ran it and how. README.md in this folder explains the columns."""
import csv
import os
import re

FOLDER = os.path.dirname(os.path.abspath(__file__))


class CannotExpress(Exception):
    """A row that Kerf cannot predict; the message is the reason."""


def ids_of(words):
    """Expands "a#1-3 b#7 c/d" to a#1, a#2, a#3, b#7, c/d."""
    for word in words.split():
        runs = re.fullmatch(r"(.*#)(\d+)-(\d+)", word)
        if runs:
            yield from (f"{runs[1]}{number}" for number in range(int(runs[2]), int(runs[3]) + 1))
        else:
            yield word


def pairs_of(text):
    """Splits "system~Megatron-Core; hardware~H100" or "vp=6; sp=yes" into pairs of a column and a value."""
    for part in text.split(";"):
        if part.strip():
            column, _, value = re.fullmatch(r"([\w.]+)([~=])(.*)", part.strip()).groups()
            yield column, value


def read_conventions():
    """Returns the lines of conventions.csv in order, and a dictionary from the id of a row to its line."""
    lines, by_id = [], {}
    with open(os.path.join(FOLDER, "conventions.csv"), newline="") as file:
        for line in csv.DictReader(file):
            lines.append(line)
            for name in ids_of(line["rows"]):
                if name in by_id:
                    raise SystemExit(f"conventions.csv has two lines of the row {name}")
                by_id[name] = line
    return lines, by_id


LINES, BY_ID = read_conventions()


def convention_of(row):
    """Returns the line of a row: the one that names its id, else the first one whose `where` holds for its columns."""
    line = BY_ID.get(row.get("id"))
    if line:
        return line
    for line in LINES:
        wanted = list(pairs_of(line["where"]))
        if wanted and all(re.search(value, row.get(column) or "") for column, value in wanted):
            return line
    raise CannotExpress("conventions.csv has no line for this row")


def completed(row):
    """Returns the row with the cells of `fills` of its line in the place of empty cells; "@pp" copies the row's column pp."""
    line = convention_of(row)
    if line["reason"]:
        raise CannotExpress(line["reason"])
    full = dict(row)
    for column, value in pairs_of(line["fills"]):
        if not (full.get(column) or "").strip():
            full[column] = row.get(value[1:]) if value.startswith("@") else value
    return full
