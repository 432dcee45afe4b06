#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the cells of examples/notebooks in order, each notebook in a name space of its own, where KERF_ALL=1 is set.

Jupyter is not needed: the last expression of a cell is evaluated and shown as Jupyter would, by _repr_html_ or repr.
"""
import ast
import glob
import json
import os
import unittest

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples", "notebooks")


def run(path):
    """Runs a notebook; returns what its cells show."""
    with open(path) as file:
        cells = [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
    names, shown = {}, []
    for cell in cells:
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, path, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), path, "eval"), names)
            if value is not None:
                shown.append(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
    return shown


@unittest.skipUnless(os.environ.get("KERF_ALL"), "KERF_ALL=1 runs the notebooks")
class Notebooks(unittest.TestCase):
    def test_all(self):
        before = os.getcwd()
        os.chdir(FOLDER)
        self.addCleanup(os.chdir, before)
        for path in sorted(glob.glob("*.ipynb")):
            with self.subTest(notebook=path):
                shown = run(path)
                self.assertGreaterEqual(len(shown), 2)
                self.assertTrue(all(shown))

    def test_outputs_are_not_stored(self):
        for path in glob.glob(os.path.join(FOLDER, "*.ipynb")):
            with open(path) as file:
                for cell in json.load(file)["cells"]:
                    self.assertFalse(cell.get("outputs"), path)


if __name__ == "__main__":
    unittest.main()
