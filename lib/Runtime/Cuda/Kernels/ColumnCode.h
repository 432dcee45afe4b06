// SPDX-License-Identifier: Apache-2.0
// Device code of sums over the rows of a table, in which a block has a few columns.
#pragma once

#include "PackCode.h"
#pragma clang force_cuda_host_device begin
#include "ParametersColumns.h"
#pragma clang force_cuda_host_device end

namespace kerf::runtime::cuda {

/// The place of a thread in a block that combines rows of a table (package::ReducePlan). A thread has W neighbouring
/// columns of the rows of its group.
template <int W> struct TableThread {
  static constexpr int kWarps = kReduceThreads / 32;
  int rowsOfWarp, lanes; // groups of a warp, and threads of a group
  int groups, group;     // groups of the block, and that of the thread
  int columns, column;   // columns of the block, and the first one of the thread

  KERF_DEVICE explicit TableThread(int64_t rowsOfWarp)
      : rowsOfWarp(int(rowsOfWarp)), lanes(32 / int(rowsOfWarp)), groups(kWarps * int(rowsOfWarp)),
        group(int(threadInBlock()) / lanes), columns(lanes * W), column(int(threadInBlock()) % lanes * W) {}

  /// Combines the values of the groups in their order, in the shared memory `values`, and calls put(column, value) for
  /// the columns of the block. All threads of the block call it.
  template <typename Value, typename F, typename Put>
  KERF_DEVICE void combine(Value (&values)[kWarps][32 * W], const std::array<Value, W> &own, Value neutral, F f,
                           Put put) const {
#pragma unroll
    for (int k = 0; k < W; ++k) // neighbouring threads write to different banks
      values[threadInBlock() / 32][k * 32 + threadInBlock() % 32] = own[k];
    __nvvm_bar_sync(0);
    for (int i = int(threadInBlock()); i < columns; i += kReduceThreads) {
      int lane = i % lanes, k = i / lanes;
      Value value = neutral;
      for (int warp = 0; warp < kWarps; ++warp)
        for (int row = 0; row < rowsOfWarp; ++row)
          value = f(value, values[warp][k * 32 + row * lanes + lane]);
      put(lane * W + k, value);
    }
    __nvvm_bar_sync(0); // before `values` is written again
  }
};

/// Combines element(row, column) over all rows, for kColumnsOfBlock columns from `first` on. A block of kColumnThreads
/// threads calls it. Each warp combines every 32nd row, and then each warp combines the results of all warps for one
/// column, so the order depends on the number of rows only. Returns the result of the column that `column` names, which
/// is past the last one for threads without a result.
template <typename X, typename Load, typename F>
KERF_DEVICE X combineColumns(Load element, F combine, X neutral, int64_t rows, int64_t first, int64_t columns,
                             int64_t &column) {
  constexpr int kLanes = kColumnsOfBlock, kWarps = kColumnThreads / kLanes;
  static_assert(kLanes == 32 && kWarps == 32);
  KERF_SHARED X values[kWarps][kLanes + 1]; // one more, so that a column's values lie in different banks
  int64_t lane = threadInBlock() % kLanes, warp = threadInBlock() / kLanes;
  X value = neutral;
  if (first + lane < columns)
#pragma unroll 8
    for (int64_t row = warp; row < rows; row += kWarps)
      value = combine(value, element(row, first + lane));
  values[warp][lane] = value;
  __nvvm_bar_sync(0);
  value = combineWarp(values[lane][warp], combine);
  __nvvm_bar_sync(0); // before the next call writes `values`
  column = lane == 0 ? first + warp : columns;
  return value;
}

template <typename Load>
KERF_DEVICE double sumOfColumns(Load element, int64_t rows, int64_t first, int64_t columns, int64_t &column) {
  return combineColumns(element, [](double a, double b) { return a + b; }, 0.0, rows, first, columns, column);
}

} // namespace kerf::runtime::cuda
