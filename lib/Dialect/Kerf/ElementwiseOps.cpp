// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: gradients and folds. Their sharding rules are generated from ElementwiseOps.td: every dimension may
// be sharded, and a partial sum may pass through where the op is linear.
#include "kerf/Dialect/Kerf/Emit.h"
#include "kerf/Package/Precision.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include <numbers>

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

namespace {

/// Sets the gradient of a unary op's operand to the result of `build`, if it is wanted.
LogicalResult unaryGradient(Operation *op, ArrayRef<bool> wanted, SmallVectorImpl<Value> &gradients,
                            function_ref<Value()> build) {
  gradients.assign(1, Value());
  if (wanted[0] && isFloat(op->getOperand(0)))
    gradients[0] = build();
  return success();
}

/// Sets the gradients of a binary op's operands to the results of two functions, each if it is wanted.
LogicalResult binaryGradient(Operation *op, ArrayRef<bool> wanted, SmallVectorImpl<Value> &gradients,
                             function_ref<Value()> buildLhs, function_ref<Value()> buildRhs) {
  gradients.assign(2, Value());
  if (wanted[0] && isFloat(op->getOperand(0)))
    gradients[0] = buildLhs();
  if (wanted[1] && isFloat(op->getOperand(1)))
    gradients[1] = buildRhs();
  return success();
}

/// Returns the number that all elements of `value` equal, if it is a constant behind broadcasts, reshapes and
/// conversions between floating-point types; nothing otherwise.
std::optional<double> splatValue(Value value) {
  auto isThrough = [](Operation *op) {
    return isa_and_nonnull<BroadcastInDimOp, ReshapeOp>(op) ||
           (isa_and_nonnull<ConvertOp>(op) && isFloat(op->getResult(0)));
  };
  while (isThrough(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !elements.isSplat())
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType())) {
    APFloat number = elements.getSplatValue<APFloat>();
    bool losesInfo;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
    return number.convertToDouble();
  }
  return static_cast<double>(elements.getSplatValue<APInt>().getSExtValue());
}

} // namespace

//===-- one operand -----------------------------------------------------------------------------------------------===//

// Each gradient is written with the op's result y where this is cheaper than with its operand x.

LogicalResult NegateOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                      SmallVectorImpl<Value> &operandGradients) {
  return unaryGradient(*this, wanted, operandGradients,
                       [&]() -> Value { return NegateOp::create(builder, getLoc(), getType(), resultGradients[0]); });
}

LogicalResult AbsOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                   SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  return unaryGradient(*this, wanted, operandGradients, [&] { // dy * sign(x): 0 at 0
    return emit.multiply(resultGradients[0], SignOp::create(builder, getLoc(), getType(), getOperand()));
  });
}

LogicalResult ExponentialOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                           SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  return unaryGradient(*this, wanted, operandGradients, [&] { return emit.multiply(resultGradients[0], getResult()); });
}

LogicalResult LogOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                   SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  return unaryGradient(*this, wanted, operandGradients, [&] { return emit.divide(resultGradients[0], getOperand()); });
}

LogicalResult SqrtOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                    SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  return unaryGradient(*this, wanted, operandGradients, // dy / (2y)
                       [&] { return emit.divide(resultGradients[0], emit.add(getResult(), getResult())); });
}

LogicalResult RsqrtOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                     SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  return unaryGradient(*this, wanted, operandGradients, [&]() -> Value { // -dy * y / (2x)
    Value half = emit.divide(emit.multiply(resultGradients[0], getResult()), emit.add(getOperand(), getOperand()));
    return NegateOp::create(builder, getLoc(), getType(), half);
  });
}

LogicalResult TanhOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                    SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  return unaryGradient(*this, wanted, operandGradients, [&] { // dy * (1 - y^2)
    Value one = emit.splat(1.0, getResult());
    // In 16 bits, y^2 near 1 would be rounded to 1 and leave no difference; (1 - y) * (1 + y) keeps it.
    Value slope = isHalf(getType().getElementType())
                      ? emit.multiply(emit.subtract(one, getResult()), emit.add(one, getResult()))
                      : emit.subtract(one, emit.multiply(getResult(), getResult()));
    return emit.multiply(resultGradients[0], slope);
  });
}

LogicalResult LogisticOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                        SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  return unaryGradient(*this, wanted, operandGradients, [&] { // dy * y * (1 - y)
    Value slope = emit.multiply(getResult(), emit.subtract(emit.splat(1.0, getResult()), getResult()));
    return emit.multiply(resultGradients[0], slope);
  });
}

LogicalResult ErfOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                   SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  return unaryGradient(*this, wanted, operandGradients, [&] { // dy * 2/sqrt(pi) * exp(-x^2)
    Value square = emit.multiply(getOperand(), getOperand());
    Value bell = emit.exponential(NegateOp::create(builder, getLoc(), getType(), square));
    return emit.multiply(resultGradients[0], emit.multiply(bell, emit.splat(2.0 * std::numbers::inv_sqrtpi, bell)));
  });
}

LogicalResult SineOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                    SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  return unaryGradient(*this, wanted, operandGradients, [&] {
    return emit.multiply(resultGradients[0], CosineOp::create(builder, getLoc(), getType(), getOperand()));
  });
}

LogicalResult CosineOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                      SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  return unaryGradient(*this, wanted, operandGradients, [&]() -> Value {
    Value product = emit.multiply(resultGradients[0], SineOp::create(builder, getLoc(), getType(), getOperand()));
    return NegateOp::create(builder, getLoc(), getType(), product);
  });
}

LogicalResult AtanOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                    SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  return unaryGradient(*this, wanted, operandGradients, [&] { // dy / (1 + x^2)
    Value square = emit.multiply(getOperand(), getOperand());
    return emit.divide(resultGradients[0], emit.add(emit.splat(1.0, square), square));
  });
}

LogicalResult ReducePrecisionOp::verify() {
  bool isDouble = tensorType(getOperand()).getElementType().isF64();
  int64_t mostBits = isDouble ? kMostMantissaBits<double> : kMostMantissaBits<float>,
          lowest = isDouble ? kLowestExponent<double> : kLowestExponent<float>;
  int64_t bits = getMantissaBits(), exponent = getMinExponent();
  if (bits < 0 || bits > mostBits)
    return emitOpError() << "mantissa_bits is " << bits << ", but must be 0 to " << mostBits << " in "
                         << tensorType(getOperand()).getElementType();
  if (exponent < lowest || exponent > 0)
    return emitOpError() << "min_exponent is " << exponent << ", but must be " << lowest << " to 0 in "
                         << tensorType(getOperand()).getElementType();
  return success();
}

LogicalResult ReducePrecisionOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients,
                                               ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGradients) {
  return unaryGradient(*this, wanted, operandGradients, [&]() -> Value {
    return ReducePrecisionOp::create(builder, getLoc(), getType(), resultGradients[0], getMantissaBitsAttr(),
                                     getMinExponentAttr());
  });
}

LogicalResult ConvertOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                       SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  return unaryGradient(*this, wanted, operandGradients, [&] { // an integer operand has no gradient
    return isFloat(getResult()) ? emit.convert(resultGradients[0], tensorType(getOperand()).getElementType()) : Value();
  });
}

Rule ConvertOp::getShardingRule() {
  bool linear = isFloat(getOperand()) && isFloat(getResult());
  return elementwise(*this, linear ? std::vector<std::vector<int>>{{0}} : std::vector<std::vector<int>>{});
}

OpFoldResult ConvertOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  auto constant = dyn_cast_or_null<SplatElementsAttr>(adaptor.getOperand());
  auto to = dyn_cast<FloatType>(tensorType(getResult()).getElementType());
  if (!constant || !to || !isa<FloatType>(constant.getElementType()))
    return {};
  APFloat number = constant.getSplatValue<APFloat>();
  bool losesInfo;
  number.convert(to.getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
  return DenseElementsAttr::get(tensorType(getResult()), number);
}

/// The sum of 16-bit elements may be f32. If only a conversion to f32 reads such a sum, the sum gives f32 directly: the
/// gradient is then rounded once only, and ranks add up f32 values. The conversion is moved above ops that move or add
/// elements, so that it reaches the sum.
LogicalResult ConvertOp::canonicalize(ConvertOp op, PatternRewriter &rewriter) {
  Operation *source = op.getOperand().getDefiningOp();
  auto type = op.getResult().getType();
  if (!source || !op.getOperand().hasOneUse() || !type.getElementType().isF32() ||
      !isHalf(tensorType(op.getOperand()).getElementType()))
    return failure();
  auto reduce = dyn_cast<ReduceOp>(source);
  if (isa<DotGeneralOp>(source) || (reduce && reduce.getKind() == ReduceKindIR::sum)) {
    rewriter.modifyOpInPlace(source, [&] { source->getResult(0).setType(type); });
    rewriter.replaceOp(op, source->getResult(0));
    return success();
  }
  if (!isa<AddOp, TransposeOp, ReshapeOp, SliceOp, PadOp, ConcatenateOp>(source))
    return failure();
  rewriter.setInsertionPoint(source);
  SmallVector<Value> operands;
  for (Value operand : source->getOperands()) {
    auto wide = RankedTensorType::get(tensorType(operand).getShape(), type.getElementType());
    auto convert = ConvertOp::create(rewriter, op.getLoc(), wide, operand);
    convert->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    operands.push_back(convert);
  }
  rewriter.replaceOp(op, cloneWithTypes(rewriter, source, operands, Type(type)));
  return success();
}

//===-- two operands ----------------------------------------------------------------------------------------------===//

LogicalResult AddOp::buildGradient(OpBuilder &, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                   SmallVectorImpl<Value> &operandGradients) {
  auto same = [&] { return resultGradients[0]; };
  return binaryGradient(*this, wanted, operandGradients, same, same);
}

LogicalResult SubtractOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                        SmallVectorImpl<Value> &operandGradients) {
  return binaryGradient(
      *this, wanted, operandGradients, [&] { return resultGradients[0]; },
      [&]() -> Value { return NegateOp::create(builder, getLoc(), getType(), resultGradients[0]); });
}

LogicalResult MultiplyOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                        SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  return binaryGradient(
      *this, wanted, operandGradients, [&] { return emit.multiply(resultGradients[0], getRhs()); },
      [&] { return emit.multiply(resultGradients[0], getLhs()); });
}

LogicalResult DivideOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                      SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  // With q = dy / rhs: dlhs = q, drhs = -q * z.
  Value quotient;
  auto buildQuotient = [&] { return quotient = quotient ? quotient : emit.divide(resultGradients[0], getRhs()); };
  return binaryGradient(*this, wanted, operandGradients, buildQuotient, [&]() -> Value {
    return NegateOp::create(builder, getLoc(), getType(), emit.multiply(buildQuotient(), getResult()));
  });
}

/// Computes the gradients of maximum and minimum: the gradient goes to the operand that `wins` over the other. Where
/// they are equal, each gets half, as in PyTorch's max of two tensors. But a constant operand is a bound (relu, clamp);
/// at the bound, the slope is 0, as in PyTorch's relu. An operand wins over a bound where the result does, and the
/// result is compared, because the ops that read it need it in the backward pass too.
static LogicalResult extremumGradient(Operation *op, Comparison wins, OpBuilder &builder, Value gradient,
                                      ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, op->getLoc()};
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  bool isBound = splatValue(lhs) || splatValue(rhs);
  Value atTie; // the share of an operand where both are equal
  auto share = [&](Value x, Value other) {
    if (!atTie) {
      Value zero = emit.splat(0.0, gradient);
      Value half = isBound ? zero : emit.multiply(gradient, emit.splat(0.5, gradient));
      atTie = isBound ? zero : emit.select(emit.compare(lhs, rhs, Comparison::EQ), half, zero);
    }
    return emit.select(emit.compare(splatValue(other) ? op->getResult(0) : x, other, wins), gradient, atTie);
  };
  return binaryGradient(op, wanted, operandGradients, [&] { return share(lhs, rhs); }, [&] { return share(rhs, lhs); });
}

LogicalResult MaximumOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                       SmallVectorImpl<Value> &operandGradients) {
  return extremumGradient(*this, Comparison::GT, builder, resultGradients[0], wanted, operandGradients);
}

LogicalResult MinimumOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                       SmallVectorImpl<Value> &operandGradients) {
  return extremumGradient(*this, Comparison::LT, builder, resultGradients[0], wanted, operandGradients);
}

/// Returns n * x^(n-1) for a constant n; null where this is 0 everywhere.
static Value slopeOfPower(Emitter &emit, PowerOp op, double n) {
  Value x = op.getLhs();
  if (n == 0)
    return {};
  if (n == 1)
    return emit.splat(1.0, x);
  if (n == 2)
    return emit.add(x, x);
  if (n == 3)
    return emit.multiply(emit.multiply(x, x), emit.splat(3.0, x));
  if (n == 0.5) // the slope is 1 / (2 sqrt(x)), where sqrt(x) is the op's result
    return emit.divide(emit.splat(0.5, x), op.getResult());
  Value lower = PowerOp::create(emit.builder, emit.loc, x.getType(), x, emit.splat(n - 1, x));
  return emit.multiply(lower, emit.splat(n, x));
}

LogicalResult PowerOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                     SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  Value x = getLhs(), n = getRhs(), gradient = resultGradients[0];
  auto ofBase = [&]() -> Value {
    if (std::optional<double> known = splatValue(n)) {
      Value slope = slopeOfPower(emit, *this, *known);
      return slope ? emit.multiply(gradient, slope) : Value();
    }
    // The slope is n * x^(n-1), but 0 where n is 0, because 0 * 0^-1 would be NaN.
    Value zero = emit.splat(0.0, x);
    Value lower = PowerOp::create(builder, getLoc(), getType(), x, emit.subtract(n, emit.splat(1.0, n)));
    Value slope = emit.select(emit.compare(n, zero, Comparison::EQ), zero, emit.multiply(n, lower));
    return emit.multiply(gradient, slope);
  };
  auto ofExponent = [&]() -> Value {
    // The slope is y * log(x), but 0 (the limit) where x is 0 and n is not negative, because 0 * log(0) would be NaN.
    Value zero = emit.splat(0.0, x);
    Value atZero = emit.compare(x, zero, Comparison::EQ), notNegative = emit.compare(n, zero, Comparison::GE);
    Value isLimit = AndOp::create(builder, getLoc(), atZero.getType(), atZero, notNegative);
    Value slope = emit.select(isLimit, zero, emit.multiply(getResult(), emit.log(x)));
    return emit.multiply(gradient, slope);
  };
  return binaryGradient(*this, wanted, operandGradients, ofBase, ofExponent);
}

//===-- three operands --------------------------------------------------------------------------------------------===//

LogicalResult SelectOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                      SmallVectorImpl<Value> &operandGradients) {
  Emitter emit{builder, getLoc()};
  operandGradients.assign(3, Value());
  if (!isFloat(getResult()) || !(wanted[1] || wanted[2]))
    return success();
  Value gradient = resultGradients[0], zero = emit.splat(0.0, gradient);
  if (wanted[1])
    operandGradients[1] = emit.select(getPredicate(), gradient, zero);
  if (wanted[2])
    operandGradients[2] = emit.select(getPredicate(), zero, gradient);
  return success();
}
