// SPDX-License-Identifier: Apache-2.0
// The transposition of a small square in vector registers, for packing the operands of products.
#pragma once

#include <cstdint>
#include <utility>

namespace kerf::runtime::kernels {

template <typename V, size_t... i> V lowHalves(V a, V b, std::index_sequence<i...>) {
  return __builtin_shufflevector(a, b, (i % 2 ? sizeof...(i) + i / 2 : i / 2)...);
}
template <typename V, size_t... i> V highHalves(V a, V b, std::index_sequence<i...>) {
  constexpr size_t kLanes = sizeof...(i);
  return __builtin_shufflevector(a, b, (kLanes / 2 + (i % 2 ? kLanes + i / 2 : i / 2))...);
}

/// Transposes a square of `lanes` x `lanes` elements. Each round interleaves the first half of the rows with
/// the second half.
template <typename T, int64_t lanes>
[[gnu::always_inline]] inline void transposeSquare(const T *from, int64_t fromRow, T *to, int64_t toRow) {
  typedef T Vector __attribute__((vector_size(lanes * sizeof(T)), aligned(alignof(T)), may_alias));
  using Lanes = std::make_index_sequence<size_t(lanes)>;
  Vector rows[lanes], next[lanes];
#pragma GCC unroll 16
  for (int64_t i = 0; i < lanes; ++i)
    rows[i] = *reinterpret_cast<const Vector *>(from + i * fromRow);
#pragma GCC unroll 4
  for (int64_t round = 1; round < lanes; round *= 2) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < lanes / 2; ++i) {
      next[2 * i] = lowHalves(rows[i], rows[i + lanes / 2], Lanes{});
      next[2 * i + 1] = highHalves(rows[i], rows[i + lanes / 2], Lanes{});
    }
#pragma GCC unroll 16
    for (int64_t i = 0; i < lanes; ++i)
      rows[i] = next[i];
  }
#pragma GCC unroll 16
  for (int64_t i = 0; i < lanes; ++i)
    *reinterpret_cast<Vector *>(to + i * toRow) = rows[i];
}

} // namespace kerf::runtime::kernels
