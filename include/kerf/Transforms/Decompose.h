// SPDX-License-Identifier: Apache-2.0
// Composites as simpler ops, one at a time: for passes that find only later which of them must go.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"

namespace kerf {

/// Puts a composite's simpler ops in its place and erases it. They have its location and `kerf.backward`, but no
/// strategy. Returns them in program order. Reports an error where the op is no composite, or has an offset
/// (decomposition comes before partitioning).
mlir::FailureOr<llvm::SmallVector<mlir::Operation *>> decomposeOp(mlir::Operation *op);

/// True when the op's `kerf.strategy` cuts a factor that asks for decomposition.
bool cutsDecomposedFactor(mlir::Operation *op);

} // namespace kerf
