// SPDX-License-Identifier: Apache-2.0
// Quantization to 8-bit floats: verifier, sharding rule and gradient.
#include "CompositeRules.h"
#include "kerf/Dialect/Kerf/Quantize.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

LogicalResult QuantizeOp::verify() {
  if (tensorType(getOperand()).getShape() != getType().getShape())
    return emitOpError() << "has the result " << getType() << " of the operand " << getOperand().getType()
                         << "; their shapes must agree";
  auto magnitude = tensorType(getMagnitude());
  if (magnitude.getRank() != 0 || magnitude.getElementType() != tensorType(getOperand()).getElementType())
    return emitOpError() << "has a magnitude of type " << magnitude << " for an operand of type "
                         << getOperand().getType() << "; it must be a scalar with the same element type";
  return success();
}

// ([i, j], []) -> ([i, j])
Rule QuantizeOp::getShardingRule() {
  RuleWriter writer;
  FactorMap dims = elementwiseRule(shapeOf(getResult()), 1, 1, {}).results[0];
  writer.rule.factors = elementwiseRule(shapeOf(getResult()), 1, 1, {}).factors;
  writer.rule.operands = {dims, {}};
  writer.rule.results = {dims};
  return writer.rule;
}

LogicalResult QuantizeOp::buildGradient(OpBuilder &, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                        SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(2, Value());
  if (wanted[0])
    operandGradients[0] = resultGradients[0];
  return success();
}

QuantizedFactor kerf::ir::quantized(Emitter &emit, Value x, Type format) {
  Value size = AbsOp::create(emit.builder, emit.loc, x.getType(), x);
  Value magnitude = emit.reduce(size, ReduceKindIR::max, firstDims(tensorType(x).getRank()));
  magnitude.getDefiningOp()->setAttr(KerfDialect::kPerMicrobatchAttr, emit.builder.getUnitAttr());
  auto type = RankedTensorType::get(tensorType(x).getShape(), format);
  return {QuantizeOp::create(emit.builder, emit.loc, type, x, magnitude), magnitude};
}
