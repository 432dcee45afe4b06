#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks Kerf on a machine with an NVIDIA GPU that has no compiler and no network.
#
#   scripts/gpu-check.sh pack [FOLDER]   where Kerf is built: collects programs, packages and data (default build/gpu-check), and
#                                        packs them into FOLDER.tar.gz
#   FOLDER/gpu-check.sh run              where the GPU is: runs the tests of kernels and of the device, trains every package,
#                                        also op by op, and prints a table
#   scripts/gpu-check.sh                 both, on this machine
#
# KERF_DEVICE names the device (default cuda:0). With KERF_CUDA_LIBRARIES=build/standins everything runs without a GPU.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
device=${KERF_DEVICE:-cuda:0}
most_bytes=$((60 * 1000 * 1000)) # of what is carried to the machine with the GPU

# Prints the options of the optimizer with which a model's reference losses were made.
settings() {
  python3 - "$1" <<'PYTHON'
import json
import sys
adamw = json.load(open(sys.argv[1]))["optimizers"]["adamw"]
print("--optimizer adamw", *(f"--{name.replace('_', '-')} {adamw[name]}" for name in ("beta1", "beta2", "eps", "weight_decay")))
PYTHON
}

pack() {
  local folder=$1 root build
  root=$(dirname "$here")
  build=${KERF_BUILD:-$root/build}
  rm -rf "$folder"
  mkdir -p "$folder/bin" "$folder/lib" "$folder/packages"
  cp "$here/gpu-check.sh" "$root/examples/gpt2/compare.py" "$folder"
  for program in kerf-run KernelTests RuntimeTests; do
    strip -o "$folder/bin/$program" "$build/bin/$program"
    # Libraries that a machine without Kerf's packages may lack; the C and C++ libraries are the machine's own.
    ldd "$build/bin/$program" | awk '$3 ~ /^\// {print $3}' | grep -vE '/(ld-linux|libc|libm|libpthread|libdl|librt|libstdc\+\+|libgcc_s)[.-]' |
      xargs -I{} cp -Lu {} "$folder/lib"
  done
  local model name
  for model in "$root"/examples/gpt2 "$root"/test/models/* "${KERF_SHARED:-$root/../shared}"/models/*; do
    name=$(basename "$model")
    if [ -f "$model/model.onnx" ] && [ -f "$model/golden.json" ] && [ -f "$model/batches.npz" ] && [ ! -d "$folder/packages/$name" ]; then
      # shellcheck disable=SC2046  # the settings are several words
      "$build/bin/kerf" compile "$model/model.onnx" --ranks 1 $(settings "$model/golden.json") -o "$folder/packages/$name"
      cp "$model/golden.json" "$model/batches.npz" "$folder/packages/$name"
    fi
  done
  local bytes
  tar -czf "$folder.tar.gz" -C "$(dirname "$folder")" "$(basename "$folder")"
  bytes=$(stat -c %s "$folder.tar.gz")
  echo "packed $bytes bytes in $folder.tar.gz"
  if [ "$bytes" -gt "$most_bytes" ]; then
    echo "error: $folder.tar.gz has $bytes bytes, more than $most_bytes; leave out packages" >&2
    return 1
  fi
}

# Runs a test program and prints one row of the table.
test_row() {
  local name=$1 status=0
  shift
  "$@" >"$name.log" 2>&1 || status=$?
  printf '%-22s %-8s %s\n' "$name" "$([ $status -eq 0 ] && echo passed || echo FAILED)" "$(grep -E '\[  (PASSED|FAILED)  \] [0-9]+ tests?' "$name.log" | head -1)"
  return $status
}

# Trains a package for two steps with its PTX and without, and prints whether the weights have the same bits.
fused_row() {
  local package=$1 name said=passed kind folder
  name=$(basename "$package")
  rm -rf "bits/$name"
  mkdir -p "bits/$name"
  cp -r "$package" "bits/$name/fused"
  cp -r "$package" "bits/$name/plain"
  rm "bits/$name/plain"/*.ptx
  for kind in fused plain; do
    folder=bits/$name/$kind
    bin/kerf-run "$folder" --data "$package/batches.npz" --steps 2 --lr "$(learning_rate "$package/golden.json")" --device "$device" \
      --save "$folder/weights" >"$folder/log" 2>&1 || said=FAILED
  done
  grep -q "is not used" "bits/$name/fused/log" && said=FAILED
  cmp -s "bits/$name/fused/weights" "bits/$name/plain/weights" || said=FAILED
  printf '%-22s %-8s %s\n' "fused $name" "$said" "against op by op, bit for bit"
  [ $said = passed ]
}

run() {
  local folder failed=0 package name status
  folder=$(cd "$1" && pwd)
  cd "$folder"
  export LD_LIBRARY_PATH="$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  { command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader; } || echo "no nvidia-smi: no GPU, or stand-ins"
  date -u +%F
  test_row kernels env KERF_KERNEL_DEVICE="$device" bin/KernelTests '--gtest_filter=-ThreadTeam*:Golden*:*StartNoThreadsOfTheirOwn' || failed=1
  test_row device bin/RuntimeTests '--gtest_filter=*DeviceTest*cuda*:CudaDeclarations*' || failed=1
  for package in packages/*; do
    name=$(basename "$package")
    status=0
    bin/kerf-run "$package" --data "$package/batches.npz" --steps 20 --lr "$(learning_rate "$package/golden.json")" --device "$device" \
      --log "$name.jsonl" >"$name.log" 2>&1 && python3 compare.py "$package/golden.json" adamw "$name.jsonl" >>"$name.log" || status=$?
    [ $status -eq 0 ] || failed=1
    printf '%-22s %-8s %s\n' "$name" "$([ $status -eq 0 ] && echo passed || echo FAILED)" "$(tail -n 1 "$name.log")"
  done
  for package in packages/*; do
    if compgen -G "$package/*.ptx" >/dev/null; then
      fused_row "$package" || failed=1
    fi
  done
  if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck initcheck synccheck; do
      test_row "$tool" compute-sanitizer --tool $tool --error-exitcode 9 bin/kerf-run packages/mlp --data packages/mlp/batches.npz --steps 2 --device "$device" || failed=1
    done
  fi
  return $failed
}

learning_rate() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["optimizers"]["adamw"]["lr"])' "$1"; }

default=$(dirname "$here")/build/gpu-check
case ${1:-both} in
pack) pack "${2:-$default}" ;;
run) run "${2:-$here}" ;;
both) pack "$default" && run "$default" ;;
*)
  sed -n '3,12p' "${BASH_SOURCE[0]}"
  exit 1
  ;;
esac
