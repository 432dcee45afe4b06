// SPDX-License-Identifier: Apache-2.0
// softmax, gelu, layer_norm and rms_norm with their backward ops: verifiers, sharding rules, gradients, decompositions.
#include "CompositeRules.h"
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

static int64_t lastDim(Value value) { return tensorType(value).getRank() - 1; }
static int64_t lastSize(Value value) { return tensorType(value).getShape().back(); }
static ArrayRef<int64_t> leadingShape(Value value) { return tensorType(value).getShape().drop_back(); }

//===-- softmax ---------------------------------------------------------------------------------------------------===//

static Rule softmaxRule(Operation *op, int64_t dimension) {
  RuleWriter writer;
  FactorMap map = writer.dims("i", tensorType(op->getResult(0)).getShape());
  Factor &cut = writer.rule.factors[dimension];
  cut.name = "v";
  cut.kind = FactorKind::Decomposed;
  writer.rule.operands.assign(op->getNumOperands(), map);
  writer.rule.results = {map};
  return writer.rule;
}

LogicalResult SoftmaxOp::verify() { return checkDimension(*this, getDimension(), getOperand()); }
Rule SoftmaxOp::getShardingRule() { return softmaxRule(*this, getDimension()); }
double SoftmaxOp::getFlops() { return kSoftmaxFlops * elements(getResult()); }
KernelClass SoftmaxOp::getKernelClass() { return KernelClass::Reduction; }

LogicalResult SoftmaxOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                       SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(1, Value());
  if (wanted[0])
    operandGradients[0] = SoftmaxBackwardOp::create(builder, getLoc(), getResult().getType(), getResult(),
                                                    resultGradients[0], getDimensionAttr());
  return success();
}

SmallVector<Value> SoftmaxOp::decompose(OpBuilder &builder) {
  Emitter emit{builder, getLoc()};
  Value x = getOperand();
  int64_t dim = getDimension();
  // The maximum is subtracted first, so that no exponential overflows.
  Value shifted = emit.subtract(x, emit.broadcastAlong(emit.reduce(x, ReduceKindIR::max, {dim}), x, dim));
  Value exponentials = emit.exponential(shifted);
  return {emit.divide(exponentials, emit.broadcastAlong(emit.sum(exponentials, {dim}), x, dim))};
}

LogicalResult SoftmaxBackwardOp::verify() { return checkDimension(*this, getDimension(), getOutput()); }
Rule SoftmaxBackwardOp::getShardingRule() { return softmaxRule(*this, getDimension()); }
double SoftmaxBackwardOp::getFlops() { return kSoftmaxBackwardFlops * elements(getResult()); }
KernelClass SoftmaxBackwardOp::getKernelClass() { return KernelClass::Reduction; }

SmallVector<Value> SoftmaxBackwardOp::decompose(OpBuilder &builder) {
  Emitter emit{builder, getLoc()};
  int64_t dim = getDimension();
  Value total = emit.sum(emit.multiply(getOutput(), getGradient()), {dim});
  return {emit.multiply(getOutput(), emit.subtract(getGradient(), emit.broadcastAlong(total, getOutput(), dim)))};
}

//===-- gelu ------------------------------------------------------------------------------------------------------===//

static constexpr double kTanhScale = 0.79788456080286535588; // sqrt(2 / pi)
static constexpr double kTanhCubic = 0.044715;               // Hendrycks and Gimpel, Gaussian Error Linear Units, 2016

/// tanh(sqrt(2/pi) * (x + 0.044715 x^3))
static Value geluTanh(Emitter &emit, Value x, Value square) {
  Value cube = emit.multiply(square, x);
  return emit.tanh(
      emit.multiply(emit.splat(kTanhScale, x), emit.add(x, emit.multiply(emit.splat(kTanhCubic, x), cube))));
}

/// 0.5 * (1 + erf(x / sqrt(2)))
static Value normalDistribution(Emitter &emit, Value x) {
  Value erf = emit.erf(emit.multiply(x, emit.splat(1.0 / std::numbers::sqrt2, x)));
  return emit.multiply(emit.splat(0.5, x), emit.add(emit.splat(1.0, x), erf));
}

LogicalResult GeluOp::verify() { return success(); }
Rule GeluOp::getShardingRule() { return elementwise(*this, {}); }
double GeluOp::getFlops() { return kGeluFlops * elements(getResult()); }
KernelClass GeluOp::getKernelClass() { return KernelClass::Pointwise; }

LogicalResult GeluOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                    SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(1, Value());
  if (wanted[0])
    operandGradients[0] = GeluBackwardOp::create(builder, getLoc(), getResult().getType(), getOperand(),
                                                 resultGradients[0], getApproximateAttr());
  return success();
}

SmallVector<Value> GeluOp::decompose(OpBuilder &builder) {
  Emitter emit{builder, getLoc()};
  Value x = getOperand();
  if (!getApproximate())
    return {emit.multiply(x, normalDistribution(emit, x))};
  Value tanh = geluTanh(emit, x, emit.multiply(x, x));
  return {emit.multiply(emit.multiply(emit.splat(0.5, x), x), emit.add(emit.splat(1.0, x), tanh))};
}

LogicalResult GeluBackwardOp::verify() { return success(); }
Rule GeluBackwardOp::getShardingRule() { return elementwise(*this, {{1}}); }
double GeluBackwardOp::getFlops() { return kGeluBackwardFlops * elements(getResult()); }
KernelClass GeluBackwardOp::getKernelClass() { return KernelClass::Pointwise; }

SmallVector<Value> GeluBackwardOp::decompose(OpBuilder &builder) {
  Emitter emit{builder, getLoc()};
  Value x = getOperand();
  Value square = emit.multiply(x, x);
  if (!getApproximate()) {
    // (x Phi(x))' = Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi)
    Value density = emit.multiply(emit.splat(std::numbers::inv_sqrtpi / std::numbers::sqrt2, x),
                                  emit.exponential(emit.multiply(emit.splat(-0.5, x), square)));
    Value slope = emit.add(normalDistribution(emit, x), emit.multiply(x, density));
    return {emit.multiply(getGradient(), slope)};
  }
  // t = tanh(u): 0.5 (1 + t) + 0.5 x (1 - t^2) u', u' = sqrt(2/pi) (1 + 3 * 0.044715 x^2)
  Value one = emit.splat(1.0, x);
  Value half = emit.splat(0.5, x);
  Value tanh = geluTanh(emit, x, square);
  Value inner =
      emit.multiply(emit.splat(kTanhScale, x), emit.add(one, emit.multiply(emit.splat(3.0 * kTanhCubic, x), square)));
  Value sech = emit.subtract(one, emit.multiply(tanh, tanh));
  Value slope = emit.add(emit.multiply(half, emit.add(one, tanh)),
                         emit.multiply(emit.multiply(half, x), emit.multiply(sech, inner)));
  return {emit.multiply(getGradient(), slope)};
}

//===-- layer_norm and rms_norm -----------------------------------------------------------------------------------===//

/// The shapes of values around a norm: the operand's shape, that without the last dimension, or the
/// last dimension alone.
enum class NormShape { Whole, Rows, Last };

/// Returns the sharding rule of a norm: leading dimensions may be sharded as they are, the last one after
/// decomposition. Results that a backward op sums over rows lack the leading factors.
static Rule normRule(Value operand, ArrayRef<NormShape> operands, ArrayRef<NormShape> results) {
  RuleWriter writer;
  FactorMap rows = writer.dims("i", leadingShape(operand));
  FactorMap last = {{writer.factor("d", lastSize(operand), FactorKind::Decomposed)}};
  auto mapOf = [&](NormShape shape) {
    return shape == NormShape::Whole ? rows + last : shape == NormShape::Rows ? rows : last;
  };
  for (NormShape shape : operands)
    writer.rule.operands.push_back(mapOf(shape));
  for (NormShape shape : results)
    writer.rule.results.push_back(mapOf(shape));
  return writer.rule;
}

static LogicalResult checkHasLastDimension(Operation *op, Value operand) {
  if (tensorType(operand).getRank() > 0)
    return success();
  return op->emitOpError() << "operand has rank 0, but should have at least 1";
}

/// Returns the means over the last dimension.
static Value lastMean(Emitter &emit, Value x) {
  Value total = emit.sum(x, {lastDim(x)});
  return emit.divide(total, emit.splat(static_cast<double>(lastSize(x)), total));
}

/// Returns the sums over all dimensions but the last.
static Value rowSum(Emitter &emit, Value x) { return emit.sum(x, firstDims(lastDim(x))); }

LogicalResult LayerNormOp::verify() {
  if (failed(checkHasLastDimension(*this, getOperand())) ||
      failed(checkShape(*this, "scale", getScale(), {lastSize(getOperand())})) ||
      failed(checkShape(*this, "bias", getBias(), {lastSize(getOperand())})) ||
      failed(checkShape(*this, "result", getResult(), tensorType(getOperand()).getShape())) ||
      failed(checkShape(*this, "mean", getMean(), leadingShape(getOperand()))))
    return failure();
  return checkShape(*this, "rstd", getRstd(), leadingShape(getOperand()));
}

Rule LayerNormOp::getShardingRule() {
  return normRule(getOperand(), {NormShape::Whole, NormShape::Last, NormShape::Last},
                  {NormShape::Whole, NormShape::Rows, NormShape::Rows});
}
double LayerNormOp::getFlops() { return kLayerNormFlops * elements(getResult()); }
KernelClass LayerNormOp::getKernelClass() { return KernelClass::Reduction; }

LogicalResult LayerNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                         SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(3, Value());
  if (failed(refuseGradient(*this, "mean", resultGradients[1])) ||
      failed(refuseGradient(*this, "rstd", resultGradients[2])))
    return failure();
  auto backward =
      LayerNormBackwardOp::create(builder, getLoc(), getOperand().getType(), getScale().getType(), getBias().getType(),
                                  getOperand(), getScale(), getMean(), getRstd(), resultGradients[0]);
  for (int i = 0; i < 3; ++i)
    if (wanted[i])
      operandGradients[i] = backward->getResult(i);
  return success();
}

SmallVector<Value> LayerNormOp::decompose(OpBuilder &builder) {
  Emitter emit{builder, getLoc()};
  Value x = getOperand();
  Value mean = lastMean(emit, x);
  Value deviation = emit.subtract(x, emit.broadcastAlong(mean, x, lastDim(x)));
  Value variance = lastMean(emit, emit.multiply(deviation, deviation));
  Value rstd = emit.rsqrt(emit.add(variance, emit.splat(getEpsilon().convertToDouble(), variance)));
  Value normalized = emit.multiply(deviation, emit.broadcastAlong(rstd, x, lastDim(x)));
  Value y = emit.add(emit.multiply(normalized, emit.broadcastLast(getScale(), x)), emit.broadcastLast(getBias(), x));
  return {y, mean, rstd};
}

LogicalResult LayerNormBackwardOp::verify() {
  if (failed(checkHasLastDimension(*this, getOperand())) ||
      failed(checkShape(*this, "scale", getScale(), {lastSize(getOperand())})) ||
      failed(checkShape(*this, "mean", getMean(), leadingShape(getOperand()))) ||
      failed(checkShape(*this, "rstd", getRstd(), leadingShape(getOperand()))) ||
      failed(checkShape(*this, "gradient", getGradient(), tensorType(getOperand()).getShape())) ||
      failed(checkShape(*this, "operand's gradient", getOperandGradient(), tensorType(getOperand()).getShape())) ||
      failed(checkShape(*this, "scale's gradient", getScaleGradient(), {lastSize(getOperand())})))
    return failure();
  return checkShape(*this, "bias's gradient", getBiasGradient(), {lastSize(getOperand())});
}

Rule LayerNormBackwardOp::getShardingRule() {
  Rule rule =
      normRule(getOperand(), {NormShape::Whole, NormShape::Last, NormShape::Rows, NormShape::Rows, NormShape::Whole},
               {NormShape::Whole, NormShape::Last, NormShape::Last});
  RuleWriter writer{std::move(rule)};
  writer.linear({4}, {0, 1, 2});
  return writer.rule;
}
double LayerNormBackwardOp::getFlops() { return kLayerNormBackwardFlops * elements(getOperand()); }
KernelClass LayerNormBackwardOp::getKernelClass() { return KernelClass::Reduction; }

SmallVector<Value> LayerNormBackwardOp::decompose(OpBuilder &builder) {
  Emitter emit{builder, getLoc()};
  Value x = getOperand();
  Value dy = getGradient();
  int64_t last = lastDim(x);
  Value rstd = emit.broadcastAlong(getRstd(), x, last);
  Value normalized = emit.multiply(emit.subtract(x, emit.broadcastAlong(getMean(), x, last)), rstd);
  Value scaled = emit.multiply(dy, emit.broadcastLast(getScale(), x));
  Value product = emit.multiply(dy, normalized);
  // dx = rstd * (g - mean(g) - normalized * mean(g * normalized)), g = dy * scale
  Value meanScaled = emit.broadcastAlong(lastMean(emit, scaled), x, last);
  Value meanProduct = emit.broadcastAlong(lastMean(emit, emit.multiply(scaled, normalized)), x, last);
  Value dx =
      emit.multiply(rstd, emit.subtract(emit.subtract(scaled, meanScaled), emit.multiply(normalized, meanProduct)));
  return {dx, rowSum(emit, product), rowSum(emit, dy)};
}

LogicalResult RmsNormOp::verify() {
  if (failed(checkHasLastDimension(*this, getOperand())) ||
      failed(checkShape(*this, "scale", getScale(), {lastSize(getOperand())})) ||
      failed(checkShape(*this, "result", getResult(), tensorType(getOperand()).getShape())))
    return failure();
  return checkShape(*this, "rstd", getRstd(), leadingShape(getOperand()));
}

Rule RmsNormOp::getShardingRule() {
  return normRule(getOperand(), {NormShape::Whole, NormShape::Last}, {NormShape::Whole, NormShape::Rows});
}
double RmsNormOp::getFlops() { return kRmsNormFlops * elements(getResult()); }
KernelClass RmsNormOp::getKernelClass() { return KernelClass::Reduction; }

LogicalResult RmsNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                       SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(2, Value());
  if (failed(refuseGradient(*this, "rstd", resultGradients[1])))
    return failure();
  auto backward = RmsNormBackwardOp::create(builder, getLoc(), getOperand().getType(), getScale().getType(),
                                            getOperand(), getScale(), getRstd(), resultGradients[0]);
  for (int i = 0; i < 2; ++i)
    if (wanted[i])
      operandGradients[i] = backward->getResult(i);
  return success();
}

SmallVector<Value> RmsNormOp::decompose(OpBuilder &builder) {
  Emitter emit{builder, getLoc()};
  Value x = getOperand();
  Value meanSquare = lastMean(emit, emit.multiply(x, x));
  Value rstd = emit.rsqrt(emit.add(meanSquare, emit.splat(getEpsilon().convertToDouble(), meanSquare)));
  Value normalized = emit.multiply(x, emit.broadcastAlong(rstd, x, lastDim(x)));
  return {emit.multiply(normalized, emit.broadcastLast(getScale(), x)), rstd};
}

LogicalResult RmsNormBackwardOp::verify() {
  if (failed(checkHasLastDimension(*this, getOperand())) ||
      failed(checkShape(*this, "scale", getScale(), {lastSize(getOperand())})) ||
      failed(checkShape(*this, "rstd", getRstd(), leadingShape(getOperand()))) ||
      failed(checkShape(*this, "gradient", getGradient(), tensorType(getOperand()).getShape())) ||
      failed(checkShape(*this, "operand's gradient", getOperandGradient(), tensorType(getOperand()).getShape())))
    return failure();
  return checkShape(*this, "scale's gradient", getScaleGradient(), {lastSize(getOperand())});
}

Rule RmsNormBackwardOp::getShardingRule() {
  RuleWriter writer{normRule(getOperand(), {NormShape::Whole, NormShape::Last, NormShape::Rows, NormShape::Whole},
                             {NormShape::Whole, NormShape::Last})};
  writer.linear({3}, {0, 1});
  return writer.rule;
}
double RmsNormBackwardOp::getFlops() { return kRmsNormBackwardFlops * elements(getOperand()); }
KernelClass RmsNormBackwardOp::getKernelClass() { return KernelClass::Reduction; }

SmallVector<Value> RmsNormBackwardOp::decompose(OpBuilder &builder) {
  Emitter emit{builder, getLoc()};
  Value x = getOperand();
  Value dy = getGradient();
  Value rstd = emit.broadcastAlong(getRstd(), x, lastDim(x));
  Value normalized = emit.multiply(x, rstd);
  Value scaled = emit.multiply(dy, emit.broadcastLast(getScale(), x));
  Value meanProduct = emit.broadcastAlong(lastMean(emit, emit.multiply(scaled, normalized)), x, lastDim(x));
  Value dx = emit.multiply(rstd, emit.subtract(scaled, emit.multiply(normalized, meanProduct)));
  return {dx, rowSum(emit, emit.multiply(dy, normalized))};
}
