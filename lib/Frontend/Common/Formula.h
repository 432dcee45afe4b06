// SPDX-License-Identifier: Apache-2.0
// Writes formulas over terms without an error check after each operation.
#pragma once

#include "Onnx/OnnxNode.h"

#include <fmt/format.h>
#include <numeric>

namespace kerf::frontend {

/// Fails when `x` is not a floating-point term.
inline Status checkFloat(const Term &x) {
  if (isFloat(x.dtype))
    return ok();
  return Error{fmt::format("an operand has the type {}, but a floating-point type is needed", toString(x.dtype))};
}

/// Returns the floating-point term `x` as an IR value broadcast to `shape`, for an operand of a composite operator.
inline Result<mlir::Value> emitFloat(TermBuilder &b, const Term &x, const Shape &shape) {
  if (Status status = checkFloat(x); !status)
    return status.error();
  return b.emitAs(x, shape);
}

/// A writer of formulas. The first error is stored in `fault`; the operations after the error return arbitrary terms,
/// and `set` reports the error.
class Formula {
public:
  /// Writes formulas with `builder`, in which `number` makes constants of the type `dtype`.
  Formula(TermBuilder &builder, DType dtype) : b(builder), dtype(dtype) {}

  Term number(double value) { return b.scalar(dtype, value); }
  Term add(const Term &x, const Term &y) { return unwrap(b.binary(Binary::Add, x, y)); }
  Term subtract(const Term &x, const Term &y) { return unwrap(b.binary(Binary::Subtract, x, y)); }
  Term multiply(const Term &x, const Term &y) { return unwrap(b.binary(Binary::Multiply, x, y)); }
  Term divide(const Term &x, const Term &y) { return unwrap(b.binary(Binary::Divide, x, y)); }
  Term power(const Term &x, const Term &y) { return unwrap(b.binary(Binary::Power, x, y)); }
  Term maximum(const Term &x, const Term &y) { return unwrap(b.binary(Binary::Maximum, x, y)); }
  Term minimum(const Term &x, const Term &y) { return unwrap(b.binary(Binary::Minimum, x, y)); }
  Term compare(Order order, const Term &x, const Term &y) { return unwrap(b.compare(order, x, y)); }
  Term select(const Term &p, const Term &x, const Term &y) { return unwrap(b.select(p, x, y)); }
  Term unary(Unary op, const Term &x) { return unwrap(b.unary(op, x)); }
  Term convert(const Term &x, DType to) { return unwrap(b.convert(x, to)); }
  Term broadcast(const Term &x, const Shape &shape) { return unwrap(b.broadcast(x, shape)); }
  Term pad(const Term &x, const Term &value, const Shape &low, const Shape &high) {
    return unwrap(b.pad(x, value, low, high));
  }
  Term slice(const Term &x, int64_t dim, int64_t from, int64_t to) { return unwrap(b.slice(x, dim, from, to)); }
  Term concatenate(const std::vector<Term> &inputs, int64_t dim) { return unwrap(b.concatenate(inputs, dim)); }
  /// Returns the integers 0 to count - 1 along dimension `dim` of a tensor with `rank` dimensions, whose other sizes
  /// are 1.
  Term iota(int64_t count, int64_t dim, int64_t rank) {
    Shape shape(size_t(rank), 1);
    shape[size_t(dim)] = count;
    std::vector<int64_t> numbers(static_cast<size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
    return reshape(b.fromLiteral(indexLiteral(numbers)), shape);
  }
  Term reshape(const Term &x, const Shape &shape) { return unwrap(b.reshape(x, shape)); }
  Term transpose(const Term &x, const std::vector<int64_t> &order) { return unwrap(b.transpose(x, order)); }
  Term reduce(Reduction op, const Term &x, const std::vector<int64_t> &dims) { return unwrap(b.reduce(op, x, dims)); }
  /// Returns the mean over `dims`, which stay with size 1.
  Term mean(const Term &x, const std::vector<int64_t> &dims) {
    Shape kept = x.shape;
    double count = 1;
    for (int64_t dim : dims) {
      count *= double(kept[dim]);
      kept[dim] = 1;
    }
    return reshape(divide(reduce(Reduction::Sum, x, dims), number(count)), kept);
  }
  /// Returns the term, or stores its error in `fault` and returns a zero.
  Term unwrap(Result<Term> term) {
    if (term)
      return std::move(*term);
    if (!fault)
      fault = term.error();
    return number(0);
  }

  /// Sets output `output` of `node` to `term`. Fails with the stored error, if any.
  Status set(OnnxNode &node, int output, Term term) {
    return fault ? Status(*fault) : node.set(output, std::move(term));
  }

  TermBuilder &b;
  DType dtype;
  std::optional<Error> fault; // the first error
};

} // namespace kerf::frontend
