# SPDX-License-Identifier: Apache-2.0
# Tests of the tools' text: kerf, kerf-opt and FileCheck are in PATH.
import os
import lit.formats

config.name = "Kerf"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)

config.environment["PATH"] = os.pathsep.join([config.kerf_tools_dir, config.llvm_tools_dir, os.environ.get("PATH", "")])
config.environment["FILECHECK_OPTS"] = "--enable-var-scope --dump-input-filter=error"
