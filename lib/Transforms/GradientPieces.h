// SPDX-License-Identifier: Apache-2.0
// A gradient that is summed in pieces, so that one piece is encoded while the piece before it is under way.
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

namespace kerf {

/// Replaces the sum of a gradient (an all-reduce or a reduce-scatter, and its wait) by the sums of `pieces` pieces, and
/// returns these. Pieces hold whole blocks of `block` elements on each rank, so a small gradient has fewer pieces.
/// Returns `start` itself, unchanged, where the gradient has one piece.
///
///   before: s = all_reduce g : tensor<1024>            after: p0 = all_reduce g[0:512]   p1 = all_reduce g[512:1024]
///           use wait s                                        use concatenate(wait p0, wait p1)
llvm::SmallVector<mlir::Operation *> cutIntoPieces(mlir::Operation *start, int64_t pieces, int64_t block);

} // namespace kerf
