// SPDX-License-Identifier: Apache-2.0
// Implements each operation twice: folded for constant operands (Fold.h), and as an operator of the dialect otherwise.
#include "Common/TermBuilder.h"
#include "mlir/IR/BuiltinTypes.h"

#include <fmt/format.h>

namespace kerf::frontend {

using mlir::Value;

DType dtypeOf(mlir::Type t) {
  if (t.isF64())
    return DType::F64;
  if (t.isF32())
    return DType::F32;
  if (t.isBF16())
    return DType::BF16;
  if (t.isF16())
    return DType::F16;
  if (t.isInteger(1))
    return DType::Bool;
  bool isUnsigned = t.isUnsignedInteger();
  if (t.isInteger(64))
    return isUnsigned ? DType::U64 : DType::I64;
  if (t.isInteger(32))
    return isUnsigned ? DType::U32 : DType::I32;
  if (t.isInteger(16))
    return isUnsigned ? DType::U16 : DType::I16;
  return isUnsigned ? DType::U8 : DType::I8;
}

mlir::Type elementType(mlir::MLIRContext *context, DType dtype) {
  mlir::Builder b(context);
  switch (dtype) {
  case DType::F64:
    return b.getF64Type();
  case DType::F32:
    return b.getF32Type();
  case DType::BF16:
    return b.getBF16Type();
  case DType::F16:
    return b.getF16Type();
  case DType::I64:
    return b.getI64Type();
  case DType::I32:
    return b.getI32Type();
  case DType::I16:
    return b.getI16Type();
  case DType::I8:
    return b.getI8Type();
  case DType::U64:
    return b.getIntegerType(64, /*isSigned=*/false);
  case DType::U32:
    return b.getIntegerType(32, /*isSigned=*/false);
  case DType::U16:
    return b.getIntegerType(16, /*isSigned=*/false);
  case DType::U8:
    return b.getIntegerType(8, /*isSigned=*/false);
  case DType::Bool:
    return b.getI1Type();
  case DType::F8E4M3FN:
    return mlir::Float8E4M3FNType::get(context);
  case DType::F8E5M2:
    return mlir::Float8E5M2Type::get(context);
  }
  return b.getF32Type();
}

TermBuilder::TermBuilder(mlir::Block *block, DType floatType)
    : builder(mlir::OpBuilder::atBlockEnd(block)), loc(builder.getUnknownLoc()), block(block), floating(floatType) {}

mlir::RankedTensorType TermBuilder::type(DType dtype, const Shape &shape) {
  return mlir::RankedTensorType::get(shape, elementType(builder.getContext(), dtype));
}

Term TermBuilder::fromLiteral(Literal literal, std::string name) {
  Term term;
  term.dtype = literal.dtype();
  term.shape = literal.shape;
  term.literal = std::move(literal);
  term.name = std::move(name);
  return term;
}

Result<Term> TermBuilder::fromResult(Result<Literal> literal) {
  if (!literal)
    return literal.error();
  return fromLiteral(std::move(*literal));
}

Term TermBuilder::fromValue(Value value) {
  Term term;
  term.value = value;
  term.dtype = dtypeOf(ir::tensorType(value).getElementType());
  term.shape = ir::shapeOf(value);
  return term;
}

/// Returns the folded literal as a term.
template <typename Op> static Value unaryOp(TermBuilder &b, Value x) {
  return Op::create(b.builder, b.loc, x.getType(), x);
}

template <typename Op> static Value binaryOp(TermBuilder &b, Value x, Value y) {
  return Op::create(b.builder, b.loc, x.getType(), x, y);
}

Result<Term> TermBuilder::unary(Unary op, const Term &x) {
  if (x.isConstant())
    return fromResult(foldUnary(op, *x.literal));
  bool any = op == Unary::Negate || op == Unary::Abs || op == Unary::Sign;
  if (!any && isFloat(x.dtype) == (op == Unary::Not))
    return Error{fmt::format("the operator is not defined on {}", toString(x.dtype))};
  auto make = [&]() -> Value {
    switch (op) {
    case Unary::Negate:
      return unaryOp<ir::NegateOp>(*this, x.value);
    case Unary::Abs:
      return unaryOp<ir::AbsOp>(*this, x.value);
    case Unary::Sign:
      return unaryOp<ir::SignOp>(*this, x.value);
    case Unary::Exponential:
      return unaryOp<ir::ExponentialOp>(*this, x.value);
    case Unary::Log:
      return unaryOp<ir::LogOp>(*this, x.value);
    case Unary::Sqrt:
      return unaryOp<ir::SqrtOp>(*this, x.value);
    case Unary::Tanh:
      return unaryOp<ir::TanhOp>(*this, x.value);
    case Unary::Logistic:
      return unaryOp<ir::LogisticOp>(*this, x.value);
    case Unary::Erf:
      return unaryOp<ir::ErfOp>(*this, x.value);
    case Unary::Sine:
      return unaryOp<ir::SineOp>(*this, x.value);
    case Unary::Cosine:
      return unaryOp<ir::CosineOp>(*this, x.value);
    case Unary::Atan:
      return unaryOp<ir::AtanOp>(*this, x.value);
    case Unary::Floor:
      return unaryOp<ir::FloorOp>(*this, x.value);
    case Unary::Ceil:
      return unaryOp<ir::CeilOp>(*this, x.value);
    case Unary::Round:
      return unaryOp<ir::RoundNearestEvenOp>(*this, x.value);
    case Unary::StopGradient:
      return unaryOp<ir::StopGradientOp>(*this, x.value);
    case Unary::Not:
      return unaryOp<ir::NotOp>(*this, x.value);
    }
    return {};
  };
  return fromValue(make());
}

Result<Term> TermBuilder::binary(Binary op, const Term &x, const Term &y) {
  if (x.dtype != y.dtype)
    return Error{fmt::format("its operands have the types {} and {}, which must be equal", toString(x.dtype),
                             toString(y.dtype))};
  KERF_TRY(shape, broadcastShapes(x.shape, y.shape));
  if (x.isConstant() && y.isConstant())
    return fromResult(foldBinary(op, *x.literal, *y.literal));
  if (op == Binary::Remainder)
    return Error{"the remainder is supported for constants only, not for computed values"};
  bool logical = op == Binary::And || op == Binary::Or;
  if (logical && isFloat(x.dtype))
    return Error{fmt::format("the operator is not defined on {}", toString(x.dtype))};
  if (op == Binary::Power && !isFloat(x.dtype))
    return Error{fmt::format("the power of values of {} is supported for constants only, not for computed values",
                             toString(x.dtype))};
  // Adding a mask of zeros needs no operator.
  for (const auto &[constant, other] : {std::pair(&x, &y), std::pair(&y, &x)})
    if (constant->isConstant() && shape == other->shape &&
        ((op == Binary::Add && allElementsEqual(*constant->literal, 0)) ||
         (op == Binary::And && x.dtype == DType::Bool && allElementsEqual(*constant->literal, 1))))
      return *other;
  Value a = emitAs(x, shape), b = emitAs(y, shape);
  auto make = [&]() -> Value {
    switch (op) {
    case Binary::Add:
      return binaryOp<ir::AddOp>(*this, a, b);
    case Binary::Subtract:
      return binaryOp<ir::SubtractOp>(*this, a, b);
    case Binary::Multiply:
      return binaryOp<ir::MultiplyOp>(*this, a, b);
    case Binary::Divide:
      return binaryOp<ir::DivideOp>(*this, a, b);
    case Binary::Power:
      return binaryOp<ir::PowerOp>(*this, a, b);
    case Binary::Maximum:
      return binaryOp<ir::MaximumOp>(*this, a, b);
    case Binary::Minimum:
      return binaryOp<ir::MinimumOp>(*this, a, b);
    case Binary::And:
      return binaryOp<ir::AndOp>(*this, a, b);
    case Binary::Or:
      return binaryOp<ir::OrOp>(*this, a, b);
    case Binary::Remainder:
      return {};
    }
    return {};
  };
  return fromValue(make());
}

Result<Term> TermBuilder::compare(Order order, const Term &x, const Term &y) {
  if (x.dtype != y.dtype)
    return Error{fmt::format("its operands have the types {} and {}, which must be equal", toString(x.dtype),
                             toString(y.dtype))};
  KERF_TRY(shape, broadcastShapes(x.shape, y.shape));
  if (x.isConstant() && y.isConstant())
    return fromResult(foldCompare(order, *x.literal, *y.literal));
  constexpr ir::Comparison directions[] = {ir::Comparison::EQ, ir::Comparison::NE, ir::Comparison::LT,
                                           ir::Comparison::LE, ir::Comparison::GT, ir::Comparison::GE};
  Value a = emitAs(x, shape), b = emitAs(y, shape);
  return fromValue(ir::CompareOp::create(builder, loc, type(DType::Bool, shape), a, b, directions[int(order)]));
}

Result<Term> TermBuilder::select(const Term &predicate, const Term &x, const Term &y) {
  if (x.dtype != y.dtype || predicate.dtype != DType::Bool)
    return Error{fmt::format("its operands have the types {}, {} and {}, which do not fit together",
                             toString(predicate.dtype), toString(x.dtype), toString(y.dtype))};
  KERF_TRY(values, broadcastShapes(x.shape, y.shape));
  KERF_TRY(shape, broadcastShapes(predicate.shape, values));
  if (predicate.isConstant()) {
    if (x.isConstant() && y.isConstant())
      return fromResult(foldSelect(*predicate.literal, *x.literal, *y.literal));
    if (allElementsEqual(*predicate.literal, 1))
      return broadcast(x, shape);
    if (allElementsEqual(*predicate.literal, 0))
      return broadcast(y, shape);
  }
  Value p = emitAs(predicate, shape), a = emitAs(x, shape), b = emitAs(y, shape);
  return fromValue(ir::SelectOp::create(builder, loc, type(x.dtype, shape), p, a, b));
}

Result<Term> TermBuilder::convert(const Term &x, DType dtype) {
  if (x.dtype == dtype)
    return x;
  if (x.isConstant())
    return fromResult(foldConvert(*x.literal, dtype));
  return fromValue(ir::ConvertOp::create(builder, loc, type(dtype, x.shape), x.value));
}

Result<Term> TermBuilder::reducePrecision(const Term &x, int64_t mantissaBits, int64_t minExponent) {
  if (!isFloat(x.dtype))
    return Error{fmt::format("the operator is not defined on {}", toString(x.dtype))};
  if (x.isConstant())
    return fromResult(foldReducePrecision(*x.literal, mantissaBits, minExponent));
  return fromValue(ir::ReducePrecisionOp::create(builder, loc, x.value.getType(), x.value,
                                                 builder.getI64IntegerAttr(mantissaBits),
                                                 builder.getI64IntegerAttr(minExponent)));
}

Result<Term> TermBuilder::isNan(const Term &x) {
  if (!isFloat(x.dtype))
    return Error{fmt::format("the operator is not defined on {}", toString(x.dtype))};
  if (x.isConstant())
    return fromResult(foldIsNan(*x.literal));
  return fromValue(ir::IsNanOp::create(builder, loc, type(DType::Bool, x.shape), x.value));
}

Result<Term> TermBuilder::gather(const Term &x, const Term &indices, int64_t axis) {
  if (indices.dtype != DType::I64 && indices.dtype != DType::I32)
    return Error{fmt::format("indices of {}", toString(indices.dtype))};
  if (x.isConstant() && indices.isConstant())
    return fromResult(foldGather(*x.literal, *indices.literal, axis));
  Shape shape(x.shape.begin(), x.shape.begin() + axis);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  Value operand = emit(x), at = emit(indices);
  // A lookup of whole rows becomes an embedding, whose rows can be sharded.
  if (axis == 0 && x.rank() == 2 && isFloat(x.dtype))
    return fromValue(ir::EmbeddingOp::create(builder, loc, type(x.dtype, shape), operand, at, Value(),
                                             builder.getI64IntegerAttr(x.shape[0])));
  return fromValue(
      ir::GatherOp::create(builder, loc, type(x.dtype, shape), operand, at, builder.getI64IntegerAttr(axis)));
}

Term TermBuilder::dropout(const Term &x, double rate, const Term &stream) {
  if (random.empty())
    for (const char *name : {"seed", "step"})
      random.push_back(block->addArgument(type(DType::I64, {}), mlir::NameLoc::get(builder.getStringAttr(name))));
  Value operand = emit(x);
  return fromValue(ir::DropoutOp::create(builder, loc, operand.getType(), operand, random[0], random[1], emit(stream),
                                         Value(), builder.getF64FloatAttr(rate), mlir::DenseI64ArrayAttr()));
}

Result<Term> TermBuilder::dot(const Term &x, const Dims &xDims, const Term &y, const Dims &yDims) {
  if (x.dtype != y.dtype || !isFloat(x.dtype))
    return Error{fmt::format("a product needs operands of one floating-point type, but these have {} and {}",
                             toString(x.dtype), toString(y.dtype))};
  auto contains = [](const std::vector<int64_t> &dims, int64_t dim) {
    return std::find(dims.begin(), dims.end(), dim) != dims.end();
  };
  auto pairUp = [&](const std::vector<int64_t> &a, const std::vector<int64_t> &b) -> Status {
    for (size_t i = 0; i < a.size(); ++i)
      if (x.shape[a[i]] != y.shape[b[i]])
        return Error{fmt::format(
            "operands of shapes {} and {} do not fit: dimension {} has {} elements, but dimension {} has {}",
            shapeText(x.shape), shapeText(y.shape), a[i], x.shape[a[i]], b[i], y.shape[b[i]])};
    return ok();
  };
  KERF_CHECK(pairUp(xDims.batching, yDims.batching));
  KERF_CHECK(pairUp(xDims.contracting, yDims.contracting));
  Shape shape;
  for (int64_t d : xDims.batching)
    shape.push_back(x.shape[d]);
  for (int64_t d = 0; d < x.rank(); ++d)
    if (!contains(xDims.batching, d) && !contains(xDims.contracting, d))
      shape.push_back(x.shape[d]);
  for (int64_t d = 0; d < y.rank(); ++d)
    if (!contains(yDims.batching, d) && !contains(yDims.contracting, d))
      shape.push_back(y.shape[d]);
  auto attr = [&](const std::vector<int64_t> &dims) { return builder.getDenseI64ArrayAttr(dims); };
  Value a = emit(x), b = emit(y);
  return fromValue(ir::DotGeneralOp::create(builder, loc, type(x.dtype, shape), a, b, mlir::ValueRange(),
                                            attr(xDims.batching), attr(yDims.batching), attr(xDims.contracting),
                                            attr(yDims.contracting)));
}

} // namespace kerf::frontend
