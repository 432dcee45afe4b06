// SPDX-License-Identifier: Apache-2.0
// A reference implementation, in doubles and index by index, of the ops that are no composites, as their documentation
// defines them.
#pragma once

#include "Samples.h"

#include <vector>

namespace kerf::ir::test {

using Numbers = std::vector<double>;
using Values = llvm::DenseMap<mlir::Value, Numbers>;

/// Computes the results of `op` from the operands in `values` and stores them there. Returns false for an unknown op.
bool interpret(mlir::Operation *op, Values &values);

} // namespace kerf::ir::test
