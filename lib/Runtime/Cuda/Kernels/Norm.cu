// SPDX-License-Identifier: Apache-2.0
// layer_norm and rms_norm with their gradients. Sums over a row, and over rows, are accumulated in double, in an order
// that depends only on the sizes. Where a row fits into the registers of a warp or of a block, it is read once.
#include "ColumnCode.h"

namespace kerf::runtime::cuda {

KERF_DEVICE double inverseRoot(double x) { return 1 / __builtin_elementwise_sqrt(x); }

/// Normalizes rows that fit into the registers of a group, which are K packs of W elements for each thread. Each group
/// has one row at most.
template <typename Group, int W, int K> KERF_DEVICE void normRows(const NormParameters &p) {
  const bool isCentered = p.mean.data;
  int64_t row = Group::firstRow();
  if (row >= p.rows)
    return;
  int64_t start = row * p.n;
  RowPart<Group, W, K> part;
  double sum = 0, squares = 0;
  part.each(p.n, [&](Pack<W> &x, int i) { x = loadPack<W>(p.x, start + i); });
  part.each(p.n, [&](Pack<W> &x, int) {
#pragma unroll
    for (int k = 0; k < W && isCentered; ++k)
      sum += double(x[k]);
  });
  N m = isCentered ? N(sumOf<Group>(sum) / double(p.n)) : N(0);
  part.each(p.n, [&](Pack<W> &x, int) {
#pragma unroll
    for (int k = 0; k < W; ++k) {
      x[k] -= m;
      squares += double(x[k]) * double(x[k]); // in float, the square of a large number would be infinite
    }
  });
  N r = N(inverseRoot(sumOf<Group>(squares) / double(p.n) + p.epsilon));
  part.each(p.n, [&](Pack<W> &x, int i) {
    constexpr int kEach = W < 4 ? W : 4; // more would need more registers than there are
#pragma unroll
    for (int first = 0; first < W; first += kEach) {
      Pack<kEach> scale = loadAny<kEach>(p.scale, i + first), bias{};
      if (isCentered)
        bias = loadAny<kEach>(p.bias, i + first);
#pragma unroll
      for (int k = 0; k < kEach; ++k)
        x[first + k] = x[first + k] * r * scale[k] + bias[k];
    }
    storePack<W>(p.y, start + i, x);
  });
  if (Group::first() == 0) {
    if (isCentered)
      putAny(p.mean, row, m);
    putAny(p.rstd, row, r);
  }
}
KERF_KERNEL void normByWarps(NormParameters p) { normRows<WarpOfRow, kWidth, keptByWarp(sizeof(T)) / kWidth>(p); }
KERF_KERNEL void normByWarpsSingly(NormParameters p) { normRows<WarpOfRow, 1, kKeptSingly>(p); }
KERF_KERNEL void normByBlocks(NormParameters p) { normRows<BlockOfRow, kWidth, keptByBlock(sizeof(T)) / kWidth>(p); }

/// Normalizes rows of any length; each element is read several times.
KERF_KERNEL void normOfLongRows(NormParameters p) {
  const bool isCentered = p.mean.data;
  for (int64_t row = block(); row < p.rows; row += blocks()) {
    int64_t start = row * p.n;
    double sum = 0, squares = 0;
    for (int64_t i = threadInBlock(); i < p.n && isCentered; i += threadsOfBlock())
      sum += double(at(p.x, start + i));
    double mean = sumOfBlock(sum) / double(p.n);
    for (int64_t i = threadInBlock(); i < p.n; i += threadsOfBlock()) {
      double distance = double(at(p.x, start + i)) - mean;
      squares += distance * distance;
    }
    N m = N(mean), r = N(inverseRoot(sumOfBlock(squares) / double(p.n) + p.epsilon));
    for (int64_t i = threadInBlock(); i < p.n; i += threadsOfBlock())
      put(p.y, start + i, (at(p.x, start + i) - m) * r * anyAt(p.scale, i) + (isCentered ? anyAt(p.bias, i) : N(0)));
    if (threadInBlock() == 0) {
      if (isCentered)
        putAny(p.mean, row, m);
      putAny(p.rstd, row, r);
    }
  }
}

/// Computes all gradients of a piece of rows at once: each thread keeps W columns and their sums over the rows.
/// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * scale and xhat = (x - mean) * rstd. Without a mean
/// (rms_norm), mean(g) is left out and xhat = x * rstd.
template <int W> KERF_DEVICE void backwardOfPieces(const NormBackwardParameters &p) {
  const bool isCentered = p.mean.data;
  const int64_t i = threadInBlock() * W;
  const bool isColumn = i < p.n;
  Pack<W> scale{};
  if (isColumn)
    scale = loadAny<W>(p.scale, i);
  for (int64_t piece = block(); piece < p.pieces; piece += blocks()) {
    std::array<double, W> dScale{}, dBias{};
    int64_t begin = piece * p.rowsOfPiece, end = begin + p.rowsOfPiece < p.rows ? begin + p.rowsOfPiece : p.rows;
    for (int64_t row = begin; row < end; ++row) {
      N mean = isCentered ? anyAt(p.mean, row) : N(0), rstd = anyAt(p.rstd, row);
      Pack<W> hat{}, g{}, dots{};
      if (isColumn) {
        Pack<W> x = loadPack<W>(p.x, row * p.n + i), dy = loadPack<W>(p.dy, row * p.n + i);
#pragma unroll
        for (int k = 0; k < W; ++k) {
          hat[k] = (x[k] - mean) * rstd;
          g[k] = dy[k] * scale[k];
          dots[k] = g[k] * hat[k];
          dScale[k] += double(dy[k] * hat[k]);
          dBias[k] += double(dy[k]);
        }
      }
      N meanOfG = isCentered ? N(sumOfBlock(sumOfPack<W>(g)) / double(p.n)) : N(0);
      N meanOfDot = N(sumOfBlock(sumOfPack<W>(dots)) / double(p.n));
      if (isColumn) {
#pragma unroll
        for (int k = 0; k < W; ++k)
          g[k] = rstd * (g[k] - meanOfG - hat[k] * meanOfDot);
        storePack<W>(p.dx, row * p.n + i, g);
      }
    }
    if (!isColumn)
      continue;
    Pack<W> sums;
#pragma unroll
    for (int k = 0; k < W; ++k)
      sums[k] = N(dScale[k]);
    storePack<W, N>(p.sums, piece * p.n + i, sums);
    if (!isCentered)
      continue;
#pragma unroll
    for (int k = 0; k < W; ++k)
      sums[k] = N(dBias[k]);
    storePack<W, N>(p.sums, (p.pieces + piece) * p.n + i, sums);
  }
}
KERF_KERNEL void backwardOfColumns(NormBackwardParameters p) { backwardOfPieces<backwardWidth(sizeof(T))>(p); }
KERF_KERNEL void backwardOfColumnsSingly(NormBackwardParameters p) { backwardOfPieces<1>(p); }

/// Computes dx of rows of any length.
KERF_KERNEL void backwardOfLongRows(NormBackwardParameters p) {
  const bool isCentered = p.mean.data;
  for (int64_t row = block(); row < p.rows; row += blocks()) {
    int64_t start = row * p.n;
    N mean = isCentered ? anyAt(p.mean, row) : N(0), rstd = anyAt(p.rstd, row);
    double sum = 0, dot = 0;
    for (int64_t i = threadInBlock(); i < p.n; i += threadsOfBlock()) {
      N hat = (at(p.x, start + i) - mean) * rstd, g = at(p.dy, start + i) * anyAt(p.scale, i);
      sum += double(g);
      dot += double(g) * double(hat);
    }
    N meanOfG = isCentered ? N(sumOfBlock(sum) / double(p.n)) : N(0), meanOfDot = N(sumOfBlock(dot) / double(p.n));
    for (int64_t i = threadInBlock(); i < p.n; i += threadsOfBlock()) {
      N hat = (at(p.x, start + i) - mean) * rstd, g = at(p.dy, start + i) * anyAt(p.scale, i);
      put(p.dx, start + i, rstd * (g - meanOfG - hat * meanOfDot));
    }
  }
}

/// Sums the gradients of scale and bias over the rows of each piece, for rows of any length.
KERF_KERNEL void sumPieces(NormBackwardParameters p) {
  const bool isCentered = p.mean.data;
  int64_t n = p.pieces * p.n;
  for (int64_t element = firstElement(); element < n; element += elementStep()) {
    int64_t piece = element / p.n, i = element - piece * p.n;
    int64_t begin = piece * p.rowsOfPiece, end = begin + p.rowsOfPiece < p.rows ? begin + p.rowsOfPiece : p.rows;
    double dScale = 0, dBias = 0;
#pragma unroll 2
    for (int64_t row = begin; row < end; ++row) {
      N mean = isCentered ? anyAt(p.mean, row) : N(0), dy = at(p.dy, row * p.n + i);
      N hat = (at(p.x, row * p.n + i) - mean) * anyAt(p.rstd, row);
      dScale += double(dy * hat);
      dBias += double(dy);
    }
    put<N>(p.sums, element, N(dScale));
    if (isCentered)
      put<N>(p.sums, n + element, N(dBias));
  }
}

/// Adds the sums of the pieces, for kColumnsOfBlock columns of dScale or dBias in each block.
KERF_KERNEL void addPieces(NormBackwardParameters p) {
  int64_t tiles = (p.n + kColumnsOfBlock - 1) / kColumnsOfBlock, tensors = p.mean.data ? 2 : 1;
  for (int64_t tile = block(); tile < tiles * tensors; tile += blocks()) {
    bool isBias = tile >= tiles;
    const N *sums = static_cast<const N *>(p.sums) + (isBias ? p.pieces * p.n : 0);
    int64_t first = (isBias ? tile - tiles : tile) * kColumnsOfBlock, column = 0;
    double sum = sumOfColumns([&](int64_t piece, int64_t i) { return double(sums[piece * p.n + i]); }, p.pieces, first,
                              p.n, column);
    if (column < p.n)
      putAny(isBias ? p.dBias : p.dScale, column, N(sum));
  }
}

} // namespace kerf::runtime::cuda
