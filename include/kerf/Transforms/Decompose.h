// SPDX-License-Identifier: Apache-2.0
// Decomposition of a single composite op into simpler ops, for passes that find out only while they run which
// composites have to be decomposed.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"

namespace kerf {

/// Replaces a composite by simpler ops, erases it, and returns the new ops in program order. The new ops have the
/// composite's location and its `kerf.backward`, but no strategy. Reports an error where `op` is no composite, or where
/// it has an `offset` operand (decomposition must come before partitioning).
mlir::FailureOr<llvm::SmallVector<mlir::Operation *>> decomposeOp(mlir::Operation *op);

/// Returns whether the op's `kerf.strategy` shards a factor of kind Decomposed, which requires that the op is
/// decomposed first.
bool cutsDecomposedFactor(mlir::Operation *op);

} // namespace kerf
