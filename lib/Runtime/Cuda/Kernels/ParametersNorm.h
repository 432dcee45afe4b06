// SPDX-License-Identifier: Apache-2.0
// The parameters of the kernels of softmax, normalizations and losses (Norm.cu). Parameters.h says what holds for all
// structs of parameters.
#pragma once

#include "ParametersLookup.h"

namespace kerf::runtime::cuda {

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

/// y = (x - mean) * rstd * scale + bias for each row of n elements, with the statistics of the row. The addresses of
/// bias and mean are null for rms_norm, which leaves both out.
struct NormParameters {
  const void *x, *scale, *bias;
  void *y, *mean, *rstd;
  int64_t rows, n;
  double epsilon;
};

/// The gradients of a normalization. The addresses of mean and dBias are null for rms_norm. Rows are summed in pieces
/// of `rowsOfPiece`: sums[(piece, i)] is the sum of dScale[i] over a piece, and the sums of dBias follow those of all
/// pieces.
struct NormBackwardParameters {
  const void *x, *scale, *mean, *rstd, *dy;
  void *dx, *dScale, *dBias;
  double *sums;
  int64_t rows, n, rowsOfPiece, pieces;
};

/// nll and lse, the log-sum-exp, of each row of logits, with the row's label. Rows whose label is `ignored` have no
/// loss.
struct LossParameters {
  Integers labels;
  const void *logits;
  void *nll, *lse;
  int64_t rows, classes, ignored;
  FaultPlace faults;
};
/// dLogits = (exp(logits - lse) - onehot(label)) * dNll, and 0 in rows whose label is `ignored`.
struct LossBackwardParameters {
  Integers labels;
  const void *logits, *lse, *dNll;
  void *dLogits;
  int64_t rows, classes, ignored;
  FaultPlace faults;
};

/// *total = number of infinite or NaN elements among n. Each block of the first kernel writes one of `count` counts.
struct CountNonfiniteParameters {
  const void *x;
  int64_t *counts, *total;
  int64_t n, count;
};

} // namespace kerf::runtime::cuda
