// SPDX-License-Identifier: Apache-2.0
// The parameters of the kernels of softmax, normalizations and losses (Norm.cu). Parameters.h says what holds for all
// structs of parameters.
#pragma once

#include "ParametersLookup.h"

namespace kerf::runtime::cuda {

/// Most threads of a block that has a row of a softmax or a loss, and the blocks that share a multiprocessor: while
/// some load, others add up.
inline constexpr int kRowThreads = 256, kRowBlocks = 4;

/// y = softmax(x) along the middle dimension of (rows / inner, size, inner).
struct SoftmaxParameters {
  const void *x;
  void *y;
  int64_t rows, size, inner;
};
/// dx = y * (dy - sum of y * dy), the gradient of a softmax along the middle dimension of (rows / inner, size, inner).
struct SoftmaxBackwardParameters {
  const void *y, *dy;
  void *dx;
  int64_t rows, size, inner;
};

/// Elements of a row of a normalization that a thread keeps in registers where a warp, or a block, has a row.
constexpr int keptByWarp(int64_t bytesOfElement) { return bytesOfElement > 4 ? 4 : 24; }
constexpr int keptByBlock(int64_t bytesOfElement) { return bytesOfElement > 4 ? 6 : 16; }
/// The same for a warp whose threads read single elements.
inline constexpr int kKeptSingly = 6;
/// How a block computes the gradients of a normalization: the neighbouring columns of a thread, the rows of which it
/// works at a time, and the most threads. More would need more registers than there are.
struct BackwardTile {
  int columns, rows, mostThreads;
};
constexpr BackwardTile layerNormTile(int64_t bytesOfElement) {
  return bytesOfElement > 4    ? BackwardTile{2, 1, 1024}
         : bytesOfElement == 4 ? BackwardTile{4, 2, 1024}
                               : BackwardTile{8, 2, 768};
}
constexpr BackwardTile rmsNormTile(int64_t bytesOfElement) { return {int(16 / bytesOfElement), 2, 1024}; }

/// A tensor of the module's element type, or of float32 beside 16-bit tensors (`isWide`).
struct Floats {
  const void *data = nullptr;
  int32_t isWide = 0;
};

/// y = (x - mean) * rstd * scale + bias for each row of n elements, with the statistics of the row. The addresses of
/// bias and mean are null for rms_norm, which leaves both out.
struct NormParameters {
  const void *x;
  void *y;
  Floats scale, bias, mean, rstd; // mean and rstd are written
  int64_t rows, n;
  double epsilon, inverse; // inverse = 1 / n
};

/// The gradients of a normalization. The addresses of mean and dBias are null for rms_norm. Rows are summed in pieces
/// of `rowsOfPiece`. The sums are those of dScale[i] over a piece, at sums[(piece, i)] in the type of the kernels'
/// arithmetic, and then those of dBias.
struct NormBackwardParameters {
  const void *x, *dy;
  void *dx, *sums;
  Floats scale, mean, rstd, dScale, dBias; // dScale and dBias are written
  int64_t rows, n, rowsOfPiece, pieces;
  double inverse; // 1 / n
};

/// nll and lse, the log-sum-exp, of each row of logits, with the row's label. Rows whose label is `ignored` have no
/// loss.
struct LossParameters {
  Integers labels;
  const void *logits;
  Floats nll, lse;                         // both are written
  int64_t rows, columns, classes, ignored; // a row has `columns` elements, of which the first `classes` are classes
  FaultPlace faults;
};
/// dLogits = (exp(logits - lse) - onehot(label)) * dNll, and 0 in rows whose label is `ignored`.
struct LossBackwardParameters {
  Integers labels;
  const void *logits;
  Floats lse, dNll;
  void *dLogits;
  int64_t rows, columns, classes, ignored; // a row has `columns` elements, of which the first `classes` are classes
  FaultPlace faults;
};

/// *total = number of infinite or NaN elements among n. Each block of the first kernel writes one of `count` counts.
struct CountNonfiniteParameters {
  const void *x;
  int64_t *counts, *total;
  int64_t n, count;
};

} // namespace kerf::runtime::cuda
