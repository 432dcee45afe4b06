// SPDX-License-Identifier: Apache-2.0
// The meaning of the ops that are no composites, written as their documentation says it, index by index, in doubles: a
// reference for tests.
#pragma once

#include "Samples.h"

#include <vector>

namespace kerf::ir::test {

using Numbers = std::vector<double>;
using Values = llvm::DenseMap<mlir::Value, Numbers>;

/// Computes the results of `op` from `values` into it; false for an op that it does not know.
bool interpret(mlir::Operation *op, Values &values);

} // namespace kerf::ir::test
