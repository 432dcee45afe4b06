#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what a build of Kerf needs and this Debian 12 machine does not have, and says why each is needed. Does nothing, quickly,
# when all is there. Without root it prints the command to run and stops.
set -euo pipefail

# package | a program that serves as well, if any | why
needed="
make|make|the short names: make build, make test
g++|g++|C++20 compiler
cmake|cmake|configures the build (3.25 or newer)
ninja-build|ninja|runs the build
ccache|ccache|makes second builds quick
python3|python3|lit, the end-to-end tests and the table of the demo
llvm-22-dev||LLVM 22.1: headers, CMake files, TableGen
libmlir-22-dev||MLIR 22.1: the compiler's IR
mlir-22-tools||mlir-tblgen: generates the dialect's code and documents
clang-22||compiles the kernels for GPUs, to text that NVIDIA's driver compiles further
libclc-22||functions of mathematics for these kernels
llvm-22-tools||lit and FileCheck: the tests of the passes
zlib1g-dev||reads compressed .npz files and placement problems
libsimdjson-dev||reads placement problems: JSON of a hundred megabytes
libprotobuf-dev||reads ONNX files
protobuf-compiler|protoc|generates the ONNX reader
libdnnl-dev||oneDNN: matrix products on the CPU
libopenmpi-dev||MPI: ranks as processes
openmpi-bin|mpirun|mpirun
libmimalloc-dev||an allocator: searches take a sixth less time
libfmt-dev||text of messages and reports
nlohmann-json3-dev||JSON: plans, packages, clusters, reports
libcli11-dev||options of the command line
libgtest-dev||unit tests
libbenchmark-dev||benchmarks of the kernels
"

llvm_source="LLVM and MLIR 22.1 are in Debian 12's bookworm-security suite; on a system without them, build them from source and configure
  with cmake -DMLIR_DIR=PREFIX/lib/cmake/mlir (docs/dependencies.md)"

has_package() { dpkg-query -W -f='${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }

# True when the program runs; for cmake also when it is new enough.
has_program() {
  [ -n "$1" ] || return 1
  local version
  version=$("$1" --version </dev/null 2>/dev/null) || return 1
  [ "$1" = cmake ] || return 0
  version=$(printf '%s\n' "$version" | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')
  [ "$(printf '3.25\n%s\n' "$version" | sort -V | head -n 1)" = 3.25 ]
}

# The Python package needs nanobind, which Debian 12 does not have; without it the build leaves the package out.
if ! python3 -c 'import importlib.util as u; assert all(map(u.find_spec, ("nanobind", "nanobind_backend", "numpy")))' 2>/dev/null && python3 -m pip --version >/dev/null 2>&1; then
  echo "setup: python3 -m pip install nanobind nanobind-backend numpy: they make the Python package (docs/python.md)"
  python3 -m pip install --quiet --retries 0 --timeout 15 'nanobind>=3.0' nanobind-backend numpy ||
    echo "setup: they could not be installed, so the Python package is not built; in a virtual environment they can be" >&2
fi

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not a Debian system, so nothing is installed; docs/dependencies.md lists what a build needs" >&2
  exit 0
fi

missing=()
while IFS='|' read -r package program why; do
  [ -n "$package" ] || continue
  if ! has_program "$program" && ! has_package "$package"; then
    [ ${#missing[@]} -gt 0 ] || echo "setup: missing here, and what for:"
    printf '  %-20s %s\n' "$package" "$why"
    missing+=("$package")
  fi
done <<<"$needed"
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ]; then
  echo "setup: installing needs root. Run this, then the same command again:" >&2
  echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
  case "${missing[*]}" in *llvm-22* | *mlir-22*) echo "setup: $llvm_source" >&2 ;; esac
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
echo "setup: apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
apt-get update -qq
unknown=()
for package in "${missing[@]}"; do
  [ -n "$(apt-cache search --names-only "^${package//+/\\+}\$")" ] || unknown+=("$package")
done
if [ ${#unknown[@]} -gt 0 ]; then
  echo "setup: nothing was installed: the package sources of this machine have no ${unknown[*]}; Debian 12 with bookworm-security has all" >&2
  case "${unknown[*]}" in *llvm-22* | *mlir-22*) echo "setup: $llvm_source" >&2 ;; esac
  exit 1
fi
apt-get install -y -qq --no-install-recommends "${missing[@]}"
