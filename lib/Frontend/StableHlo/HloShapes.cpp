// SPDX-License-Identifier: Apache-2.0
// StableHLO operations that move elements.
#include "StableHlo/HloOps.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::frontend::hlo {

//===-- on terms ---------------------------------------------------------===//

Result<Term> reshaped(TermBuilder &b, const Term &x, const Shape &shape) {
  // JAX reshapes [4, 8] -> [1, 4, 8] -> [4, 8] around each read and write of stacked layers.
  if (x.value)
    if (auto reshape = x.value.getDefiningOp<ir::ReshapeOp>(); reshape && ir::shapeOf(reshape.getOperand()) == shape)
      return b.fromValue(reshape.getOperand());
  return b.reshape(x, shape);
}

/// Returns the dimensions of `shape` whose size is not 1.
static std::vector<int64_t> wideDims(const Shape &shape) {
  std::vector<int64_t> dims;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1)
      dims.push_back(int64_t(d));
  return dims;
}

Result<Term> broadcastInDim(TermBuilder &b, const Term &x, const Shape &shape, const std::vector<int64_t> &dims) {
  KERF_CHECK(checkDims(dims, int64_t(shape.size()), "broadcast_dimensions"));
  if (int64_t(dims.size()) != x.rank())
    return Error{
        fmt::format("{} broadcast_dimensions are given, but the operand has {} dimensions", dims.size(), x.rank())};
  for (size_t d = 0; d < dims.size(); ++d)
    if (x.shape[d] != 1 && x.shape[d] != shape[dims[d]])
      return Error{fmt::format("dimension {} of {} elements cannot become dimension {} of {}", d, x.shape[d], dims[d],
                               shape[dims[d]])};
  if (!std::is_sorted(dims.begin(), dims.end())) {
    std::vector<int64_t> order(dims.size()), sorted = dims;
    for (size_t d = 0; d < order.size(); ++d)
      order[d] = int64_t(d);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t c) { return dims[a] < dims[c]; });
    std::sort(sorted.begin(), sorted.end());
    KERF_TRY(turned, b.transpose(x, order));
    return broadcastInDim(b, turned, shape, sorted);
  }
  // Constants are broadcast by NumPy's rule, and adding dimensions of size 1 is a reshape.
  Shape aligned(shape.size(), 1);
  for (size_t d = 0; d < dims.size(); ++d)
    aligned[dims[d]] = x.shape[d];
  if (x.isConstant() || aligned == shape) {
    KERF_TRY(unsqueezed, reshaped(b, x, aligned));
    return b.broadcast(unsqueezed, shape);
  }
  // [8] -> [1, 1, 8] -> [4, 2, 8] is one broadcast of [8].
  mlir::Value source = x.value;
  std::vector<int64_t> to = dims;
  if (auto reshape = source.getDefiningOp<ir::ReshapeOp>()) {
    std::vector<int64_t> before = wideDims(ir::shapeOf(reshape.getOperand())), after = wideDims(x.shape);
    bool onlyUnits =
        int64_t(before.size()) == int64_t(ir::shapeOf(reshape.getOperand()).size()) && before.size() == after.size();
    if (onlyUnits) {
      source = reshape.getOperand();
      to.clear();
      for (int64_t d : after)
        to.push_back(dims[d]);
    }
  }
  return b.fromValue(ir::BroadcastInDimOp::create(b.builder, b.loc, b.type(x.dtype, shape), source,
                                                  b.builder.getDenseI64ArrayAttr(to)));
}

Result<Term> sliced(TermBuilder &b, const Term &x, const Shape &start, const Shape &limit, const Shape &strides) {
  if (start.size() != x.shape.size() || limit.size() != x.shape.size() || strides.size() != x.shape.size())
    return Error{fmt::format("{} starts, {} limits and {} strides are given, but the operand has {} dimensions",
                             start.size(), limit.size(), strides.size(), x.rank())};
  for (size_t d = 0; d < start.size(); ++d)
    if (start[d] < 0 || limit[d] < start[d] || limit[d] > x.shape[d] || strides[d] < 1)
      return Error{fmt::format("the range {}:{}:{} does not fit dimension {} of {} elements", start[d], limit[d],
                               strides[d], d, x.shape[d])};
  // A slice of a concatenation reads only some parts, because layers write to stacks that later layers read.
  auto joined = x.value ? x.value.getDefiningOp<ir::ConcatenateOp>() : ir::ConcatenateOp();
  if (joined && std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride == 1; })) {
    auto dim = size_t(joined.getDimension());
    int64_t offset = 0;
    for (mlir::Value part : joined.getInputs()) {
      int64_t size = ir::shapeOf(part)[dim];
      if (start[dim] >= offset && limit[dim] <= offset + size) {
        Shape from = start, to = limit;
        from[dim] -= offset;
        to[dim] -= offset;
        return sliced(b, b.fromValue(part), from, to, strides);
      }
      offset += size;
    }
  }
  return b.slice(x, start, limit, strides);
}

/// Returns the parts of a concatenation that cover [from, to) along `dim`.
static Status appendParts(TermBuilder &b, const Term &x, int64_t dim, int64_t from, int64_t to, Terms &parts) {
  if (from >= to)
    return ok();
  auto joined = x.value ? x.value.getDefiningOp<ir::ConcatenateOp>() : ir::ConcatenateOp();
  if (joined && int64_t(joined.getDimension()) == dim) {
    int64_t offset = 0;
    for (mlir::Value part : joined.getInputs()) {
      int64_t size = ir::shapeOf(part)[dim];
      KERF_CHECK(appendParts(b, b.fromValue(part), dim, std::max<int64_t>(from - offset, 0),
                             std::min(to - offset, size), parts));
      offset += size;
    }
    return ok();
  }
  KERF_TRY(part, b.slice(x, dim, from, to));
  parts.push_back(part);
  return ok();
}

Result<Term> updated(TermBuilder &b, const Term &x, const Term &update, const Shape &start) {
  std::vector<int64_t> partial;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (update.shape[d] != x.shape[d])
      partial.push_back(d);
  if (partial.empty())
    return update;
  if (partial.size() == 1) {
    int64_t dim = partial.front();
    Terms parts;
    KERF_CHECK(appendParts(b, x, dim, 0, start[dim], parts));
    parts.push_back(update);
    KERF_CHECK(appendParts(b, x, dim, start[dim] + update.shape[dim], x.shape[dim], parts));
    return b.concatenate(parts, dim);
  }
  Shape high(start.size());
  for (size_t d = 0; d < high.size(); ++d)
    high[d] = x.shape[d] - start[d] - update.shape[d];
  KERF_TRY(inside, b.broadcast(b.integer(DType::Bool, 1), update.shape));
  KERF_TRY(mask, b.pad(inside, b.integer(DType::Bool, 0), start, high));
  KERF_TRY(zero, b.convert(b.integer(DType::I64, 0), x.dtype));
  KERF_TRY(moved, b.pad(update, zero, start, high));
  return b.select(mask, moved, x);
}

Result<Term> indexAlong(TermBuilder &b, DType dtype, const Shape &shape, int64_t dim) {
  constexpr int64_t kMost = int64_t(1) << 28;
  if (shape[dim] > kMost)
    return Error{
        fmt::format("{} indices along dimension {} are not supported; at most {} are", shape[dim], dim, kMost)};
  Shape stored(shape.size(), 1);
  stored[dim] = shape[dim];
  if (elementsOf(shape) == 0)
    stored = shape;
  KERF_TRY(fresh, allocateLiteral(dtype, stored));
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0, n = elementsOf(stored); i < n; ++i)
      fresh.as<T>()[i] = T(i);
  });
  fresh.literal.shape = shape;
  return b.fromLiteral(fresh.literal);
}

Result<Term> clamped(TermBuilder &b, const Term &index, int64_t most) {
  KERF_TRY(raised, b.binary(Binary::Maximum, index, b.integer(index.dtype, 0)));
  return b.binary(Binary::Minimum, raised, b.integer(index.dtype, most));
}

//===-- handlers ---------------------------------------------------------===//

Result<Terms> evaluateBroadcastInDim(Node &node) {
  KERF_TRY(dims, node.integers("broadcast_dimensions"));
  return one(broadcastInDim(node.b, node.input(0), node.resultShape(), dims));
}

Result<Terms> evaluateReshape(Node &node) { return one(reshaped(node.b, node.input(0), node.resultShape())); }

Result<Terms> evaluateTranspose(Node &node) {
  KERF_TRY(permutation, node.integers("permutation"));
  return one(node.b.transpose(node.input(0), permutation));
}

Result<Terms> evaluateSlice(Node &node) {
  KERF_TRY(start, node.integers("start_indices"));
  KERF_TRY(limit, node.integers("limit_indices"));
  KERF_TRY(strides, node.integers("strides"));
  return one(sliced(node.b, node.input(0), start, limit, strides));
}

namespace {

/// Returns the start of a box of `sizes` in one dimension: a constant, clamped to `shape`, or a computed scalar.
struct Start {
  std::optional<int64_t> known;
  Term computed;
};

Result<std::vector<Start>> startsOf(const Node &node, size_t first, const Shape &shape, const Shape &sizes) {
  if (sizes.size() != shape.size() || node.operands.size() - first != shape.size())
    return Error{fmt::format("a box has {} sizes and {} starts, but the tensor has {} dimensions", sizes.size(),
                             node.operands.size() - first, shape.size())};
  std::vector<Start> starts;
  for (size_t d = 0; d < shape.size(); ++d) {
    const Term &given = node.input(first + d);
    if (elementsOf(given.shape) != 1 || isFloat(given.dtype))
      return Error{fmt::format("the start of dimension {} is {} {}, but an integer is needed", d, toString(given.dtype),
                               shapeText(given.shape))};
    if (sizes[d] < 0 || sizes[d] > shape[d])
      return Error{fmt::format("a box of {} elements does not fit dimension {} of {}", sizes[d], d, shape[d])};
    Start start;
    if (sizes[d] == shape[d]) {
      start.known = 0;
    } else if (given.isConstant()) {
      KERF_TRY(values, integersOf(*given.literal));
      start.known = std::clamp<int64_t>(values.front(), 0, shape[d] - sizes[d]);
    } else {
      start.computed = given;
    }
    starts.push_back(std::move(start));
  }
  return starts;
}

Error computedStart(size_t dim, int64_t size) {
  return Error{fmt::format("the start of dimension {} is computed for {} elements; supported are constant starts (a "
                           "loop's counter is one), and computed starts of one element",
                           dim, size)};
}

/// Returns the index in the form that gather takes.
Result<Term> asIndex(TermBuilder &b, const Term &index) {
  return index.dtype == DType::I64 || index.dtype == DType::I32 ? Result<Term>(index) : b.convert(index, DType::I64);
}

} // namespace

Result<Terms> evaluateDynamicSlice(Node &node) {
  TermBuilder &b = node.b;
  KERF_TRY(sizes, node.integers("slice_sizes"));
  Term x = node.input(0);
  KERF_TRY(starts, startsOf(node, 1, x.shape, sizes));
  Shape from(sizes.size(), 0), to = x.shape;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (starts[d].known) {
      from[d] = *starts[d].known;
      to[d] = from[d] + sizes[d];
    }
  KERF_TRY(box, sliced(b, x, from, to, Shape(sizes.size(), 1)));
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (starts[d].known)
      continue;
    if (sizes[d] != 1)
      return computedStart(d, sizes[d]);
    KERF_TRY(index, asIndex(b, starts[d].computed));
    KERF_TRY(inside, clamped(b, index, x.shape[d] - 1));
    KERF_TRY(vector, b.reshape(inside, {1}));
    KERF_TRY(picked, b.gather(box, vector, int64_t(d)));
    box = picked;
  }
  return Terms{box};
}

Result<Terms> evaluateDynamicUpdateSlice(Node &node) {
  TermBuilder &b = node.b;
  const Term &x = node.input(0), &update = node.input(1);
  if (update.dtype != x.dtype)
    return Error{fmt::format("an update of {} does not fit a tensor of {}", toString(update.dtype), toString(x.dtype))};
  KERF_TRY(starts, startsOf(node, 2, x.shape, update.shape));
  Shape at(starts.size(), 0);
  std::optional<size_t> computed;
  for (size_t d = 0; d < starts.size(); ++d) {
    at[d] = starts[d].known.value_or(0);
    if (!starts[d].known) {
      if (computed || update.shape[d] != 1)
        return computedStart(d, update.shape[d]);
      computed = d;
    }
  }
  if (!computed)
    return one(updated(b, x, update, at));
  for (size_t d = 0; d < starts.size(); ++d)
    if (d != *computed && update.shape[d] != x.shape[d])
      return computedStart(*computed, 1);
  KERF_TRY(inside, clamped(b, starts[*computed].computed, x.shape[*computed] - 1));
  KERF_TRY(scalar, b.reshape(inside, {}));
  KERF_TRY(index, indexAlong(b, scalar.dtype, x.shape, int64_t(*computed)));
  KERF_TRY(here, b.compare(Order::Equal, index, scalar));
  return one(b.select(here, update, x));
}

Result<Term> padded(TermBuilder &b, const Term &x, const Term &value, const Shape &low, const Shape &high,
                    const Shape &interior) {
  size_t rank = x.shape.size();
  if (low.size() != rank || high.size() != rank || interior.size() != rank)
    return Error{fmt::format("{}, {} and {} paddings are given, but the operand has {} dimensions", low.size(),
                             high.size(), interior.size(), rank)};
  if (value.dtype != x.dtype || elementsOf(value.shape) != 1)
    return Error{fmt::format("the padding value for {} is {} {}, but a scalar of the same type is needed",
                             toString(x.dtype), toString(value.dtype), shapeText(value.shape))};
  constexpr int64_t kMost = int64_t(1) << 40;
  Shape shape(rank), start(rank, 0), from(rank), more(rank);
  bool gaps = false;
  for (size_t d = 0; d < rank; ++d) {
    if (std::abs(low[d]) > kMost || std::abs(high[d]) > kMost || interior[d] < 0 || interior[d] > kMost)
      return Error{
          fmt::format("paddings {}, {} and {} of dimension {} are not valid", low[d], high[d], interior[d], d)};
    gaps |= interior[d] > 0 && x.shape[d] > 1;
    from[d] = std::max<int64_t>(low[d], 0);
    more[d] = std::max<int64_t>(high[d], 0);
    __int128 spread = x.shape[d] ? __int128(x.shape[d]) + __int128(x.shape[d] - 1) * interior[d] : 0;
    if (spread + from[d] + more[d] > kMost || spread + low[d] + high[d] < 0)
      return Error{fmt::format("dimension {} of {} elements cannot have the paddings {}, {} and {}", d, x.shape[d],
                               low[d], high[d], interior[d])};
    shape[d] = int64_t(spread) + from[d] + more[d];
  }
  KERF_CHECK(checkShape(shape));
  Term whole;
  if (gaps) {
    KERF_TRY(scalar, b.reshape(value, {}));
    mlir::Value operand = b.emit(x), border = b.emit(scalar);
    auto attr = [&](const Shape &numbers) { return b.builder.getDenseI64ArrayAttr(numbers); };
    whole = b.fromValue(ir::PadOp::create(b.builder, b.loc, b.type(x.dtype, shape), operand, border, attr(from),
                                          attr(more), attr(interior)));
  } else {
    KERF_TRY(plain, b.pad(x, value, from, more));
    whole = plain;
  }
  Shape limit = shape;
  for (size_t d = 0; d < rank; ++d) {
    start[d] = std::max<int64_t>(-low[d], 0);
    limit[d] -= std::max<int64_t>(-high[d], 0);
  }
  return sliced(b, whole, start, limit, Shape(rank, 1));
}

Result<Terms> evaluatePad(Node &node) {
  KERF_TRY(low, node.integers("edge_padding_low"));
  KERF_TRY(high, node.integers("edge_padding_high"));
  KERF_TRY(interior, node.integers("interior_padding"));
  return one(padded(node.b, node.input(0), node.input(1), low, high, interior));
}

Result<Terms> evaluateConcatenate(Node &node) {
  KERF_TRY(dim, node.integer("dimension"));
  for (const Term &input : node.operands)
    if (input.rank() != node.input(0).rank())
      return Error{fmt::format("its operands have the shapes {} and {}, which do not fit together",
                               shapeText(node.input(0).shape), shapeText(input.shape))};
  KERF_CHECK(checkDims({dim}, node.input(0).rank(), "dimension"));
  return one(node.b.concatenate(node.operands, dim));
}

Result<Term> reversed(TermBuilder &b, const Term &x, const std::vector<int64_t> &dims) {
  Term result = x;
  for (int64_t dim : dims) {
    KERF_TRY(forward, indexAlong(b, DType::I64, {x.shape[dim]}, 0));
    KERF_TRY(backward, b.binary(Binary::Subtract, b.integer(DType::I64, x.shape[dim] - 1), forward));
    KERF_TRY(turned, b.gather(result, backward, dim));
    result = turned;
  }
  return result;
}

Result<Terms> evaluateReverse(Node &node) {
  KERF_TRY(dims, node.integers("dimensions"));
  KERF_CHECK(checkDims(dims, node.input(0).rank(), "dimensions"));
  return one(reversed(node.b, node.input(0), dims));
}

Result<Terms> evaluateIota(Node &node) {
  KERF_TRY(dim, node.integer("iota_dimension"));
  KERF_CHECK(checkDims({dim}, int64_t(node.resultShape().size()), "iota_dimension"));
  return one(indexAlong(node.b, node.results.front().dtype, node.resultShape(), dim));
}

} // namespace kerf::frontend::hlo
