#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Python module with the address and undefined-behaviour sanitizers, and runs the tests of the package that need neither
# PyTorch nor JAX. Instrumented are the module and the library that trains inside of another program; the rooms behind them are
# those of the release build, and `make sanitize` tests them. ONLY="KerfCompiler;..." instruments other libraries, JOBS is the
# number of compilers at a time. Python itself is not instrumented, so the sanitizer's library is loaded before it. The command
# line of the folder build is what the tests compare with. Use: sanitize-python.sh [TEST ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$PWD/build-sanitize-python
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(test_kerf test_arguments test_rounds test_launcher)
cmake --preset release -B "$folder" -DKERF_PYTHON=ON -DKERF_SANITIZE=ON -DKERF_SANITIZE_ONLY="${ONLY:-kerf_python;KerfTrainer}"
cmake --build "$folder" --parallel "${JOBS:-1}" --target kerf_python kerf_python_sources
# Without the C++ library at the front, the sanitizer does not find the function that throws exceptions.
preload=$(g++ -print-file-name=libasan.so):$(g++ -print-file-name=libstdc++.so)
cd python/tests
# As in scripts/test.sh; Python keeps memory until its end.
LD_PRELOAD=$preload ASAN_OPTIONS=allow_user_poisoning=0:detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
  KERF=${KERF:-$folder/../build/bin/kerf} PYTHONPATH=$folder/lib/python python3 -m unittest "${tests[@]}"
