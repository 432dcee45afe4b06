// SPDX-License-Identifier: Apache-2.0
// Calls of repeated layers, dropout, checks of gradients, and maps: verifiers and sharding rules. (The rule of
// sync_gradient is generated: it is elementwise, and no partial sum may pass through.)
#include "CompositeRules.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

//===-- call ------------------------------------------------------------------------------------------------------===//

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto callee = symbols.lookupNearestSymbolFrom<FunctionOpInterface>(*this, getCalleeAttr());
  if (!callee)
    return emitOpError() << "callee " << getCalleeAttr()
                         << " is no function of this module; define it, or call one that is defined";
  auto type = dyn_cast<FunctionType>(callee.getFunctionType());
  auto own = FunctionType::get(getContext(), getOperandTypes(), getResultTypes());
  if (type != own)
    return emitOpError() << "has type " << own << ", but " << getCalleeAttr() << " has type "
                         << callee.getFunctionType() << "; they must be equal";
  return success();
}

static LogicalResult checkScalar(Operation *op, StringRef name, Value value) {
  if (int64_t rank = tensorType(value).getRank())
    return op->emitOpError() << name << " has rank " << rank << "; it is a scalar, of rank 0";
  return success();
}

//===-- dropout ---------------------------------------------------------------------------------------------------===//

LogicalResult DropoutOp::verify() {
  for (auto [name, value] : {std::pair("seed", Value(getSeed())), {"step", getStep()}, {"stream", getStream()}})
    if (failed(checkScalar(*this, name, value)))
      return failure();
  if (getOffset() && failed(checkScalar(*this, "offset", getOffset())))
    return failure();
  double rate = getRate().convertToDouble();
  if (!(rate >= 0 && rate < 1))
    return emitOpError() << "rate is " << rate << "; it is in [0, 1)";
  if (static_cast<bool>(getOffset()) != getSizes().has_value())
    return emitOpError() << "has " << (getOffset() ? "an offset and no sizes" : "sizes and no offset")
                         << "; an op on a shard has both, an op on a whole tensor neither";
  int64_t rank = tensorType(getOperand()).getRank();
  if (getSizes() && static_cast<int64_t>(getSizes()->size()) != rank)
    return emitOpError() << "sizes has " << getSizes()->size() << " entries for an operand of rank " << rank
                         << "; it needs one for each dimension";
  return success();
}

// ([i, j], [], [], []) -> ([i, j])
Rule DropoutOp::getShardingRule() {
  Rule rule = elementwise(*this, {{0}});
  for (size_t i = 1; i < rule.operands.size(); ++i)
    rule.operands[i].clear();
  return rule;
}

/// The row-major index of a shard's first element is a sum over the sharded dimensions.
FailureOr<SmallVector<Value>> DropoutOp::localize(OpBuilder &builder, ValueRange operands, TypeRange resultTypes,
                                                  const LocalizeContext &context) {
  ArrayRef<int64_t> sizes = tensorType(getOperand()).getShape();
  Value offset;
  int64_t stride = 1;
  for (int64_t dim = static_cast<int64_t>(sizes.size()) - 1; dim >= 0; stride *= sizes[dim--]) {
    const DimSharding &cut = context.sharding.results[0].dims[dim];
    if (cut.axes.empty())
      continue;
    Value begin = ShardOffsetOp::create(builder, getLoc(), getStep().getType(), axisTriples(cut.axes),
                                        static_cast<uint64_t>(cut.chunk * stride));
    offset = offset ? AddOp::create(builder, getLoc(), begin.getType(), offset, begin).getResult() : begin;
  }
  if (!offset)
    return cloneWithTypes(builder, *this, operands, resultTypes);
  if (getOffset())
    return emitOpError() << "has an offset, so that it already works on a shard; it cannot be lowered a second time";
  return SmallVector<Value>{DropoutOp::create(builder, getLoc(), resultTypes[0], operands[0], operands[1], operands[2],
                                              operands[3], offset, getRateAttr(), builder.getDenseI64ArrayAttr(sizes))};
}

/// The random words of four elements take ten rounds, each with two products and some other operations.
double DropoutOp::getFlops() {
  constexpr double kOperations = 20;
  return kOperations * resultElements(*this);
}

LogicalResult DropoutOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                       SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(getNumOperands(), Value());
  if (wanted[0])
    operandGradients[0] = DropoutOp::create(builder, getLoc(), getType(), resultGradients[0], getSeed(), getStep(),
                                            getStream(), getOffset(), getRateAttr(), getSizesAttr());
  return success();
}

//===-- count_nonfinite -------------------------------------------------------------------------------------------===//

LogicalResult CountNonfiniteOp::verify() {
  if (int64_t rank = getType().getRank())
    return emitOpError() << "result has rank " << rank << "; it is a scalar, of rank 0";
  return success();
}

Rule CountNonfiniteOp::getShardingRule() {
  Rule rule = elementwiseRule(shapeOf(getOperand()), 1, 1, {});
  rule.results = {{}};
  return rule;
}

double CountNonfiniteOp::getFlops() { return static_cast<double>(tensorType(getOperand()).getNumElements()); }
KernelClass CountNonfiniteOp::getKernelClass() { return KernelClass::Reduction; }

//===-- formulas on elements --------------------------------------------------------------------------------------===//

/// ([i, j], ..., []) -> ([i, j], ...). Linearity is not analysed, so partial sums may not pass through the op.
Rule MapOp::getShardingRule() {
  Shape shape = shapeOf(getResult(0));
  Rule rule = elementwiseRule(shape, static_cast<int>(getNumOperands()), static_cast<int>(getNumResults()), {});
  for (auto [i, operand] : llvm::enumerate(getOperands()))
    if (shapeOf(operand) != shape)
      rule.operands[i].clear();
  return rule;
}

/// Returns the type of a scalar with the tensor's element type.
static Type scalarOf(Type type) { return RankedTensorType::get({}, cast<RankedTensorType>(type).getElementType()); }

LogicalResult MapOp::verify() {
  if (getNumResults() == 0)
    return emitOpError() << "has no result; a map has at least one";
  Shape shape = shapeOf(getResult(0));
  for (auto [i, type] : llvm::enumerate(getResultTypes()))
    if (shapeOf(type) != shape)
      return emitOpError() << "result " << i << " is " << type << ", result 0 is " << getResult(0).getType()
                           << "; they have one shape";
  for (auto [i, type] : llvm::enumerate(getOperandTypes()))
    if (!shapeOf(type).empty() && shapeOf(type) != shape)
      return emitOpError() << "operand " << i << " is " << type << ", the results have the shape of "
                           << getResult(0).getType() << "; an operand has that shape or rank 0";
  Block &block = getBody().front();
  if (block.getNumArguments() != getNumOperands())
    return emitOpError() << "has " << getNumOperands() << " operands, its body " << block.getNumArguments()
                         << " arguments; there is one argument for each operand";
  for (auto [i, argument] : llvm::enumerate(block.getArguments()))
    if (argument.getType() != scalarOf(getOperand(i).getType()))
      return emitOpError() << "argument " << i << " of the body is " << argument.getType() << "; for operand " << i
                           << " it is " << scalarOf(getOperand(i).getType());
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield || yield.getNumOperands() != getNumResults())
    return emitOpError() << "has " << getNumResults() << " results; its body ends with kerf.yield of as many values";
  for (auto [i, value] : llvm::enumerate(yield.getOperands()))
    if (value.getType() != scalarOf(getResult(i).getType()))
      return emitOpError() << "yields " << value.getType() << " as value " << i << "; for result " << i << " it is "
                           << scalarOf(getResult(i).getType());
  for (Operation &op : block.without_terminator())
    if (!isa<ConstantOp>(op) && !op.hasTrait<OpTrait::Elementwise>())
      return op.emitOpError() << "is not elementwise; the body of a map may hold elementwise ops only";
  return success();
}
