#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints "N passed, N failed" from ctest's JUnit file.

One test of ctest is a program with many tests inside (GoogleTest, lit, unittest): each of them counts, read from the program's own
summary. A program that failed without saying how many counts as one failure.
"""
import re
import sys
import xml.etree.ElementTree as xml


def number(pattern, text):
    found = re.findall(pattern, text, re.MULTILINE)
    return int(found[-1]) if found else 0


def counts(text):
    """Tests inside of a program, by its output: (passed, failed, skipped)."""
    if "[==========]" in text:  # GoogleTest
        return (number(r"^\[  PASSED  \] (\d+) tests?\.", text), number(r"^\[  FAILED  \] (\d+) tests?, listed", text),
                number(r"^\[  SKIPPED \] (\d+) tests?, listed", text))
    if "Total Discovered Tests:" in text:  # lit
        failed = sum(number(rf"^\s*{word}\s*: (\d+)", text)
                     for word in ("Failed", "Timed Out", "Unresolved", "Unexpectedly Passed"))
        skipped = sum(number(rf"^\s*{word}\s*: (\d+)", text) for word in ("Unsupported", "Skipped", "Excluded"))
        return number(r"^\s*Passed\s*: (\d+)", text), failed, skipped
    if re.search(r"^Ran \d+ tests? in", text, re.MULTILINE):  # Python's unittest
        failed = sum(number(rf"{word}=(\d+)", text) for word in ("failures", "errors"))
        skipped = number(r"skipped=(\d+)", text)
        return number(r"^Ran (\d+) tests? in", text) - failed - skipped, failed, skipped
    return None


def not_found(case):
    """A test whose program is missing did not run either, but it was not left out on purpose."""
    skipped = case.find("skipped")
    return skipped is not None and "Unable to find executable" in (skipped.get("message") or "")


def main():
    results, status = sys.argv[1], int(sys.argv[2])
    passed = failed = skipped = 0
    try:
        cases = xml.parse(results).getroot().findall("testcase")
    except (OSError, xml.ParseError) as error:
        print(f"no results of ctest: {error}")
        cases = []
    for case in cases:
        state = case.get("status")
        inside = counts(case.findtext("system-out") or "")
        if state == "run":
            ok, bad, left_out = inside or (1, 0, 0)
        elif state == "fail" or not_found(case):
            ok, bad, left_out = inside or (0, 1, 0)
            bad = max(bad, 1)
            print(f"failed: {case.get('name')}")
        else:
            ok, bad, left_out = 0, 0, 1
        passed, failed, skipped = passed + ok, failed + bad, skipped + left_out
    if skipped:
        print(f"skipped: {skipped}")
    if status and not failed:
        failed = 1  # ctest itself went wrong
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
