// SPDX-License-Identifier: Apache-2.0
// take_along and its gradient: verifiers, sharding rules, lowering to shards.
#include "LookupRules.h"
#include "kerf/Dialect/Kerf/TakeAlong.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/TakeAlongOps.cpp.inc"

/// Checks the shapes that both ops have in common: `table` [b.., v, c..], indices [b.., t..], `slices` [b.., t.., c..].
template <typename Op>
static LogicalResult checkLookup(Op op, Value table, Value slices, StringRef tableName, StringRef slicesName) {
  ArrayRef<int64_t> whole = tensorType(table).getShape(), at = tensorType(op.getIndices()).getShape();
  auto batch = static_cast<int64_t>(op.getBatchDims()), size = static_cast<int64_t>(op.getSize());
  if (batch < 0 || batch >= static_cast<int64_t>(whole.size()) || batch > static_cast<int64_t>(at.size()))
    return op.emitOpError() << "has " << batch << " batch dimensions, but " << whole.size() << " dimensions of the "
                            << tableName << " and " << at.size()
                            << " of the indices; the first number must be below the second and at most the third";
  if (whole.take_front(batch) != at.take_front(batch))
    return op.emitOpError() << "indices are " << shapeText(at) << " and the " << tableName << " " << shapeText(whole)
                            << ", but should agree in the first " << batch << " dimensions";
  if (!op.getOffset() && whole[batch] != size)
    return op.emitOpError() << "size is " << size << ", but should be " << whole[batch] << ", the size of dimension "
                            << batch << " of the " << tableName;
  Type element = tensorType(table).getElementType(), sliceElement = tensorType(slices).getElementType();
  if (element != sliceElement)
    return op.emitOpError() << "has elements of " << element << " in the " << tableName << " and of " << sliceElement
                            << " in the " << slicesName << "; they must agree";
  SmallVector<int64_t> expected(at);
  llvm::append_range(expected, whole.drop_front(batch + 1));
  if (failed(checkShape(op, slicesName, slices, expected)))
    return failure();
  return checkOffset(op, op.getOffset());
}

namespace {

/// A writer of the sharding rules of both ops, with the factors b.., v and c.. of the table, and b.. and t..
/// of the indices.
struct TakeAlongRule : RuleWriter {
  FactorMap table, indices, slices;

  TakeAlongRule(Value tableValue, Value indexValue, int64_t batchDims) {
    ArrayRef<int64_t> whole = tensorType(tableValue).getShape(), at = tensorType(indexValue).getShape();
    // Partial results have to be summed, which is not supported for integers.
    bool isFloat = isa<FloatType>(tensorType(tableValue).getElementType());
    FactorMap batch = dims("b", whole.take_front(batchDims));
    FactorMap looked = {{factor("v", whole[batchDims], isFloat ? FactorKind::Cuttable : FactorKind::Replicated)}};
    FactorMap places = dims("t", at.drop_front(batchDims)), rest = dims("c", whole.drop_front(batchDims + 1));
    table = batch + looked + rest;
    indices = batch + places;
    slices = batch + places + rest;
  }
};

} // namespace

/// Emits the op on shards. Operand number `indices` is the indices; `table` is the sharding of the looked-up tensor.
template <typename Op>
static SmallVector<Value> localLookup(Op op, OpBuilder &builder, ValueRange operands, int indices,
                                      TypeRange resultTypes, const LocalizeContext &context, const Sharding &table) {
  Emitter emit{builder, op.getLoc()};
  SmallVector<Value> local = withZeroedPadding(builder, op, operands, indices, context);
  Value offset = shardOffset(emit, table.dims[op.getBatchDims()]);
  return {Op::create(builder, op.getLoc(), resultTypes[0], local[0], local[1], offset, op.getBatchDimsAttr(),
                     op.getSizeAttr())};
}

//===-- take_along ------------------------------------------------------------------------------------------------===//

LogicalResult TakeAlongOp::verify() { return checkLookup(*this, getOperand(), getResult(), "operand", "result"); }

// ([b, v, c], [b, t]) -> ([b, t, c])  v: reduction(sum)
Rule TakeAlongOp::getShardingRule() {
  TakeAlongRule writer(getOperand(), getIndices(), static_cast<int64_t>(getBatchDims()));
  writer.rule.operands = {writer.table, writer.indices};
  if (getOffset())
    writer.rule.operands.push_back({});
  writer.rule.results = {writer.slices};
  writer.linear({0}, {0});
  return writer.rule;
}

FailureOr<SmallVector<Value>> TakeAlongOp::localize(OpBuilder &builder, ValueRange operands, TypeRange resultTypes,
                                                    const LocalizeContext &context) {
  return localLookup(*this, builder, operands, 1, resultTypes, context, context.sharding.operands[0]);
}

void TakeAlongOp::describe(ArrayRef<Shape> operands, ArrayRef<Shape> results, Work &work) {
  countPickedBytesOnly(*this, operands, results, work);
}

LogicalResult TakeAlongOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                         SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(getNumOperands(), Value());
  if (wanted[0] && isa<FloatType>(getType().getElementType()))
    operandGradients[0] =
        TakeAlongBackwardOp::create(builder, getLoc(), getOperand().getType(), getIndices(), resultGradients[0],
                                    getOffset(), getBatchDimsAttr(), getSizeAttr());
  return success();
}

//===-- take_along_backward ---------------------------------------------------------------------------------------===//

LogicalResult TakeAlongBackwardOp::verify() {
  return checkLookup(*this, getResult(), getGradient(), "result", "gradient");
}

// ([b, t], [b, t, c]) -> ([b, v, c])  t: reduction(sum)
Rule TakeAlongBackwardOp::getShardingRule() {
  TakeAlongRule writer(getResult(), getIndices(), static_cast<int64_t>(getBatchDims()));
  writer.rule.operands = {writer.indices, writer.slices};
  if (getOffset())
    writer.rule.operands.push_back({});
  writer.rule.results = {writer.table};
  writer.linear({1}, {0});
  return writer.rule;
}

FailureOr<SmallVector<Value>> TakeAlongBackwardOp::localize(OpBuilder &builder, ValueRange operands,
                                                            TypeRange resultTypes, const LocalizeContext &context) {
  return localLookup(*this, builder, operands, 0, resultTypes, context, context.sharding.results[0]);
}

LogicalResult TakeAlongBackwardOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients,
                                                 ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(getNumOperands(), Value());
  if (wanted[1])
    operandGradients[1] = TakeAlongOp::create(builder, getLoc(), getGradient().getType(), resultGradients[0],
                                              getIndices(), getOffset(), getBatchDimsAttr(), getSizeAttr());
  return success();
}

double TakeAlongBackwardOp::getFlops() { return static_cast<double>(getGradient().getType().getNumElements()); }

KernelClass TakeAlongBackwardOp::getKernelClass() { return KernelClass::Gather; }
