#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds kerf-run (the runtime with the device `ascend`) and the stand-ins of CANN's libraries with the address and undefined-behaviour
# sanitizers, and runs the tests of the device with them: wrong accesses, undefined behaviour and leaks fail a test. The packages that it
# runs are compiled by the release build's kerf (KERF, default build/bin/kerf); `make sanitize` tests the compiler.
#
#   scripts/sanitize-ascend.sh [ARGUMENT ...]
#
# Arguments are those of test_ascend_failures.py; without one, it and test_ascend.py run their default tests. For each error code at
# each call: scripts/sanitize-ascend.sh --all AscendFailures.test_each_call. JOBS is the number of compilers at a time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$PWD/build-sanitize-ascend
only="KerfRuntime;KerfCpuDevice;KerfAscendDevice;KerfPackage;KerfRunCommand;kerf-run"
cmake --preset release -B "$folder" -DKERF_PYTHON=OFF -DKERF_SANITIZE=ON -DKERF_SANITIZE_ONLY="$only"
cmake --build "$folder" --parallel "${JOBS:-1}" --target kerf-run kerf_standin_cann
# As in scripts/test.sh; leaks are looked for, but not those of Open MPI, and not those of communicators whose other ranks are gone,
# which HCCL cannot end.
suppressions=$folder/leaks
printf 'leak:%s\n' libmpi libopen libhwloc libevent libhccl >"$suppressions"
export ASAN_OPTIONS=allow_user_poisoning=0:detect_leaks=1 LSAN_OPTIONS=suppressions=$suppressions:print_suppressions=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 KERF=${KERF:-$PWD/build/bin/kerf} KERF_RUN=$folder/bin/kerf-run
if [ $# -gt 0 ]; then
  exec python3 test/e2e/test_ascend_failures.py "$@"
fi
for test in ascend ascend_failures; do
  python3 test/e2e/test_$test.py
done
