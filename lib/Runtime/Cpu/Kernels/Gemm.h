// SPDX-License-Identifier: Apache-2.0
// A matrix product of our own, as fast as oneDNN's: it takes strided views, adds to its result (in attention), knows
// float64, and gives an element the same bits in whatever block it is computed. Packed panels and a register-blocked
// inner kernel, as in Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.
#pragma once

#include "Common.h"

namespace kerf::runtime::kernels {

/// Element (i, j) is data[i * row + j * column].
template <typename T> struct MatrixView {
  const T *data;
  int64_t row, column;
};

enum class Into { Overwrite, Add };

/// Bytes of scratch for products of up to these sizes.
template <typename T> int64_t gemmScratchBytes(int64_t m, int64_t n, int64_t k);

/// c = alpha * a b, or c += alpha * a b; a is m x k, b is k x n, c is m x n with rows `ldc` apart. Deterministic.
template <typename T>
void gemm(int64_t m, int64_t n, int64_t k, T alpha, MatrixView<T> a, MatrixView<T> b, T *c, int64_t ldc, Into into,
          void *scratch);

/// How a product is cut into blocks of c that the threads of a team share. An element's bits depend on no cut.
struct GemmBlocks {
  int64_t rows, columns;         // of a block
  int64_t rowCount, columnCount; // of blocks
  int64_t count() const { return rowCount * columnCount; }
};
/// `products` of these sizes are done at once.
GemmBlocks gemmBlocks(Team *team, int64_t products, int64_t m, int64_t n);

extern template int64_t gemmScratchBytes<float>(int64_t, int64_t, int64_t);
extern template int64_t gemmScratchBytes<double>(int64_t, int64_t, int64_t);
extern template void gemm<float>(int64_t, int64_t, int64_t, float, MatrixView<float>, MatrixView<float>, float *,
                                 int64_t, Into, void *);
extern template void gemm<double>(int64_t, int64_t, int64_t, double, MatrixView<double>, MatrixView<double>, double *,
                                  int64_t, Into, void *);

} // namespace kerf::runtime::kernels
