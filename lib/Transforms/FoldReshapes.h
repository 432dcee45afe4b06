// SPDX-License-Identifier: Apache-2.0
// The rewrites of kerf-fold-reshapes. Each looks at one op, changes the IR around it or returns false; what it replaces
// is left dead.
#pragma once

#include "SplitReshapes.h"

namespace kerf {

// Transposes (FoldTransposes.cpp).
bool foldTranspose(ir::TransposeOp op);
bool foldProductTransposes(ir::DotGeneralOp op);

// Merges sink (SinkMerges.cpp): `op` has an operand that is a merge; it works on what the merge merges, and its result
// is merged.
bool sinkMerges(mlir::Operation *op);

} // namespace kerf
