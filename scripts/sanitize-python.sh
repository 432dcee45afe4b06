#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Python module with the address and undefined-behaviour sanitizers, and runs the tests of the package that need neither
# PyTorch nor JAX. Instrumented are the module and the library that trains inside of another program; the rooms behind them are
# those of the release build, and `make sanitize` tests them. ONLY="KerfCompiler;..." instruments other libraries, JOBS is the
# number of compilers at a time. Python itself is not instrumented, so the sanitizer's library is loaded before it. The command
# line of the folder build is what the tests compare with. Last, repeated calls are searched for leaks of any library.
# Use: sanitize-python.sh [TEST ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$PWD/build-sanitize-python
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(test_kerf test_arguments test_rounds test_launcher)
cmake --preset release -B "$folder" -DKERF_PYTHON=ON -DKERF_SANITIZE=ON -DKERF_SANITIZE_ONLY="${ONLY:-kerf_python;KerfTrainer}"
cmake --build "$folder" --parallel "${JOBS:-1}" --target kerf_python kerf_python_sources
# Without the C++ library at the front, the sanitizer does not find the function that throws exceptions.
preload=$(g++ -print-file-name=libasan.so):$(g++ -print-file-name=libstdc++.so)
python=$(python3 -c 'import sys; print(sys.executable)') # not a script that starts it
export KERF=${KERF:-$folder/../build/bin/kerf} PYTHONPATH=$folder/lib/python
cd python/tests
# As in scripts/test.sh; Python keeps memory until its end.
LD_PRELOAD=$preload ASAN_OPTIONS=allow_user_poisoning=0:detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
  "$python" -m unittest "${tests[@]}"
# Python's own objects are never freed, so that leaks are what two rounds of calls leave more than one round.
leaked() {
  rm -f "$folder"/leaks.*
  LD_PRELOAD=$preload PYTHONMALLOC=malloc ASAN_OPTIONS=allow_user_poisoning=0:detect_leaks=1:exitcode=0:log_path="$folder/leaks" \
    "$python" leaks.py "$1"
  sed -n 's/^SUMMARY: .*: \([0-9]*\) byte.*/\1/p' "$folder"/leaks.* 2>/dev/null || true # no file where nothing is left
}
one=$(leaked 1) two=$(leaked 2)
echo "leaks: ${one:-0} bytes after one round of calls, ${two:-0} after two"
if [ "${two:-0}" -gt "${one:-0}" ] || grep -q '_core' "$folder"/leaks.* 2>/dev/null; then
  echo "sanitize-python: calls leave memory behind; $folder/leaks.* says where it was allocated" >&2
  exit 1
fi
