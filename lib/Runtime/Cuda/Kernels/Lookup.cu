// SPDX-License-Identifier: Apache-2.0
// Lookups of rows by index, and their gradients. A gradient first sorts the indices by row, so that the slices of a row
// are added in the order of their indices, without atomics. The sort is a radix sort of several passes, each of which
// keeps the order of equal digits (Knuth, The Art of Computer Programming, volume 3, section 5.2.5).
#include "IndexCode.h"
#include "PackCode.h"

namespace kerf::runtime::cuda {

template <typename E> KERF_DEVICE void lookUp(const LookupParameters &p) {
  const E *x = static_cast<const E *>(p.x);
  E *y = static_cast<E *>(p.y);
  int64_t first = integerAt(p.lookup.offset, 0);
  for (int64_t i = firstElement(); i < p.n; i += elementStep()) {
    int64_t slice = i / p.inner, outer = slice / p.lookup.count;
    int64_t row = rowOf(p.lookup, first, slice - outer * p.lookup.count);
    y[i] = row < 0 ? E{} : x[(outer * p.rows + row) * p.inner + (i - slice * p.inner)];
  }
}

KERF_KERNEL void lookup(LookupParameters p) {
  checkIndices(p.lookup);
  switch (p.bytes) {
  case 1:
    return lookUp<uint8_t>(p);
  case 2:
    return lookUp<uint16_t>(p);
  case 4:
    return lookUp<uint32_t>(p);
  case 8:
    return lookUp<uint64_t>(p);
  default:
    return lookUp<Bytes16>(p);
  }
}

KERF_KERNEL void makeKeys(MakeKeysParameters p) {
  checkIndices(p.lookup);
  int64_t first = integerAt(p.lookup.offset, 0);
  for (int64_t i = firstElement(); i < p.lookup.count; i += elementStep()) {
    int64_t row = rowOf(p.lookup, first, i);
    p.keys[i] = uint32_t(row < 0 ? p.rows : row);
    p.places[i] = uint32_t(i);
  }
}

constexpr int kWarps = kSortThreads / 32;

/// The digits of a tile's keys. A warp has consecutive keys, of which each thread takes every 32nd.
struct Tile {
  uint32_t (&counts)[kWarps][kDigits]; // how often each warp has each digit, in shared memory
  uint32_t keys[kKeysOfThread] = {};
  uint32_t ranks[kKeysOfThread] = {}; // numbers of equal digits of earlier keys of the warp
  int64_t first = 0;                  // number of the thread's first key

  KERF_DEVICE void rank(const SortPassParameters &p, int64_t tile) {
    int64_t warp = threadInBlock() / 32, lane = threadInBlock() % 32;
    for (int w = 0; w < kWarps; ++w)
      counts[w][threadInBlock()] = 0;
    __nvvm_bar_sync(0);
    first = tile * kKeysOfTile + warp * 32 * kKeysOfThread + lane;
    for (int j = 0; j < kKeysOfThread; ++j) {
      bool isKey = first + 32 * j < p.n;
      keys[j] = isKey ? p.keys[first + 32 * j] : 0;
      uint32_t digit = keys[j] >> p.shift & (kDigits - 1);
      uint32_t equal = uint32_t(__nvvm_match_any_sync_i32(~0u, int(isKey ? digit : kDigits)));
      uint32_t before = equal & ((1u << lane) - 1);
      uint32_t earlier = counts[warp][digit];
      ranks[j] = earlier + uint32_t(__builtin_popcount(before));
      __nvvm_bar_warp_sync(~0u);
      if (isKey && before == 0)
        counts[warp][digit] = earlier + uint32_t(__builtin_popcount(equal));
      __nvvm_bar_warp_sync(~0u);
    }
    __nvvm_bar_sync(0);
  }
};

/// Counts the digits of each tile.
KERF_KERNEL void countDigits(SortPassParameters p) {
  KERF_SHARED uint32_t counts[kWarps][kDigits];
  for (int64_t tile = block(); tile < p.tiles; tile += blocks()) {
    Tile t{counts};
    t.rank(p, tile);
    uint32_t sum = 0;
    for (int w = 0; w < kWarps; ++w)
      sum += counts[w][threadInBlock()];
    p.counts[threadInBlock() * p.tiles + tile] = sum;
    __nvvm_bar_sync(0); // before the next tile clears the counts
  }
}

/// Replaces each count by the sum of the counts before it. One block does this.
KERF_KERNEL void scanCounts(SortPassParameters p) {
  KERF_SHARED uint32_t sums[kScanThreads];
  int64_t n = kDigits * p.tiles, thread = threadInBlock(), each = (n + kScanThreads - 1) / kScanThreads;
  int64_t begin = thread * each < n ? thread * each : n, end = begin + each < n ? begin + each : n;
  uint32_t sum = 0;
  for (int64_t i = begin; i < end; ++i)
    sum += p.counts[i];
  sums[thread] = sum;
  __nvvm_bar_sync(0);
  for (int distance = 1; distance < kScanThreads; distance *= 2) {
    uint32_t other = thread >= distance ? sums[thread - distance] : 0;
    __nvvm_bar_sync(0);
    sums[thread] += other;
    __nvvm_bar_sync(0);
  }
  uint32_t before = sums[thread] - sum;
  for (int64_t i = begin; i < end; ++i) {
    uint32_t count = p.counts[i];
    p.counts[i] = before;
    before += count;
  }
}

/// Moves the keys and places of each tile to where the counts say.
KERF_KERNEL void moveByDigit(SortPassParameters p) {
  KERF_SHARED uint32_t counts[kWarps][kDigits];
  for (int64_t tile = block(); tile < p.tiles; tile += blocks()) {
    Tile t{counts};
    t.rank(p, tile);
    uint32_t to = p.counts[threadInBlock() * p.tiles + tile];
    for (int w = 0; w < kWarps; ++w) {
      uint32_t count = counts[w][threadInBlock()];
      counts[w][threadInBlock()] = to;
      to += count;
    }
    __nvvm_bar_sync(0);
    for (int j = 0; j < kKeysOfThread; ++j) {
      int64_t from = t.first + 32 * j;
      if (from >= p.n)
        break;
      uint32_t place = counts[threadInBlock() / 32][t.keys[j] >> p.shift & (kDigits - 1)] + t.ranks[j];
      p.keysTo[place] = t.keys[j];
      p.placesTo[place] = p.places[from];
    }
    __nvvm_bar_sync(0); // before the next tile clears the counts
  }
}

KERF_KERNEL void findStarts(FindStartsParameters p) {
  for (int64_t row = firstElement(); row <= p.rows; row += elementStep()) {
    int64_t begin = 0, end = p.n; // the start lies in [begin, end]
    while (begin < end) {
      int64_t middle = begin + (end - begin) / 2;
      if (int64_t(p.keys[middle]) < row)
        begin = middle + 1;
      else
        end = middle;
    }
    p.starts[row] = uint32_t(begin);
  }
}

/// Adds the slices of each row of few slices in their order. A thread has W neighbouring columns of a row.
template <int W> KERF_DEVICE void sumColumns(const SumSlicesParameters &p) {
  const int64_t packs = p.inner / W; // of a row
  for (int64_t i = firstElement(); i < p.n / W; i += elementStep()) {
    int64_t outerRow = i / packs, outer = outerRow / p.rows, row = outerRow - outer * p.rows;
    int64_t start = outer * p.count * p.inner + (i - outerRow * packs) * W;
    if (p.starts[row + 1] - p.starts[row] > kFewSlices)
      continue;
    Pack<W> sums = {};
#pragma unroll 4
    for (int64_t j = p.starts[row], end = p.starts[row + 1]; j < end; ++j) {
      Pack<W> x = loadPack<W>(p.x, start + int64_t(p.places[j]) * p.inner);
#pragma unroll
      for (int k = 0; k < W; ++k)
        sums[k] += x[k];
    }
    storePack<W>(p.y, i * W, sums);
  }
}
KERF_KERNEL void sumSlices(SumSlicesParameters p) { sumColumns<kWidth>(p); }
KERF_KERNEL void sumSlicesSingly(SumSlicesParameters p) { sumColumns<1>(p); }

/// Adds the slices of each row of many slices, for example of a word that ends many sentences. The groups of a block
/// take turns in the slices, and their sums are added in their order.
template <int W> KERF_DEVICE void sumLongRows(const SumSlicesParameters &p) {
  KERF_SHARED N values[kSliceGroups][kPacksOfSlices * W];
  const int64_t columnTiles = (p.inner + kPacksOfSlices * W - 1) / (kPacksOfSlices * W);
  const int64_t rowTiles = (p.rows + kRowsOfSlices - 1) / kRowsOfSlices, outerCount = p.n / (p.rows * p.inner);
  const int pack = int(threadInBlock()) % kPacksOfSlices, group = int(threadInBlock()) / kPacksOfSlices;
  for (int64_t tile = block(); tile < outerCount * rowTiles * columnTiles; tile += blocks()) {
    int64_t line = tile / columnTiles, outer = line / rowTiles, first = (line - outer * rowTiles) * kRowsOfSlices;
    int64_t column = ((tile - line * columnTiles) * kPacksOfSlices + pack) * W;
    for (int64_t row = first; row < first + kRowsOfSlices && row < p.rows; ++row) {
      int64_t begin = p.starts[row], end = p.starts[row + 1];
      if (end - begin <= kFewSlices)
        continue;
      Pack<W> sums = {};
      if (column < p.inner)
#pragma unroll 4
        for (int64_t j = begin + group; j < end; j += kSliceGroups) {
          Pack<W> x = loadPack<W>(p.x, (outer * p.count + int64_t(p.places[j])) * p.inner + column);
#pragma unroll
          for (int k = 0; k < W; ++k)
            sums[k] += x[k];
        }
#pragma unroll
      for (int k = 0; k < W; ++k)
        values[group][pack * W + k] = sums[k];
      __nvvm_bar_sync(0);
      if (group == 0 && column < p.inner) {
#pragma unroll 1
        for (int other = 1; other < kSliceGroups; ++other)
#pragma unroll
          for (int k = 0; k < W; ++k)
            sums[k] += values[other][pack * W + k];
        storePack<W>(p.y, (outer * p.rows + row) * p.inner + column, sums);
      }
      __nvvm_bar_sync(0); // before the groups write the next row's sums
    }
  }
}
KERF_KERNEL_SHARING(kSliceGroups *kPacksOfSlices, 4) void sumManySlices(SumSlicesParameters p) {
  sumLongRows<kWidth>(p);
}
KERF_KERNEL_SHARING(kSliceGroups *kPacksOfSlices, 4) void sumManySlicesSingly(SumSlicesParameters p) {
  sumLongRows<1>(p);
}

} // namespace kerf::runtime::cuda
