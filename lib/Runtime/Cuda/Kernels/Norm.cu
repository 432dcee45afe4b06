// SPDX-License-Identifier: Apache-2.0
// layer_norm and rms_norm with their gradients. The order of sums depends only on the sizes. Statistics are sums in
// double. The sums of gradients are pairwise ones in the type of the arithmetic: over a row, and over a piece of rows;
// the pieces are added in double. Where a row fits into the registers of a warp or of a block, it is read once.
#include "ColumnCode.h"
#include "SumCode.h"

namespace kerf::runtime::cuda {

KERF_DEVICE double inverseRoot(double x) { return 1 / __builtin_elementwise_sqrt(x); }

/// Mean and 1 / standard deviation of a row; the mean is 0 for rms_norm.
struct RowStatistics {
  N mean, rstd;
};

/// Computes the statistics of a row in double.
template <typename Group, typename Part>
KERF_DEVICE RowStatistics exactStatistics(const NormParameters &p, Part &part) {
  double sum = 0, squares = 0;
  if (p.mean.data)
    part.each(p.n, [&](auto &x, int) {
      for (N number : x)
        sum += double(number);
    });
  double mean = sumOf<Group>(sum) / double(p.n);
  part.each(p.n, [&](auto &x, int) {
    for (N number : x)
      squares += (double(number) - mean) * (double(number) - mean);
  });
  return {N(mean), N(inverseRoot(sumOf<Group>(squares) / double(p.n) + p.epsilon))};
}

/// Computes the statistics of a row. A thread adds the elements of an access in N, and the sums of accesses in double.
/// Where squares are too large or too small for that, everything is computed in double, which takes many times longer.
template <typename Group, int W, typename Part>
KERF_DEVICE RowStatistics statisticsOf(const NormParameters &p, Part &part) {
  constexpr double kLeast = 1e-30, kMost = 1e30;
  if constexpr (std::is_same_v<N, double>)
    return exactStatistics<Group>(p, part);
  double sum = 0, squares = 0;
  N mean = 0;
  if (p.mean.data) {
    part.each(p.n, [&](Pack<W> &x, int) { sum += sumOfPack<W>(x); });
    mean = N(sumOf<Group>(sum) * p.inverse);
  }
  part.each(p.n, [&](Pack<W> &x, int) {
    Pack<W> terms;
#pragma unroll
    for (int k = 0; k < W; ++k)
      terms[k] = (x[k] - mean) * (x[k] - mean);
    squares += sumOfPack<W>(terms);
  });
  squares = sumOf<Group>(squares);
  if (!(squares > kLeast && squares < kMost)) // NaN, too
    return exactStatistics<Group>(p, part);
  double variance = squares * p.inverse + p.epsilon, root = __nvvm_rsqrt_approx_ftz_f(float(variance));
  return {mean, N(root * (1.5 - 0.5 * variance * root * root))}; // a step of Newton's method
}

/// Normalizes rows that fit into the registers of a group, which are K packs of W elements for each thread. Each group
/// has one row at most.
template <typename Group, int W, int K> KERF_DEVICE void normRows(const NormParameters &p) {
  const bool isCentered = p.mean.data;
  int64_t row = Group::firstRow();
  if (row >= p.rows)
    return;
  int64_t start = row * p.n;
  RowPart<Group, W, K> part;
  part.each(p.n, [&](Pack<W> &x, int i) { x = loadPack<W>(p.x, start + i); });
  const RowStatistics statistics = statisticsOf<Group, W>(p, part);
  auto write = [&](auto loadOf) {
    part.each(p.n, [&](Pack<W> &x, int i) {
      constexpr int kEach = W < 4 ? W : 4; // more would need more registers than there are
#pragma unroll
      for (int first = 0; first < W; first += kEach) {
        Pack<kEach> scale = loadOf(std::integral_constant<int, kEach>(), p.scale, i + first), bias{};
        if (isCentered)
          bias = loadOf(std::integral_constant<int, kEach>(), p.bias, i + first);
#pragma unroll
        for (int k = 0; k < kEach; ++k)
          x[first + k] = (x[first + k] - statistics.mean) * statistics.rstd * scale[k] + bias[k];
      }
      storePack<W>(p.y, start + i, x);
    });
  };
  // Where the type of scale and bias is known, half as many instructions load them. It is float32 in most models.
  using Wide = std::conditional_t<isHalf<T>, F32, T>;
  if (p.scale.isWide && (!isCentered || p.bias.isWide))
    write([](auto width, const Floats &x, int i) { return loadPack<width, Wide>(x.data, i); });
  else
    write([](auto width, const Floats &x, int i) { return loadAny<width>(x, i); });
  if (Group::first() == 0) {
    if (isCentered)
      putAny(p.mean, row, statistics.mean);
    putAny(p.rstd, row, statistics.rstd);
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

/// Adds up the gradients of W columns of one thread: those of scale and bias, over the rows of a piece.
template <int W> struct ColumnSums {
  Pack<W> dScale{}, dBias{};
};

/// Computes dx of R rows from `row` on, of which each thread has W columns from `i` on, and adds to the sums of its
/// columns. dx = rstd * (g - mean(g) - hat * mean(g * hat)) with g = dy * scale and hat = (x - mean) * rstd. Without a
/// mean (rms_norm), mean(g) is left out and hat = x * rstd. All rows are loaded before the first is used, and stay in
/// registers as they were in memory.
template <bool isCentered, int W, int R>
KERF_DEVICE void backwardOfRows(const NormBackwardParameters &p, int64_t row, int i, ColumnSums<W> &sums,
                                BlockSums<(isCentered ? 2 : 1) * R> &blockSums) {
  const bool isColumn = i < int(p.n);
  const int64_t first = row * p.n + i;
  Raw<W> x[R], dy[R];
#pragma unroll
  for (int r = 0; r < R && isColumn; ++r) {
    x[r] = loadRaw<W>(p.x, first + r * p.n);
    dy[r] = loadRaw<W>(p.dy, first + r * p.n);
  }
  Pack<R> mean{}, rstd = loadAny<R>(p.rstd, row);
  if constexpr (isCentered)
    mean = loadAny<R>(p.mean, row);
  std::array<N, (isCentered ? 2 : 1) * R> totals{}; // of g * hat, then of g
  Pack<W> scale{};
  if (isColumn)
    scale = loadAny<W>(p.scale, i);
#pragma unroll
  for (int r = 0; r < R && isColumn; ++r) {
    Pack<W> from = numbersOf<W>(x[r]), gradient = numbersOf<W>(dy[r]);
#pragma unroll
    for (int k = 0; k < W; ++k) {
      const N hat = (from[k] - mean[r]) * rstd[r], g = gradient[k] * scale[k];
      sums.dScale[k] += gradient[k] * hat;
      sums.dBias[k] += gradient[k];
      totals[r] += g * hat;
      if constexpr (isCentered)
        totals[R + r] += g;
    }
  }
  blockSums.add(totals);
  if (isColumn)
    scale = loadAny<W>(p.scale, i); // again, instead of keeping it in registers
#pragma unroll
  for (int r = 0; r < R && isColumn; ++r) {
    Pack<W> from = numbersOf<W>(unknown(x[r])), dx = numbersOf<W>(unknown(dy[r]));
    const N ofHat = rstd[r] * N(totals[r] * p.inverse) * rstd[r];
    const N ofAll = isCentered ? rstd[r] * N(totals[R + r] * p.inverse) : N(0);
#pragma unroll
    for (int k = 0; k < W; ++k) {
      const N rest = (from[k] - mean[r]) * ofHat + ofAll;
      dx[k] = dx[k] * scale[k] * rstd[r] - rest;
    }
    storePack<W>(p.dx, first + r * p.n, dx);
  }
}

/// Computes all gradients of pieces of rows: each thread keeps W columns and their sums over the rows.
template <bool isCentered, int W, int R> KERF_DEVICE void backwardOfPieces(const NormBackwardParameters &p) {
  constexpr int kTensors = isCentered ? 2 : 1;
  const int i = int(threadInBlock()) * W;
  BlockSums<kTensors * R> sumsOfRows;
  BlockSums<kTensors> sumsOfRow;
  for (int64_t piece = block(); piece < p.pieces; piece += blocks()) {
    ColumnSums<W> sums;
    int64_t row = piece * p.rowsOfPiece, end = row + p.rowsOfPiece < p.rows ? row + p.rowsOfPiece : p.rows;
#pragma unroll 1
    for (; row + R <= end; row += R)
      backwardOfRows<isCentered, W, R>(p, row, i, sums, sumsOfRows);
#pragma unroll 1
    for (; row < end; ++row)
      backwardOfRows<isCentered, W, 1>(p, row, i, sums, sumsOfRow);
    if (i >= p.n)
      continue;
    storePack<W, N>(p.sums, piece * p.n + i, sums.dScale);
    if (isCentered)
      storePack<W, N>(p.sums, (p.pieces + piece) * p.n + i, sums.dBias);
  }
}
constexpr BackwardTile kLayerNormTile = layerNormTile(sizeof(T)), kRmsNormTile = rmsNormTile(sizeof(T));
KERF_KERNEL_SHARING(kLayerNormTile.mostThreads, 1) void layerNormBackward(NormBackwardParameters p) {
  backwardOfPieces<true, kLayerNormTile.columns, kLayerNormTile.rows>(p);
}
KERF_KERNEL void layerNormBackwardSingly(NormBackwardParameters p) { backwardOfPieces<true, 1, 2>(p); }
KERF_KERNEL_SHARING(kRmsNormTile.mostThreads, 1) void rmsNormBackward(NormBackwardParameters p) {
  backwardOfPieces<false, kRmsNormTile.columns, kRmsNormTile.rows>(p);
}
KERF_KERNEL_SHARING(1024, 1) void rmsNormBackwardSingly(NormBackwardParameters p) { backwardOfPieces<false, 1, 2>(p); }

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
