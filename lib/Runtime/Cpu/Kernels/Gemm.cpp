// SPDX-License-Identifier: Apache-2.0
// Blocking: a block of b (kDepth x kColumns) is packed into panels that stream from the outer caches. A block of
// a (kRows x kDepth) is packed into panels that stay in the second-level cache. The inner kernel keeps a tile of
// c in registers. While it multiplies, it prefetches this tile and what is packed next.
#include "Gemm.h"
#include "Prefetch.h"
#include "Simd.h"
#include "TransposeSquare.h"
#include "kerf/Runtime/Cpu/ThreadTeam.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace kerf::runtime::kernels {

namespace {
constexpr int64_t kDepth = 256, kRows = 96, kColumns = 768; // multiples of every tile below
constexpr int64_t kAlignment = 64;
constexpr int64_t kStepsOfPrefetch = 4; // steps along the depth from one prefetch of the inner kernel to the next

/// The tile of c that is kept in registers: rows x (vectors * lanes) elements. Its size is chosen such that the tile, a
/// row of b and one value of a fit into the 32 (AVX-512) or 16 vector registers.
template <Isa isa> struct TileShape {
  static constexpr int64_t vectorBytes = 16, rows = 4, vectors = 2;
};
template <> struct TileShape<Isa::Avx2> {
  static constexpr int64_t vectorBytes = 32, rows = 6, vectors = 2;
};
template <> struct TileShape<Isa::Avx512> {
  static constexpr int64_t vectorBytes = 64, rows = 8, vectors = 3;
};

template <typename T, Isa isa> struct Tile {
  static constexpr int64_t rows = TileShape<isa>::rows, vectors = TileShape<isa>::vectors;
  static constexpr int64_t lanes = TileShape<isa>::vectorBytes / int64_t(sizeof(T)), columns = vectors * lanes;
  typedef T Vector __attribute__((vector_size(TileShape<isa>::vectorBytes), aligned(alignof(T)), may_alias));
};

/// Packs a block into panels of `width` rows (of a) or columns (of b). A panel holds `width` consecutive values for
/// each index of the depth; values past the block's edge are zeros.
template <typename T, int64_t width, int64_t vectorBytes>
[[gnu::always_inline]] inline void pack(const T *from, int64_t stride, int64_t depthStride, int64_t size, int64_t depth,
                                        T *to) {
  constexpr int64_t kSquare = std::gcd(width, vectorBytes / int64_t(sizeof(T)));
  for (int64_t i0 = 0; i0 < size; i0 += width, to += width * depth) {
    const int64_t valid = std::min(width, size - i0);
    const T *panel = from + i0 * stride;
    if (valid == width && stride == 1) {
      for (int64_t p = 0; p < depth; ++p)
        for (int64_t i = 0; i < width; ++i)
          to[p * width + i] = panel[p * depthStride + i];
      continue;
    }
    if (stride == 1) {
      for (int64_t p = 0; p < depth; ++p) {
        std::memcpy(to + p * width, panel + p * depthStride, size_t(valid) * sizeof(T));
        std::fill_n(to + p * width + valid, width - valid, T(0));
      }
      continue;
    }
    int64_t packed = 0; // rows or columns of the panel
    if constexpr (kSquare >= 4)
      for (; depthStride == 1 && packed + kSquare <= valid; packed += kSquare) {
        const int64_t whole = depth / kSquare * kSquare;
        for (int64_t p = 0; p < whole; p += kSquare)
          transposeSquare<T, kSquare>(panel + packed * stride + p, stride, to + p * width + packed, width);
        for (int64_t p = whole; p < depth; ++p)
          for (int64_t i = packed; i < packed + kSquare; ++i)
            to[p * width + i] = panel[i * stride + p];
      }
    for (; packed < valid; ++packed)
      for (int64_t p = 0; p < depth; ++p)
        to[p * width + packed] = panel[packed * stride + p * depthStride];
    for (; packed < width; ++packed)
      for (int64_t p = 0; p < depth; ++p)
        to[p * width + packed] = T(0);
  }
}

/// Computes a tile of c, of which only the first `vectors` vectors of each row are used. Meanwhile it prefetches the
/// tile of c and the next lines of `ahead`.
template <typename T, Isa isa, int64_t vectors>
[[gnu::always_inline]] inline void multiplyVectors(int64_t depth, T alpha, const T *a, const T *b, T *c, int64_t ldc,
                                                   int64_t rows, int64_t columns, GemmOutput output,
                                                   PrefetchQueue &ahead) {
  using Shape = Tile<T, isa>;
  using Vector = typename Shape::Vector;
  Vector sum[Shape::rows][vectors];
#pragma GCC unroll 8
  for (int64_t i = 0; i < Shape::rows; ++i)
#pragma GCC unroll 4
    for (int64_t j = 0; j < vectors; ++j)
      sum[i][j] = Vector{};
  PrefetchQueue lines = ahead; // a copy, which the compiler keeps in registers
  for (int64_t p = 0; p < depth; ++p, a += Shape::rows, b += Shape::columns) {
    if (p % kStepsOfPrefetch == 0) {
      lines.prefetchNext();
      if (const int64_t i = p / kStepsOfPrefetch; i < rows)
        for (int64_t j = 0; j < vectors; ++j)
          __builtin_prefetch(c + i * ldc + j * Shape::lanes, /*rw=*/1);
    }
    Vector row[vectors];
#pragma GCC unroll 4
    for (int64_t j = 0; j < vectors; ++j)
      row[j] = *reinterpret_cast<const Vector *>(b + j * Shape::lanes);
#pragma GCC unroll 8
    for (int64_t i = 0; i < Shape::rows; ++i)
#pragma GCC unroll 4
      for (int64_t j = 0; j < vectors; ++j)
        sum[i][j] += a[i] * row[j];
  }
  ahead = lines;
  if (rows == Shape::rows && columns == vectors * Shape::lanes) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < Shape::rows; ++i)
#pragma GCC unroll 4
      for (int64_t j = 0; j < vectors; ++j) {
        Vector *at = reinterpret_cast<Vector *>(c + i * ldc + j * Shape::lanes);
        *at = output == GemmOutput::Add ? *at + alpha * sum[i][j] : alpha * sum[i][j];
      }
    return;
  }
  T edge[Shape::rows * vectors * Shape::lanes];
#pragma GCC unroll 8
  for (int64_t i = 0; i < Shape::rows; ++i)
#pragma GCC unroll 4
    for (int64_t j = 0; j < vectors; ++j)
      *reinterpret_cast<Vector *>(edge + (i * vectors + j) * Shape::lanes) = sum[i][j];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      T value = edge[i * vectors * Shape::lanes + j], &at = c[i * ldc + j];
      at = output == GemmOutput::Add ? at + alpha * value : alpha * value;
    }
}

/// Computes `rows` rows and `columns` columns of a tile of c.
template <typename T, Isa isa>
[[gnu::always_inline]] inline void multiplyTile(int64_t depth, T alpha, const T *a, const T *b, T *c, int64_t ldc,
                                                int64_t rows, int64_t columns, GemmOutput output,
                                                PrefetchQueue &ahead) {
  using Shape = Tile<T, isa>;
  if (columns > 2 * Shape::lanes)
    multiplyVectors<T, isa, Shape::vectors>(depth, alpha, a, b, c, ldc, rows, columns, output, ahead);
  else if (columns > Shape::lanes)
    multiplyVectors<T, isa, 2>(depth, alpha, a, b, c, ldc, rows, columns, output, ahead);
  else
    multiplyVectors<T, isa, 1>(depth, alpha, a, b, c, ldc, rows, columns, output, ahead);
}

/// Rounds rows (here) or columns (below) up to complete tiles of the instruction set that needs most. For example, 8
/// rows are one tile of AVX-512, but two tiles, 12 rows, of AVX2.
template <typename T> int64_t wholeRows(int64_t m) {
  return std::max({roundUp(m, Tile<T, Isa::Baseline>::rows), roundUp(m, Tile<T, Isa::Avx2>::rows),
                   roundUp(m, Tile<T, Isa::Avx512>::rows)});
}
template <typename T> int64_t wholeColumns(int64_t n) {
  return std::max({roundUp(n, Tile<T, Isa::Baseline>::columns), roundUp(n, Tile<T, Isa::Avx2>::columns),
                   roundUp(n, Tile<T, Isa::Avx512>::columns)});
}

template <typename T> int64_t packedBBytes(int64_t n, int64_t k) {
  return roundUp(std::min(k, kDepth) * std::min(wholeColumns<T>(n), kColumns) * int64_t(sizeof(T)), kAlignment);
}

/// Returns the memory of a block that `pack` reads.
template <typename T>
MemoryRows memoryOf(const T *from, int64_t stride, int64_t depthStride, int64_t size, int64_t depth) {
  const int64_t bytes = sizeof(T);
  return depthStride == 1 ? MemoryRows{from, depth * bytes, stride * bytes, size}
                          : MemoryRows{from, size * bytes, depthStride * bytes, depth};
}

template <typename T, Isa isa>
[[gnu::always_inline]] inline void multiply(int64_t m, int64_t n, int64_t k, T alpha, MatrixView<T> a, MatrixView<T> b,
                                            T *c, int64_t ldc, GemmOutput output, T *packedA, T *packedB) {
  using Shape = Tile<T, isa>;
  PrefetchQueue ahead;
  for (int64_t j0 = 0; j0 < n; j0 += kColumns) {
    int64_t columns = std::min(kColumns, n - j0);
    for (int64_t p0 = 0; p0 < k; p0 += kDepth) {
      int64_t depth = std::min(kDepth, k - p0);
      GemmOutput store = p0 == 0 ? output : GemmOutput::Add;
      // After the last block of a and the last panel of this block of b, the next block of b begins.
      const bool goesDeeper = p0 + kDepth < k;
      const int64_t nextP = goesDeeper ? p0 + kDepth : 0, nextJ = goesDeeper ? j0 : j0 + kColumns;
      auto blockOfA = [&](int64_t i, int64_t p) {
        return memoryOf(a.data + i * a.row + p * a.column, a.row, a.column, std::min(kRows, m - i),
                        std::min(kDepth, k - p));
      };
      auto panelOfB = [&](int64_t j, int64_t p) {
        return j < n ? memoryOf(b.data + p * b.row + j * b.column, b.column, b.row, std::min(Shape::columns, n - j),
                                std::min(kDepth, k - p))
                     : MemoryRows{};
      };
      for (int64_t i0 = 0; i0 < m; i0 += kRows) {
        int64_t rows = std::min(kRows, m - i0);
        pack<T, Shape::rows, TileShape<isa>::vectorBytes>(a.data + i0 * a.row + p0 * a.column, a.row, a.column, rows,
                                                          depth, packedA);
        ahead.reset(i0 + kRows < m ? blockOfA(i0 + kRows, p0) : nextJ < n ? blockOfA(0, nextP) : MemoryRows{});
        for (int64_t j = 0; j < columns; j += Shape::columns) {
          const int64_t width = std::min(Shape::columns, columns - j);
          if (i0 == 0) {
            pack<T, Shape::columns, TileShape<isa>::vectorBytes>(b.data + p0 * b.row + (j0 + j) * b.column, b.column,
                                                                 b.row, width, depth, packedB + j * depth);
            ahead.putFirst(j + Shape::columns < columns ? panelOfB(j0 + j + Shape::columns, p0)
                                                        : panelOfB(nextJ, nextP));
          }
          for (int64_t i = 0; i < rows; i += Shape::rows)
            multiplyTile<T, isa>(depth, alpha, packedA + i * depth, packedB + j * depth, c + (i0 + i) * ldc + j0 + j,
                                 ldc, std::min(Shape::rows, rows - i), width, store, ahead);
        }
      }
    }
  }
}

/// Computes `together` terms of the sums of one row of the result: sums[j] += a[p] * b[p][j] for neighbouring p.
template <typename T, Isa isa, int64_t together>
[[gnu::always_inline]] inline void addTerms(const T *a, int64_t aStride, const T *b, int64_t bStride, int64_t columns,
                                            T *sums) {
  using Shape = Tile<T, isa>;
  using Vector = typename Shape::Vector;
  T factors[together];
  for (int64_t p = 0; p < together; ++p)
    factors[p] = a[p * aStride];
  const int64_t whole = columns / Shape::lanes * Shape::lanes;
  for (int64_t j = 0; j < whole; j += Shape::lanes) {
    Vector sum = *reinterpret_cast<Vector *>(sums + j);
#pragma GCC unroll 8
    for (int64_t p = 0; p < together; ++p)
      sum += factors[p] * *reinterpret_cast<const Vector *>(b + p * bStride + j);
    *reinterpret_cast<Vector *>(sums + j) = sum;
  }
  for (int64_t j = whole; j < columns; ++j)
    for (int64_t p = 0; p < together; ++p)
      sums[j] += factors[p] * b[p * bStride + j];
}

/// Computes a product with few rows, in which a packed block of b would be read once only: rows of b are read as they
/// lie. The terms of an element are added in the same order as in `multiply`. `sums` holds the sums of up to
/// kColumns columns.
template <typename T, Isa isa>
[[gnu::always_inline]] inline void multiplyFewRows(int64_t m, int64_t n, int64_t k, T alpha, MatrixView<T> a,
                                                   MatrixView<T> b, T *c, int64_t ldc, GemmOutput output, T *sums) {
  constexpr int64_t kTogether = 4;
  const int64_t stride = std::min(n, kColumns);
  for (int64_t j0 = 0; j0 < n; j0 += kColumns)
    for (int64_t p0 = 0; p0 < k; p0 += kDepth) {
      const int64_t columns = std::min(kColumns, n - j0), end = p0 + std::min(kDepth, k - p0);
      const bool adds = p0 > 0 || output == GemmOutput::Add;
      std::fill_n(sums, m * stride, T(0));
      for (int64_t p = p0; p < end;) {
        const T *row = b.data + p * b.row + j0;
        const bool four = p + kTogether <= end;
        for (int64_t i = 0; i < m; ++i) {
          const T *factors = a.data + i * a.row + p * a.column;
          if (four)
            addTerms<T, isa, kTogether>(factors, a.column, row, b.row, columns, sums + i * stride);
          else
            addTerms<T, isa, 1>(factors, a.column, row, b.row, columns, sums + i * stride);
        }
        p += four ? kTogether : 1;
      }
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          T value = sums[i * stride + j], &at = c[i * ldc + j0 + j];
          at = adds ? at + alpha * value : alpha * value;
        }
    }
}

/// Computes a product with few rows whose b lies column by column. Each panel of b is read while it is in the cache.
template <typename T, Isa isa>
[[gnu::always_inline]] inline void multiplyByPanels(int64_t m, int64_t n, int64_t k, T alpha, MatrixView<T> a,
                                                    MatrixView<T> b, T *c, int64_t ldc, GemmOutput output, T *packedA,
                                                    T *packedB) {
  using Shape = Tile<T, isa>;
  PrefetchQueue ahead; // stays empty
  for (int64_t p0 = 0; p0 < k; p0 += kDepth) {
    const int64_t depth = std::min(kDepth, k - p0);
    pack<T, Shape::rows, TileShape<isa>::vectorBytes>(a.data + p0 * a.column, a.row, a.column, m, depth, packedA);
    for (int64_t j = 0; j < n; j += Shape::columns) {
      const int64_t columns = std::min(Shape::columns, n - j);
      pack<T, Shape::columns, TileShape<isa>::vectorBytes>(b.data + p0 * b.row + j * b.column, b.column, b.row, columns,
                                                           depth, packedB);
      multiplyTile<T, isa>(depth, alpha, packedA, packedB, c + j, ldc, m, columns, p0 == 0 ? output : GemmOutput::Add,
                           ahead);
    }
  }
}

template <typename T, Isa isa>
[[gnu::always_inline]] inline void multiplyAny(int64_t m, int64_t n, int64_t k, T alpha, MatrixView<T> a,
                                               MatrixView<T> b, T *c, int64_t ldc, GemmOutput output, T *packedA,
                                               T *packedB) {
  const bool few = m <= Tile<T, isa>::rows;
  if (few && b.column == 1 && k >= m && n >= Tile<T, isa>::lanes)
    multiplyFewRows<T, isa>(m, n, k, alpha, a, b, c, ldc, output, packedB);
  else if (few)
    multiplyByPanels<T, isa>(m, n, k, alpha, a, b, c, ldc, output, packedA, packedB);
  else
    multiply<T, isa>(m, n, k, alpha, a, b, c, ldc, output, packedA, packedB);
}
} // namespace

template <typename T> int64_t gemmScratchBytes(int64_t m, int64_t n, int64_t k) {
  return packedBBytes<T>(n, k) + std::min(k, kDepth) * std::min(wholeRows<T>(m), kRows) * int64_t(sizeof(T)) +
         kAlignment;
}

template <typename T>
void gemm(int64_t m, int64_t n, int64_t k, T alpha, MatrixView<T> a, MatrixView<T> b, T *c, int64_t ldc,
          GemmOutput output, void *scratch) {
  if (k == 0 && output == GemmOutput::Overwrite)
    for (int64_t i = 0; i < m; ++i)
      std::fill_n(c + i * ldc, n, T(0));
  if (m == 0 || n == 0 || k == 0)
    return;
  T *packedB = static_cast<T *>(scratch);
  T *packedA = reinterpret_cast<T *>(static_cast<std::byte *>(scratch) + packedBBytes<T>(n, k));
  dispatch(
      [](auto isa, int64_t m, int64_t n, int64_t k, T alpha, MatrixView<T> a, MatrixView<T> b, T *c, int64_t ldc,
         GemmOutput output, T *packedA,
         T *packedB) { multiplyAny<T, decltype(isa)::value>(m, n, k, alpha, a, b, c, ldc, output, packedA, packedB); },
      m, n, k, alpha, a, b, c, ldc, output, packedA, packedB);
}

GemmBlocks gemmBlocks(ThreadTeam *team, int64_t products, int64_t m, int64_t n) {
  // Each block packs its own rows of a and columns of b. That costs 2 % of the product's time in blocks of 512 x 384,
  // and 6 % in blocks of 288 x 192. So there are at least two blocks for each thread, and more if the blocks stay
  // large, so that a thread that is delayed leaves little work behind. Blocks are about equally large.
  constexpr int64_t kFewestOfThread = 2, kMostOfThread = 8, kLarge = 512 * 768;
  constexpr int64_t kSmallestRows = 96, kSmallestColumns = 192;
  constexpr int64_t kRowsOfStep = 32, kColumnsOfStep = 96; // sizes of blocks are multiples of these
  GemmBlocks blocks{std::max<int64_t>(m, 1), std::max<int64_t>(n, 1), 1, 1};
  auto part = [](int64_t size, int64_t parts, int64_t step) { return roundUp((size + parts - 1) / parts, step); };
  int64_t threads = team ? team->threads() : 1, rowParts = 1, columnParts = 1;
  auto isLarge = [&] { return blocks.rows * blocks.columns > kLarge; };
  while (threads > 1 && products * blocks.count() < threads * (isLarge() ? kMostOfThread : kFewestOfThread)) {
    if (blocks.columns > kSmallestColumns && (blocks.columns >= blocks.rows || blocks.rows <= kSmallestRows))
      blocks.columns = part(n, columnParts *= 2, kColumnsOfStep);
    else if (blocks.rows > kSmallestRows)
      blocks.rows = part(m, rowParts *= 2, kRowsOfStep);
    else
      break;
    blocks.rowCount = (m + blocks.rows - 1) / blocks.rows;
    blocks.columnCount = (n + blocks.columns - 1) / blocks.columns;
  }
  return blocks;
}

template int64_t gemmScratchBytes<float>(int64_t, int64_t, int64_t);
template int64_t gemmScratchBytes<double>(int64_t, int64_t, int64_t);
template void gemm<float>(int64_t, int64_t, int64_t, float, MatrixView<float>, MatrixView<float>, float *, int64_t,
                          GemmOutput, void *);
template void gemm<double>(int64_t, int64_t, int64_t, double, MatrixView<double>, MatrixView<double>, double *, int64_t,
                           GemmOutput, void *);

} // namespace kerf::runtime::kernels
