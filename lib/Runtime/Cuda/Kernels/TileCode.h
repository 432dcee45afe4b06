// SPDX-License-Identifier: Apache-2.0
// Products and weighted sums of rows of matrices in tiles of 32 x 32 numbers, for the kernels of Attention.cu.
#pragma once

#include "DeviceCode.h"
#pragma clang force_cuda_host_device begin
#include "ParametersAttention.h"
#pragma clang force_cuda_host_device end

namespace kerf::runtime::cuda {

constexpr int kTile = kAttentionTile;
constexpr int kRowsOfWarp = kTile / (kAttentionThreads / 32); // rows of a tile on which one warp works
constexpr int kColumnsOfLane = 4;                             // columns of a sum of rows that one thread holds
constexpr int kColumns = 32 * kColumnsOfLane;                 // columns of a sum of rows that a block holds

KERF_DEVICE int lane() { return int(threadInBlock() % 32); }
KERF_DEVICE int firstRowOfWarp() { return int(threadInBlock() / 32) * kRowsOfWarp; }
/// Waits until all threads of the warp are here, so that they see what each has written.
KERF_DEVICE void syncWarp() { __nvvm_bar_warp_sync(~0u); }

template <typename X> KERF_DEVICE X sumOfWarp(X value) {
  return combineWarp(value, [](X a, X b) { return a + b; });
}

/// A matrix in memory whose rows are `stride` elements apart.
struct Matrix {
  const void *data;
  int64_t start, stride; // number of the first element, and distance between rows
  int64_t rows, width;

  KERF_DEVICE int64_t place(int64_t row, int64_t column) const { return start + row * stride + column; }
  /// Returns an element, or 0 outside of the matrix.
  KERF_DEVICE N element(int64_t row, int64_t column) const {
    return row < rows && column < width ? at(data, place(row, column)) : N(0);
  }
};
/// Returns one head of a tensor [batch, rows, heads, width] whose rows are `stride` elements apart.
KERF_DEVICE Matrix headOf(const void *data, int64_t batch, int64_t head, int64_t rows, int64_t stride, int64_t width) {
  return {data, batch * rows * stride + head * width, stride, rows, width};
}

/// A tile of numbers in shared memory. The additional column spreads a column over the memory's banks.
using Tile = N[kTile][kTile + 1];
/// The numbers of a tile that a thread holds: those in its lane's column and its warp's rows.
struct Part {
  N rows[kRowsOfWarp] = {};
};

/// Returns the products of rows from `leftRow` on of one matrix with rows from `rightRow` on of another one of the same
/// width: a tile with one column for each right row. All threads of the block must call it.
KERF_DEVICE Part productsOfRows(const Matrix &left, int64_t leftRow, const Matrix &right, int64_t rightRow) {
  KERF_SHARED Tile leftTile, rightTile;
  const int first = firstRowOfWarp(), column = lane();
  Part sums;
  for (int64_t from = 0; from < left.width; from += kTile) {
    __nvvm_bar_sync(0); // after all threads have read the previous tiles
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
      leftTile[first + r][column] = left.element(leftRow + first + r, from + column);
      rightTile[first + r][column] = right.element(rightRow + first + r, from + column);
    }
    __nvvm_bar_sync(0);
#pragma unroll 8
    for (int c = 0; c < kTile; ++c)
#pragma unroll
      for (int r = 0; r < kRowsOfWarp; ++r)
        sums.rows[r] += leftTile[first + r][c] * rightTile[column][c];
  }
  return sums;
}

/// Sums of rows of a matrix, weighted by a tile: element (r, k) of a thread belongs to row r of its warp's rows and to
/// column from + lane + 32 k.
struct WeightedSums {
  N sums[kRowsOfWarp][kColumnsOfLane] = {};

  /// Adds the rows from `row` on, weighted by the tile whose columns belong to these rows. A warp passes the weights to
  /// its threads through its rows of `tile`.
  KERF_DEVICE void add(Tile &tile, const Part &weights, const Matrix &matrix, int64_t row, int64_t from) {
    const int first = firstRowOfWarp();
    syncWarp(); // after all threads have read the previous weights
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r)
      tile[first + r][lane()] = weights.rows[r];
    syncWarp();
    const int64_t count = matrix.rows - row < kTile ? matrix.rows - row : kTile;
#pragma unroll 4
    for (int j = 0; j < count; ++j)
#pragma unroll
      for (int k = 0; k < kColumnsOfLane; ++k) {
        N x = matrix.element(row + j, from + lane() + 32 * k);
#pragma unroll
        for (int r = 0; r < kRowsOfWarp; ++r)
          sums[r][k] += tile[first + r][j] * x;
      }
  }

  /// Calls f(place, r, sum) for each of the thread's sums that belongs to an element of `matrix`, where r is the number
  /// of the row among the warp's rows. The tile's first row belongs to row `row` of the matrix.
  template <typename F> KERF_DEVICE void each(const Matrix &matrix, int64_t row, int64_t from, F f) const {
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r)
#pragma unroll
      for (int k = 0; k < kColumnsOfLane; ++k) {
        int64_t i = row + firstRowOfWarp() + r, column = from + lane() + 32 * k;
        if (i < matrix.rows && column < matrix.width)
          f(matrix.place(i, column), r, sums[r][k]);
      }
  }
};

} // namespace kerf::runtime::cuda
