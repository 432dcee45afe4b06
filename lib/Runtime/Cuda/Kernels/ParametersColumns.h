// SPDX-License-Identifier: Apache-2.0
// The parameters of reductions whose kernels read whole cache lines (ReduceRows.cu). Parameters.h says what holds for
// all structs of parameters.
#pragma once

#include "Parameters.h"

namespace kerf::runtime::cuda {

/// Columns of a block that combines the rows of a table, and its threads.
inline constexpr int kColumnsOfBlock = 32, kColumnThreads = 1024;
/// Threads of a block of the other kernels of ReduceRows.cu, and blocks on a multiprocessor: each thread has 64 of its
/// 65,536 registers.
inline constexpr int kReduceThreads = 256, kReduceBlocks = 4;

/// Combines the elements of x, a tensor (outer, kept, inner), over its outer and inner dimensions. The work is split
/// into `pieces`: a piece has `outerOfPiece` indices of the outer dimension and `innerOfPiece` of the inner one, and
/// innerPieces pieces lie side by side in the inner dimension. partials[(piece, k)] is the result of a piece; with one
/// piece it is the result itself, in y. With inner = 1, a warp reads rowsOfWarp rows at a time.
struct ReduceRowsParameters {
  Reduction kind;
  const void *x;
  void *y, *partials;
  int64_t outer, kept, inner;
  int64_t outerOfPiece, innerOfPiece, innerPieces, pieces, rowsOfWarp;
};

} // namespace kerf::runtime::cuda
