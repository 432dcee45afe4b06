// SPDX-License-Identifier: Apache-2.0
// Calls of operators on single elements.
#include "Calls.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace kerf::runtime::ascend {

namespace {
using Unary = OperatorOf<Kind::In, Kind::Out>;
using Binary = OperatorOf<Kind::In, Kind::In, Kind::Out>;

/// An op and its operator.
template <typename O> struct ElementRow {
  std::string_view op;
  const O *one;
};
constexpr ElementRow<Unary> kUnary[] = {
    {"negate", &op::Neg},
    {"abs", &op::Abs},
    {"sign", &op::Sign},
    {"not", &op::BitwiseNot},
    {"exponential", &op::Exp},
    {"log", &op::Log},
    {"sqrt", &op::Sqrt},
    {"rsqrt", &op::Rsqrt},
    {"tanh", &op::Tanh},
    {"logistic", &op::Sigmoid},
    {"erf", &op::Erf},
    {"sine", &op::Sin},
    {"cosine", &op::Cos},
    {"atan", &op::Atan},
    {"floor", &op::Floor},
    {"ceil", &op::Ceil},
    {"round_nearest_even", &op::Round},
};
constexpr ElementRow<Binary> kBinary[] = {
    {"multiply", &op::Mul},          {"divide", &op::Div},
    {"maximum", &op::Maximum},       {"minimum", &op::Minimum},
    {"power", &op::PowTensorTensor}, {"and", &op::BitwiseAndTensor},
    {"or", &op::BitwiseOrTensor},
};
/// The operators of booleans, where they are others. A sum or maximum of booleans is "or", a product or minimum "and".
constexpr ElementRow<Binary> kLogical[] = {
    {"add", &op::LogicalOr},       {"maximum", &op::LogicalOr},  {"or", &op::LogicalOr},
    {"multiply", &op::LogicalAnd}, {"minimum", &op::LogicalAnd}, {"and", &op::LogicalAnd},
};
constexpr ElementRow<Binary> kComparisons[] = {
    {"EQ", &op::EqTensor}, {"NE", &op::NeTensor}, {"LT", &op::LtTensor},
    {"LE", &op::LeTensor}, {"GT", &op::GtTensor}, {"GE", &op::GeTensor},
};

template <typename O, size_t n> const O *find(const ElementRow<O> (&rows)[n], std::string_view op) {
  auto row = std::find_if(std::begin(rows), std::end(rows), [&](const auto &one) { return one.op == op; });
  return row == std::end(rows) ? nullptr : row->one;
}

bool isFloating(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

/// Divides integers, rounding towards zero. A quotient by zero is -1, which XLA gives too.
void callIntegerDivide(Builder &b) {
  constexpr int kTowardsZero = 1;
  View x = b.operand(0), y = b.operand(1), z = b.result();
  View isZero = b.temporary(DType::Bool, z.sizes), zero = b.temporary(z.dtype, {}),
       quotient = b.temporary(z.dtype, z.sizes), divisor = b.temporary(z.dtype, z.sizes);
  b.fill(zero, 0);
  b.call(op::EqTensor, y, broadcast(zero, z.sizes, {}), isZero);
  b.copy(y, divisor);
  b.call(op::InplaceMaskedFillScalar, divisor, isZero, Builder::scalar(z.dtype, 1));
  b.call(op::DivMod, x, divisor, kTowardsZero, quotient);
  b.call(op::InplaceMaskedFillScalar, quotient, isZero, Builder::scalar(z.dtype, -1));
  b.copy(quotient, z);
}
} // namespace

void callUnary(Builder &b) {
  View x = b.operand(0), y = b.result();
  if (b.name() == "not" && y.dtype == DType::Bool)
    return b.call(op::LogicalNot, x, y);
  b.call(*find(kUnary, b.name()), x, y);
}

void callBinary(Builder &b) {
  View x = b.operand(0), y = b.operand(1), z = b.result();
  if (z.dtype == DType::Bool) {
    if (const Binary *logical = find(kLogical, b.name()))
      return b.call(*logical, x, y, z);
    return b.fail({fmt::format("'{}' of booleans has no operator in CANN; train on the device cpu, or convert them to "
                               "integers in the model",
                               b.name())});
  }
  if (b.name() == "add")
    return b.add(x, y, z);
  if (b.name() == "subtract")
    return b.subtract(x, y, z);
  if (b.name() == "divide" && !isFloating(z.dtype))
    return callIntegerDivide(b);
  b.call(*find(kBinary, b.name()), x, y, z);
}

void callCompare(Builder &b) {
  b.call(*find(kComparisons, b.text("direction")), b.operand(0), b.operand(1), b.result());
}

void callSelect(Builder &b) { b.call(op::SWhere, b.operand(0), b.operand(1), b.operand(2), b.result()); }

void callConvert(Builder &b) {
  View x = b.operand(0), y = b.result();
  // CANN does not define the conversion of numbers beyond a type's range. All floats have the limits of small types.
  bool isSmall = y.dtype == DType::I16 || y.dtype == DType::I8 || y.dtype == DType::U8;
  if (isFloating(x.dtype) && isSmall) {
    auto limit = [&](bool isMaximum) {
      return Builder::scalar(x.dtype, double(neutralOf(y.dtype, isMaximum).integer));
    };
    View inside = b.temporary(x.dtype, x.sizes);
    b.call(op::Clamp, x, limit(true), limit(false), inside);
    x = inside;
  }
  b.copy(x, y);
}

void callAccumulate(Builder &b) {
  if (b.operands() == 1)
    return callConvert(b); // the first summand only starts the sum
  View sum = b.result();
  b.add(b.operand(0), b.as(sum.dtype, b.operand(1)), sum);
}

void callReducePrecision(Builder &b) {
  View x = b.operand(0), y = b.result();
  int64_t bits = b.integer("mantissa_bits"), exponent = b.integer("min_exponent");
  struct Format {
    int64_t bits, exponent;
    DType dtype;
  };
  for (const Format &format : {Format{7, -126, DType::BF16}, Format{10, -14, DType::F16}, Format{23, -126, DType::F32}})
    if (format.bits == bits && format.exponent == exponent) {
      View narrow = b.temporary(format.dtype, x.sizes);
      b.copy(x, narrow);
      return b.copy(narrow, y);
    }
  b.fail({fmt::format("reduce_precision to {} bits from 2^{} on has no operator in CANN, only bf16 (7, -126) and f16 "
                      "(10, -14); train on the device cpu",
                      bits, exponent)});
}

void callIsNan(Builder &b) { b.call(op::NeTensor, b.operand(0), b.operand(0), b.result()); }

} // namespace kerf::runtime::ascend
