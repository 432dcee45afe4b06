// SPDX-License-Identifier: Apache-2.0
// The rewrites of the pass kerf-fold-reshapes that have source files of their own. Each looks at one op, and either
// changes the IR around the op and returns true, or changes nothing and returns false. Replaced ops stay without uses.
#pragma once

#include "SplitReshapes.h"

namespace kerf {

/// Cancels a transpose with an adjacent one, or moves it up through an elementwise op where it
/// then cancels (FoldTransposes.cpp).
bool foldTranspose(ir::TransposeOp op);
/// Folds transposes of a product's operands or result into the product's dimension numbers (FoldTransposes.cpp).
bool foldProductTransposes(ir::DotGeneralOp op);

/// Moves a reshape that merges dimensions from the operands of `op` to its result, so that `op` computes on the
/// separate dimensions (SinkMerges.cpp).
bool sinkMerges(mlir::Operation *op);

} // namespace kerf
