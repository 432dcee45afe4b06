// SPDX-License-Identifier: Apache-2.0
// Translates StableHLO's gather and scatter to operators of the dialect. The first of four cases that fits applies:
//
//   one constant index        a slice; for scatter an update of a box
//   one index for each row    a batched gather (take_along_axis); for scatter a comparison with the index along the
//                             dimension
//   one dimension             gather, embedding; scatter_add, embedding_backward
//   several dimensions        they are merged: row * columns + column, then as one dimension
//
// Gather clamps an index to the operand; scatter ignores updates outside of the operand.
#include "Common/Lookups.h"
#include "StableHlo/HloOps.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::frontend::hlo {

namespace {

bool contains(const std::vector<int64_t> &dims, int64_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

/// The dimension numbers of gather and scatter. "Rows" are the dimensions over which the indices run, "windows" the
/// dimensions of a slice.
struct Numbers {
  std::vector<int64_t> windowDims;    // window dimensions of gather's result or of scatter's updates
  std::vector<int64_t> dropped;       // dimensions of the operand with window size 1 that the result lacks
  std::vector<int64_t> batching;      // batch dimensions of the operand
  std::vector<int64_t> indexBatching; // the corresponding dimensions of the indices
  std::vector<int64_t> indexed; // dimensions of the operand: component k of an index is a position along indexed[k]
  int64_t vectorDim = 0;        // dimension of the indices that holds the components
};

/// Operand and indices in a normal form: separate index components, and windows that span the whole operand except
/// along indexed dimensions.
struct Lookup {
  Term operand; // operand restricted by constant components and small windows
  Shape window; // size of a window along each dimension of the operand
  std::vector<int64_t> indexed,
      batching; // dimensions of the operand; dimensions with a constant component are not indexed any more
  std::vector<Term> components; // one for each indexed dimension, of shape `rows`
  Shape rows;
  std::vector<int64_t> rowOfBatching; // the row dimension that corresponds to batching[i]
  Shape start;                        // start of the restricted operand in the given operand
};

Result<Numbers> numbersOf(const Node &node, std::string_view record, const char *window, const char *dropped,
                          const char *batching, const char *indexBatching, const char *indexed) {
  const Attribute *given = node.op.find(record);
  if (!given)
    return Error{fmt::format("its attribute '{}' is missing", record)};
  Numbers numbers;
  const std::pair<const char *, std::vector<int64_t> *> lists[] = {{window, &numbers.windowDims},
                                                                   {dropped, &numbers.dropped},
                                                                   {batching, &numbers.batching},
                                                                   {indexBatching, &numbers.indexBatching},
                                                                   {indexed, &numbers.indexed}};
  for (const auto &[name, into] : lists)
    if (const Attribute *list = given->find(name)) {
      KERF_TRY(values, integersOf(*list, name));
      *into = values;
    }
  if (const Attribute *dim = given->find("index_vector_dim"))
    numbers.vectorDim = dim->integer;
  const Term &x = node.input(0), &indices = node.input(1);
  KERF_CHECK(checkDims(numbers.dropped, x.rank(), dropped));
  KERF_CHECK(checkDims(numbers.batching, x.rank(), batching));
  KERF_CHECK(checkDims(numbers.indexed, x.rank(), indexed));
  KERF_CHECK(checkDims(numbers.indexBatching, indices.rank(), indexBatching));
  if (numbers.vectorDim < 0 || numbers.vectorDim > indices.rank())
    return Error{
        fmt::format("index_vector_dim is {}, but the indices have {} dimensions", numbers.vectorDim, indices.rank())};
  if (numbers.batching.size() != numbers.indexBatching.size())
    return Error{fmt::format("{} has {} dimensions, but {} has {}", batching, numbers.batching.size(), indexBatching,
                             numbers.indexBatching.size())};
  for (size_t i = 0; i < numbers.batching.size(); ++i) {
    int64_t dim = numbers.batching[i], other = numbers.indexBatching[i];
    if (contains(numbers.dropped, dim) || contains(numbers.indexed, dim) || other == numbers.vectorDim ||
        x.shape[dim] != indices.shape[other])
      return Error{fmt::format("dimension {} of the operand has {} elements, but dimension {} of the indices has {}",
                               dim, shapeText(x.shape), other, shapeText(indices.shape))};
  }
  int64_t components = numbers.vectorDim == indices.rank() ? 1 : indices.shape[numbers.vectorDim];
  if (components != int64_t(numbers.indexed.size()))
    return Error{fmt::format("an index has {} components, but {} has {} dimensions", components, indexed,
                             numbers.indexed.size())};
  if (isFloat(indices.dtype) || indices.dtype == DType::Bool)
    return Error{fmt::format("indices of {}", toString(indices.dtype))};
  return numbers;
}

/// Brings operand and indices into the normal form. `window` has the size of a slice along each dimension of the
/// operand.
enum class Access { Read, Write };
Result<Lookup> prepare(Node &node, const Numbers &numbers, const Shape &window, Access access) {
  TermBuilder &b = node.b;
  Lookup lookup;
  lookup.operand = node.input(0);
  lookup.batching = numbers.batching;
  Term indices = node.input(1);
  if (indices.dtype != DType::I64 && indices.dtype != DType::I32) {
    KERF_TRY(wide, b.convert(indices, DType::I64));
    indices = wide;
  }
  for (int64_t d = 0; d < indices.rank(); ++d)
    if (d != numbers.vectorDim)
      lookup.rows.push_back(indices.shape[d]);
  for (int64_t dim : numbers.indexBatching)
    lookup.rowOfBatching.push_back(dim - (dim > numbers.vectorDim));

  Shape &shape = lookup.operand.shape;
  for (size_t d = 0; d < window.size(); ++d)
    if (window[d] < 0 || window[d] > shape[d])
      return Error{
          fmt::format("a slice of {} elements does not fit dimension {} of {} elements", window[d], d, shape[d])};
  Shape from(shape.size(), 0), to = shape;
  for (size_t d = 0; d < window.size(); ++d)
    if (!contains(numbers.indexed, int64_t(d)) && !contains(numbers.batching, int64_t(d)))
      to[d] = window[d];
  for (size_t k = 0; k < numbers.indexed.size(); ++k) {
    int64_t dim = numbers.indexed[k];
    Term component = indices;
    if (numbers.vectorDim < indices.rank()) {
      KERF_TRY(part, b.slice(indices, numbers.vectorDim, int64_t(k), int64_t(k) + 1));
      KERF_TRY(row, b.reshape(part, lookup.rows));
      component = row;
    }
    bool single = elementsOf(lookup.rows) == 1;
    if (single && component.isConstant()) {
      KERF_TRY(values, frontend::integersOf(*component.literal));
      from[dim] = values.front();
      to[dim] = from[dim] + window[dim];
      continue;
    }
    if (window[dim] != 1 && window[dim] != shape[dim])
      return Error{fmt::format("slices of {} of {} elements along dimension {} begin at computed indices, but only "
                               "slices of one element or of all are supported",
                               window[dim], shape[dim], dim)};
    if (window[dim] == shape[dim] && access == Access::Read)
      continue; // a window as large as the operand can only begin at 0
    if (window[dim] != 1)
      return Error{fmt::format("updates of all {} elements along dimension {} at computed indices are not supported",
                               window[dim], dim)};
    lookup.indexed.push_back(dim);
    lookup.components.push_back(component);
  }
  lookup.start = from;
  lookup.window = to;
  for (size_t d = 0; d < window.size(); ++d)
    lookup.window[d] -= from[d];
  return lookup;
}

/// Labels for the dimensions of a tensor that is transposed. A label is the number of a row dimension, or -1 - d for
/// dimension d of the operand.
using Labels = std::vector<int64_t>;
int64_t windowLabel(int64_t dim) { return -1 - dim; }

/// Returns the permutation that brings the labels `from` into the order `to`.
std::vector<int64_t> orderOf(const Labels &from, const Labels &to) {
  std::vector<int64_t> order;
  for (int64_t label : to)
    order.push_back(std::find(from.begin(), from.end(), label) - from.begin());
  return order;
}

/// The dimensions of gather's result (or of scatter's updates), without and with the indexed dimensions.
struct Arrangement {
  Labels labels;
  Shape shape; // shape with all dimensions
};
Result<Arrangement> arrange(const Lookup &lookup, const Numbers &numbers, int64_t rank, const char *name) {
  Arrangement result;
  KERF_CHECK(checkDims(numbers.windowDims, rank, name));
  if (!std::is_sorted(numbers.windowDims.begin(), numbers.windowDims.end()))
    return Error{fmt::format("{} is not sorted", name)};
  std::vector<int64_t> windows;
  for (int64_t d = 0; d < int64_t(lookup.window.size()); ++d)
    if (!contains(numbers.dropped, d) && !contains(numbers.batching, d))
      windows.push_back(d);
  if (windows.size() != numbers.windowDims.size() || windows.size() + lookup.rows.size() != size_t(rank))
    return Error{
        fmt::format("{} has {} dimensions and a slice {}; with {} dimensions of the indices there must be {} in all",
                    name, numbers.windowDims.size(), windows.size(), lookup.rows.size(), rank)};
  size_t window = 0, row = 0;
  for (int64_t d = 0; d < rank; ++d) {
    bool isWindow = contains(numbers.windowDims, d);
    int64_t dim = isWindow ? windows[window++] : int64_t(row++);
    bool indexed = isWindow && contains(lookup.indexed, dim);
    result.shape.push_back(!isWindow ? lookup.rows[size_t(dim)] : indexed ? 1 : lookup.window[size_t(dim)]);
    if (!indexed)
      result.labels.push_back(isWindow ? windowLabel(dim) : dim);
  }
  return result;
}

/// Returns the row dimensions that are not batch dimensions of the operand.
bool oneOfEachRow(const Lookup &lookup) {
  for (size_t d = 0; d < lookup.rows.size(); ++d)
    if (lookup.rows[d] != 1 && !contains(lookup.rowOfBatching, int64_t(d)))
      return false;
  return lookup.indexed.size() == 1 && !lookup.batching.empty();
}

/// Returns a mask of the operand's shape that is true where the position along the indexed dimension equals the row's
/// index.
Result<Term> hits(TermBuilder &b, const Lookup &lookup, const Term &component, const Shape &shape) {
  int64_t dim = lookup.indexed.front();
  // The row dimensions that correspond to batch dimensions, in the order of the operand.
  std::vector<int64_t> order;
  Shape aligned(shape.size(), 1), kept;
  for (int64_t d = 0; d < int64_t(shape.size()); ++d)
    if (auto it = std::find(lookup.batching.begin(), lookup.batching.end(), d); it != lookup.batching.end()) {
      order.push_back(lookup.rowOfBatching[size_t(it - lookup.batching.begin())]);
      aligned[size_t(d)] = shape[size_t(d)];
    }
  for (int64_t d = 0; d < int64_t(lookup.rows.size()); ++d)
    if (!contains(order, d))
      order.push_back(d);
  KERF_TRY(turned, b.transpose(component, order));
  KERF_TRY(rows, reshaped(b, turned, aligned));
  std::vector<int64_t> all;
  for (size_t d = 0; d < shape.size(); ++d)
    all.push_back(int64_t(d));
  KERF_TRY(everywhere, broadcastInDim(b, rows, shape, all));
  KERF_TRY(index, indexAlong(b, component.dtype, shape, dim));
  return b.compare(Order::Equal, everywhere, index);
}

/// The merge of batch and indexed dimensions of the operand into one dimension, and the other dimensions.
struct Merged {
  std::vector<int64_t> order; // dimensions of the operand, merged ones first
  int64_t size = 1;           // size of the merged dimension
  Shape windowShape;
  Labels windowLabels;
};

Merged mergedOf(const Lookup &lookup, const Shape &shape) {
  Merged merged;
  merged.order = lookup.batching;
  merged.order.insert(merged.order.end(), lookup.indexed.begin(), lookup.indexed.end());
  for (int64_t dim : merged.order)
    merged.size *= shape[size_t(dim)];
  for (int64_t d = 0; d < int64_t(shape.size()); ++d)
    if (!contains(merged.order, d)) {
      merged.windowShape.push_back(shape[size_t(d)]);
      merged.windowLabels.push_back(windowLabel(d));
    }
  for (int64_t label : merged.windowLabels)
    merged.order.push_back(-1 - label);
  return merged;
}

/// The positions of index tuples in the merged dimension; for scatter also a mask of tuples inside of the operand.
struct MergedIndex {
  Term index;
  std::optional<Term> inside; // absent: everywhere
};

Result<MergedIndex> mergeIndex(TermBuilder &b, const Lookup &lookup, const Shape &shape, bool wantInside) {
  MergedIndex result;
  DType dtype = lookup.components.empty() ? DType::I64 : lookup.components.front().dtype;
  Merged merged = mergedOf(lookup, shape);
  if (dtype == DType::I32 && merged.size > std::numeric_limits<int32_t>::max())
    dtype = DType::I64;
  result.index = b.integer(dtype, 0);
  auto append = [&](const Term &position, int64_t size) -> Status {
    KERF_TRY(scaled, b.binary(Binary::Multiply, result.index, b.integer(dtype, size)));
    KERF_TRY(sum, b.binary(Binary::Add, scaled, position));
    result.index = sum;
    return ok();
  };
  for (size_t i = 0; i < lookup.batching.size(); ++i) {
    KERF_TRY(position, indexAlong(b, dtype, lookup.rows, lookup.rowOfBatching[i]));
    KERF_CHECK(append(position, shape[size_t(lookup.batching[i])]));
  }
  for (size_t k = 0; k < lookup.indexed.size(); ++k) {
    int64_t size = shape[size_t(lookup.indexed[k])];
    KERF_TRY(component, b.convert(lookup.components[k], dtype));
    KERF_TRY(position, clamped(b, component, size - 1));
    if (wantInside) {
      KERF_TRY(within, b.compare(Order::Equal, position, component));
      if (result.inside) {
        KERF_TRY(both, b.binary(Binary::And, *result.inside, within));
        within = both;
      }
      result.inside = within;
    }
    KERF_CHECK(append(position, size));
  }
  KERF_TRY(whole, b.broadcast(result.index, lookup.rows));
  result.index = whole;
  if (result.inside && result.inside->isConstant() && allElementsEqual(*result.inside->literal, 1))
    result.inside.reset();
  return result;
}

} // namespace

//===-- gather -----------------------------------------------------------===//

namespace {

/// Broadcasts the slice `x` to every row.
Result<Term> sameSlice(TermBuilder &b, const Lookup &lookup, const Arrangement &target, const Term &x) {
  if (elementsOf(lookup.rows) == 1)
    return reshaped(b, x, target.shape);
  std::vector<int64_t> dims;
  Shape shape;
  for (size_t d = 0; d < target.labels.size(); ++d)
    if (target.labels[d] < 0) {
      dims.push_back(int64_t(d));
      shape.push_back(target.shape[d]);
    }
  KERF_TRY(slice, reshaped(b, x, shape));
  return broadcastInDim(b, slice, target.shape, dims);
}

/// Returns slices of `x` along the single indexed dimension.
Result<Term> slicesAlong(TermBuilder &b, const Lookup &lookup, const Arrangement &target, const Term &x) {
  KERF_TRY(merged, mergeIndex(b, lookup, x.shape, /*wantInside=*/false));
  int64_t axis = lookup.indexed.front();
  KERF_TRY(picked, b.gather(x, merged.index, axis));
  Labels labels;
  for (int64_t d = 0; d < int64_t(x.shape.size()); ++d)
    if (d != axis)
      labels.push_back(windowLabel(d));
    else
      for (size_t r = 0; r < lookup.rows.size(); ++r)
        labels.push_back(int64_t(r));
  KERF_TRY(turned, b.transpose(picked, orderOf(labels, target.labels)));
  return reshaped(b, turned, target.shape);
}

/// Returns slices with several index components or with batch dimensions. The operand is transposed to batch
/// dimensions, indexed dimensions merged into one, and window dimensions.
Result<Term> slicesOfBatch(TermBuilder &b, const Lookup &lookup, const Arrangement &target, const Term &x) {
  Lookup alone = lookup;
  alone.batching.clear();
  alone.rowOfBatching.clear();
  std::vector<int64_t> order = lookup.batching;
  order.insert(order.end(), lookup.indexed.begin(), lookup.indexed.end());
  Labels windows;
  Shape flat;
  int64_t size = 1;
  for (int64_t dim : lookup.batching)
    flat.push_back(x.shape[size_t(dim)]);
  for (int64_t dim : lookup.indexed)
    size *= x.shape[size_t(dim)];
  flat.push_back(size);
  for (int64_t d = 0; d < int64_t(x.shape.size()); ++d)
    if (!contains(lookup.batching, d) && !contains(lookup.indexed, d)) {
      order.push_back(d);
      windows.push_back(windowLabel(d));
      flat.push_back(x.shape[size_t(d)]);
    }
  Labels labels = lookup.rowOfBatching; // row dimensions, batch dimensions first
  for (int64_t r = 0; r < int64_t(lookup.rows.size()); ++r)
    if (!contains(lookup.rowOfBatching, r))
      labels.push_back(r);
  KERF_TRY(merged, mergeIndex(b, alone, x.shape, /*wantInside=*/false));
  KERF_TRY(turnedIndex, b.transpose(merged.index, labels));
  KERF_TRY(turnedOperand, b.transpose(x, order));
  KERF_TRY(table, b.reshape(turnedOperand, flat));
  KERF_TRY(picked, takeAlong(b, table, turnedIndex, int64_t(lookup.batching.size())));
  labels.insert(labels.end(), windows.begin(), windows.end());
  KERF_TRY(turned, b.transpose(picked, orderOf(labels, target.labels)));
  return reshaped(b, turned, target.shape);
}

} // namespace

Result<Terms> evaluateGather(Node &node) {
  TermBuilder &b = node.b;
  KERF_TRY(numbers, numbersOf(node, "dimension_numbers", "offset_dims", "collapsed_slice_dims", "operand_batching_dims",
                              "start_indices_batching_dims", "start_index_map"));
  KERF_TRY(window, node.integers("slice_sizes"));
  const Shape &operandShape = node.input(0).shape;
  if (window.size() != operandShape.size())
    return Error{fmt::format("slice_sizes has {} entries, but the operand has {} dimensions", window.size(),
                             operandShape.size())};
  for (const auto *dims : {&numbers.dropped, &numbers.batching})
    for (int64_t dim : *dims)
      if (window[size_t(dim)] != 1)
        return Error{fmt::format("a slice has {} elements along dimension {}, which the result lacks",
                                 window[size_t(dim)], dim)};
  KERF_TRY(lookup, prepare(node, numbers, window, Access::Read));
  KERF_TRY(target, arrange(lookup, numbers, int64_t(node.resultShape().size()), "offset_dims"));

  // With a known start the result is a slice. A start out of range is clamped.
  Shape from = lookup.start, to = from;
  for (size_t d = 0; d < from.size(); ++d) {
    bool batching = contains(numbers.batching, int64_t(d));
    int64_t size = batching || contains(lookup.indexed, int64_t(d)) ? operandShape[d] : lookup.window[d];
    from[d] = std::clamp<int64_t>(from[d], 0, operandShape[d] - size);
    to[d] = from[d] + size;
  }
  KERF_TRY(x, sliced(b, node.input(0), from, to, Shape(from.size(), 1)));
  if (lookup.indexed.empty() && lookup.batching.empty())
    return one(sameSlice(b, lookup, target, x));
  if (lookup.indexed.size() == 1 && lookup.batching.empty())
    return one(slicesAlong(b, lookup, target, x));
  return one(slicesOfBatch(b, lookup, target, x));
}

//===-- scatter ----------------------------------------------------------===//

namespace {

/// Returns a tensor of `shape` with `updates` ([rows.., windows..]) summed at `index` along dimension 0.
Result<Term> scatterAdd(TermBuilder &b, const Term &index, const Term &updates, const Shape &shape) {
  mlir::Value at = b.emit(index), values = b.emit(updates);
  mlir::RankedTensorType type = b.type(updates.dtype, shape);
  if (shape.size() == 2)
    return b.fromValue(ir::EmbeddingBackwardOp::create(b.builder, b.loc, type, at, values, mlir::Value(),
                                                       b.builder.getI64IntegerAttr(shape[0])));
  return b.fromValue(ir::ScatterAddOp::create(b.builder, b.loc, type, at, values, 0));
}

Result<Term> addedTo(TermBuilder &b, const Term &operand, const Term &sums) {
  if (operand.isConstant() && allElementsEqual(*operand.literal, 0))
    return sums;
  return applyBinary(b, "stablehlo.add", operand, sums);
}

/// Applies the updates at one known position; an update outside of the operand is ignored.
Result<Term> scatteredAtOnePlace(TermBuilder &b, const Lookup &lookup, const std::string &combiner, const Term &x,
                                 const Term &updates) {
  for (size_t d = 0; d < lookup.start.size(); ++d)
    if (lookup.start[d] < 0 || lookup.start[d] + lookup.window[d] > x.shape[d])
      return x; // an update outside of the operand is ignored
  KERF_TRY(box, reshaped(b, updates, lookup.window));
  if (combiner.empty())
    return updated(b, x, box, lookup.start);
  Shape limit = lookup.start, high = x.shape;
  for (size_t d = 0; d < high.size(); ++d) {
    limit[d] += lookup.window[d];
    high[d] -= limit[d];
  }
  if (combiner != "stablehlo.add") {
    KERF_TRY(before, sliced(b, x, lookup.start, limit, Shape(high.size(), 1)));
    KERF_TRY(after, applyBinary(b, combiner, before, box));
    return updated(b, x, after, lookup.start);
  }
  KERF_TRY(zero, b.convert(b.integer(DType::I64, 0), x.dtype));
  KERF_TRY(moved, b.pad(box, zero, lookup.start, high));
  return addedTo(b, x, moved);
}

/// Updates one element in each row of the operand, at the row's index.
Result<Term> scatteredInRows(TermBuilder &b, const Lookup &lookup, const Arrangement &source,
                             const std::string &combiner, const Term &x, const Term &updates) {
  Labels wanted; // dimensions of the operand without the indexed dimension
  for (int64_t d = 0; d < x.rank(); ++d) {
    auto it = std::find(lookup.batching.begin(), lookup.batching.end(), d);
    if (d != lookup.indexed.front())
      wanted.push_back(it == lookup.batching.end() ? windowLabel(d)
                                                   : lookup.rowOfBatching[size_t(it - lookup.batching.begin())]);
  }
  // Row dimensions of size 1 are removed, and the indexed dimension is added with size 1.
  Labels labels;
  Shape kept;
  for (int64_t label : source.labels)
    if (contains(wanted, label)) {
      labels.push_back(label);
      kept.push_back(label < 0 ? x.shape[size_t(-1 - label)] : lookup.rows[size_t(label)]);
    }
  KERF_TRY(squeezed, reshaped(b, updates, kept));
  KERF_TRY(turned, b.transpose(squeezed, orderOf(labels, wanted)));
  Shape aligned = x.shape;
  aligned[size_t(lookup.indexed.front())] = 1;
  KERF_TRY(unsqueezed, reshaped(b, turned, aligned));
  std::vector<int64_t> all;
  for (int64_t d = 0; d < x.rank(); ++d)
    all.push_back(d);
  KERF_TRY(everywhere, broadcastInDim(b, unsqueezed, x.shape, all));
  KERF_TRY(here, hits(b, lookup, lookup.components.front(), x.shape));
  if (combiner != "stablehlo.add") {
    KERF_TRY(after, combiner.empty() ? Result<Term>(everywhere) : applyBinary(b, combiner, x, everywhere));
    return b.select(here, after, x);
  }
  KERF_TRY(zero, b.convert(b.integer(DType::I64, 0), x.dtype));
  KERF_TRY(masked, b.select(here, everywhere, zero));
  return addedTo(b, x, masked);
}

/// Applies updates at computed indices as sums.
Result<Term> summedAtIndices(TermBuilder &b, const Lookup &lookup, const Arrangement &source, const Term &x,
                             const Term &updates) {
  // Updates become [rows.., windows..] and zero where an index is out of range; then they are summed along one
  // dimension.
  Merged plan = mergedOf(lookup, x.shape);
  Labels wanted;
  Shape flatUpdates = lookup.rows, flat = plan.windowShape;
  for (size_t r = 0; r < lookup.rows.size(); ++r)
    wanted.push_back(int64_t(r));
  wanted.insert(wanted.end(), plan.windowLabels.begin(), plan.windowLabels.end());
  flatUpdates.insert(flatUpdates.end(), plan.windowShape.begin(), plan.windowShape.end());
  flat.insert(flat.begin(), plan.size);
  Shape labelled;
  for (int64_t label : source.labels)
    labelled.push_back(label < 0 ? x.shape[size_t(-1 - label)] : lookup.rows[size_t(label)]);
  KERF_TRY(squeezed, reshaped(b, updates, labelled));
  KERF_TRY(values, b.transpose(squeezed, orderOf(source.labels, wanted)));
  KERF_TRY(merged, mergeIndex(b, lookup, x.shape, /*wantInside=*/true));
  if (merged.inside) {
    std::vector<int64_t> rows;
    for (size_t r = 0; r < lookup.rows.size(); ++r)
      rows.push_back(int64_t(r));
    KERF_TRY(inside, b.broadcast(*merged.inside, lookup.rows));
    KERF_TRY(everywhere, broadcastInDim(b, inside, flatUpdates, rows));
    KERF_TRY(masked, b.select(everywhere, values, b.scalar(values.dtype, 0.0)));
    values = masked;
  }
  KERF_TRY(sums, scatterAdd(b, merged.index, values, flat));
  Shape ordered;
  for (int64_t dim : plan.order)
    ordered.push_back(x.shape[size_t(dim)]);
  KERF_TRY(unmerged, reshaped(b, sums, ordered));
  std::vector<int64_t> back(plan.order.size());
  for (size_t i = 0; i < back.size(); ++i)
    back[size_t(plan.order[i])] = int64_t(i);
  KERF_TRY(whole, b.transpose(unmerged, back));
  return addedTo(b, x, whole);
}

} // namespace

Result<Terms> evaluateScatter(Node &node) {
  TermBuilder &b = node.b;
  const Term &x = node.input(0), &updates = node.input(2);
  KERF_TRY(numbers, numbersOf(node, "scatter_dimension_numbers", "update_window_dims", "inserted_window_dims",
                              "input_batching_dims", "scatter_indices_batching_dims", "scatter_dims_to_operand_dims"));
  if (node.op.regions.size() != 1)
    return Error{"it has no region that says how elements are combined"};
  KERF_TRY(combiner, combinerOf(node.op.regions[0]));
  if (updates.dtype != x.dtype)
    return Error{
        fmt::format("updates have the type {}, but the operand has {}", toString(updates.dtype), toString(x.dtype))};

  // The window has the size of the updates.
  KERF_CHECK(checkDims(numbers.windowDims, updates.rank(), "update_window_dims"));
  Shape window(x.shape.size(), 1);
  size_t next = 0;
  for (size_t d = 0; d < window.size(); ++d)
    if (!contains(numbers.dropped, int64_t(d)) && !contains(numbers.batching, int64_t(d)) &&
        next < numbers.windowDims.size())
      window[d] = updates.shape[size_t(numbers.windowDims[next++])];
  KERF_TRY(lookup, prepare(node, numbers, window, Access::Write));
  KERF_TRY(source, arrange(lookup, numbers, updates.rank(), "update_window_dims"));
  if (source.shape != updates.shape)
    return Error{
        fmt::format("updates have the shape {}, but {} is needed", shapeText(updates.shape), shapeText(source.shape))};

  if (lookup.indexed.empty() && lookup.batching.empty() && elementsOf(lookup.rows) == 1)
    return one(scatteredAtOnePlace(b, lookup, combiner, x, updates));
  for (size_t d = 0; d < lookup.window.size(); ++d)
    if (!contains(lookup.indexed, int64_t(d)) && !contains(lookup.batching, int64_t(d)) &&
        lookup.window[d] != x.shape[d])
      return Error{fmt::format("updates of {} of {} elements along dimension {} are not supported", lookup.window[d],
                               x.shape[d], d)};

  if (oneOfEachRow(lookup))
    return one(scatteredInRows(b, lookup, source, combiner, x, updates));
  if (combiner != "stablehlo.add")
    return Error{fmt::format("it {} at several computed indices, but only additions are supported",
                             combiner.empty() ? "overwrites elements" : "combines elements by " + combiner)};
  if (!isFloat(x.dtype))
    return Error{fmt::format("sums of {} at computed indices are not supported; sums of floating-point types are",
                             toString(x.dtype))};

  return one(summedAtIndices(b, lookup, source, x, updates));
}

} // namespace kerf::frontend::hlo
