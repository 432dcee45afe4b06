#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of a build folder with ctest. The last line of the output is "N passed, N failed"; the exit status is 0 only when
# nothing failed.
set -uo pipefail
build=$1
results=$build/test-results.xml
rm -f "$results"
# For the sanitizer build. LLVM's headers poison memory that the packaged, uninstrumented LLVM then uses: only what the compiler itself
# instruments is checked. Open MPI and LLVM keep memory to the end of the process: leaks are not looked for.
export ASAN_OPTIONS="${ASAN_OPTIONS:-allow_user_poisoning=0:detect_leaks=0}"
# Whole outputs, because the number of tests inside of each program is read from them.
ctest --test-dir "$build" --output-on-failure --parallel "${JOBS:-$(nproc)}" --no-tests=error --output-junit test-results.xml \
  --test-output-size-passed 4000000 --test-output-size-failed 4000000 </dev/null
python3 "$(dirname "$0")/count-tests.py" "$results" $? | tee "$build/test-summary"
