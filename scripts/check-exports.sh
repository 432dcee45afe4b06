#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Exports 50 plans to each trainer, and reads every file with the trainer's own parser, or, where its parser is not on
# PyPI, with the argument rules of test/e2e/trainer_arguments.py. Prints the table of docs/export.md. Needs the network
# for the first run, which makes a virtual environment in build/check-exports, and a built kerf (KERF=...).
#
#   scripts/check-exports.sh                         all plans
#   scripts/check-exports.sh --only moe --jobs 2     plans whose name has "moe", two at a time
set -eu
cd "$(dirname "$0")/.."
work=${CHECK_EXPORTS:-build/check-exports}
python=${CHECK_EXPORTS_PYTHON:-$work/venv/bin/python}
if [ ! -x "$python" ]; then
  python3 -m venv "$work/venv"
  pip="$work/venv/bin/pip"
  "$pip" install -q "torch==2.13.0+cpu" triton torchao torchtitan==0.3.0 deepspeed==0.19.8 "transformers<=5.12.1" einops
  # The definitions of its arguments are read from its sources, which import much that reading them does not need.
  "$pip" install -q --no-deps ms-swift==4.6.0
  # Both are for Python 3.12 and name packages that need CUDA, which reading arguments and configurations does not.
  "$pip" download -q --no-deps --only-binary :all: --python-version 3.12 -d "$work/wheels" megatron-core==0.19.2 \
    megatron-bridge==0.6.2
  for wheel in "$work"/wheels/megatron_*.whl; do
    python3 -m zipfile -e "$wheel" "$("$work/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
  done
  "$pip" install -q accelerate datasets hydra-core nanobind-backend omegaconf regex rich six timm
fi
mkdir -p "$work"
export KERF=${KERF:-$PWD/build/bin/kerf}
PYTHONPATH=test/e2e:scripts "$python" -m check_exports --work "$work" "$@"
# Trains a model of TorchTitan under plans; needs the Python package of the build.
KERF_ALL=1 PYTHONPATH=build/lib/python:python/tests "$python" -W ignore python/tests/test_titan.py
