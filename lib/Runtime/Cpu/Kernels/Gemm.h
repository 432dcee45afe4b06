// SPDX-License-Identifier: Apache-2.0
// A matrix product (GEMM) that is as fast as oneDNN's. In addition it takes strided operands, can add to its result
// (for attention), supports float64, and gives an element of the result the same bits however the result is cut into
// blocks. It packs panels and has a register-blocked inner kernel, as in Goto and van de Geijn, Anatomy of
// High-Performance Matrix Multiplication, 2008.
#pragma once

#include "Common.h"

namespace kerf::runtime::kernels {

/// Returns the smallest multiple of `to` that is not below x.
inline int64_t roundUp(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

/// A matrix with arbitrary strides: element (i, j) is data[i * row + j * column].
template <typename T> struct MatrixView {
  const T *data;
  int64_t row, column; // strides in elements
};

/// Whether a product replaces the previous content of its result or is added to it.
enum class GemmOutput { Overwrite, Add };

/// Returns the bytes of scratch memory that gemm needs for sizes up to m, n and k.
template <typename T> int64_t gemmScratchBytes(int64_t m, int64_t n, int64_t k);

/// Computes c = alpha * a b, or c += alpha * a b with GemmOutput::Add, on the calling thread. a is m x k, b is k x n,
/// and c is m x n with rows `ldc` elements apart. The result is deterministic.
template <typename T>
void gemm(int64_t m, int64_t n, int64_t k, T alpha, MatrixView<T> a, MatrixView<T> b, T *c, int64_t ldc,
          GemmOutput output, void *scratch);

/// The blocks into which the result of a product is cut so that the threads of a team can share the work. The bits of
/// an element do not depend on the blocks.
struct GemmBlocks {
  int64_t rows, columns;         // size of a block
  int64_t rowCount, columnCount; // numbers of blocks in the two directions
  /// Returns the number of blocks.
  int64_t count() const { return rowCount * columnCount; }
};
/// Chooses the blocks for `products` products with results of m x n, all computed by the team at the same time.
GemmBlocks gemmBlocks(ThreadTeam *team, int64_t products, int64_t m, int64_t n);

extern template int64_t gemmScratchBytes<float>(int64_t, int64_t, int64_t);
extern template int64_t gemmScratchBytes<double>(int64_t, int64_t, int64_t);
extern template void gemm<float>(int64_t, int64_t, int64_t, float, MatrixView<float>, MatrixView<float>, float *,
                                 int64_t, GemmOutput, void *);
extern template void gemm<double>(int64_t, int64_t, int64_t, double, MatrixView<double>, MatrixView<double>, double *,
                                  int64_t, GemmOutput, void *);

} // namespace kerf::runtime::kernels
