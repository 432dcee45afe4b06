#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks Kerf on a machine with an NVIDIA GPU that has no compiler and no network: losses, planned memory, speed beside PyTorch, tests of
# kernels, and compute-sanitizer.
#
#   scripts/gpu-check.sh pack [FOLDER]   where Kerf is built: collects programs, packages and data (default build/gpu-check), and
#                                        packs them into FOLDER.tar.gz, of at most 60 MB
#   FOLDER/gpu-check.sh run              where the GPU is: prints a row for each check, and a table at the end
#   scripts/gpu-check.sh run             the same with build/gpu-check
#   scripts/gpu-check.sh                 both, on this machine
#   scripts/gpu-check.sh predict CLUSTER ROWS.jsonl
#                                        where Kerf is built: the measured steps beside those that `kerf plan` predicts with CLUSTER,
#                                        the file that `kerf-profile --device cuda -o CLUSTER` made on the same GPU
#
# `pack --help`, `run --help` and `predict --help` list the options. The machine with the GPU needs Python 3 only. KERF_DEVICE
# names the device (default cuda:0). With KERF_CUDA_LIBRARIES=build/standins everything runs without a GPU.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
default=${KERF_BUILD:-$(dirname "$here")/build}/gpu-check
command=${1:-both}
[ $# -eq 0 ] || shift

run() {
  local folder=$default
  [ -f "$here/manifest.json" ] && folder=$here
  if [ ! -f "$folder/manifest.json" ]; then
    echo "error: $folder/manifest.json is not there: run $0 pack first" >&2
    exit 1
  fi
  python3 "$folder/gpu_check/run.py" "$@"
}

case $command in
pack) python3 "$here/gpu_check/pack.py" "$@" ;;
run) run "$@" ;;
predict) python3 "$here/gpu_check/predict.py" "$@" ;;
both) python3 "$here/gpu_check/pack.py" && run ;;
*)
  sed -n '3,17p' "${BASH_SOURCE[0]}"
  exit 1
  ;;
esac
