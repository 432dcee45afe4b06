#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the types of the package, of the stub of its compiled module, and of the programs that README.md and docs/ show, with
pyright. Packages that are not installed are not looked for."""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import kerf

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = ("README.md", "docs/python.md", "docs/pytorch.md", "docs/parallelize.md", "docs/jax.md")
OTHERS = ("torch", "transformers", "accelerate", "jax", "onnx", "onnxscript", "pandas", "matplotlib")
STRICT = ("__init__.py", "ask.py", "checks.py", "command.py", "errors.py")  # the others check arguments that have no types, or read JSON


def programs(page):
    """Returns the whole programs in Python that a page shows; parts of programs have no file name and no import."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        blocks = re.findall(r"^```python([^\n]*)\n(.*?)^```", file.read(), re.M | re.S)
    return [text for _, text in blocks if re.search(r"^import ", text, re.M)]


# Where torch or jax is missing, pyright takes kerf/torch and kerf/jax for them.
@unittest.skipUnless(all(importlib.util.find_spec(name) for name in ("pyright", "torch", "jax")), "pyright, torch or jax is not installed")
class Types(unittest.TestCase):
    def test_no_errors(self):
        missing = [name for name in OTHERS if importlib.util.find_spec(name) is None]
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.dirname(os.path.abspath(kerf.__file__)), os.path.join(folder, "kerf"), ignore=shutil.ignore_patterns("*.so", "__pycache__"))
            for page in PAGES:
                for number, text in enumerate(programs(page)):
                    with open(os.path.join(folder, f"{os.path.basename(page)[:-3]}_{number}.py"), "w", encoding="utf-8") as file:
                        file.write(text)
            with open(os.path.join(folder, "pyrightconfig.json"), "w", encoding="utf-8") as file:
                json.dump({"include": ["."], "strict": [f"kerf/{name}" for name in STRICT], "pythonVersion": "3.10",
                           "extraPaths": [".", os.path.join(ROOT, "examples", "gpt2")],
                           "reportMissingImports": not missing, "reportMissingModuleSource": False,
                           "reportPrivateImportUsage": False}, file)
            done = subprocess.run([sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", folder], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"^0 errors")


if __name__ == "__main__":
    unittest.main()
