// SPDX-License-Identifier: Apache-2.0
// Writes kerf IR one op at a time and computes what is constant instead. A handler of an ONNX operator is written once,
// as formulas over terms: where all of an op's operands are constants there is no op, which is how mask and shape
// arithmetic vanishes.
#pragma once

#include "Common/Fold.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"

namespace kerf::frontend {

struct NarrowFormat;

/// A tensor of the graph: known at import, or computed by the IR.
struct Term {
  std::optional<Literal> literal;
  mlir::Value value; // null while a literal hasn't been needed by the IR
  DType dtype = DType::F32;
  Shape shape;
  std::string name;                     // the model's name for it; a constant argument is called so
  std::string buffer;                   // the literal is this buffer of the model, unchanged
  const NarrowFormat *narrow = nullptr; // the model's format, where that is narrower than dtype (Narrow.h)

  bool isConstant() const { return literal.has_value(); }
  int64_t rank() const { return int64_t(shape.size()); }
};

/// A constant that became an argument of the function.
struct ConstantArgument {
  std::string name, kind; // kind "constant" or "buffer"
  Literal literal;
  mlir::BlockArgument argument;
};

class TermBuilder {
public:
  /// Ops are appended to `block`, which gets an argument for each constant that is too large for the IR.
  TermBuilder(mlir::Block *block, DType floatType);

  void setLocation(mlir::Location location) { loc = location; }
  DType floatType() const { return floating; }
  const std::vector<ConstantArgument> &constantArguments() const { return constants; }
  /// The block's arguments for the seed and the step; none where nothing is random.
  llvm::ArrayRef<mlir::BlockArgument> randomArguments() const { return random; }

  Term fromLiteral(Literal literal, std::string name = "");
  Result<Term> fromResult(Result<Literal> literal);
  Term fromValue(mlir::Value value);
  Term scalar(DType dtype, double value) { return fromLiteral(scalarLiteral(dtype, value)); }
  Term integer(DType dtype, int64_t value) { return fromLiteral(scalarLiteral(dtype, value)); }

  // Elementwise, with NumPy's broadcasting: an op of its own in the IR.
  Result<Term> unary(Unary op, const Term &x);
  Result<Term> binary(Binary op, const Term &x, const Term &y);
  Result<Term> compare(Order order, const Term &x, const Term &y);
  Result<Term> select(const Term &predicate, const Term &x, const Term &y);
  Result<Term> convert(const Term &x, DType dtype);
  /// A format's numbers (Precision.h); of a floating term.
  Result<Term> reducePrecision(const Term &x, int64_t mantissaBits, int64_t minExponent);
  Result<Term> isNan(const Term &x);

  Result<Term> broadcast(const Term &x, const Shape &shape);
  Result<Term> reshape(const Term &x, const Shape &shape);
  Result<Term> transpose(const Term &x, const std::vector<int64_t> &permutation);
  /// Elements start, start + stride, ... below limit: inside the shape, strides positive.
  Result<Term> slice(const Term &x, const Shape &start, const Shape &limit, const Shape &strides);
  /// The box [from, to) of one dimension.
  Result<Term> slice(const Term &x, int64_t dim, int64_t from, int64_t to);
  Result<Term> concatenate(const std::vector<Term> &inputs, int64_t dim);
  /// Neither `low` nor `high` is negative.
  Result<Term> pad(const Term &x, const Term &value, const Shape &low, const Shape &high);
  /// Dimensions sorted; gone from the result, or kept with size 1.
  Result<Term> reduce(Reduction op, const Term &x, const std::vector<int64_t> &dims);
  Result<Term> gather(const Term &x, const Term &indices, int64_t axis);
  /// A number that tells what is drawn from it apart from all else that is random.
  Term newStream() { return integer(DType::I64, streams++); }
  /// Elements of a floating term become zero with probability `rate`, which is in [0, 1).
  Term dropout(const Term &x, double rate, const Term &stream);
  struct Dims {
    std::vector<int64_t> batching, contracting;
  };
  Result<Term> dot(const Term &x, const Dims &xDims, const Term &y, const Dims &yDims);

  /// The term in the IR, with its full shape.
  mlir::Value emit(const Term &x) { return emitAs(x, x.shape); }
  /// Broadcast to `shape`, which it is known to fit.
  mlir::Value emitAs(const Term &x, const Shape &shape);
  mlir::RankedTensorType type(DType dtype, const Shape &shape);

  mlir::OpBuilder builder;
  mlir::Location loc;

private:
  struct Base { // a value without the dimensions of size 1 or that copy, and where its dimensions lie in the literal
    mlir::Value value;
    std::vector<int64_t> dims;
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

/// A mask that hides what comes later: true (or 0) where column <= row, false (or `masked`) elsewhere, the same for all
/// leading dimensions.
struct CausalMask {
  int64_t size = 0;
  double masked = 0; // a float mask's value above the diagonal: -inf or at most -1e9
};
std::optional<CausalMask> findCausalMask(const Literal &literal);

DType dtypeOf(mlir::Type elementType);
mlir::Type elementType(mlir::MLIRContext *context, DType dtype);

} // namespace kerf::frontend

/// Value of a Result, or return its error.
#define KERF_TRY(name, expression)                                                                                     \
  auto name##OrError = (expression);                                                                                   \
  if (!name##OrError)                                                                                                  \
    return name##OrError.error();                                                                                      \
  auto &name = *name##OrError
#define KERF_CHECK(expression)                                                                                         \
  if (auto status = (expression); !status)                                                                             \
  return status.error()
