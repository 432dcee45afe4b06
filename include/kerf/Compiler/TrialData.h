// SPDX-License-Identifier: Apache-2.0
// Random batches for a trial run of a training step.
#pragma once

#include "kerf/Compiler/Compiler.h"

namespace kerf {

/// Returns `steps` random batches for each input of `program`, which was compiled from `module`. Elements of floating
/// inputs are in [-1, 1). Elements of an integer input that indexes tables or classes of a loss are valid indices of
/// all of them; other integers are 0 or 1. Booleans are true. Every call returns the same batches.
TensorMap randomBatches(mlir::ModuleOp module, const package::Program &program, int64_t steps);

} // namespace kerf
