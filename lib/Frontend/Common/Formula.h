// SPDX-License-Identifier: Apache-2.0
// Writes a formula over terms as it reads: the first fault is kept, and what is computed after it means nothing.
#pragma once

#include "Onnx/OnnxNode.h"

#include <fmt/format.h>
#include <numeric>

namespace kerf::frontend {

/// Refuses an operand that is not floating.
inline Status checkFloat(const Term &x) {
  if (isFloat(x.dtype))
    return ok();
  return Error{fmt::format("an operand of {}, a floating type is needed", toString(x.dtype))};
}

/// An operand that a composite takes as it is: in the IR, floating.
inline Result<mlir::Value> emitFloat(TermBuilder &b, const Term &x, const Shape &shape) {
  if (Status status = checkFloat(x); !status)
    return status.error();
  return b.emitAs(x, shape);
}

class Formula {
public:
  /// Numbers get the type `dtype`.
  Formula(TermBuilder &builder, DType dtype) : b(builder), dtype(dtype) {}

  Term number(double value) { return b.scalar(dtype, value); }
  Term add(const Term &x, const Term &y) { return taken(b.binary(Binary::Add, x, y)); }
  Term subtract(const Term &x, const Term &y) { return taken(b.binary(Binary::Subtract, x, y)); }
  Term multiply(const Term &x, const Term &y) { return taken(b.binary(Binary::Multiply, x, y)); }
  Term divide(const Term &x, const Term &y) { return taken(b.binary(Binary::Divide, x, y)); }
  Term power(const Term &x, const Term &y) { return taken(b.binary(Binary::Power, x, y)); }
  Term maximum(const Term &x, const Term &y) { return taken(b.binary(Binary::Maximum, x, y)); }
  Term minimum(const Term &x, const Term &y) { return taken(b.binary(Binary::Minimum, x, y)); }
  Term compare(Order order, const Term &x, const Term &y) { return taken(b.compare(order, x, y)); }
  Term select(const Term &p, const Term &x, const Term &y) { return taken(b.select(p, x, y)); }
  Term unary(Unary op, const Term &x) { return taken(b.unary(op, x)); }
  Term convert(const Term &x, DType to) { return taken(b.convert(x, to)); }
  Term broadcast(const Term &x, const Shape &shape) { return taken(b.broadcast(x, shape)); }
  Term pad(const Term &x, const Term &value, const Shape &low, const Shape &high) {
    return taken(b.pad(x, value, low, high));
  }
  Term slice(const Term &x, int64_t dim, int64_t from, int64_t to) { return taken(b.slice(x, dim, from, to)); }
  Term concatenate(const std::vector<Term> &inputs, int64_t dim) { return taken(b.concatenate(inputs, dim)); }
  /// 0, 1, ... along dimension `dim` of `rank`; the others have size 1.
  Term counted(int64_t count, int64_t dim, int64_t rank) {
    Shape shape(size_t(rank), 1);
    shape[size_t(dim)] = count;
    std::vector<int64_t> numbers(static_cast<size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
    return reshape(b.fromLiteral(indexLiteral(numbers)), shape);
  }
  Term reshape(const Term &x, const Shape &shape) { return taken(b.reshape(x, shape)); }
  Term transpose(const Term &x, const std::vector<int64_t> &order) { return taken(b.transpose(x, order)); }
  Term reduce(Reduction op, const Term &x, const std::vector<int64_t> &dims) { return taken(b.reduce(op, x, dims)); }
  /// The mean over `dims`, which stay with size 1.
  Term mean(const Term &x, const std::vector<int64_t> &dims) {
    Shape kept = x.shape;
    double count = 1;
    for (int64_t dim : dims) {
      count *= double(kept[dim]);
      kept[dim] = 1;
    }
    return reshape(divide(reduce(Reduction::Sum, x, dims), number(count)), kept);
  }
  Term taken(Result<Term> term) {
    if (term)
      return std::move(*term);
    if (!fault)
      fault = term.error();
    return number(0);
  }

  Status set(OnnxNode &node, int output, Term term) {
    return fault ? Status(*fault) : node.set(output, std::move(term));
  }

  TermBuilder &b;
  DType dtype;
  std::optional<Error> fault;
};

} // namespace kerf::frontend
