#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of a build folder with ctest. The last line of the output is "N passed, N failed"; the exit status is 0 only when
# nothing failed.
set -uo pipefail
build=$1
results=$build/test-results.xml
rm -f "$results"
# Whole outputs, because the number of tests inside of each program is read from them.
ctest --test-dir "$build" --output-on-failure --parallel "${JOBS:-$(nproc)}" --no-tests=error --output-junit test-results.xml \
  --test-output-size-passed 4000000 --test-output-size-failed 4000000 </dev/null
python3 "$(dirname "$0")/count-tests.py" "$results" $? | tee "$build/test-summary"
