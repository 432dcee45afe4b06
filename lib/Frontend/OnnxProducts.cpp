// SPDX-License-Identifier: Apache-2.0
// Operators that sum over dimensions.
#include "OnnxNode.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace kerf::frontend {

static std::vector<int64_t> upTo(int64_t count) {
  std::vector<int64_t> dims(count);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

/// Both have at least two dimensions.
static Result<Term> matrixProduct(TermBuilder &b, const Term &x, const Term &y) {
  Shape yBatch(y.shape.begin(), y.shape.end() - 2);
  // One matrix for all of x: its leading dimensions stay free ones.
  if (elementsOf(yBatch) == 1 && y.rank() <= x.rank()) {
    KERF_TRY(matrix, b.reshape(y, {y.shape[y.rank() - 2], y.shape[y.rank() - 1]}));
    return b.dot(x, {{}, {x.rank() - 1}}, matrix, {{}, {0}});
  }
  KERF_TRY(batch, broadcastShapes(Shape(x.shape.begin(), x.shape.end() - 2), yBatch));
  auto whole = [&](const Term &term) {
    Shape shape = batch;
    shape.insert(shape.end(), term.shape.end() - 2, term.shape.end());
    return b.broadcast(term, shape);
  };
  KERF_TRY(left, whole(x));
  KERF_TRY(right, whole(y));
  int64_t rank = left.rank();
  return b.dot(left, {upTo(rank - 2), {rank - 1}}, right, {upTo(rank - 2), {rank - 2}});
}

Status importMatMul(OnnxNode &node) {
  const Term &x = node.input(0), &y = node.input(1);
  if (x.rank() == 0 || y.rank() == 0)
    return Error{fmt::format("a product of shapes {} and {}", shapeText(x.shape), shapeText(y.shape))};
  // NumPy's rule: a vector is a row on the left, a column on the right, and that dimension is gone from the result.
  Shape row = x.shape, column = y.shape;
  if (x.rank() == 1)
    row.insert(row.begin(), 1);
  if (y.rank() == 1)
    column.push_back(1);
  KERF_TRY(left, node.b.reshape(x, row));
  KERF_TRY(right, node.b.reshape(y, column));
  KERF_TRY(product, matrixProduct(node.b, left, right));
  Shape shape = product.shape;
  if (y.rank() == 1)
    shape.pop_back();
  if (x.rank() == 1)
    shape.erase(shape.end() - (y.rank() == 1 ? 1 : 2));
  return node.set(0, node.b.reshape(product, shape));
}

Status importGemm(OnnxNode &node) {
  const Term &x = node.input(0), &y = node.input(1);
  if (x.rank() != 2 || y.rank() != 2)
    return Error{
        fmt::format("operands of shapes {} and {}, matrices are needed", shapeText(x.shape), shapeText(y.shape))};
  TermBuilder &b = node.b;
  int64_t inner = node.integer("transA", 0) ? 0 : 1, outer = node.integer("transB", 0) ? 1 : 0;
  KERF_TRY(product, b.dot(x, {{}, {inner}}, y, {{}, {outer}}));
  auto scaled = [&](const Term &term, double factor) -> Result<Term> {
    return factor == 1 ? Result<Term>(term) : b.binary(Binary::Multiply, term, b.scalar(term.dtype, factor));
  };
  KERF_TRY(result, scaled(product, node.number("alpha", 1)));
  double beta = node.number("beta", 1);
  if (!node.hasInput(2) || beta == 0)
    return node.set(0, result);
  KERF_TRY(bias, scaled(node.input(2), beta));
  KERF_TRY(shape, broadcastShapes(bias.shape, result.shape));
  if (shape != result.shape)
    return Error{
        fmt::format("a bias of shape {} on a product of shape {}", shapeText(bias.shape), shapeText(result.shape))};
  return node.set(0, b.binary(Binary::Add, result, bias));
}

Status importReduce(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(given, node.integersFrom(1, "axes"));
  std::vector<int64_t> dims = given ? *given : std::vector<int64_t>();
  if (dims.empty()) {
    if (node.integer("noop_with_empty_axes", 0))
      return node.set(0, x);
    dims = upTo(x.rank());
  }
  int64_t count = 1;
  for (int64_t &dim : dims) {
    KERF_TRY(inside, normalizeAxis(dim, x.rank()));
    dim = inside;
    count *= x.shape[dim];
  }
  std::sort(dims.begin(), dims.end());
  if (std::adjacent_find(dims.begin(), dims.end()) != dims.end())
    return Error{fmt::format("an axis is named twice in {}", shapeText(dims))};
  const std::string &op = node.opType();
  Reduction kind = op == "ReduceMax" ? Reduction::Maximum : op == "ReduceMin" ? Reduction::Minimum : Reduction::Sum;
  KERF_TRY(reduced, node.b.reduce(kind, x, dims));
  Shape kept = x.shape;
  for (int64_t dim : dims)
    kept[dim] = 1;
  Term result = reduced;
  if (op == "ReduceMean") {
    KERF_TRY(mean, node.b.binary(Binary::Divide, reduced, node.b.integer(x.dtype, count)));
    result = mean;
  }
  return node.set(0, node.integer("keepdims", 1) ? node.b.reshape(result, kept) : Result<Term>(result));
}

} // namespace kerf::frontend
