// SPDX-License-Identifier: Apache-2.0
// Calls of the kernels of lookups (Kernels/Lookup.cu): gather, embedding and take_along with their gradients. The three
// differ only in their indices: which are right, whether they have batch entries, and whether the rank has all rows.
#include "CallsRows.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <utility>

namespace kerf::runtime::cuda {

int64_t takeScratch(Calls &calls, int64_t bytes) {
  int64_t offset = calls.scratchBytes;
  calls.scratchBytes += scratchPart(bytes);
  return offset;
}

Result<SortedRows> addSort(Calls &calls, const CallRequest &r, const RowLookup &lookup, int64_t rows) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  if (lookup.count > kMost || rows >= kMost)
    return Error{fmt::format("the GPU sorts up to {} indices into fewer than {} rows, and there are {} indices and {} "
                             "rows; split the tensor in the model",
                             kMost, kMost, lookup.count, rows)};
  constexpr int64_t kBytes = sizeof(uint32_t);
  auto take = [&](int64_t n) { return static_cast<uint32_t *>(r.scratch(takeScratch(calls, n * kBytes))); };
  const int64_t n = lookup.count, tiles = (n + kKeysOfTile - 1) / kKeysOfTile;
  uint32_t *keys = take(n), *places = take(n), *otherKeys = take(n), *otherPlaces = take(n);
  uint32_t *counts = take(kDigits * tiles), *starts = take(rows + 1);
  const DType type = DType::F32; // the kernels of the sort do not depend on the element type
  addElementCall(calls, "Lookup", type, "makeKeys", n, MakeKeysParameters{lookup, rows, keys, places});
  const int bits = std::bit_width(uint64_t(rows)); // of the largest key, which is `rows`
  for (int shift = 0; shift < bits && n > 0; shift += kDigitBits) {
    SortPassParameters pass{keys, places, otherKeys, otherPlaces, counts, n, tiles, shift};
    addRowCall(calls, "Lookup", type, "countDigits", tiles, kSortThreads, pass);
    addRowCall(calls, "Lookup", type, "scanCounts", 1, kScanThreads, pass);
    std::get<KernelCall>(calls.calls.back()).threads = kScanThreads;
    addRowCall(calls, "Lookup", type, "moveByDigit", tiles, kSortThreads, pass);
    std::swap(keys, otherKeys);
    std::swap(places, otherPlaces);
  }
  addElementCall(calls, "Lookup", type, "findStarts", rows + 1, FindStartsParameters{keys, starts, n, rows});
  return SortedRows{keys, places, starts};
}

namespace {
/// The sizes of a lookup: `outer` times the same indices into a table of `rows` rows of `inner` elements.
struct LookupSizes {
  int64_t outer = 1, rows = 0, inner = 1;
};

FaultText outside(const RowLookup &lookup, const Shape &shape) {
  return [lowest = lookup.lowest, whole = lookup.whole, shape](const FaultRecord &record) -> Error {
    return {fmt::format("index {} at {} is outside of [{}, {}); check the input data", record.value,
                        positionText(shape, record.where), lowest, whole)};
  };
}

/// Copies rows of operand 0 by the indices of operand 1.
Calls callsOfLookup(const CallRequest &r, const RowLookup &lookup, const LookupSizes &sizes) {
  const TensorView &result = r.result();
  // Neighbouring elements of a row are copied together.
  int64_t bytes = bytesOf(result.dtype), inner = sizes.inner;
  while (bytes < 16 && inner > 0 && inner % 2 == 0)
    bytes *= 2, inner /= 2;
  LookupParameters p{lookup, r.operand(0).data, result.data, sizes.outer * lookup.count * inner, sizes.rows,
                     inner,  int32_t(bytes)};
  Calls calls;
  calls.faultText = outside(lookup, r.operand(1).shape);
  addElementCall(calls, "Lookup", movingType(result.dtype), "lookup", std::max(p.n, lookup.count), p);
  return calls;
}

/// Adds the slices of operand 1 to the rows of the result by the indices of operand 0.
Result<Calls> callsOfGradient(const CallRequest &r, const RowLookup &lookup, const LookupSizes &sizes) {
  Calls calls;
  calls.faultText = outside(lookup, r.operand(0).shape);
  Result<SortedRows> sorted = addSort(calls, r, lookup, sizes.rows);
  if (!sorted)
    return sorted.error();
  int64_t n = r.result().elements();
  SumSlicesParameters p{r.operand(1).data, r.result().data, sorted->places, sorted->starts, n,
                        lookup.count,      sizes.rows,      sizes.inner};
  const DType type = r.result().dtype;
  int64_t width = kPackBytes / bytesOf(type);
  bool packed = p.inner % width == 0 && areAligned({p.x, p.y});
  width = packed ? width : 1;
  addElementCall(calls, "Lookup", type, packed ? "sumSlices" : "sumSlicesSingly", n / width, p);
  if (p.count > kFewSlices && n > 0)
    addRowCall(calls, "Lookup", type, packed ? "sumManySlices" : "sumManySlicesSingly",
               n / (p.rows * p.inner) * quotientUp(p.rows, kRowsOfSlices) * quotientUp(p.inner, kPacksOfSlices * width),
               kSliceGroups * kPacksOfSlices, p);
  return calls;
}

/// Returns the indices of gather and scatter_add into dimension `axis` of the tensor.
RowLookup gatherLookup(const CallRequest &r, const TensorView &sliced, const TensorView &indices) {
  int64_t size = sliced.shape[r.integer("axis")], count = indices.elements();
  return {integersOf(indices), {}, count, count, size, size, -size, r.faults};
}
LookupSizes gatherSizes(const CallRequest &r, const TensorView &sliced) {
  size_t axis = r.integer("axis");
  return {product(sliced.shape, 0, axis), sliced.shape[axis], product(sliced.shape, axis + 1)};
}

/// Returns the indices of embedding and its gradient into the rows of a table.
RowLookup embeddingLookup(const CallRequest &r, const TensorView &table, const TensorView &indices) {
  int64_t count = indices.elements();
  return {integersOf(indices), optionalIntegers(r, 2), count, count, table.shape[0], r.integer("rows"), 0, r.faults};
}
LookupSizes embeddingSizes(const TensorView &table) { return {1, table.shape[0], table.shape[1]}; }

/// Returns the indices of take_along and its gradient, which each batch entry has of its own.
RowLookup alongLookup(const CallRequest &r, const TensorView &table, const TensorView &indices) {
  int64_t batchDims = r.integer("batch_dims"), whole = r.integer("size");
  return {integersOf(indices),
          optionalIntegers(r, 2),
          indices.elements(),
          product(indices.shape, batchDims),
          table.shape[batchDims],
          whole,
          -whole,
          r.faults};
}
LookupSizes alongSizes(const CallRequest &r, const TensorView &table) {
  size_t batchDims = r.integer("batch_dims");
  return {1, product(table.shape, 0, batchDims + 1), product(table.shape, batchDims + 1)};
}
} // namespace

Result<Calls> callGather(const CallRequest &r) {
  return callsOfLookup(r, gatherLookup(r, r.operand(0), r.operand(1)), gatherSizes(r, r.operand(0)));
}
Result<Calls> callScatterAdd(const CallRequest &r) {
  return callsOfGradient(r, gatherLookup(r, r.result(), r.operand(0)), gatherSizes(r, r.result()));
}
Result<Calls> callEmbedding(const CallRequest &r) {
  return callsOfLookup(r, embeddingLookup(r, r.operand(0), r.operand(1)), embeddingSizes(r.operand(0)));
}
Result<Calls> callEmbeddingBackward(const CallRequest &r) {
  return callsOfGradient(r, embeddingLookup(r, r.result(), r.operand(0)), embeddingSizes(r.result()));
}
Result<Calls> callTakeAlong(const CallRequest &r) {
  return callsOfLookup(r, alongLookup(r, r.operand(0), r.operand(1)), alongSizes(r, r.operand(0)));
}
Result<Calls> callTakeAlongBackward(const CallRequest &r) {
  return callsOfGradient(r, alongLookup(r, r.result(), r.operand(0)), alongSizes(r, r.result()));
}

} // namespace kerf::runtime::cuda
