// SPDX-License-Identifier: Apache-2.0
// The parameters of the kernels of lookups (Lookup.cu), of routing (Routing.cu), and of ops that depend on the rank or
// on random numbers (Random.cu). Parameters.h says what holds for all structs of parameters.
#pragma once

#include "Parameters.h"

namespace kerf::runtime::cuda {

/// Integers in the device's memory: i64 if `isWide`, else i32. A null address stands for zeros.
struct Integers {
  const void *data = nullptr;
  int32_t isWide = 0;
};

/// Indices into a tensor of rows, of which this rank has a part. Each batch entry has its own indices and its own rows.
/// An index in [lowest, whole) is right, and a negative one counts from the end.
struct RowLookup {
  Integers indices;
  Integers offset;        // one integer: the number of this rank's first row
  int64_t count = 0;      // indices of all batch entries
  int64_t countEach = 0;  // indices of one batch entry
  int64_t local = 0;      // rows of one batch entry on this rank
  int64_t whole = 0;      // rows of one batch entry on all ranks
  int64_t lowest = 0;     // lowest right index: 0 or -whole
  FaultPlace faults = {}; // where a wrong index is reported
};

/// y[(o, i, k)] = x[(o, row of index i, k)] for o < outer, i < lookup.count and k < inner; 0 where the rank has no such
/// row. An element of k has `bytes` bytes: 1, 2, 4, 8 or 16.
struct LookupParameters {
  RowLookup lookup;
  const void *x;
  void *y;
  int64_t n, rows, inner; // elements of y, rows of x, and elements of a row
  int32_t bytes;
};

/// keys[i] = the row of index i among the rows of all batch entries, or `rows` where the rank has no such row.
/// places[i] = i.
struct MakeKeysParameters {
  RowLookup lookup;
  int64_t rows; // rows of all batch entries on this rank
  uint32_t *keys, *places;
};

/// Bits of a key by which one pass sorts, and the number of their values.
inline constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
/// Threads of a block that sorts, one for each value of a digit.
inline constexpr int kSortThreads = kDigits;
/// Keys of one thread, and of the tile on which a block works at a time.
inline constexpr int kKeysOfThread = 8, kKeysOfTile = kSortThreads * kKeysOfThread;
/// Threads of the one block that adds up the counts of digits.
inline constexpr int kScanThreads = 1024;
/// One pass of a sort: moves keys and places so that the digits of the keys at bit `shift` are in order. Keys with
/// equal digits keep their order. counts[digit * tiles + tile] is how often a tile has a digit, and then, once the
/// counts are added up, where the tile's first key with that digit goes.
struct SortPassParameters {
  const uint32_t *keys, *places;
  uint32_t *keysTo, *placesTo;
  uint32_t *counts;
  int64_t n, tiles;
  int32_t shift;
};

/// starts[r] = number of keys below r in the sorted list of n keys, for r <= rows.
struct FindStartsParameters {
  const uint32_t *keys;
  uint32_t *starts;
  int64_t n, rows;
};

/// Slices of a row above which a block adds them, kSliceGroups at a time. One block looks at kRowsOfSlices rows, and at
/// kPacksOfSlices packs of neighbouring columns.
inline constexpr int64_t kFewSlices = 512;
inline constexpr int kSliceGroups = 32, kPacksOfSlices = 8, kRowsOfSlices = 32;
/// y[(o, r, k)] = sum of x[(o, places[j], k)] over j in [starts[r], starts[r + 1]). The order depends on the number of a
/// row's slices only: it is that of j for up to kFewSlices of them.
struct SumSlicesParameters {
  const void *x;
  void *y;
  const uint32_t *places, *starts;
  int64_t n, count, rows, inner; // elements of y, slices of x for each o, rows of y for each o, elements of a slice
};

/// The `count` largest of each row's `size` scores, in descending order, and their indices.
struct TopKParameters {
  const void *x;
  void *values, *indices;
  int64_t rows, size, count;
  int32_t isWide; // whether the indices are i64, not i32
};
/// dx[(row, indices[(row, j)])] = sum of dy[(row, j)] over the row's `count` choices j; 0 elsewhere.
struct TopKBackwardParameters {
  Integers indices;
  const void *dy;
  void *dx;
  int64_t rows, size, count;
  FaultPlace faults;
};

/// The tensors and sizes of dispatch, combine and combine's gradient: slots [local, batch, slots, width], weights
/// [batch, tokens, choices] and tokens [batch, tokens, width]. The choices are sorted by their key, batch entry *
/// experts + expert. `keys` and `places` are the sorted keys and the numbers of their choices, and starts[key] is where
/// a key begins. slotOf[choice] is the row of the choice's slot, or -1 if it has none on this rank; dispatch has no
/// slotOf.
struct RoutingParameters {
  Integers offset; // one integer: the number of this rank's first expert
  const uint32_t *keys, *places, *starts;
  int64_t *slotOf;
  void *slots, *weights, *tokens; // one of them is written
  int64_t experts, local, batch, tokenCount, choices, slotCount, width;
};

/// Elements that a thread of `dropout` takes together: 16 bytes, and at least those of one counter's four words.
constexpr int packOfDropout(int64_t bytesOfElement) { return bytesOfElement > 4 ? 4 : int(16 / bytesOfElement); }
/// y[i] = x[i] * scale, or 0 where the random word of element i of the global tensor is below the threshold. `global`
/// tells an element's number in the global tensor, less `offset`; its last dimension has stride 1. If `isPacked`, the
/// tensors lie at multiples of 16 bytes, and packs (packOfDropout) of neighbours are neighbours in the global tensor
/// and begin, less `offset`, at numbers that are multiples of 4.
struct DropoutParameters {
  const void *x;
  void *y;
  const int64_t *seed, *step, *stream, *offset; // one number each; `offset` is null if the tensor is the global one
  int64_t n;
  double scale;
  uint32_t dropsBelow;
  int32_t isPacked;
  Walk global;
};

/// y[(o, j, k)] = x[(o, begin + j, k)] for j < valid, and the element whose bits are `fill` for j in [valid, chunk). x
/// has `size` indices where y has `chunk`. An element has `bytes` bytes: 1, 2, 4 or 8.
struct PieceParameters {
  const void *x;
  void *y;
  uint64_t fill;
  int64_t n, size, begin, valid, chunk, inner;
  int32_t bytes;
};

} // namespace kerf::runtime::cuda
