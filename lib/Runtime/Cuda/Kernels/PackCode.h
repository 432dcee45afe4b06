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

/// `bytes` bytes as one value: 16, 8, 4 or 2.
using Bytes16 = uint32_t __attribute__((vector_size(16)));
using Bytes8 = uint32_t __attribute__((vector_size(8)));
template <size_t bytes>
using Chunk =
    std::conditional_t<bytes == 16, Bytes16,
                       std::conditional_t<bytes == 8, Bytes8, std::conditional_t<bytes == 4, uint32_t, uint16_t>>>;
/// The ways to compile a load of several elements. Where its elements are used one by one, the compiler may replace it
/// by loads of single elements; Whole prevents this, and also that a loop with the load is unrolled.
enum class Access { Any, Whole };
/// Returns a chunk that was loaded. The empty assembly uses all words at once, so that the load stays one access.
KERF_DEVICE Bytes16 asWhole(unsigned __int128 chunk) {
  uint64_t low = uint64_t(chunk), high = uint64_t(chunk >> 64);
  asm("" : "+l"(low), "+l"(high));
  return std::bit_cast<Bytes16>(std::array<uint64_t, 2>{low, high});
}
KERF_DEVICE Bytes8 asWhole(Bytes8 chunk) {
  uint32_t a = chunk[0], b = chunk[1];
  asm("" : "+r"(a), "+r"(b));
  return Bytes8{a, b};
}
KERF_DEVICE uint32_t asWhole(uint32_t chunk) {
  asm("" : "+r"(chunk));
  return chunk;
}
KERF_DEVICE uint16_t asWhole(uint16_t chunk) { return chunk; }
/// Returns a number whose origin the compiler does not know, so that it keeps no address for each of the places in a
/// loop that are computed from it.
KERF_DEVICE int64_t unknown(int64_t number) {
  asm volatile("" : "+l"(number));
  return number;
}
/// Returns a chunk that the compiler takes for another one, so that it computes the numbers of the chunk again instead
/// of keeping them in registers.
KERF_DEVICE Bytes16 unknown(Bytes16 chunk) {
  uint32_t a = chunk[0], b = chunk[1], c = chunk[2], d = chunk[3];
  asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
  return Bytes16{a, b, c, d};
}
template <typename C> KERF_DEVICE C unknown(C chunk) { return chunk; } // it takes no more registers than its numbers
/// Loads a chunk in one access. The compiler would replace a load of a vector by loads of its words.
template <typename C> KERF_DEVICE C loadWhole(const void *from) {
  using Loaded = std::conditional_t<sizeof(C) == 16, unsigned __int128, C>;
  return asWhole(*static_cast<const Loaded *>(from));
}
/// Elements of type E of W consecutive ones that one access reads or writes.
template <typename E, int W> inline constexpr int kElementsOfAccess = sizeof(E) * W > 16 ? 16 / sizeof(E) : W;

/// Returns W consecutive elements from element i on, as they are in memory. The address is a multiple of their bytes or
/// of 16.
template <int W, typename E = T, Access access = Access::Any>
KERF_DEVICE std::array<E, W> loadElements(const void *x, int64_t i) {
  std::array<E, W> all;
  const E *from = static_cast<const E *>(x) + i;
  if constexpr (W == 1) {
    all[0] = *from;
  } else {
    constexpr int kEach = kElementsOfAccess<E, W>;
#pragma unroll
    for (int first = 0; first < W; first += kEach) {
      using Bytes = Chunk<kEach * sizeof(E)>;
      Bytes bytes =
          access == Access::Whole ? loadWhole<Bytes>(from + first) : *reinterpret_cast<const Bytes *>(from + first);
      auto elements = std::bit_cast<std::array<E, kEach>>(bytes);
#pragma unroll
      for (int k = 0; k < kEach; ++k)
        all[first + k] = elements[k];
    }
  }
  return all;
}
/// Writes W consecutive elements from element i on, under the conditions of loadElements.
template <int W, typename E = T> KERF_DEVICE void storeElements(void *y, int64_t i, const std::array<E, W> &all) {
  E *to = static_cast<E *>(y) + i;
  if constexpr (W == 1) {
    *to = all[0];
  } else {
    constexpr int kEach = kElementsOfAccess<E, W>;
#pragma unroll
    for (int first = 0; first < W; first += kEach) {
      std::array<E, kEach> elements;
#pragma unroll
      for (int k = 0; k < kEach; ++k)
        elements[k] = all[first + k];
      using Bytes = Chunk<kEach * sizeof(E)>;
      *reinterpret_cast<Bytes *>(to + first) = std::bit_cast<Bytes>(elements);
    }
  }
}

/// Returns the numbers of W consecutive elements, under the conditions of loadElements.
template <int W, typename E = T, Access access = Access::Any>
KERF_DEVICE Pack<W, Number<E>> loadPack(const void *x, int64_t i) {
  auto elements = loadElements<W, E, access>(x, i);
  Pack<W, Number<E>> pack;
#pragma unroll
  for (int k = 0; k < W; ++k)
    pack[k] = load(&elements[k]);
  return pack;
}
/// Writes the numbers of W consecutive elements, under the conditions of loadElements.
template <int W, typename E = T> KERF_DEVICE void storePack(void *y, int64_t i, const Pack<W, Number<E>> &pack) {
  std::array<E, W> elements;
#pragma unroll
  for (int k = 0; k < W; ++k)
    store(&elements[k], pack[k]);
  storeElements<W, E>(y, i, elements);
}

/// W consecutive elements of type T as one value, which takes as many registers as it has words.
template <int W> using Raw = Chunk<W * sizeof(T)>;
template <int W> KERF_DEVICE Raw<W> loadRaw(const void *x, int64_t i) {
  return *reinterpret_cast<const Raw<W> *>(static_cast<const T *>(x) + i);
}
template <int W> KERF_DEVICE Pack<W> numbersOf(const Raw<W> &raw) {
  auto elements = std::bit_cast<std::array<T, W>>(raw);
  Pack<W> pack;
#pragma unroll
  for (int k = 0; k < W; ++k)
    pack[k] = load(&elements[k]);
  return pack;
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

/// Calls f(width, packs, i, apart) for packs of the elements [0, n) of a row that begins at element `start` of its
/// tensor, shared by the threads of a group. The packs of a call have `width` elements each, and begin at the elements
/// i, i + apart, .... A call has U packs of W elements where the thread has so many left, and else one: of W elements,
/// or of 1 before the first multiple of `alignment` bytes (a sector) and behind the last pack. `width` and `packs` are
/// std::integral_constant. The tensor itself lies at a multiple of 16 bytes.
template <typename Group, int W, int U, int alignment = 32, typename F>
KERF_DEVICE void eachPacks(int64_t start, int64_t n, F f) {
  using One = std::integral_constant<int, 1>;
  const int64_t first = Group::first(), step = Group::step();
  int64_t head = W == 1 ? 0 : -start & (alignment / int64_t(sizeof(T)) - 1);
  head = head < n ? head : n;
  if constexpr (W > 1)
#pragma unroll 1
    for (int64_t i = first; i < head; i += step)
      f(One(), One(), i, int64_t(0));
  const int64_t packs = (n - head) / W;
  int64_t j = first;
  if constexpr (U > 1)
#pragma unroll 1
    for (; j + (U - 1) * step < packs; j += U * step)
      f(std::integral_constant<int, W>(), std::integral_constant<int, U>(), head + j * W, step * W);
#pragma unroll 1
  for (; j < packs; j += step)
    f(std::integral_constant<int, W>(), One(), head + j * W, int64_t(0));
  if constexpr (W > 1)
#pragma unroll 1
    for (int64_t i = head + packs * W + first; i < n; i += step)
      f(One(), One(), i, int64_t(0));
}
/// Returns the numbers of U packs of W elements, which begin at the elements i, i + apart, ....
template <int U, int W> KERF_DEVICE Pack<U * W> loadPacks(const void *x, int64_t i, int64_t apart) {
  std::array<T, W> elements[U];
#pragma unroll
  for (int pack = 0; pack < U; ++pack)
    elements[pack] = loadElements<W, T, Access::Whole>(x, i + pack * apart);
  Pack<U * W> all;
#pragma unroll
  for (int k = 0; k < U * W; ++k)
    all[k] = load(&elements[k / W][k % W]);
  return all;
}
/// Calls f(width, i) for packs one by one, as eachPacks has them.
template <typename Group, int W, typename F> KERF_DEVICE void eachPack(int64_t start, int64_t n, F f) {
  eachPacks<Group, W, 1>(start, n, [&](auto width, auto, int64_t i, int64_t) { f(width, i); });
}

/// Returns whether all addresses are multiples of 16.
template <typename... Addresses> KERF_DEVICE bool areAligned(Addresses... addresses) {
  return ((reinterpret_cast<uintptr_t>(addresses) | ...) & 15) == 0;
}
/// Calls f(width, i) for packs of n elements, shared by the threads of the grid: with W where tensors are `aligned`,
/// and with 1 for other tensors and for the elements behind the last pack. The widths are std::integral_constant.
template <int W, typename F> KERF_DEVICE void eachOfGrid(int64_t n, bool aligned, F f) {
  int64_t packs = aligned ? n / W : 0;
#pragma unroll 1
  for (int64_t j = firstElement(); j < packs; j += elementStep())
    f(std::integral_constant<int, W>(), j * W);
#pragma unroll 1
  for (int64_t i = packs * W + firstElement(); i < n; i += elementStep())
    f(std::integral_constant<int, 1>(), i);
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
