#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh SECONDS [TARGET...]: gives each fuzz target (fuzz/CMakeLists.txt) that many seconds on one core, with the address and
# undefined-behaviour sanitizers; an input that takes 25 seconds or 2 GB is a crash too. A line for each target at the end: executions,
# covered edges, inputs in the corpus, crashes. Corpora are in build-fuzz/corpora, what ended a target, made small, in build-fuzz/crashes.
# KERF_FUZZ_BUILD names another build folder, whose targets are taken as they are.
set -uo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: fuzz.sh SECONDS [TARGET...]}
shift
targets=${*:-onnx model device signature config plan cluster problem npz safetensors program checkpoint}
build=${KERF_FUZZ_BUILD:-build-fuzz}
export KERF=${KERF:-build/bin/kerf} # writes some of the seeds
if [ -z "${KERF_FUZZ_BUILD:-}" ]; then
  # shellcheck disable=SC2086
  cmake --preset fuzz && cmake --build --preset fuzz --target $(printf 'fuzz-%s ' $targets) || exit 1
fi
export ASAN_OPTIONS="${ASAN_OPTIONS:-allow_user_poisoning=0:detect_leaks=0}" # as in test.sh
mkdir -p "$build/crashes"
python3 fuzz/seeds.py "$build/seeds" || exit 1

limits="-timeout=25 -rss_limit_mb=2048"
summary=
for target in $targets; do
  corpus=$build/corpora/$target log=$build/$target.log
  program=$build/bin/fuzz-$target
  mkdir -p "$corpus"
  : >"$log"
  end=$((SECONDS + seconds)) executions=0 crashes=0
  # A crash ends libFuzzer; it begins again with what it had found.
  while [ $((end - SECONDS)) -gt 0 ] && [ $crashes -lt 20 ]; do
    # shellcheck disable=SC2086
    "$program" $limits -max_total_time=$((end - SECONDS)) -max_len=65536 -print_final_stats=1 -artifact_prefix="$build/crashes/$target-" \
      "$corpus" "$build/seeds/$target" $(ls -d "fuzz/found/$target" 2>/dev/null) >"$log.run" 2>&1
    status=$?
    cat "$log.run" >>"$log"
    executions=$((executions + $(sed -n 's/^stat::number_of_executed_units: *//p' "$log.run" | tail -n 1 | grep . || echo 0)))
    [ $status -eq 0 ] && break
    crashes=$((crashes + 1))
    input=$(sed -n 's/.*Test unit written to //p' "$log.run" | tail -n 1)
    # shellcheck disable=SC2086
    [ -z "$input" ] || timeout 90 "$program" $limits -minimize_crash=1 -max_total_time=30 -exact_artifact_path="$input.small" "$input" >/dev/null 2>&1
  done
  line=$(grep -o 'cov: [0-9]* ft: [0-9]* corp: [0-9]*' "$log" | sort -t' ' -k2,2n | tail -n 1)
  summary+=$(printf '%-12s %10d executions  %-40s %d crashes' "$target" $executions "$line" $crashes)$'\n'
  echo "$target: $executions executions, $line, $crashes crashes"
  rm -f "$log.run"
done
printf '\n%s' "$summary"
ls "$build/crashes" 2>/dev/null
