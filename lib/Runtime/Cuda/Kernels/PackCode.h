// SPDX-License-Identifier: Apache-2.0
// Device code that reads and writes several elements at a time, for kernels whose time is that of memory. An access of
// 16 bytes needs an address that is a multiple of 16; the host decides whether a kernel may use such accesses.
#pragma once

#include "DeviceCode.h"
#pragma clang force_cuda_host_device begin
#include "ParametersNorm.h"
#pragma clang force_cuda_host_device end

namespace kerf::runtime::cuda {

/// Numbers of consecutive elements.
template <int W, typename X = N> using Pack = std::array<X, W>;
/// Elements of type T in 16 bytes.
inline constexpr int kWidth = 16 / sizeof(T);

/// Words of 4 bytes that one instruction reads or writes.
template <int count> struct alignas(4 * count) Words {
  uint32_t words[count];
};
/// The 16 bytes, or fewer, of W elements of type E as one value.
template <typename E, int W>
using Chunk =
    std::conditional_t<sizeof(E) * W == 16, Words<4>, std::conditional_t<sizeof(E) * W == 8, Words<2>, Words<1>>>;

/// Returns W consecutive elements from element i on, whose address is a multiple of their bytes or of 16.
template <int W, typename E = T> KERF_DEVICE Pack<W, Number<E>> loadPack(const void *x, int64_t i) {
  Pack<W, Number<E>> pack;
  const E *from = static_cast<const E *>(x) + i;
  if constexpr (W == 1) {
    pack[0] = load(from);
  } else {
    constexpr int kEach = sizeof(E) * W > 16 ? 16 / sizeof(E) : W;
#pragma unroll
    for (int first = 0; first < W; first += kEach) {
      auto elements = std::bit_cast<std::array<E, kEach>>(*reinterpret_cast<const Chunk<E, kEach> *>(from + first));
#pragma unroll
      for (int k = 0; k < kEach; ++k)
        pack[first + k] = load(&elements[k]);
    }
  }
  return pack;
}

/// Writes W consecutive elements from element i on, under the conditions of loadPack.
template <int W, typename E = T> KERF_DEVICE void storePack(void *y, int64_t i, const Pack<W, Number<E>> &pack) {
  E *to = static_cast<E *>(y) + i;
  if constexpr (W == 1) {
    store(to, pack[0]);
  } else {
    constexpr int kEach = sizeof(E) * W > 16 ? 16 / sizeof(E) : W;
#pragma unroll
    for (int first = 0; first < W; first += kEach) {
      std::array<E, kEach> elements;
#pragma unroll
      for (int k = 0; k < kEach; ++k)
        store(&elements[k], pack[first + k]);
      *reinterpret_cast<Chunk<E, kEach> *>(to + first) = std::bit_cast<Chunk<E, kEach>>(elements);
    }
  }
}

/// As loadPack and storePack, for a tensor that may be float32 beside 16-bit ones.
template <int W> KERF_DEVICE Pack<W> loadAny(const Floats &x, int64_t i) {
  if constexpr (isHalf<T>)
    if (x.isWide)
      return loadPack<W, F32>(x.data, i);
  return loadPack<W>(x.data, i);
}
template <int W> KERF_DEVICE void storeAny(const Floats &y, int64_t i, const Pack<W> &pack) {
  if constexpr (isHalf<T>)
    if (y.isWide)
      return storePack<W, F32>(const_cast<void *>(y.data), i, pack);
  storePack<W>(const_cast<void *>(y.data), i, pack);
}
KERF_DEVICE N anyAt(const Floats &x, int64_t i) { return loadAny<1>(x, i)[0]; }
KERF_DEVICE void putAny(const Floats &y, int64_t i, N value) { storeAny<1>(y, i, {value}); }

/// The threads of a block, which share one row.
struct BlockOfRow {
  KERF_DEVICE static int64_t firstRow() { return block(); }
  KERF_DEVICE static int64_t rowStep() { return blocks(); }
  KERF_DEVICE static int64_t first() { return threadInBlock(); }
  KERF_DEVICE static int64_t step() { return threadsOfBlock(); }
  template <typename X, typename F> KERF_DEVICE static X combine(X value, F f) { return combineBlock(value, f); }
};
/// The 32 threads of a warp, which share one row.
struct WarpOfRow {
  KERF_DEVICE static int64_t firstRow() { return firstElement() / 32; }
  KERF_DEVICE static int64_t rowStep() { return elementStep() / 32; }
  KERF_DEVICE static int64_t first() { return threadInBlock() % 32; }
  KERF_DEVICE static int64_t step() { return 32; }
  template <typename X, typename F> KERF_DEVICE static X combine(X value, F f) { return combineWarp(value, f); }
};
/// One thread, which has a row of its own.
struct ThreadOfRow {
  KERF_DEVICE static int64_t firstRow() { return firstElement(); }
  KERF_DEVICE static int64_t rowStep() { return elementStep(); }
  KERF_DEVICE static int64_t first() { return 0; }
  KERF_DEVICE static int64_t step() { return 1; }
  template <typename X, typename F> KERF_DEVICE static X combine(X value, F) { return value; }
};
/// All threads of the grid, which share one long row.
struct GridOfRow {
  KERF_DEVICE static int64_t first() { return firstElement(); }
  KERF_DEVICE static int64_t step() { return elementStep(); }
};
template <typename Group, typename X> KERF_DEVICE X sumOf(X value) {
  return Group::combine(value, [](X a, X b) { return a + b; });
}

/// Calls f(width, i) for packs of the elements [0, n) of a row that begins at element `start` of its tensor, shared by
/// the threads of a group: with width 1 for the elements before the first sector of 32 bytes and behind the last pack,
/// else with W. The widths are std::integral_constant. The tensor itself lies at a multiple of 16 bytes.
template <typename Group, int W, typename F> KERF_DEVICE void eachPack(int64_t start, int64_t n, F f) {
  using One = std::integral_constant<int, 1>;
  constexpr int64_t kSector = 32 / sizeof(T);
  int64_t first = Group::first();
  int64_t head = W == 1 ? 0 : -start & (kSector - 1);
  head = head < n ? head : n;
  if constexpr (W > 1)
    for (int64_t i = first; i < head; i += Group::step())
      f(One(), i);
  int64_t packs = (n - head) / W;
  for (int64_t j = first; j < packs; j += Group::step())
    f(std::integral_constant<int, W>(), head + j * W);
  if constexpr (W > 1)
    for (int64_t i = head + packs * W + first; i < n; i += Group::step())
      f(One(), i);
}

/// Returns the sum of a pack, whose elements are added in N.
template <int W> KERF_DEVICE double sumOfPack(const Pack<W> &pack) {
  N sum = pack[0];
#pragma unroll
  for (int k = 1; k < W; ++k)
    sum += pack[k];
  return double(sum);
}

/// Part of a row that a thread keeps in registers: K packs of W elements. The row has at most K * W elements for each
/// thread of the group, and a multiple of W.
template <typename Group, int W, int K> struct RowPart {
  Pack<W> packs[K];

  /// Calls f(pack, i) for each pack of the thread, whose first element has the number i in the row.
  template <typename F> KERF_DEVICE void each(int64_t n, F f) {
    int first = int(Group::first()) * W, step = int(Group::step()) * W;
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (int i = first + k * step; i < int(n))
        f(packs[k], i);
  }
};

} // namespace kerf::runtime::cuda
