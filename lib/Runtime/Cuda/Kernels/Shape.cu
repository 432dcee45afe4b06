// SPDX-License-Identifier: Apache-2.0
// Kernels that move elements without looking at them. KERF_TYPE is the type of the elements of iota; the others copy
// elements by their size.
#include "PackCode.h"

namespace kerf::runtime::cuda {

/// Copies elements of type E. Places are counted in the type I, because divisions of 64 bits are slow.
template <typename E, typename I> KERF_DEVICE void copyElements(const CopyParameters &p) {
  const E *from = static_cast<const E *>(p.from) + p.fromStart;
  E *to = static_cast<E *>(p.to) + p.toStart;
  for (int64_t i = firstElement(); i < p.n; i += elementStep()) {
    I rest = I(i), read = 0, written = 0;
    for (int d = p.rank - 1; d >= 0; --d) {
      I size = I(p.sizes[d]), next = d > 0 ? rest / size : 0, index = rest - next * size;
      rest = next;
      read += index * I(p.fromStrides[d]);
      written += index * I(p.toStrides[d]);
    }
    to[written] = from[read];
  }
}
template <typename E> KERF_DEVICE void copyOf(const CopyParameters &p) {
  if (p.isSmall)
    copyElements<E, uint32_t>(p);
  else
    copyElements<E, int64_t>(p);
}

KERF_KERNEL void copy(CopyParameters p) {
  switch (p.bytes) {
  case 1:
    return copyOf<uint8_t>(p);
  case 2:
    return copyOf<uint16_t>(p);
  case 4:
    return copyOf<uint32_t>(p);
  case 8:
    return copyOf<uint64_t>(p);
  default:
    return copyOf<Bytes16>(p);
  }
}

/// Moves the places in both tensors to the outer index number `rest`: that of all dimensions but `fromDim` and the
/// last.
KERF_DEVICE void moveToOuter(const CopyParameters &p, int64_t rest, int64_t &read, int64_t &written) {
  for (int d = p.rank - 2; d >= 0; --d) {
    if (d == p.fromDim)
      continue;
    int64_t index = rest % p.sizes[d];
    rest /= p.sizes[d];
    read += index * p.fromStrides[d];
    written += index * p.toStrides[d];
  }
}

/// Copies tiles of two dimensions through shared memory: a warp reads neighbours along `fromDim` and writes neighbours
/// along the last dimension.
template <typename E> KERF_DEVICE void transposeTiles(const CopyParameters &p) {
  using Slot = std::conditional_t<sizeof(E) < 4, uint32_t, E>; // threads read a column of a tile from different banks
  constexpr int kTile = kTransposeTile, kRows = kTransposeThreads / kTile;
  KERF_SHARED Slot tile[kTile][kTile + 1];
  const int last = p.rank - 1;
  const int64_t lane = threadInBlock() % kTile, warp = threadInBlock() / kTile;
  const int64_t columns = p.sizes[last], rows = p.sizes[p.fromDim];
  const int64_t across = (columns + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
  const int64_t tiles = p.n / (columns * rows) * across * down;
  for (int64_t t = block(); t < tiles; t += blocks()) {
    int64_t rest = t / across, column = (t - rest * across) * kTile;
    int64_t next = rest / down, row = (rest - next * down) * kTile;
    rest = next;
    int64_t read = p.fromStart + column * p.fromStrides[last] + row;
    int64_t written = p.toStart + column + row * p.toStrides[p.fromDim];
    moveToOuter(p, rest, read, written);
    const E *from = static_cast<const E *>(p.from) + read;
    E *to = static_cast<E *>(p.to) + written;
    for (int64_t j = warp; j < kTile; j += kRows)
      if (column + j < columns && row + lane < rows)
        tile[j][lane] = from[j * p.fromStrides[last] + lane];
    __nvvm_bar_sync(0);
    for (int64_t j = warp; j < kTile; j += kRows)
      if (row + j < rows && column + lane < columns)
        to[j * p.toStrides[p.fromDim] + lane] = E(tile[lane][j]);
    __nvvm_bar_sync(0); // before the next tile is read
  }
}

KERF_KERNEL void transpose(CopyParameters p) {
  switch (p.bytes) {
  case 1:
    return transposeTiles<uint8_t>(p);
  case 2:
    return transposeTiles<uint16_t>(p);
  case 4:
    return transposeTiles<uint32_t>(p);
  default:
    return transposeTiles<uint64_t>(p);
  }
}

/// Copies R rows, the last dimension, so that the elements with the same place in all rows become neighbours. A thread
/// reads 16 bytes of each row. Rows are whole numbers of 16 bytes and begin at multiples of them.
template <typename E, int R> KERF_DEVICE void interleaveRows(const CopyParameters &p) {
  constexpr int W = 16 / sizeof(E);
  const int last = p.rank - 1;
  const int64_t packs = p.sizes[p.fromDim] / W, items = p.n / (R * W);
  for (int64_t item = firstElement(); item < items; item += elementStep()) {
    int64_t rest = item / packs, first = (item - rest * packs) * W;
    int64_t read = p.fromStart + first, written = p.toStart + first * R;
    moveToOuter(p, rest, read, written);
    std::array<E, W> rows[R];
#pragma unroll
    for (int r = 0; r < R; ++r)
      rows[r] = loadElements<W, E, Access::Whole>(p.from, read + r * p.fromStrides[last]);
    std::array<E, W * R> all;
#pragma unroll
    for (int k = 0; k < W * R; ++k)
      all[k] = rows[k % R][k / R];
    storeElements<W * R, E>(p.to, written, all);
  }
}
/// Copies two, three or four rows.
template <typename E> KERF_DEVICE void interleaveElements(const CopyParameters &p) {
  if (p.sizes[p.rank - 1] == 2)
    interleaveRows<E, 2>(p);
  else if (p.sizes[p.rank - 1] == 3)
    interleaveRows<E, 3>(p);
  else
    interleaveRows<E, 4>(p);
}
KERF_KERNEL void interleave(CopyParameters p) {
  if (p.bytes == 2)
    interleaveElements<uint16_t>(p);
  else if (p.bytes == 4)
    interleaveElements<uint32_t>(p);
  else
    interleaveElements<uint64_t>(p);
}

template <typename E> KERF_DEVICE void fillElements(const FillParameters &p) {
  E value = p.value ? *static_cast<const E *>(p.value) : E(p.bits);
  eachOfGrid<16 / sizeof(E)>(p.n, areAligned(p.to), [&](auto width, int64_t i) {
    std::array<E, width> all;
#pragma unroll
    for (int k = 0; k < width; ++k)
      all[k] = value;
    storeElements<width, E>(p.to, i, all);
  });
}

KERF_KERNEL void fill(FillParameters p) {
  switch (p.bytes) {
  case 1:
    return fillElements<uint8_t>(p);
  case 2:
    return fillElements<uint16_t>(p);
  case 4:
    return fillElements<uint32_t>(p);
  default:
    return fillElements<uint64_t>(p);
  }
}

KERF_KERNEL void iota(IotaParameters p) {
  uint64_t first = p.offset ? uint64_t(at(p.offset, 0)) : 0;
  for (int64_t i = firstElement(); i < p.n; i += elementStep())
    put(p.y, i, N(first + uint64_t(i / p.inner % p.size)));
}

} // namespace kerf::runtime::cuda
