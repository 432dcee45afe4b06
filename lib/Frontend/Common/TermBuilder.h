// SPDX-License-Identifier: Apache-2.0
// Writes kerf IR one operator at a time, and computes operators whose operands are all constant instead of writing
// them. Handlers of ONNX and StableHLO operators are formulas over terms, so that the arithmetic on masks and shapes in
// an export disappears from the IR.
#pragma once

#include "Common/Fold.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"

namespace kerf::frontend {

struct NarrowFormat;

/// A tensor of the model's graph: a constant known at import, or a value that the IR computes.
struct Term {
  std::optional<Literal> literal; // the value, if constant
  mlir::Value value;              // the IR value; null for a constant that the IR has not needed so far
  DType dtype = DType::F32;
  Shape shape;
  std::string name;   // the model's name of the tensor, which a constant argument of @main gets; may be ""
  std::string buffer; // name of the buffer whose unchanged value the literal is; "": none
  const NarrowFormat *narrow = nullptr; // the model's number format if narrower than dtype (Narrow.h); null otherwise

  bool isConstant() const { return literal.has_value(); }
  int64_t rank() const { return int64_t(shape.size()); }
};

/// A constant that became an argument of the function, because it is too large for the IR text.
struct ConstantArgument {
  std::string name, kind; // `kind` is "constant" or "buffer"
  Literal literal;
  mlir::BlockArgument argument;
};

/// Writes the body of one function.
class TermBuilder {
public:
  /// Appends operators to `block`, and one argument for each constant that is too large for the IR text. `floatType` is
  /// the type of floating-point tensors.
  TermBuilder(mlir::Block *block, DType floatType);

  /// Sets the location of the operators written from now on.
  void setLocation(mlir::Location location) { loc = location; }
  DType floatType() const { return floating; }
  /// Returns the constants that became arguments so far.
  const std::vector<ConstantArgument> &constantArguments() const { return constants; }
  /// Returns the block's arguments for the random seed and the step number; none if the model has no dropout.
  llvm::ArrayRef<mlir::BlockArgument> randomArguments() const { return random; }

  /// Returns a constant term; `name` is its name in the model.
  Term fromLiteral(Literal literal, std::string name = "");
  /// Returns a constant term, or the error of folding it.
  Result<Term> fromResult(Result<Literal> literal);
  /// Returns the term of an IR value.
  Term fromValue(mlir::Value value);
  /// Returns a constant scalar.
  Term scalar(DType dtype, double value) { return fromLiteral(scalarLiteral(dtype, value)); }
  /// Returns a constant integer scalar.
  Term integer(DType dtype, int64_t value) { return fromLiteral(scalarLiteral(dtype, value)); }

  // Elementwise operations. Operands are broadcast to one shape by NumPy's rule; the broadcast is an operator of its
  // own in the IR.
  Result<Term> unary(Unary op, const Term &x);
  Result<Term> binary(Binary op, const Term &x, const Term &y);
  Result<Term> compare(Order order, const Term &x, const Term &y);
  Result<Term> select(const Term &predicate, const Term &x, const Term &y);
  Result<Term> convert(const Term &x, DType dtype);
  /// Rounds a floating-point term to a format with fewer bits (Precision.h).
  Result<Term> reducePrecision(const Term &x, int64_t mantissaBits, int64_t minExponent);
  Result<Term> isNan(const Term &x);

  // Operations on shapes, as in Fold.h.
  Result<Term> broadcast(const Term &x, const Shape &shape);
  Result<Term> reshape(const Term &x, const Shape &shape);
  Result<Term> transpose(const Term &x, const std::vector<int64_t> &permutation);
  /// Returns the elements start, start + stride, ... below `limit` of each dimension. All elements must lie inside `x`,
  /// and strides must be positive.
  Result<Term> slice(const Term &x, const Shape &start, const Shape &limit, const Shape &strides);
  /// Returns the elements [from, to) of dimension `dim`.
  Result<Term> slice(const Term &x, int64_t dim, int64_t from, int64_t to);
  Result<Term> concatenate(const std::vector<Term> &inputs, int64_t dim);
  /// Adds `low` and `high` elements of `value`, 0 or more, before and after each dimension of `x`.
  Result<Term> pad(const Term &x, const Term &value, const Shape &low, const Shape &high);
  /// Reduces the dimensions `dims`, in ascending order. The result does not have these dimensions.
  Result<Term> reduce(Reduction op, const Term &x, const std::vector<int64_t> &dims);
  /// Returns the slices of dimension `axis` at `indices`, as ONNX's Gather does.
  Result<Term> gather(const Term &x, const Term &indices, int64_t axis);
  /// Returns a new stream number; random numbers of different streams are independent.
  Term newStream() { return integer(DType::I64, streams++); }
  /// Sets each element of a floating-point term to zero with probability `rate`, in [0, 1), and scales the others by 1
  /// / (1 - rate). `stream` comes from `newStream`.
  Term dropout(const Term &x, double rate, const Term &stream);
  /// The batch and contracting dimensions of one operand of `dot`.
  struct Dims {
    std::vector<int64_t> batching, contracting;
  };
  /// Computes the batched matrix product that StableHLO calls dot_general.
  Result<Term> dot(const Term &x, const Dims &xDims, const Term &y, const Dims &yDims);

  /// Returns the term as an IR value with its full shape; a constant becomes an operator or an argument.
  mlir::Value emit(const Term &x) { return emitAs(x, x.shape); }
  /// Returns the term as an IR value broadcast to `shape`, which must fit.
  mlir::Value emitAs(const Term &x, const Shape &shape);
  /// Returns the IR type of a tensor.
  mlir::RankedTensorType type(DType dtype, const Shape &shape);

  mlir::OpBuilder builder;
  mlir::Location loc;

private:
  /// An IR value without the dimensions that are stored with size 1.
  struct Base {
    mlir::Value value;
    std::vector<int64_t> dims; // the dimension of the literal for each dimension of `value`
  };
  Base emitLiteral(const Term &x);
  mlir::Value emitCausalMask(int64_t size, DType dtype, double masked);
  mlir::Value constantArgument(const Literal &literal, const std::string &name, const char *kind);
  mlir::Value broadcastInDim(mlir::Value value, const Shape &shape, const std::vector<int64_t> &dims);

  mlir::Block *block;
  DType floating;
  std::vector<ConstantArgument> constants;
  llvm::SmallVector<mlir::BlockArgument, 2> random;
  int64_t streams = 0;
  std::map<std::tuple<int64_t, DType, double>, mlir::Value> causalMasks;
};

/// A causal attention mask: true (or 0) where column <= row and false (or `masked`) elsewhere, equal for all leading
/// dimensions.
struct CausalMask {
  int64_t size = 0;  // rows and columns
  double masked = 0; // value above the diagonal of a floating-point mask: -inf, or -1e9 or less
};
/// Returns the description of the literal if it is a causal mask, and nothing otherwise.
std::optional<CausalMask> findCausalMask(const Literal &literal);

/// Returns the type of elements for an IR element type.
DType dtypeOf(mlir::Type elementType);
/// Returns the IR element type for a type of elements.
mlir::Type elementType(mlir::MLIRContext *context, DType dtype);

} // namespace kerf::frontend

/// Declares `name` as the value of the Result `expression`, or returns its error from the function.
#define KERF_TRY(name, expression)                                                                                     \
  auto name##OrError = (expression);                                                                                   \
  if (!name##OrError)                                                                                                  \
    return name##OrError.error();                                                                                      \
  auto &name = *name##OrError
/// Returns the error of the Status `expression` from the function, if it failed.
#define KERF_CHECK(expression)                                                                                         \
  if (auto status = (expression); !status)                                                                             \
  return status.error()
