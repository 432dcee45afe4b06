// SPDX-License-Identifier: Apache-2.0
// Imports operators that look up elements at computed indices, and operators that compute such indices.
#include "Common/Formula.h"
#include "Common/Lookups.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace kerf::frontend {

namespace {

/// Returns the permutation that moves dimension `axis` to the end.
std::vector<int64_t> axisLast(int64_t rank, int64_t axis) {
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + axis);
  order.push_back(axis);
  return order;
}
std::vector<int64_t> lastToAxis(int64_t rank, int64_t axis) {
  std::vector<int64_t> order(rank - 1);
  std::iota(order.begin(), order.end(), 0);
  order.insert(order.begin() + axis, rank - 1);
  return order;
}

struct Picked {
  Term values, indices;
};

/// Returns the `count` largest elements along the last dimension in descending order, and their indices.
Picked topK(TermBuilder &b, const Term &x, int64_t count) {
  Shape shape = x.shape;
  shape.back() = count;
  mlir::Value scores = b.emit(x);
  auto op = ir::TopKOp::create(b.builder, b.loc, b.type(x.dtype, shape), b.type(DType::I64, shape), scores);
  return {b.fromValue(op.getValues()), b.fromValue(op.getIndices())};
}

} // namespace

namespace {

/// Returns the largest (or smallest) integers, which the top_k operator does not support. The rank of an element is the
/// number of elements that come before it.
Result<Picked> topKOfIntegers(TermBuilder &b, const Term &x, int64_t count, Order before) {
  constexpr int64_t kMost = int64_t(1) << 24; // limit of comparisons
  int64_t size = x.shape.back(), last = x.rank();
  if (size > 0 && elementsOf(x.shape) > kMost / size)
    return Error{fmt::format(
        "the largest elements of type {} and shape {} are not supported; cast the operand to a floating-point type",
        shapeText(x.shape), toString(x.dtype))};
  Formula f(b, DType::I64);
  Shape left = x.shape, right = x.shape;
  left.push_back(1);                // [.., i, 1]
  right.insert(right.end() - 1, 1); // [.., 1, j]
  Term mine = f.reshape(x, left), other = f.reshape(x, right);
  Term i = f.iota(size, last - 1, last + 1), j = f.iota(size, last, last + 1);
  auto both = [&](const Term &p, const Term &q) { return f.unwrap(b.binary(Binary::And, p, q)); };
  Term isEarlier = both(f.compare(Order::Equal, other, mine), f.compare(Order::Less, j, i));
  Term comesBefore = f.unwrap(b.binary(Binary::Or, f.compare(before, other, mine), isEarlier));
  Term place = f.reduce(Reduction::Sum, f.convert(comesBefore, DType::I64), {last}); // rank of each element i
  // isThere [.., k, i] says whether element i has rank k; it selects values and indices.
  Term isThere = f.compare(Order::Equal, f.reshape(place, right), f.iota(count, last - 1, last + 1));
  auto the = [&](const Term &what, DType dtype) {
    return f.reduce(Reduction::Sum, f.select(isThere, what, b.integer(dtype, 0)), {last});
  };
  Picked picked{the(other, x.dtype), the(j, DType::I64)};
  if (f.fault)
    return *f.fault;
  return picked;
}

} // namespace

Status importTopK(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(counts, node.constantInput(1));
  KERF_TRY(axis, normalizeAxis(node.integer("axis", -1), x.rank()));
  if (counts.size() != 1 || counts[0] < 1 || counts[0] > x.shape[axis])
    return Error{fmt::format("K is {}, but dimension {} has the size {}", shapeText(counts), axis, x.shape[axis])};
  Formula f(node.b, x.dtype);
  bool largest = node.integer("largest", 1) != 0;
  Term scores = f.transpose(x, axisLast(x.rank(), axis));
  auto set = [&](const Term &values, const Term &indices) -> Status {
    KERF_CHECK(f.set(node, 0, f.transpose(values, lastToAxis(x.rank(), axis))));
    return f.set(node, 1, f.transpose(indices, lastToAxis(x.rank(), axis)));
  };
  if (!isFloat(x.dtype)) {
    KERF_TRY(picked, topKOfIntegers(node.b, scores, counts[0], largest ? Order::Greater : Order::Less));
    return set(picked.values, picked.indices);
  }
  if (!largest)
    scores = f.unary(Unary::Negate, scores);
  if (f.fault)
    return *f.fault;
  Picked picked = topK(node.b, scores, counts[0]);
  return set(largest ? picked.values : f.unary(Unary::Negate, picked.values), picked.indices);
}

Status importArgExtreme(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(axis, normalizeAxis(node.integer("axis", 0), x.rank()));
  int64_t size = x.shape[axis];
  if (size == 0)
    return Error{fmt::format("dimension {} of shape {} has no element", axis, shapeText(x.shape))};
  Formula f(node.b, DType::I64);
  bool isLast = node.integer("select_last_index", 0) != 0, isMin = node.opType() == "ArgMin";
  Shape shape = x.shape;
  shape[axis] = 1;
  Term place;
  if (isFloat(x.dtype) && !isLast) {
    Term scores = f.transpose(isMin ? f.unary(Unary::Negate, x) : x, axisLast(x.rank(), axis));
    if (f.fault)
      return *f.fault;
    place = topK(node.b, scores, 1).indices;
  } else { // the first or last index of the extreme element; the last index if all elements are NaN
    Term most = f.reshape(f.reduce(isMin ? Reduction::Minimum : Reduction::Maximum, x, {axis}), shape);
    Term isThere = f.compare(Order::Equal, x, most), at = f.iota(size, axis, x.rank());
    Term none = node.b.integer(DType::I64, isLast ? 0 : size - 1);
    place = f.reduce(isLast ? Reduction::Maximum : Reduction::Minimum, f.select(isThere, at, none), {axis});
  }
  if (!node.integer("keepdims", 1))
    shape.erase(shape.begin() + axis);
  return f.set(node, 0, f.reshape(place, shape));
}

namespace {

/// Returns the dimension of the constant tuples `at` (shape [t.., depth]) along which component `k` counts 0, 1, ...
/// while it is constant along the others. Returns nothing if there is none.
std::optional<int64_t> countsAlong(const std::vector<int64_t> &at, const Shape &tuples, int64_t depth, int64_t k,
                                   int64_t size) {
  for (int64_t dim = 0; dim < int64_t(tuples.size()); ++dim) {
    if (tuples[dim] != size)
      continue;
    int64_t step = elementsOf(Shape(tuples.begin() + dim + 1, tuples.end()));
    bool counts = true;
    for (int64_t t = 0; t < elementsOf(tuples) && counts; ++t)
      counts = at[t * depth + k] == t / step % size;
    if (counts)
      return dim;
  }
  return std::nullopt;
}

/// Recognizes constant tuples that enumerate the looked-up dimensions, each along a dimension of its own, and returns a
/// broadcast, whose dimensions can be sharded. Exporters write masks in this way.
Result<std::optional<Term>> gatherAsBroadcast(OnnxNode &node, const Term &x, const Term &indices) {
  KERF_TRY(at, integersOf(*indices.literal));
  int64_t depth = indices.shape.back();
  Shape tuples(indices.shape.begin(), indices.shape.end() - 1);
  std::vector<int64_t> target; // dimension of the result for each looked-up dimension
  for (int64_t k = 0; k < depth; ++k) {
    std::optional<int64_t> dim = countsAlong(at, tuples, depth, k, x.shape[k]);
    if (!dim || (!target.empty() && *dim <= target.back()))
      return std::optional<Term>();
    target.push_back(*dim);
  }
  Shape spread(tuples.size(), 1), whole = tuples;
  for (int64_t k = 0; k < depth; ++k)
    spread[target[k]] = x.shape[k];
  spread.insert(spread.end(), x.shape.begin() + depth, x.shape.end());
  whole.insert(whole.end(), x.shape.begin() + depth, x.shape.end());
  KERF_TRY(apart, node.b.reshape(x, spread));
  KERF_TRY(result, node.b.broadcast(apart, whole));
  return std::optional(result);
}

/// Returns `index`, with negative values counted from the end of a dimension of `size` elements.
Term fromFront(Formula &f, const Term &index, int64_t size) {
  Term zero = f.b.integer(index.dtype, 0);
  return f.select(f.compare(Order::Less, index, zero), f.add(index, f.b.integer(index.dtype, size)), index);
}

} // namespace

Status importGatherNd(OnnxNode &node) {
  const Term &x = node.input(0), &indices = node.input(1);
  int64_t batchDims = node.integer("batch_dims", 0);
  if (x.isConstant() && indices.isConstant()) {
    KERF_TRY(folded, foldGatherNd(*x.literal, *indices.literal, batchDims));
    return node.set(0, node.b.fromLiteral(folded));
  }
  int64_t most = std::min(x.rank(), indices.rank());
  int64_t depth = indices.rank() ? indices.shape.back() : 0;
  if (indices.dtype != DType::I64 || batchDims < 0 || batchDims >= most || depth < 1 || depth > x.rank() - batchDims ||
      !std::equal(x.shape.begin(), x.shape.begin() + batchDims, indices.shape.begin()))
    return Error{fmt::format("indices {} {} do not fit data of shape {} with {} batch dimensions",
                             toString(indices.dtype), shapeText(indices.shape), shapeText(x.shape), batchDims)};
  if (indices.isConstant() && batchDims == 0) {
    KERF_TRY(broadcast, gatherAsBroadcast(node, x, indices));
    if (broadcast)
      return node.set(0, *broadcast);
  }
  std::vector<Term> components;
  for (int64_t k = 0; k < depth; ++k) {
    KERF_TRY(component, componentOf(node.b, indices, k));
    components.push_back(component);
  }
  if (batchDims == 0) {
    KERF_TRY(picked, takeAtTuples(node.b, x, components));
    if (picked)
      return node.set(0, *picked);
  }
  // The looked-up dimensions are merged into one, and each component is normalized before the merge.
  Formula f(node.b, DType::I64);
  Shape merged(x.shape.begin(), x.shape.begin() + batchDims),
      looked(x.shape.begin() + batchDims, x.shape.begin() + batchDims + depth);
  merged.push_back(elementsOf(looked));
  merged.insert(merged.end(), x.shape.begin() + batchDims + depth, x.shape.end());
  Term place;
  int64_t step = elementsOf(looked);
  for (int64_t k = 0; k < depth; ++k) {
    step /= std::max<int64_t>(looked[k], 1);
    Term index = fromFront(f, components[k], looked[k]);
    Term counted = step == 1 ? index : f.multiply(index, node.b.integer(DType::I64, step));
    place = k == 0 ? counted : f.add(place, counted);
  }
  return f.set(node, 0, f.unwrap(takeAlong(node.b, f.reshape(x, merged), place, batchDims)));
}

/// Imports GatherElements: the result has x[i.., indices[i.., j, k..], k..], so that all dimensions but the looked-up
/// one are batch dimensions.
Status importGatherElements(OnnxNode &node) {
  const Term &x = node.input(0), &indices = node.input(1);
  KERF_TRY(axis, normalizeAxis(node.integer("axis", 0), x.rank()));
  bool fits = indices.rank() == x.rank() && (indices.dtype == DType::I64 || indices.dtype == DType::I32);
  for (int64_t d = 0; d < x.rank() && fits; ++d)
    fits = d == axis || indices.shape[d] <= x.shape[d];
  if (!fits)
    return Error{fmt::format("indices {} {} do not fit data of shape {}", toString(indices.dtype),
                             shapeText(indices.shape), shapeText(x.shape))};
  Formula f(node.b, x.dtype);
  Term part = x;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != axis && indices.shape[d] < x.shape[d])
      part = f.slice(part, d, 0, indices.shape[d]);
  std::vector<int64_t> order = axisLast(x.rank(), axis);
  part = f.transpose(part, order);
  Term places = f.transpose(indices, order);
  if (f.fault)
    return *f.fault;
  if (part.isConstant() && places.isConstant()) { // constants are folded as a lookup in one flat row
    int64_t rows = elementsOf(part.shape) / std::max<int64_t>(x.shape[axis], 1), width = places.shape.back();
    Term first = f.reshape(f.multiply(f.iota(rows, 0, 2), node.b.integer(DType::I64, x.shape[axis])), {rows, 1});
    Term inRow = f.convert(f.reshape(fromFront(f, places, x.shape[axis]), {rows, width}), DType::I64);
    Term flat = f.add(inRow, first);
    Term picked = f.unwrap(node.b.gather(f.reshape(part, {elementsOf(part.shape)}), flat, 0));
    return f.set(node, 0, f.transpose(f.reshape(picked, places.shape), lastToAxis(x.rank(), axis)));
  }
  Term picked = f.unwrap(takeAlong(node.b, part, places, x.rank() - 1));
  return f.set(node, 0, f.transpose(picked, lastToAxis(x.rank(), axis)));
}

/// Imports ReverseSequence: reverses the first `length` elements of each sequence, by a lookup in the merged dimensions
/// of steps and batch.
Status importReverseSequence(OnnxNode &node) {
  const Term &x = node.input(0), &lengths = node.input(1);
  int64_t steps = node.integer("time_axis", 0), batch = node.integer("batch_axis", 1);
  if (x.rank() < 2 || steps + batch != 1 || steps * batch != 0 || isFloat(lengths.dtype) ||
      lengths.shape != Shape{x.shape[size_t(batch)]})
    return Error{
        fmt::format("time_axis {}, batch_axis {} and lengths of type {} and shape {} do not fit a tensor of shape {}",
                    steps, batch, toString(lengths.dtype), shapeText(lengths.shape), shapeText(x.shape))};
  Formula f(node.b, DType::I64);
  Shape along(2, 1);
  along[size_t(batch)] = x.shape[size_t(batch)];
  Term length = f.reshape(f.convert(lengths, DType::I64), along);
  Term step = f.iota(x.shape[size_t(steps)], steps, 2), sequence = f.iota(x.shape[size_t(batch)], batch, 2);
  Term turned = f.subtract(f.subtract(length, node.b.integer(DType::I64, 1)), step);
  Term from = f.select(f.compare(Order::Less, step, length), turned, step);
  Term width = node.b.integer(DType::I64, x.shape[1]);
  Term place = steps == 0 ? f.add(f.multiply(from, width), sequence) : f.add(f.multiply(sequence, width), from);
  Shape joined{x.shape[0] * x.shape[1]};
  joined.insert(joined.end(), x.shape.begin() + 2, x.shape.end());
  Term table = f.reshape(x, joined);
  return f.set(node, 0, f.unwrap(node.b.gather(table, place, 0)));
}

Status importOneHot(OnnxNode &node) {
  const Term &indices = node.input(0), &values = node.input(2);
  if (!node.input(1).isConstant())
    return Error{"its depth must be a constant, because shapes are static in Kerf"};
  KERF_TRY(given, numberOf(*node.input(1).literal)); // the depth may have any numeric type
  constexpr double kMost = double(int64_t(1) << 40);
  if (!(given >= 1 && given <= kMost) || given != std::floor(given) || values.shape != Shape{2})
    return Error{fmt::format("depth {} and values of shape {} are not valid", given, shapeText(values.shape))};
  KERF_TRY(axis, normalizeAxis(node.integer("axis", -1), indices.rank() + 1));
  int64_t depth = int64_t(given);
  Formula f(node.b, indices.dtype);
  Shape apart = indices.shape, along(indices.rank() + 1, 1);
  apart.insert(apart.begin() + axis, 1);
  along[axis] = depth;
  std::vector<int64_t> counted(depth);
  std::iota(counted.begin(), counted.end(), 0);
  Term classes = f.reshape(f.convert(node.b.fromLiteral(indexLiteral(counted)), indices.dtype), along);
  Term at = f.reshape(indices, apart);
  at = f.select(f.compare(Order::Less, at, f.number(0)), f.add(at, f.number(double(depth))), at);
  auto value = [&](int64_t i) { return f.reshape(f.unwrap(node.b.slice(values, 0, i, i + 1)), {}); };
  return f.set(node, 0, f.select(f.compare(Order::Equal, at, classes), value(1), value(0)));
}

Status importHardmax(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  KERF_TRY(axis, normalizeAxis(node.integer("axis", -1), x.rank()));
  Formula f(node.b, x.dtype);
  Term rows = f.transpose(x, axisLast(x.rank(), axis));
  if (f.fault)
    return *f.fault;
  int64_t size = x.shape[axis];
  std::vector<int64_t> counted(size);
  std::iota(counted.begin(), counted.end(), 0);
  Term first = topK(node.b, rows, 1).indices;
  Term hot = f.convert(f.compare(Order::Equal, first, node.b.fromLiteral(indexLiteral(counted))), x.dtype);
  return f.set(node, 0, f.transpose(hot, lastToAxis(x.rank(), axis)));
}

} // namespace kerf::frontend
