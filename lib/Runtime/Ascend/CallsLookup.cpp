// SPDX-License-Identifier: Apache-2.0
// Calls of lookups: gather, embedding and take_along with their gradients. Wrong indices are reported after the step
// (IndexCheck); until then they read or write some right row, because an operator's behaviour on them is not defined.
#include "CallsIndices.h"
#include "Prices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::runtime::ascend {

Indices indicesOf(Builder &b, const Lookup &lookup) {
  const TensorView &given = b.request.operands[lookup.operand];
  b.calls.check =
      IndexCheck{given,
                 lookup.lowest,
                 lookup.whole,
                 {},
                 [lowest = lookup.lowest, whole = lookup.whole, shape = given.shape](int64_t value, int64_t where) {
                   return Error{fmt::format("index {} at {} is outside of [{}, {}); check the input data", value,
                                            positionText(shape, where), lowest, whole)};
                 }};
  const int64_t n = given.elements(), perEntry = n / std::max<int64_t>(lookup.entries, 1);
  Indices made{b.temporary(DType::I64, {n}), {}};
  b.copy(reshaped(viewOf(given), {n}), made.rows);
  if (lookup.lowest < 0) { // negative indices count from the end
    View isCounted = b.temporary(DType::Bool, {n}), fromEnd = b.temporary(DType::I64, {n});
    b.call(op::GtScalar, made.rows, Builder::scalar(DType::I64, -1), isCounted);
    b.call(op::Adds, made.rows, Builder::scalar(DType::I64, double(lookup.whole)), Builder::one(DType::I64), fromEnd);
    b.call(op::SWhere, isCounted, made.rows, fromEnd, made.rows);
  }
  if (lookup.offset) {
    View offset = broadcast(b.as(DType::I64, *lookup.offset), {n}, {});
    b.subtract(made.rows, offset, made.rows);
    View isLow = b.temporary(DType::Bool, {n}), isHigh = b.temporary(DType::Bool, {n});
    b.call(op::GtScalar, made.rows, Builder::scalar(DType::I64, double(lookup.rows - 1)), isHigh);
    b.call(op::GtScalar, made.rows, Builder::scalar(DType::I64, -1), isLow);
    b.call(op::LogicalNot, isLow, isLow);
    made.isElsewhere = b.temporary(DType::Bool, {n});
    b.call(op::LogicalOr, isLow, isHigh, *made.isElsewhere);
  }
  if (lookup.rows > 0)
    b.call(op::Clamp, made.rows, Builder::scalar(DType::I64, 0), Builder::scalar(DType::I64, double(lookup.rows - 1)),
           made.rows);
  if (lookup.entries > 1) { // each batch entry has rows of its own, one entry after the other
    View first = b.temporary(DType::I64, {lookup.entries});
    b.call(op::Arange, Builder::scalar(DType::I64, 0),
           Builder::scalar(DType::I64, double(lookup.entries * lookup.rows)),
           Builder::scalar(DType::I64, double(lookup.rows)), first);
    View entries = reshaped(made.rows, {lookup.entries, perEntry});
    b.add(entries, broadcast(first, entries.sizes, {0}), entries);
  }
  return made;
}

void sumRows(Builder &b, const View &source, const View &indices, const View &to) {
  constexpr uint64_t kNoPadding = ~uint64_t(0); // -1: gradients of all indices count
  if (source.elements() == 0)
    return b.fill(to, 0);
  auto sums = [&](Builder &b) {
    b.call(op::EmbeddingDenseBackward, source, indices, uint64_t(to.sizes[0]), kNoPadding, false, to);
  };
  auto additions = [&](Builder &b) {
    View zeros = b.temporary(to.dtype, to.sizes);
    b.fill(zeros, 0);
    b.call(op::ScatterAdd, zeros, int64_t(0), broadcast(indices, source.sizes, {0}), source, to);
  };
  choose(b, {{sums}, {additions}});
}

namespace {
/// A table as [outer, rows, inner], of which a lookup takes rows.
struct Table {
  int64_t outer = 1, rows = 0, inner = 1;
};

/// Copies rows of operand 0 by the indices: result[outer, index, inner].
void addLookup(Builder &b, const Lookup &lookup, const Table &table) {
  Indices indices = indicesOf(b, lookup);
  const int64_t n = indices.rows.sizes[0];
  View from = b.operand(0), to = b.result();
  if (to.elements() == 0)
    return;
  if (table.rows == 0)
    return b.fill(to, 0);
  View shaped = reshaped(to, {table.outer, n, table.inner});
  if (table.outer == 1)
    b.call(op::Embedding, reshaped(from, {table.rows, table.inner}), indices.rows, reshaped(to, {n, table.inner}));
  else
    b.call(op::GatherV2, reshaped(from, {table.outer, table.rows, table.inner}), int64_t(1), indices.rows, shaped);
  if (indices.isElsewhere)
    b.call(op::InplaceMaskedFillScalar, shaped, broadcast(*indices.isElsewhere, shaped.sizes, {1}),
           Builder::scalar(to.dtype, 0));
}

/// Adds the slices of operand 1 to the rows of the result by the indices of operand 0.
void addGradient(Builder &b, const Lookup &lookup, const Table &table) {
  Indices indices = indicesOf(b, lookup);
  const int64_t n = indices.rows.sizes[0];
  View source = reshaped(b.operand(1), {table.outer, n, table.inner}), to = b.result();
  if (to.elements() == 0)
    return;
  if (table.outer > 1) { // the operator sums rows of a matrix
    View turned = b.temporary(source.dtype, {n, table.outer, table.inner});
    b.copy(permuted(source, {1, 0, 2}), turned);
    source = turned;
  }
  source = reshaped(source, {n, table.outer * table.inner});
  if (indices.isElsewhere) {
    View kept = b.temporary(source.dtype, source.sizes);
    b.copy(source, kept);
    b.call(op::InplaceMaskedFillScalar, kept, broadcast(*indices.isElsewhere, kept.sizes, {0}),
           Builder::scalar(source.dtype, 0));
    source = kept;
  }
  if (table.outer == 1)
    return sumRows(b, source, indices.rows, reshaped(to, {table.rows, table.inner}));
  View sums = b.temporary(to.dtype, {table.rows, table.outer, table.inner});
  sumRows(b, source, indices.rows, reshaped(sums, {table.rows, table.outer * table.inner}));
  b.copy(permuted(sums, {1, 0, 2}), reshaped(to, {table.outer, table.rows, table.inner}));
}

std::optional<View> offsetOf(const Builder &b) { return b.operands() > 2 ? std::optional(b.operand(2)) : std::nullopt; }

Lookup gatherLookup(const Builder &b, size_t operand, const View &sliced) {
  int64_t size = sliced.sizes[size_t(b.integer("axis"))];
  return {operand, size, size, -size, 1, {}};
}
Table gatherTable(const Builder &b, const View &sliced) {
  auto axis = size_t(b.integer("axis"));
  return {product(sliced.sizes, 0, axis), sliced.sizes[axis], product(sliced.sizes, axis + 1)};
}

Lookup embeddingLookup(const Builder &b, size_t operand, const View &table) {
  return {operand, table.sizes[0], b.integer("rows"), 0, 1, offsetOf(b)};
}
Table embeddingTable(const View &table) { return {1, table.sizes[0], table.sizes[1]}; }

Lookup alongLookup(const Builder &b, size_t operand, const View &table) {
  auto batchDims = size_t(b.integer("batch_dims"));
  int64_t whole = b.integer("size");
  return {operand, table.sizes[batchDims], whole, -whole, product(table.sizes, 0, batchDims), offsetOf(b)};
}
Table alongTable(const Builder &b, const View &table) {
  auto batchDims = size_t(b.integer("batch_dims"));
  return {1, product(table.sizes, 0, batchDims + 1), product(table.sizes, batchDims + 1)};
}
} // namespace

void callGather(Builder &b) { addLookup(b, gatherLookup(b, 1, b.operand(0)), gatherTable(b, b.operand(0))); }
void callScatterAdd(Builder &b) { addGradient(b, gatherLookup(b, 0, b.result()), gatherTable(b, b.result())); }
void callEmbedding(Builder &b) { addLookup(b, embeddingLookup(b, 1, b.operand(0)), embeddingTable(b.operand(0))); }
void callEmbeddingBackward(Builder &b) {
  addGradient(b, embeddingLookup(b, 0, b.result()), embeddingTable(b.result()));
}
void callTakeAlong(Builder &b) { addLookup(b, alongLookup(b, 1, b.operand(0)), alongTable(b, b.operand(0))); }
void callTakeAlongBackward(Builder &b) { addGradient(b, alongLookup(b, 0, b.result()), alongTable(b, b.result())); }

} // namespace kerf::runtime::ascend
