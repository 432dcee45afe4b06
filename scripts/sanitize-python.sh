#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Python module and all of Kerf in it with the address and undefined-behaviour sanitizers, and runs the tests of the
# package that need neither PyTorch nor JAX. Python itself is not instrumented, so the sanitizer's library is loaded before it.
# The command line of the folder build is what the tests compare with. Use: sanitize-python.sh [TEST ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$PWD/build-sanitize-python
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(test_kerf test_arguments test_rounds test_launcher)
cmake --preset sanitize -B "$folder" -DKERF_PYTHON=ON -DKERF_PRECOMPILE=ON -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=8 \
  -DCMAKE_UNITY_BUILD_RELOCATABLE=ON
cmake --build "$folder" --target kerf_python kerf_python_sources
# Without the C++ library at the front, the sanitizer does not find the function that throws exceptions.
preload=$(g++ -print-file-name=libasan.so):$(g++ -print-file-name=libstdc++.so)
cd python/tests
# As in scripts/test.sh; Python keeps memory until its end.
LD_PRELOAD=$preload ASAN_OPTIONS=allow_user_poisoning=0:detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
  KERF=${KERF:-$folder/../build/bin/kerf} PYTHONPATH=$folder/lib/python python3 -m unittest "${tests[@]}"
