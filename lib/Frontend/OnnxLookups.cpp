// SPDX-License-Identifier: Apache-2.0
// Operators that look elements up at computed places, and that find such places.
#include "Formula.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace kerf::frontend {

namespace {

/// The permutation that moves dimension `axis` behind the others; its own inverse only for the last two.
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

/// The `count` largest along the last dimension, in order.
Picked topK(TermBuilder &b, const Term &x, int64_t count) {
  Shape shape = x.shape;
  shape.back() = count;
  mlir::Value scores = b.emit(x);
  auto op = ir::TopKOp::create(b.builder, b.loc, b.type(x.dtype, shape), b.type(DType::I64, shape), scores);
  return {b.fromValue(op.getValues()), b.fromValue(op.getIndices())};
}

} // namespace

Status importTopK(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  KERF_TRY(counts, node.constantInput(1));
  KERF_TRY(axis, normalizeAxis(node.integer("axis", -1), x.rank()));
  if (counts.size() != 1 || counts[0] < 1 || counts[0] > x.shape[axis])
    return Error{fmt::format("K is {} for dimension {} of size {}", shapeText(counts), axis, x.shape[axis])};
  Formula f(node.b, x.dtype);
  bool largest = node.integer("largest", 1) != 0;
  Term scores = f.transpose(x, axisLast(x.rank(), axis));
  if (!largest)
    scores = f.unary(Unary::Negate, scores);
  if (f.fault)
    return *f.fault;
  Picked picked = topK(node.b, scores, counts[0]);
  Term values = largest ? picked.values : f.unary(Unary::Negate, picked.values);
  KERF_CHECK(f.set(node, 0, f.transpose(values, lastToAxis(x.rank(), axis))));
  return f.set(node, 1, f.transpose(picked.indices, lastToAxis(x.rank(), axis)));
}

Status importArgExtreme(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  KERF_TRY(axis, normalizeAxis(node.integer("axis", 0), x.rank()));
  if (node.integer("select_last_index", 0))
    return Error{"select_last_index is not supported: of equal elements the first is taken"};
  if (x.shape[axis] == 0)
    return Error{fmt::format("dimension {} of {} has no element", axis, shapeText(x.shape))};
  Formula f(node.b, x.dtype);
  Term scores = f.transpose(node.opType() == "ArgMin" ? f.unary(Unary::Negate, x) : x, axisLast(x.rank(), axis));
  if (f.fault)
    return *f.fault;
  Shape shape = x.shape;
  shape[axis] = 1;
  if (!node.integer("keepdims", 1))
    shape.erase(shape.begin() + axis);
  return f.set(node, 0, f.reshape(topK(node.b, scores, 1).indices, shape));
}

namespace {

/// Whether element `k` of every constant tuple of `at` (shape [t.., depth]) counts 0, 1, .. along one dimension of t,
/// the same for all others; gives that dimension.
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

/// Constant tuples that name every element of the looked-up dimensions once along dimensions of their own: a broadcast,
/// whose dimensions may be cut. Masks of exported models are read so.
Result<std::optional<Term>> gatherAsBroadcast(OnnxNode &node, const Term &x, const Term &indices) {
  KERF_TRY(at, integersOf(*indices.literal));
  int64_t depth = indices.shape.back();
  Shape tuples(indices.shape.begin(), indices.shape.end() - 1);
  std::vector<int64_t> target; // where each of the looked-up dimensions lies in the result
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
  // One dimension stands for the looked-up ones and the batch; its index is counted from each of them.
  Formula f(node.b, DType::I64);
  auto whole = [&](int64_t value) { return node.b.integer(DType::I64, value); };
  Shape tuples(indices.shape.begin(), indices.shape.end() - 1), one = indices.shape;
  one.back() = 1;
  Term place = f.broadcast(whole(0), tuples);
  int64_t first = batchDims + depth, rows = elementsOf(Shape(x.shape.begin(), x.shape.begin() + first)), step = rows;
  for (int64_t d = 0; d < first; ++d) {
    step /= x.shape[d];
    Term index;
    if (d < batchDims) { // counts along the batch dimension
      Shape along(tuples.size(), 1);
      along[d] = x.shape[d];
      std::vector<int64_t> counted(x.shape[d]);
      std::iota(counted.begin(), counted.end(), 0);
      index = f.reshape(node.b.fromLiteral(indexLiteral(counted)), along);
    } else {
      Term raw =
          f.reshape(f.taken(node.b.slice(indices, indices.rank() - 1, d - batchDims, d - batchDims + 1)), tuples);
      index = f.select(f.compare(Order::Less, raw, whole(0)), f.add(raw, whole(x.shape[d])), raw);
    }
    place = f.add(place, step == 1 ? index : f.multiply(index, whole(step)));
  }
  Shape flat{rows};
  flat.insert(flat.end(), x.shape.begin() + first, x.shape.end());
  Term table = f.reshape(x, flat);
  return f.set(node, 0, f.taken(node.b.gather(table, place, 0)));
}

/// Element [i.., indices[i.., j, k..], k..]: the indices of the other dimensions count along them.
Status importGatherElements(OnnxNode &node) {
  const Term &x = node.input(0), &indices = node.input(1);
  KERF_TRY(axis, normalizeAxis(node.integer("axis", 0), x.rank()));
  bool fits = indices.rank() == x.rank() && (indices.dtype == DType::I64 || indices.dtype == DType::I32);
  for (int64_t d = 0; d < x.rank() && fits; ++d)
    fits = d == axis || indices.shape[d] <= x.shape[d];
  if (!fits)
    return Error{fmt::format("indices {} {} do not fit data of shape {}", toString(indices.dtype),
                             shapeText(indices.shape), shapeText(x.shape))};
  Formula f(node.b, DType::I64);
  auto whole = [&](int64_t value) { return node.b.integer(DType::I64, value); };
  Term place = f.convert(indices, DType::I64);
  place = f.select(f.compare(Order::Less, place, whole(0)), f.add(place, whole(x.shape[axis])), place);
  int64_t step = elementsOf(x.shape), along = elementsOf(Shape(x.shape.begin() + axis + 1, x.shape.end()));
  place = f.multiply(place, whole(along));
  for (int64_t d = 0; d < x.rank(); ++d) {
    step /= std::max<int64_t>(x.shape[d], 1);
    if (d == axis)
      continue;
    Shape shape(x.rank(), 1);
    shape[d] = indices.shape[d];
    std::vector<int64_t> counted(indices.shape[d]);
    for (int64_t i = 0; i < indices.shape[d]; ++i)
      counted[i] = i * step;
    place = f.add(place, f.reshape(node.b.fromLiteral(indexLiteral(counted)), shape));
  }
  Term flat = f.reshape(x, {elementsOf(x.shape)});
  return f.set(node, 0, f.taken(node.b.gather(flat, place, 0)));
}

Status importOneHot(OnnxNode &node) {
  const Term &indices = node.input(0), &values = node.input(2);
  KERF_TRY(depths, node.constantInput(1));
  if (depths.size() != 1 || depths[0] < 1 || values.shape != Shape{2})
    return Error{fmt::format("depth {} and values of shape {}", shapeText(depths), shapeText(values.shape))};
  KERF_TRY(axis, normalizeAxis(node.integer("axis", -1), indices.rank() + 1));
  int64_t depth = depths[0];
  Formula f(node.b, indices.dtype);
  Shape apart = indices.shape, along(indices.rank() + 1, 1);
  apart.insert(apart.begin() + axis, 1);
  along[axis] = depth;
  std::vector<int64_t> counted(depth);
  std::iota(counted.begin(), counted.end(), 0);
  Term classes = f.reshape(f.convert(node.b.fromLiteral(indexLiteral(counted)), indices.dtype), along);
  Term at = f.reshape(indices, apart);
  at = f.select(f.compare(Order::Less, at, f.number(0)), f.add(at, f.number(double(depth))), at);
  auto value = [&](int64_t i) { return f.reshape(f.taken(node.b.slice(values, 0, i, i + 1)), {}); };
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
