// SPDX-License-Identifier: Apache-2.0
// A matrix product of our own: for float64, which oneDNN lacks, and for the small products inside attention, where
// operands are strided views and the result is added to. Packed panels and a register-blocked inner kernel, as in Goto
// and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.
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

extern template int64_t gemmScratchBytes<float>(int64_t, int64_t, int64_t);
extern template int64_t gemmScratchBytes<double>(int64_t, int64_t, int64_t);
extern template void gemm<float>(int64_t, int64_t, int64_t, float, MatrixView<float>, MatrixView<float>, float *,
                                 int64_t, Into, void *);
extern template void gemm<double>(int64_t, int64_t, int64_t, double, MatrixView<double>, MatrixView<double>, double *,
                                  int64_t, Into, void *);

} // namespace kerf::runtime::kernels
