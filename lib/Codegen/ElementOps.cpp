// SPDX-License-Identifier: Apache-2.0
#include "ElementOps.h"
#include "kerf/Package/Precision.h"
#include "kerf/Support/HashRandom.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include <algorithm>
#include <fmt/format.h>
#include <iterator>

using namespace mlir;

namespace kerf::codegen {

using FloatOrder = arith::CmpFPredicate;
using package::Instruction;

static int64_t lanesOf(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getNumElements() : 1;
}

Type vectorType(Type element, int64_t lanes) { return lanes == 1 ? element : VectorType::get({lanes}, element); }

std::string routineName(const Instruction &instruction, DType dtype) {
  auto approximate = instruction.attrs.find("approximate");
  bool byTanh = approximate != instruction.attrs.end() && *approximate == true;
  return fmt::format("{}{}.{}", instruction.op, byTanh ? ".tanh" : "",
                     toString(dtype == DType::F64 ? DType::F64 : DType::F32));
}

Status checkTypes(const package::Function &kernel) {
  const bool isRow = package::isRowKernel(kernel);
  auto storable = [isRow](DType dtype, std::string_view op) {
    // Codes of gradients (i8) are only converted and packed, places of elements in a row (i32, and i16 where they are
    // sent) only converted and looked up, and keys of random numbers (i32) only broadcast and hashed.
    return dtype == DType::F64 || dtype == DType::F32 || isHalf(dtype) || dtype == DType::Bool ||
           (isRow && (dtype == DType::I16 || dtype == DType::I32)) ||
           (dtype == DType::I8 && (op == "convert" || op == "pack" || op == "unpack")) ||
           (dtype == DType::I32 && (op == "broadcast_in_dim" || op == "random"));
  };
  for (const Instruction &instruction : kernel.body)
    for (const std::vector<int> &values : {instruction.operands, instruction.results})
      for (int value : values)
        if (DType dtype = kernel.values[size_t(value)].dtype; !storable(dtype, instruction.op))
          return Error{
              fmt::format("kernel '{}': {} has a value of type {}, but kernels have only floating types and bool",
                          kernel.name, instruction.op, toString(dtype))};
  if (isRow)
    for (const Instruction &instruction : kernel.body)
      if (const std::string &op = instruction.op; op != "constant" && op != "broadcast_in_dim" && op != "reduce" &&
                                                  !package::isRowOp(instruction) && !ElementOps::isInline(op))
        return Error{
            fmt::format("kernel '{}': {} calls a routine, which a kernel that reads its own reductions cannot; "
                        "compile with <no-native>",
                        kernel.name, op)};
  return ok();
}

Type ElementOps::registerType(DType dtype) const {
  return dtype == DType::F64                                                ? Type(builder.getF64Type())
         : dtype == DType::Bool                                             ? Type(builder.getI1Type())
         : dtype == DType::I8 || dtype == DType::I16 || dtype == DType::I32 ? Type(builder.getI32Type())
                                                                            : Type(builder.getF32Type());
}

Type ElementOps::memoryType(DType dtype) const {
  switch (dtype) {
  case DType::Bool:
  case DType::I8:
    return builder.getI8Type();
  case DType::BF16:
  case DType::I16:
    return builder.getI16Type();
  case DType::F16:
    return builder.getF16Type();
  default:
    return registerType(dtype);
  }
}

Value ElementOps::splat(Type type, TypedAttr element) const {
  if (auto vector = dyn_cast<VectorType>(type))
    element = DenseElementsAttr::get(vector, Attribute(element));
  return arith::ConstantOp::create(builder, loc, element);
}

Value ElementOps::floatConstant(Type type, double value) const {
  Type element = getElementTypeOrSelf(type);
  APFloat exact(value);
  bool inexact;
  exact.convert(cast<FloatType>(element).getFloatSemantics(), APFloat::rmNearestTiesToEven, &inexact);
  return splat(type, builder.getFloatAttr(element, exact));
}

Value ElementOps::integerConstant(Type type, uint64_t value) const {
  Type element = getElementTypeOrSelf(type);
  return splat(type, builder.getIntegerAttr(element, APInt(element.getIntOrFloatBitWidth(), value)));
}

Value ElementOps::constant(Type type, DType dtype, double value) const {
  return dtype == DType::Bool ? integerConstant(type, value != 0) : rounded(floatConstant(type, value), dtype);
}

Value ElementOps::rounded(Value value, DType dtype) const {
  const int64_t lanes = lanesOf(value.getType());
  if (dtype == DType::F16)
    return toRegister(arith::TruncFOp::create(builder, loc, vectorType(builder.getF16Type(), lanes), value), dtype);
  if (dtype == DType::I16)
    return toRegister(toMemory(value, dtype), dtype);
  if (dtype != DType::BF16)
    return value;
  // The operations of bf16FromFloat; the result stays in the upper 16 bits.
  Type word = vectorType(builder.getI32Type(), lanes);
  Value raw = arith::BitcastOp::create(builder, loc, word, value);
  Value magnitude = arith::AndIOp::create(builder, loc, raw, integerConstant(word, 0x7fffffff));
  Value isNan =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ugt, magnitude, integerConstant(word, 0x7f800000));
  Value odd = arith::AndIOp::create(builder, loc, arith::ShRUIOp::create(builder, loc, raw, integerConstant(word, 16)),
                                    integerConstant(word, 1));
  Value half = arith::AddIOp::create(builder, loc, raw, integerConstant(word, 0x7fff));
  Value up = arith::AddIOp::create(builder, loc, half, odd);
  Value quiet = arith::OrIOp::create(builder, loc, raw, integerConstant(word, 0x400000));
  Value chosen = arith::SelectOp::create(builder, loc, isNan, quiet, up);
  chosen = arith::AndIOp::create(builder, loc, chosen, integerConstant(word, 0xffff0000));
  return arith::BitcastOp::create(builder, loc, value.getType(), chosen);
}

Value ElementOps::toRegister(Value value, DType dtype) const {
  const int64_t lanes = lanesOf(value.getType());
  Type to = vectorType(registerType(dtype), lanes);
  if (dtype == DType::F16)
    return arith::ExtFOp::create(builder, loc, to, value);
  if (dtype == DType::BF16) {
    Type word = vectorType(builder.getI32Type(), lanes);
    Value low = arith::ExtUIOp::create(builder, loc, word, value);
    return arith::BitcastOp::create(builder, loc, to,
                                    arith::ShLIOp::create(builder, loc, low, integerConstant(word, 16)));
  }
  if (dtype == DType::Bool)
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, value, integerConstant(value.getType(), 0));
  if (dtype == DType::I8 || dtype == DType::I16)
    return arith::ExtSIOp::create(builder, loc, to, value);
  return value;
}

Value ElementOps::toMemory(Value value, DType dtype) const {
  const int64_t lanes = lanesOf(value.getType());
  Type to = vectorType(memoryType(dtype), lanes);
  if (dtype == DType::F16)
    return arith::TruncFOp::create(builder, loc, to, value);
  if (dtype == DType::BF16) {
    Type word = vectorType(builder.getI32Type(), lanes);
    Value raw = arith::BitcastOp::create(builder, loc, word, value);
    return arith::TruncIOp::create(builder, loc, to,
                                   arith::ShRUIOp::create(builder, loc, raw, integerConstant(word, 16)));
  }
  if (dtype == DType::Bool)
    return arith::ExtUIOp::create(builder, loc, to, value);
  if (dtype == DType::I8 || dtype == DType::I16)
    return arith::TruncIOp::create(builder, loc, to, value);
  return value;
}

Value ElementOps::convertElements(Value value, Type to) const {
  Type from = getElementTypeOrSelf(value.getType()), element = getElementTypeOrSelf(to);
  if (from == element)
    return value;
  if (from.isInteger(1) && element.isInteger(32))
    return arith::ExtUIOp::create(builder, loc, to, value);
  if (from.isInteger(1))
    return arith::UIToFPOp::create(builder, loc, to, value);
  if (from.isInteger(32))
    return arith::SIToFPOp::create(builder, loc, to, value);
  if (element.isInteger(32))
    return arith::FPToSIOp::create(builder, loc, to, value);
  if (element.isInteger(1))
    return arith::CmpFOp::create(builder, loc, FloatOrder::UNE, value, floatConstant(value.getType(), 0));
  if (from.isF32())
    return arith::ExtFOp::create(builder, loc, to, value);
  return arith::TruncFOp::create(builder, loc, to, value);
}

/// A NaN in `b` is selected because comparisons with NaN are false; a NaN in `a` is tested for.
Value ElementOps::minOrMax(bool largest, Value a, Value b) const {
  Value wins = arith::CmpFOp::create(builder, loc, largest ? FloatOrder::OGT : FloatOrder::OLT, a, b);
  Value isNan = arith::CmpFOp::create(builder, loc, FloatOrder::UNO, a, a);
  return arith::SelectOp::create(builder, loc, arith::OrIOp::create(builder, loc, wins, isNan), a, b);
}

/// For Bool, false is less than true.
Value ElementOps::compareElements(const Instruction &compare, Value a, Value b) const {
  using BitOrder = arith::CmpIPredicate;
  static constexpr struct {
    const char *direction;
    FloatOrder ofFloats;
    BitOrder ofBits;
  } kOrders[] = {{"EQ", FloatOrder::OEQ, BitOrder::eq},  {"NE", FloatOrder::UNE, BitOrder::ne},
                 {"LT", FloatOrder::OLT, BitOrder::ult}, {"LE", FloatOrder::OLE, BitOrder::ule},
                 {"GT", FloatOrder::OGT, BitOrder::ugt}, {"GE", FloatOrder::OGE, BitOrder::uge}};
  const auto &direction = compare.attrs["direction"];
  auto order = std::find_if(std::begin(kOrders), std::end(kOrders) - 1,
                            [&](const auto &one) { return direction == one.direction; });
  if (getElementTypeOrSelf(a.getType()).isInteger(1))
    return arith::CmpIOp::create(builder, loc, order->ofBits, a, b);
  return arith::CmpFOp::create(builder, loc, order->ofFloats, a, b);
}

/// Generates the operations of Precision<T>::operator(), one by one.
template <typename T> Value ElementOps::reducePrecisionAs(const Instruction &reduce, Value x) const {
  const Precision<T> precision(reduce.attrs["mantissa_bits"].get<int64_t>(),
                               reduce.attrs["min_exponent"].get<int64_t>());
  Type type = x.getType(), word = vectorType(builder.getIntegerType(8 * sizeof(T)), lanesOf(type));
  auto the = [&](uint64_t value) { return integerConstant(word, value); };
  Value raw = arith::BitcastOp::create(builder, loc, word, x);
  Value sign = arith::AndIOp::create(builder, loc, raw, the(precision.kSign));
  Value magnitude = arith::AndIOp::create(builder, loc, raw, the(~precision.kSign));
  Value size = arith::BitcastOp::create(builder, loc, type, magnitude);
  Value last = arith::ShRUIOp::create(builder, loc, magnitude, the(precision.dropped));
  Value odd = arith::AndIOp::create(builder, loc, last, the(precision.odd));
  Value up = arith::AddIOp::create(builder, loc, magnitude, the(precision.half));
  up = arith::AddIOp::create(builder, loc, up, odd);
  up = arith::AndIOp::create(builder, loc, up, the(precision.kept));
  Value normal = arith::BitcastOp::create(builder, loc, type, up);
  Value shifter = floatConstant(type, precision.shifter);
  Value small = arith::SubFOp::create(builder, loc, arith::AddFOp::create(builder, loc, size, shifter), shifter);
  Value isSmall = arith::CmpFOp::create(builder, loc, FloatOrder::OLT, size, floatConstant(type, precision.lowest));
  Value rounded = arith::SelectOp::create(builder, loc, isSmall, small, normal);
  Value isFinite =
      arith::CmpFOp::create(builder, loc, FloatOrder::OLE, size, floatConstant(type, std::numeric_limits<T>::max()));
  Value result = arith::SelectOp::create(builder, loc, isFinite, rounded, size);
  result = arith::BitcastOp::create(builder, loc, word, result);
  return arith::BitcastOp::create(builder, loc, type, arith::OrIOp::create(builder, loc, result, sign));
}

Value ElementOps::reducePrecision(const Instruction &reduce, Value x) const {
  return getElementTypeOrSelf(x.getType()).isF64() ? reducePrecisionAs<double>(reduce, x)
                                                   : reducePrecisionAs<float>(reduce, x);
}

Value ElementOps::signOf(Value x) const {
  Value zero = floatConstant(x.getType(), 0);
  Value isBelow = arith::CmpFOp::create(builder, loc, FloatOrder::OLT, x, zero);
  Value below = arith::SelectOp::create(builder, loc, isBelow, floatConstant(x.getType(), -1), x);
  Value isAbove = arith::CmpFOp::create(builder, loc, FloatOrder::OGT, x, zero);
  return arith::SelectOp::create(builder, loc, isAbove, floatConstant(x.getType(), 1), below);
}

Value ElementOps::random(Value key, Value index) const {
  Type word = key.getType();
  auto mixed = [&](Value x, uint64_t shift, uint64_t factor) -> Value {
    Value high = arith::ShRUIOp::create(builder, loc, x, integerConstant(word, shift));
    Value both = arith::XOrIOp::create(builder, loc, x, high);
    return factor ? arith::MulIOp::create(builder, loc, both, integerConstant(word, factor)).getResult() : both;
  };
  auto hash = [&](Value x) { return mixed(mixed(mixed(x, 16, kHashFirst), 15, kHashSecond), 16, 0); };
  Value first = hash(arith::AddIOp::create(builder, loc, index, key));
  Value bits = hash(arith::XOrIOp::create(builder, loc, first, key));
  bits = arith::ShRUIOp::create(builder, loc, bits, integerConstant(word, 8));
  Type type = vectorType(builder.getF32Type(), lanesOf(word));
  Value number = arith::SIToFPOp::create(builder, loc, type, bits); // fewer than 2^24, so the sign is clear
  return arith::MulFOp::create(builder, loc, number, floatConstant(type, 0x1p-24));
}

/// An op that kernels compute by inline instructions, and the function that generates them.
struct ElementOps::Inline {
  std::string_view op;
  Value (*code)(const ElementOps &ops, const Instruction &instruction, ValueRange x, Type to);

  template <typename Op> static Value made(const ElementOps &ops, const Instruction &, ValueRange x, Type) {
    Value first = x[0];
    if constexpr (Op::template hasTrait<OpTrait::OneOperand>())
      return Op::create(ops.builder, ops.loc, first);
    else if constexpr (Op::template hasTrait<OpTrait::NOperands<3>::Impl>())
      return Op::create(ops.builder, ops.loc, first, x[1], x[2]);
    else
      return Op::create(ops.builder, ops.loc, first, x[1]);
  }
  static const Inline *find(std::string_view op);
};

const ElementOps::Inline *ElementOps::Inline::find(std::string_view op) {
  using In = const Instruction &;
  static constexpr Inline kInlines[] = {
      {"add", made<arith::AddFOp>},
      {"subtract", made<arith::SubFOp>},
      {"multiply", made<arith::MulFOp>},
      {"divide", made<arith::DivFOp>},
      {"maximum", [](const ElementOps &ops, In, ValueRange x, Type) { return ops.minOrMax(true, x[0], x[1]); }},
      {"minimum", [](const ElementOps &ops, In, ValueRange x, Type) { return ops.minOrMax(false, x[0], x[1]); }},
      {"negate", made<arith::NegFOp>},
      {"abs", made<math::AbsFOp>},
      {"sign", [](const ElementOps &ops, In, ValueRange x, Type) { return ops.signOf(x[0]); }},
      {"sqrt", made<math::SqrtOp>},
      {"rsqrt",
       [](const ElementOps &ops, In, ValueRange x, Type) -> Value {
         Value root = math::SqrtOp::create(ops.builder, ops.loc, x[0]);
         return arith::DivFOp::create(ops.builder, ops.loc, ops.floatConstant(root.getType(), 1), root);
       }},
      {"floor", made<math::FloorOp>},
      {"ceil", made<math::CeilOp>},
      {"round_nearest_even", made<math::RoundEvenOp>},
      {"reduce_precision",
       [](const ElementOps &ops, In op, ValueRange x, Type) { return ops.reducePrecision(op, x[0]); }},
      {"compare", [](const ElementOps &ops, In op, ValueRange x, Type) { return ops.compareElements(op, x[0], x[1]); }},
      {"select", made<arith::SelectOp>},
      {"and", made<arith::AndIOp>},
      {"or", made<arith::OrIOp>},
      {"not",
       [](const ElementOps &ops, In, ValueRange x, Type) -> Value {
         return arith::XOrIOp::create(ops.builder, ops.loc, x[0], ops.integerConstant(x[0].getType(), 1));
       }},
      {"convert", [](const ElementOps &ops, In, ValueRange x, Type to) { return ops.convertElements(x[0], to); }},
      {"is_nan",
       [](const ElementOps &ops, In, ValueRange x, Type) -> Value {
         return arith::CmpFOp::create(ops.builder, ops.loc, FloatOrder::UNO, x[0], x[0]);
       }},
      {"stop_gradient", [](const ElementOps &, In, ValueRange x, Type) { return x[0]; }},
  };
  auto found = std::find_if(std::begin(kInlines), std::end(kInlines), [&](const Inline &one) { return one.op == op; });
  return found == std::end(kInlines) ? nullptr : found;
}

bool ElementOps::isInline(std::string_view op) { return op == kRandom || Inline::find(op) != nullptr; }

Value ElementOps::compute(const Instruction &instruction, ValueRange x, Type to) const {
  return Inline::find(instruction.op)->code(*this, instruction, x, to);
}

Value ElementOps::combine(const Instruction &reduce, Value sofar, Value value) const {
  if (reduce.attrs["kind"] == "sum")
    return arith::AddFOp::create(builder, loc, sofar, convertElements(value, sofar.getType()));
  return minOrMax(reduce.attrs["kind"] == "max", sofar, value);
}

Value ElementOps::neutral(const Instruction &reduce, Type type) const {
  if (reduce.attrs["kind"] == "sum")
    return floatConstant(type, 0);
  const double infinity = std::numeric_limits<double>::infinity();
  return floatConstant(type, reduce.attrs["kind"] == "max" ? -infinity : infinity);
}

} // namespace kerf::codegen
