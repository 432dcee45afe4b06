// SPDX-License-Identifier: Apache-2.0
// Random batches for a trial run of a training step.
#pragma once

#include "kerf/Compiler/Compiler.h"

namespace kerf {

/// Returns `steps` random batches for every input of `program`, which `module` was compiled to. Floating inputs lie in
/// [-1, 1); an integer input that picks rows of a table or classes of a loss lies in the range of the smallest of them,
/// any other in [0, 2); truth values are true. The same batches every time.
TensorMap randomBatches(mlir::ModuleOp module, const package::Program &program, int64_t steps);

} // namespace kerf
