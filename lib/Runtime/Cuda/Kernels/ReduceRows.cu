// SPDX-License-Identifier: Apache-2.0
// Reductions of tensors (outer, kept, inner) over their outer and inner dimensions, which read whole cache lines. The
// order in which elements are combined depends only on the sizes: each piece of the work has one partial result, and
// the partial results are combined in a fixed order.
#include "ColumnCode.h"
#include "ReduceCode.h"

namespace kerf::runtime::cuda {

/// Writes the value number i of all pieces' values, kept ones of each piece: a result if there is one piece only.
template <typename R> KERF_DEVICE void putValue(const ReduceRowsParameters &p, int64_t i, typename R::Value value) {
  if (p.pieces == 1)
    put(p.y, i, R::result(value));
  else
    static_cast<typename R::Value *>(p.partials)[i] = value;
}

/// Rows and packs that a thread loads before it uses the first of them.
inline constexpr int kRowsInFlight = 4, kPacksInFlight = 2;

/// Reduces rows of a table (inner = 1). A thread has W columns. Each of the groups of a warp (rowsOfWarp of them) reads
/// neighbouring columns of a row at a time, and the groups of a block take turns in the rows of a piece. Then the
/// values of the groups are combined in their order.
template <typename R, int W> KERF_DEVICE void reduceTable(const ReduceRowsParameters &p) {
  using Value = typename R::Value;
  constexpr int kWarps = kReduceThreads / 32;
  constexpr int kRows = W > 8 ? kRowsInFlight / 2 : kRowsInFlight; // more would not fit into registers
  KERF_SHARED Value values[kWarps][32 * W];
  const TableThread<W> thread(p.rowsOfWarp);
  const int64_t tiles = (p.kept + thread.columns - 1) / thread.columns;
  for (int64_t tile = block(); tile < tiles * p.pieces; tile += blocks()) {
    int64_t piece = tile / tiles, first = (tile - piece * tiles) * thread.columns, column = first + thread.column;
    int64_t begin = piece * p.outerOfPiece, end = begin + p.outerOfPiece < p.outer ? begin + p.outerOfPiece : p.outer;
    std::array<Value, W> sums;
#pragma unroll
    for (int k = 0; k < W; ++k)
      sums[k] = R::neutral();
    const int64_t apart = thread.groups * p.kept;
    auto add = [&](auto rows, int64_t row) {
      Pack<rows * W> x = loadPacks<rows, W>(p.x, row * p.kept + column, apart);
#pragma unroll
      for (int k = 0; k < rows * W; ++k)
        sums[k % W] = R::combine(sums[k % W], Value(x[k]));
    };
    int64_t row = begin + thread.group;
    if (column < p.kept) {
#pragma unroll 1
      for (; row + (kRows - 1) * thread.groups < end; row += kRows * thread.groups)
        add(std::integral_constant<int, kRows>(), row);
#pragma unroll 1
      for (; row < end; row += thread.groups)
        add(std::integral_constant<int, 1>(), row);
    }
    // The place is computed again, so that it takes no registers in the loop.
    TableThread<W>(unknown(p.rowsOfWarp))
        .combine(
            values, sums, R::neutral(), [](Value a, Value b) { return R::combine(a, b); },
            [&](int64_t k, Value value) {
              if (first + k < p.kept)
                putValue<R>(p, piece * p.kept + first + k, value);
            });
  }
}
KERF_KERNEL_SHARING(kReduceThreads, kReduceBlocks) void reduceColumns(ReduceRowsParameters p) {
  withReduction(p.kind, [&](auto reduction) { reduceTable<decltype(reduction), kWidth>(p); });
}
KERF_KERNEL_SHARING(kReduceThreads, kReduceBlocks) void reduceColumnsSingly(ReduceRowsParameters p) {
  withReduction(p.kind, [&](auto reduction) { reduceTable<decltype(reduction), 1>(p); });
}

/// Reduces the runs of `inner` neighbouring elements. A group has one of the kept indices in one piece.
template <typename R, typename Group, int W> KERF_DEVICE void reduceRuns(const ReduceRowsParameters &p) {
  using Value = typename R::Value;
  for (int64_t item = Group::firstRow(); item < p.pieces * p.kept; item += Group::rowStep()) {
    int64_t piece = item / p.kept, outerPiece = piece / p.innerPieces;
    int64_t left = (piece - outerPiece * p.innerPieces) * p.innerOfPiece;
    int64_t n = left < p.inner ? p.inner - left : 0, begin = outerPiece * p.outerOfPiece;
    n = n < p.innerOfPiece ? n : p.innerOfPiece;
    int64_t start = (begin * p.kept + item - piece * p.kept) * p.inner + left;
    int64_t runs = p.outer - begin < p.outerOfPiece ? p.outer - begin : p.outerOfPiece;
    Value value = R::neutral();
#pragma unroll 1
    for (; runs > 0; --runs, start += p.kept * p.inner)
      eachPacks<Group, W, kPacksInFlight>(start, n, [&](auto width, auto packs, int64_t i, int64_t apart) {
        Pack<packs * width> x = loadPacks<packs, width>(p.x, start + i, apart);
#pragma unroll
        for (int j = 0; j < packs * width; ++j)
          value = R::combine(value, Value(x[j]));
      });
    value = Group::combine(value, [](Value a, Value b) { return R::combine(a, b); });
    if (Group::first() == 0)
      putValue<R>(p, item, value);
  }
}
KERF_KERNEL_SHARING(kReduceThreads, kReduceBlocks) void reduceRunsByThreads(ReduceRowsParameters p) {
  withReduction(p.kind, [&](auto reduction) { reduceRuns<decltype(reduction), ThreadOfRow, 1>(p); });
}
KERF_KERNEL_SHARING(kReduceThreads, kReduceBlocks) void reduceRunsByWarps(ReduceRowsParameters p) {
  withReduction(p.kind, [&](auto reduction) { reduceRuns<decltype(reduction), WarpOfRow, kWidth>(p); });
}
KERF_KERNEL_SHARING(kReduceThreads, kReduceBlocks) void reduceRunsByBlocks(ReduceRowsParameters p) {
  withReduction(p.kind, [&](auto reduction) { reduceRuns<decltype(reduction), BlockOfRow, kWidth>(p); });
}

/// Combines the partial results of the pieces.
template <typename R> KERF_DEVICE void combineAll(const ReduceRowsParameters &p) {
  using Value = typename R::Value;
  const Value *partials = static_cast<const Value *>(p.partials);
  int64_t tiles = (p.kept + kColumnsOfBlock - 1) / kColumnsOfBlock;
  for (int64_t tile = block(); tile < tiles; tile += blocks()) {
    int64_t k = 0;
    Value value = combineColumns([&](int64_t piece, int64_t column) { return partials[piece * p.kept + column]; },
                                 [](Value a, Value b) { return R::combine(a, b); }, R::neutral(), p.pieces,
                                 tile * kColumnsOfBlock, p.kept, k);
    if (k < p.kept)
      put(p.y, k, R::result(value));
  }
}
KERF_KERNEL void combinePieces(ReduceRowsParameters p) {
  withReduction(p.kind, [&](auto reduction) { combineAll<decltype(reduction)>(p); });
}

} // namespace kerf::runtime::cuda
