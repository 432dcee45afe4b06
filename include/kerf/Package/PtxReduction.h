// SPDX-License-Identifier: Apache-2.0
// The order in which GPUs reduce tensors, shared by the runtime's own kernels (Runtime/Cuda/Kernels/ReduceRows.cu) and
// by kernels of packages that reduce the values they compute. It depends on shapes and types only.
#pragma once

#include "kerf/Package/Native.h"

namespace kerf::package {

/// The threads that combine neighbouring elements of a tensor (outer, kept, inner): with inner = 1, warps combine rows
/// of a table, and otherwise one thread, a warp or a block combines a run of `inner` elements.
enum class ReduceForm { Table, Threads, Warps, Blocks };

/// The reduction of a tensor (outer, kept, inner) over its outer and inner dimensions. The work is split into `pieces`:
/// a piece has `outerOfPiece` indices of the outer dimension and `innerOfPiece` of the inner one, and innerPieces
/// pieces lie side by side in the inner dimension. The results of the pieces are combined in a fixed order.
///
/// In a table, a block has kPtxThreads / 32 * rowsOfWarp groups of 32 / rowsOfWarp neighbouring threads. Group g
/// combines the rows g, g + groups, ... of a piece, and the results of the groups are combined in ascending order. The
/// order does not depend on how many columns a thread has.
struct ReducePlan {
  ReduceForm form = ReduceForm::Table;
  int64_t outer = 1, kept = 1, inner = 1;
  int64_t outerOfPiece = 1, innerOfPiece = 1, innerPieces = 1, pieces = 1;
  int64_t rowsOfWarp = 1; // rows of a table that a warp reads at a time: a power of two, 1 for 129 and more columns
  /// Returns the number of tiles of neighbouring columns of a table, where a thread of a block has `width` columns.
  int64_t tiles(int64_t width) const;
  bool operator==(const ReducePlan &) const = default;
};
/// Returns the plan for a tensor whose elements have `bytes` bytes. Returns nothing if the tensor has no elements, or
/// if dimensions on both sides of a reduced one are kept.
std::optional<ReducePlan> reducePlan(const Shape &shape, const std::vector<int64_t> &dimensions, int64_t bytes);

/// The reductions that an entry of PTX computes.
struct PtxReduction {
  std::vector<int> results; // the function's results that are these reductions, in their order
  ReducePlan plan;          // of all of them
  int64_t width = 1;        // neighbouring elements that a thread takes together
  /// Returns the number of blocks of kPtxThreads threads that have work.
  int64_t blocks() const;
};
inline constexpr size_t kMostPtxReductions = 3; // of an entry
/// Returns the reductions of a kernel that its entry computes; nothing if it computes none. The runtime computes all
/// of them if those of computed values differ in their plans, are more than kMostPtxReductions, or have rows that are
/// not whole sectors of 32 bytes. It also computes reductions of arguments that do not fit beside the others, and those
/// with the type of an argument that no other op reads.
std::optional<PtxReduction> ptxReduction(const Function &kernel);

} // namespace kerf::package
