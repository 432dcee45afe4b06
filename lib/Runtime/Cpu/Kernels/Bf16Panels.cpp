// SPDX-License-Identifier: Apache-2.0
#include "Bf16Panels.h"
#include "Simd.h"

#include <algorithm>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>

namespace kerf::runtime::kernels {

namespace {
/// A row of a tile.
typedef Pair Pairs __attribute__((vector_size(64), aligned(2), may_alias));
/// A quarter of a row.
typedef Pair Quarter __attribute__((vector_size(16), aligned(2), may_alias));

/// Interleaves two vectors in each quarter: `width` pairs of the quarter's low (or high) half of a, then as many of b.
template <size_t width, bool high, size_t... i>
[[gnu::target(KERF_AVX512)]] Pairs interleaved(Pairs a, Pairs b, std::index_sequence<i...>) {
  return __builtin_shufflevector(
      a, b, (i / 4 * 4 + (high ? 2 : 0) + i % 4 / (2 * width) * width + i % width + i / width % 2 * kTile)...);
}

/// Transposes a tile: 16 rows of 16 pairs each, `stride` numbers apart, become 16 rows without gaps.
[[gnu::target(KERF_AVX512)]] void transposeTile(const Number *from, int64_t stride, Pair *to) {
  constexpr int64_t kLanes = 4; // pairs of a quarter
  using Lanes = std::make_index_sequence<kTile>;
  for (int64_t c = 0; c < kLanes; ++c) {
    // Vector r has columns 4c to 4c + 3 of the rows r, 4 + r, 8 + r and 12 + r, one row in each quarter.
    Pairs rows[kLanes];
#pragma GCC unroll 4
    for (int64_t r = 0; r < kLanes; ++r) {
      auto quarter = [&](int64_t row) {
        return (__m128i) * reinterpret_cast<const Quarter *>(from + row * stride + c * kLanes * 2);
      };
      __m512i joined = _mm512_castsi128_si512(quarter(r));
      joined = _mm512_inserti32x4(joined, quarter(4 + r), 1);
      joined = _mm512_inserti32x4(joined, quarter(8 + r), 2);
      rows[r] = (Pairs)_mm512_inserti32x4(joined, quarter(12 + r), 3);
    }
    const Pairs low01 = interleaved<1, false>(rows[0], rows[1], Lanes{}),
                high01 = interleaved<1, true>(rows[0], rows[1], Lanes{}),
                low23 = interleaved<1, false>(rows[2], rows[3], Lanes{}),
                high23 = interleaved<1, true>(rows[2], rows[3], Lanes{});
    Pairs *columns = reinterpret_cast<Pairs *>(to + c * kLanes * kTile);
    columns[0] = interleaved<2, false>(low01, low23, Lanes{});
    columns[1] = interleaved<2, true>(low01, low23, Lanes{});
    columns[2] = interleaved<2, false>(high01, high23, Lanes{});
    columns[3] = interleaved<2, true>(high01, high23, Lanes{});
  }
}

/// Copies 32 rows of 16 pairs each, `stride` numbers apart.
[[gnu::target(KERF_AVX512)]] void copyRows(const Number *from, int64_t stride, Pair *to) {
#pragma GCC unroll 8
  for (int64_t i = 0; i < kPanel; ++i)
    _mm512_storeu_si512(to + i * kTile, _mm512_loadu_si512(from + i * stride));
}

/// Joins neighbours along the depth, whose rows of 32 numbers are `depthStride` numbers apart, to pairs: two tiles with
/// the pairs of 16 columns beside each other.
[[gnu::target(KERF_AVX512)]] void joinPairs(const Number *from, int64_t depthStride, Pair *to) {
  alignas(64) static constexpr Number kLow[] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i low = _mm512_load_si512(kLow), high = _mm512_add_epi16(low, _mm512_set1_epi16(kTile));
#pragma GCC unroll 4
  for (int64_t p = 0; p < kTile; ++p, from += 2 * depthStride) {
    const __m512i even = _mm512_loadu_si512(from), odd = _mm512_loadu_si512(from + depthStride);
    _mm512_storeu_si512(to + p * kTile, _mm512_permutex2var_epi16(even, low, odd));
    _mm512_storeu_si512(to + kPairsOfTile + p * kTile, _mm512_permutex2var_epi16(even, high, odd));
  }
}

/// Packs one step of a panel of which nothing is missing. Either `stride` or `depthStride` is 1.
[[gnu::target(KERF_AVX512)]] void packStep(PanelOf of, const Number *from, int64_t stride, int64_t depthStride,
                                           Pair *to) {
  if (depthStride != 1) {
    alignas(64) Pair pairs[2 * kPairsOfTile];
    joinPairs(from, depthStride, of == PanelOf::B ? to : pairs);
    for (int64_t half = 0; half < 2 && of == PanelOf::A; ++half)
      transposeTile(reinterpret_cast<const Number *>(pairs + half * kPairsOfTile), kStep, to + half * kPairsOfTile);
  } else if (of == PanelOf::A) {
    copyRows(from, stride, to);
  } else {
    for (int64_t half = 0; half < 2; ++half)
      transposeTile(from + half * kTile * stride, stride, to + half * kPairsOfTile);
  }
}

/// Packs one step of a panel that has only `size` rows or columns and `depth` numbers of each, or whose numbers have
/// gaps in both directions.
void packEdge(PanelOf of, const Number *from, int64_t stride, int64_t depthStride, int64_t size, int64_t depth,
              Pair *to) {
  alignas(64) Number whole[kPanel * kStep] = {};
  for (int64_t i = 0; i < std::min(size, kPanel); ++i)
    for (int64_t p = 0; p < std::min(depth, kStep); ++p)
      whole[i * kStep + p] = from[i * stride + p * depthStride];
  packStep(of, whole, kStep, 1, to);
}
} // namespace

void packPanels(PanelOf of, const Number *from, int64_t stride, int64_t depthStride, int64_t size, int64_t depth,
                Pair *to) {
  for (int64_t i = 0; i < size; i += kPanel)
    for (int64_t p = 0; p < depth; p += kStep, to += 2 * kPairsOfTile) {
      const Number *at = from + i * stride + p * depthStride;
      if (size - i >= kPanel && depth - p >= kStep && (stride == 1 || depthStride == 1))
        packStep(of, at, stride, depthStride, to);
      else
        packEdge(of, at, stride, depthStride, size - i, depth - p, to);
    }
}

} // namespace kerf::runtime::kernels

#endif
