#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks Kerf on a machine with Ascend NPUs and CANN: trains models on an NPU and on several, compares the losses with those of the CPU, and prints
# a table to send back. A failed row shows the message, and the script goes on.
#
#   scripts/npu-check.sh [NPUS]    NPUS: how many to use (default: all that kerf finds, at most 8)
#
# KERF names the program (default build/bin/kerf). With KERF_ASCEND_LIBRARIES=build/standins/ascend everything runs without an NPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec python3 scripts/npu_check.py "${KERF:-build/bin/kerf}" "${@:1}"
