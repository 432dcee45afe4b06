// SPDX-License-Identifier: Apache-2.0
// A block of b (kDepthOfBlock x kColumnsOfBlock) and a panel of a (kPanel rows x kDepthOfBlock) are packed into tiles,
// in which two numbers that are neighbours along the depth lie beside each other. The inner kernel keeps 2 x 2 tiles of
// sums in the units' registers. Where the depth has several blocks, sums are kept as float32 in scratch memory between
// them.
#include "MatrixUnits.h"
#include "Simd.h"
#include "TransposeSquare.h"
#include "kerf/Package/Half.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__) && defined(__linux__)
#define KERF_HAS_AMX 1
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace kerf::runtime::kernels {

namespace {
constexpr int64_t kTile = 16;            // rows of a tile, and columns of a tile of sums
constexpr int64_t kStep = 32;            // numbers along the depth in a tile of a factor
constexpr int64_t kPanel = 2 * kTile;    // rows and columns of the inner kernel's block
constexpr int64_t kDepthOfBlock = 1024;  // numbers along the depth that are packed at once, a multiple of kStep
constexpr int64_t kColumnsOfBlock = 384; // columns of b that are packed at once, a multiple of kPanel
constexpr int64_t kCacheLine = 64;

/// The parts of the scratch memory, in bytes.
struct Parts {
  int64_t b, a, sums;
  Parts(int64_t m, int64_t n, int64_t k)
      : b(roundUp(std::min(k, kDepthOfBlock), kStep) * roundUp(std::min(n, kColumnsOfBlock), kPanel) * 2),
        a(roundUp(std::min(k, kDepthOfBlock), kStep) * kPanel * 2),
        sums(k > kDepthOfBlock ? m * std::min(n, kColumnsOfBlock) * 4 : 0) {}
};
} // namespace

int64_t gemmOfBf16ScratchBytes(int64_t m, int64_t n, int64_t k) {
  Parts parts(m, n, k);
  return parts.b + parts.a + roundUp(parts.sums, kCacheLine) + kCacheLine;
}

#if KERF_HAS_AMX

#define KERF_AMX_TARGET [[gnu::target("amx-tile,amx-bf16,avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]]

bool hasMatrixUnits() {
  static const bool has = [] {
    if (bestIsa() != Isa::Avx512)
      return false;
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24; // CPUID.7.0:EDX
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (kBf16 | kTiles)) != (kBf16 | kTiles))
      return false;
    constexpr long kRequestPermission = 0x1023, kTileData = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return has;
}

namespace {
using Number = uint16_t;
/// Two numbers that are neighbours along the depth.
using Pair = uint32_t;

/// Packs 16 rows or columns, `stride` elements apart, times 32 numbers along the depth into pairs: to[p * 16 + i] has
/// the numbers 2p and 2p + 1 of row or column i. Numbers beyond `size` and `depth` are zeros.
KERF_AMX_TARGET void packPairs(const Number *from, int64_t stride, int64_t depthStride, int64_t size, int64_t depth,
                               Pair *to) {
  if (size >= kTile && depth >= kStep && stride == 1) {
    for (int64_t p = 0; p < kTile; ++p) {
      const Number *even = from + 2 * p * depthStride, *odd = even + depthStride;
      for (int64_t i = 0; i < kTile; ++i)
        to[p * kTile + i] = Pair(even[i]) | Pair(odd[i]) << 16;
    }
    return;
  }
  if (size >= kTile && depth >= kStep && depthStride == 1) {
    Pair rows[kTile * kTile];
    for (int64_t i = 0; i < kTile; ++i)
      std::memcpy(rows + i * kTile, from + i * stride, kStep * sizeof(Number));
    transposeSquare<Pair, kTile>(rows, kTile, to, kTile);
    return;
  }
  for (int64_t p = 0; p < kTile; ++p)
    for (int64_t i = 0; i < kTile; ++i) {
      auto number = [&](int64_t at) {
        return i < size && at < depth ? Pair(from[i * stride + at * depthStride]) : Pair(0);
      };
      to[p * kTile + i] = number(2 * p) | number(2 * p + 1) << 16;
    }
}

/// Packs 16 rows of a, `stride` elements apart: to[i * 16 + p] has the numbers 2p and 2p + 1 of row i.
KERF_AMX_TARGET void packRows(const Number *from, int64_t stride, int64_t depthStride, int64_t size, int64_t depth,
                              Pair *to) {
  if (depthStride == 1 && size >= kTile && depth >= kStep) {
    for (int64_t i = 0; i < kTile; ++i)
      std::memcpy(to + i * kTile, from + i * stride, kStep * sizeof(Number));
    return;
  }
  Pair pairs[kTile * kTile];
  packPairs(from, stride, depthStride, size, depth, pairs);
  transposeSquare<Pair, kTile>(pairs, kTile, to, kTile);
}

/// Packs `size` rows or columns in panels of 32, each of two tiles for each step along the depth.
KERF_AMX_TARGET void packPanels(bool isRows, const Number *from, int64_t stride, int64_t depthStride, int64_t size,
                                int64_t depth, Pair *to) {
  for (int64_t i = 0; i < size; i += kPanel)
    for (int64_t p = 0; p < depth; p += kStep)
      for (int64_t half = 0; half < kPanel; half += kTile, to += kTile * kTile) {
        const int64_t left = std::max<int64_t>(size - i - half, 0);
        const Number *at = from + std::min(i + half, size - 1) * stride + p * depthStride;
        (isRows ? packRows : packPairs)(at, stride, depthStride, left, depth - p, to);
      }
}

/// The configuration of the eight tile registers: all have 16 rows of 64 bytes.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

KERF_AMX_TARGET void beginTiles() {
  static const TileConfiguration configuration;
  _tile_loadconfig(&configuration);
}
KERF_AMX_TARGET void endTiles() { _tile_release(); }

/// Adds the products of two panels, `steps` steps deep, to the 32 x 32 sums.
KERF_AMX_TARGET void multiplyPanels(int64_t steps, const Pair *a, const Pair *b, float *sums, bool begins) {
  constexpr int64_t kRow = kPanel * sizeof(float), kBytes = kTile * sizeof(Pair), kNext = 2 * kTile * kTile;
  if (begins) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, sums, kRow);
    _tile_loadd(1, sums + kTile, kRow);
    _tile_loadd(2, sums + kTile * kPanel, kRow);
    _tile_loadd(3, sums + kTile * kPanel + kTile, kRow);
  }
  for (int64_t p = 0; p < steps; ++p, a += kNext, b += kNext) {
    _tile_loadd(4, a, kBytes);
    _tile_loadd(6, b, kBytes);
    _tile_loadd(5, a + kTile * kTile, kBytes);
    _tile_loadd(7, b + kTile * kTile, kBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, kRow);
  _tile_stored(1, sums + kTile, kRow);
  _tile_stored(2, sums + kTile * kPanel, kRow);
  _tile_stored(3, sums + kTile * kPanel + kTile, kRow);
}

/// Writes a row of sums as numbers of the type C, after adding `sum` where it is not null.
KERF_AMX_TARGET void writeRow(const float *sums, const Number *sum, Number *c, int64_t count) {
  if (sum)
    for (int64_t j = 0; j < count; ++j)
      c[j] = bf16FromFloat(floatFromBf16(sum[j]) + sums[j]);
  else
    for (int64_t j = 0; j < count; ++j)
      c[j] = bf16FromFloat(sums[j]);
}
KERF_AMX_TARGET void writeRow(const float *sums, const float *sum, float *c, int64_t count) {
  if (sum)
    for (int64_t j = 0; j < count; ++j)
      c[j] = sum[j] + sums[j];
  else
    std::memcpy(c, sums, size_t(count) * sizeof(float));
}

/// Copies between a block of sums and their place among all sums.
void copyRows(const float *from, int64_t fromRow, float *to, int64_t toRow, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    std::memcpy(to + i * toRow, from + i * fromRow, size_t(columns) * sizeof(float));
}
} // namespace

template <typename C>
void gemmOfBf16(int64_t m, int64_t n, int64_t k, MatrixView<uint16_t> a, MatrixView<uint16_t> b, const C *sum, C *c,
                int64_t ldc, void *scratch) {
  if (m == 0 || n == 0)
    return;
  const Parts parts(m, n, k);
  auto *bytes = reinterpret_cast<std::byte *>(roundUp(reinterpret_cast<int64_t>(scratch), kCacheLine));
  auto *packedB = reinterpret_cast<Pair *>(bytes), *packedA = reinterpret_cast<Pair *>(bytes + parts.b);
  auto *sums = reinterpret_cast<float *>(bytes + parts.b + parts.a);
  alignas(64) float block[kPanel * kPanel] = {};
  beginTiles();
  for (int64_t j0 = 0; j0 < n; j0 += kColumnsOfBlock) {
    const int64_t columns = std::min(kColumnsOfBlock, n - j0);
    for (int64_t p0 = 0; p0 == 0 || p0 < k; p0 += kDepthOfBlock) {
      const int64_t depth = std::min(kDepthOfBlock, k - p0), steps = (depth + kStep - 1) / kStep;
      const bool begins = p0 == 0, ends = p0 + kDepthOfBlock >= k;
      packPanels(false, b.data + p0 * b.row + j0 * b.column, b.column, b.row, columns, depth, packedB);
      for (int64_t i0 = 0; i0 < m; i0 += kPanel) {
        const int64_t rows = std::min(kPanel, m - i0);
        packPanels(true, a.data + i0 * a.row + p0 * a.column, a.row, a.column, rows, depth, packedA);
        for (int64_t j = 0; j < columns; j += kPanel) {
          const int64_t width = std::min(kPanel, columns - j);
          float *kept = sums + i0 * columns + j;
          if (!begins)
            copyRows(kept, columns, block, kPanel, rows, width);
          multiplyPanels(steps, packedA, packedB + j * steps * kStep / 2, block, begins);
          if (!ends)
            copyRows(block, kPanel, kept, columns, rows, width);
          for (int64_t i = 0; i < rows && ends; ++i) {
            const int64_t at = (i0 + i) * ldc + j0 + j;
            writeRow(block + i * kPanel, sum ? sum + at : nullptr, c + at, width);
          }
        }
      }
    }
  }
  endTiles();
}

#else

bool hasMatrixUnits() { return false; }
template <typename C>
void gemmOfBf16(int64_t, int64_t, int64_t, MatrixView<uint16_t>, MatrixView<uint16_t>, const C *, C *, int64_t,
                void *) {}

#endif

template void gemmOfBf16<float>(int64_t, int64_t, int64_t, MatrixView<uint16_t>, MatrixView<uint16_t>, const float *,
                                float *, int64_t, void *);
template void gemmOfBf16<uint16_t>(int64_t, int64_t, int64_t, MatrixView<uint16_t>, MatrixView<uint16_t>,
                                   const uint16_t *, uint16_t *, int64_t, void *);

} // namespace kerf::runtime::kernels
