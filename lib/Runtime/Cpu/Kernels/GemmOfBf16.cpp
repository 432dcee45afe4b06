// SPDX-License-Identifier: Apache-2.0
// A block of b is packed into panels that stay in the second-level cache, and one panel of a after the other into the
// first-level cache. The inner kernel multiplies two panels: with matrix units it keeps 2 x 2 tiles of sums in their
// registers, otherwise 8 x 2 vectors at a time. Where the depth has several blocks, sums are kept as float32 in scratch
// memory between them.
#include "GemmOfBf16.h"
#include "Bf16Panels.h"
#include "Prefetch.h"
#include "Simd.h"
#include "kerf/Package/Half.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__) && defined(__linux__)
#define KERF_HAS_BF16_UNITS 1
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace kerf::runtime::kernels {

namespace {
constexpr int64_t kPackedNumbers = 384 * 1024; // of b that are packed at once, at most
constexpr int64_t kMostDepth = 1024;           // numbers along the depth that are packed at once, a multiple of kStep
constexpr int64_t kMostRows = 1024;            // rows whose sums are kept between blocks of the depth, at most

/// The blocks in which a product of m x k and k x n numbers is computed.
struct Blocks {
  int64_t depth, columns, rows;
  Blocks(int64_t m, int64_t n, int64_t k) {
    const int64_t count = std::max<int64_t>((k + kMostDepth - 1) / kMostDepth, 1);
    depth = std::max(roundUp((k + count - 1) / count, kStep), kStep); // equal blocks, whatever m and n are
    columns = std::min(roundUp(n, kPanel), kPackedNumbers / depth / kPanel * kPanel);
    rows = count == 1 ? m : std::min(m, kMostRows);
  }
};
} // namespace

int64_t gemmOfBf16ScratchBytes(int64_t m, int64_t n, int64_t k) {
  // A product of a smaller depth may have deeper and narrower blocks: 1,024 numbers are one block, 1,025 two of 544.
  constexpr int64_t kFewestOfSeveral = kMostDepth / 2; // numbers along the depth in one of several blocks
  const int64_t depth = std::max(std::min(roundUp(k, kStep), kMostDepth), kStep), columns = roundUp(n, kPanel);
  const int64_t b = std::min(depth * columns, kPackedNumbers), a = depth * kPanel;
  const int64_t kept = roundUp(std::min(m, kMostRows), kPanel) * std::min(columns, kPackedNumbers / kFewestOfSeveral);
  const int64_t sums = std::max(kPanel * kPanel, k > kMostDepth ? kept : 0);
  return (a + b) * int64_t(sizeof(Number)) + sums * int64_t(sizeof(float)) + kCacheLine;
}

#if KERF_HAS_BF16_UNITS

namespace {
/// Returns whether the processor has matrix units and the system grants their registers.
bool hasTiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24; // CPUID.7.0:EDX
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (kBf16 | kTiles)) != (kBf16 | kTiles))
    return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
} // namespace

Bf16Units bf16Units() {
  static const Bf16Units units = [] {
    if (bestIsa() != Isa::Avx512)
      return Bf16Units::None;
    if (allowedIsa() != "avx512" && hasTiles())
      return Bf16Units::Tiles;
    return __builtin_cpu_supports("avx512bf16") ? Bf16Units::Dots : Bf16Units::None;
  }();
  return units;
}

namespace {
/// The configuration of the eight tile registers: all have 16 rows of 64 bytes.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

/// Configures the tile registers where `uses`, and releases them at the end of its life.
class TileScope {
public:
  [[gnu::target("amx-tile,amx-bf16," KERF_AVX512)]] explicit TileScope(bool uses) : uses(uses) {
    static const TileConfiguration configuration;
    if (uses)
      _tile_loadconfig(&configuration);
  }
  TileScope(const TileScope &) = delete;
  [[gnu::target("amx-tile,amx-bf16," KERF_AVX512)]] ~TileScope() {
    if (uses)
      _tile_release();
  }

private:
  bool uses;
};

/// Adds the products of two panels, `steps` steps deep, to the 32 x 32 sums, of which `rows` rows are used. Where
/// `begins`, the sums begin with 0.
using MultiplyPanels = void (*)(int64_t steps, const Pair *a, const Pair *b, float *sums, bool begins, int64_t rows);

/// Multiplies panels by matrix units.
[[gnu::target("amx-tile,amx-bf16," KERF_AVX512)]] void multiplyByTiles(int64_t steps, const Pair *a, const Pair *b,
                                                                       float *sums, bool begins, int64_t) {
  constexpr int64_t kRow = kPanel * sizeof(float), kBytes = kTile * sizeof(Pair), kNext = 2 * kPairsOfTile;
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
    _tile_loadd(5, a + kPairsOfTile, kBytes);
    _tile_loadd(7, b + kPairsOfTile, kBytes);
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

/// Multiplies panels by vectors of sums, 8 rows at a time.
[[gnu::target("avx512bf16," KERF_AVX512)]] void multiplyByDots(int64_t steps, const Pair *a, const Pair *b, float *sums,
                                                               bool begins, int64_t rows) {
  constexpr int64_t kRows = 8, kVectors = kPanel / kTile, kNext = 2 * kPairsOfTile;
  for (int64_t i0 = 0; i0 < rows; i0 += kRows) {
    const Pair *left = a + i0 * kTile, *right = b;
    float *to = sums + i0 * kPanel;
    __m512 sum[kRows][kVectors];
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t j = 0; j < kVectors; ++j)
        sum[i][j] = begins ? _mm512_setzero_ps() : _mm512_loadu_ps(to + i * kPanel + j * kTile);
    for (int64_t step = 0; step < steps; ++step, left += kNext, right += kNext)
      for (int64_t p = 0; p < kTile; ++p) {
        __m512bh column[kVectors];
        for (int64_t j = 0; j < kVectors; ++j)
          column[j] = (__m512bh)_mm512_loadu_si512(right + (j * kTile + p) * kTile);
#pragma GCC unroll 8
        for (int64_t i = 0; i < kRows; ++i)
          for (int64_t j = 0; j < kVectors; ++j)
            sum[i][j] = _mm512_dpbf16_ps(sum[i][j], (__m512bh)_mm512_set1_epi32(int(left[i * kTile + p])), column[j]);
      }
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t j = 0; j < kVectors; ++j)
        _mm512_storeu_ps(to + i * kPanel + j * kTile, sum[i][j]);
  }
}

/// Writes a row of sums as numbers of the type C, after adding `sum` where it is not null.
[[gnu::target(KERF_AVX512)]] void writeRow(const float *sums, const Number *sum, Number *c, int64_t count) {
  if (sum)
    for (int64_t j = 0; j < count; ++j)
      c[j] = bf16FromFloat(floatFromBf16(sum[j]) + sums[j]);
  else
    for (int64_t j = 0; j < count; ++j)
      c[j] = bf16FromFloat(sums[j]);
}
[[gnu::target(KERF_AVX512)]] void writeRow(const float *sums, const float *sum, float *c, int64_t count) {
  if (sum)
    for (int64_t j = 0; j < count; ++j)
      c[j] = sum[j] + sums[j];
  else
    std::memcpy(c, sums, size_t(count) * sizeof(float));
}

} // namespace

template <typename C>
void gemmOfBf16(int64_t m, int64_t n, int64_t k, MatrixView<uint16_t> a, MatrixView<uint16_t> b, const C *sum, C *c,
                int64_t ldc, void *scratch) {
  if (m == 0 || n == 0)
    return;
  const Blocks blocks(m, n, k);
  auto *bytes = reinterpret_cast<std::byte *>(roundUp(reinterpret_cast<int64_t>(scratch), kCacheLine));
  auto *packedB = reinterpret_cast<Pair *>(bytes), *packedA = packedB + blocks.depth * blocks.columns / 2;
  auto *sums = reinterpret_cast<float *>(packedA + blocks.depth * kPanel / 2);
  const bool keepsSums = k > blocks.depth;
  const bool tiles = bf16Units() == Bf16Units::Tiles;
  const TileScope scope(tiles);
  const MultiplyPanels multiply = tiles ? multiplyByTiles : multiplyByDots;
  for (int64_t r0 = 0; r0 < m; r0 += blocks.rows)
    for (int64_t j0 = 0; j0 < n; j0 += blocks.columns)
      for (int64_t p0 = 0; p0 == 0 || p0 < k; p0 += blocks.depth) {
        const int64_t end = std::min(m, r0 + blocks.rows), columns = std::min(blocks.columns, n - j0);
        const int64_t depth = std::min(blocks.depth, k - p0), steps = (depth + kStep - 1) / kStep;
        const bool begins = p0 == 0, ends = p0 + blocks.depth >= k;
        packPanels(PanelOf::B, b.data + p0 * b.row + j0 * b.column, b.column, b.row, columns, depth, packedB);
        float *block = sums;
        for (int64_t i0 = r0; i0 < end; i0 += kPanel) {
          const int64_t rows = std::min(kPanel, end - i0);
          packPanels(PanelOf::A, a.data + i0 * a.row + p0 * a.column, a.row, a.column, rows, depth, packedA);
          for (int64_t j = 0; j < columns; j += kPanel) {
            multiply(steps, packedA, packedB + j * steps * kStep / 2, block, begins, rows);
            for (int64_t i = 0; i < rows && ends; ++i) {
              const int64_t at = (i0 + i) * ldc + j0 + j;
              writeRow(block + i * kPanel, sum ? sum + at : nullptr, c + at, std::min(kPanel, columns - j));
            }
            block += keepsSums ? kPanel * kPanel : 0;
          }
        }
      }
}

#else

Bf16Units bf16Units() { return Bf16Units::None; }
template <typename C>
void gemmOfBf16(int64_t, int64_t, int64_t, MatrixView<uint16_t>, MatrixView<uint16_t>, const C *, C *, int64_t,
                void *) {}

#endif

template void gemmOfBf16<float>(int64_t, int64_t, int64_t, MatrixView<uint16_t>, MatrixView<uint16_t>, const float *,
                                float *, int64_t, void *);
template void gemmOfBf16<uint16_t>(int64_t, int64_t, int64_t, MatrixView<uint16_t>, MatrixView<uint16_t>,
                                   const uint16_t *, uint16_t *, int64_t, void *);

} // namespace kerf::runtime::kernels
