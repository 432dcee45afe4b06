#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the wheel of scripts/wheel.sh into a new virtual environment and tests it there: the programs, the tests of the
# package, and the order of imports beside PyTorch, JAX and Triton. PACKAGES is a folder of further packages (site-packages) that
# the environment sees, for example one with torch and jax. Use: [PACKAGES=FOLDER] try-wheel.sh [TEST ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(test_kerf test_launcher test_imports)
python3 -m venv "$folder/venv"
bin=$folder/venv/bin
[ -z "${PACKAGES:-}" ] || echo "$PACKAGES" >"$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/packages.pth"
"$bin/pip" install --quiet build-wheel/dist/*.whl
# Nothing of the build is on the path: only the wheel is tried.
run() { env -u PYTHONPATH PATH="$bin:/usr/bin:/bin" KERF="$bin/kerf" "$@"; }
run kerf --version
run kerf-profile --version
run kerf compile examples/gpt2/model.onnx --ranks 2 -o "$folder/package" >/dev/null
run kerf-run "$folder/package" --data examples/gpt2/batches.npz --steps 2
{ PMI_RANK=0 run kerf-run "$folder/package" --data examples/gpt2/batches.npz 2>&1 || true; } | grep 'built without MPI'
run ldd "$(run python -c 'import kerf._core as core; print(core.__file__)')" | { ! grep -E 'LLVM|MLIR|libmpi|not found'; }
cd python/tests
run python -m unittest "${tests[@]}"
