// SPDX-License-Identifier: Apache-2.0
// Packs factors of bf16 products into panels: the order in which the inner kernels of GemmOfBf16.cpp read them.
#pragma once

#include <cstdint>

namespace kerf::runtime::kernels {

/// The bits of a bf16 number.
using Number = uint16_t;
/// Two numbers that are neighbours along the depth (the dimension over which a product sums).
using Pair = uint32_t;

inline constexpr int64_t kTile = 16;             // rows of a tile, and columns of a tile of sums
inline constexpr int64_t kStep = 32;             // numbers along the depth in a tile of a factor
inline constexpr int64_t kPanel = 2 * kTile;     // rows of a, or columns of b, in a panel
inline constexpr int64_t kPairsOfTile = 16 * 16; // pairs in a tile

/// The factor that is packed. It decides the order of the pairs in a tile: a tile of a has the pairs of one row beside
/// each other, a tile of b those of all 16 columns.
enum class PanelOf { A, B };

/// Packs `size` rows of a (or columns of b), which are `stride` elements apart, and `depth` numbers of each, which are
/// `depthStride` elements apart. A panel has two tiles for each step along the depth. Numbers beyond `size` and `depth`
/// are zeros. Needs AVX-512.
void packPanels(PanelOf of, const Number *from, int64_t stride, int64_t depthStride, int64_t size, int64_t depth,
                Pair *to);

} // namespace kerf::runtime::kernels
