// SPDX-License-Identifier: Apache-2.0
// Calls of repeated layers, checks of gradients and optimizer updates: verifiers and sharding rules. (The rule of
// sync_gradient is generated: elementwise, and no partial sum passes.)
#include "kerf/Dialect/Kerf/KerfDialect.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

//===-- call
//----------------------------------------------------------------------------------------------------------===//

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto callee = symbols.lookupNearestSymbolFrom<FunctionOpInterface>(*this, getCalleeAttr());
  if (!callee)
    return emitOpError() << "callee " << getCalleeAttr() << " is no function of this module";
  auto type = dyn_cast<FunctionType>(callee.getFunctionType());
  auto own = FunctionType::get(getContext(), getOperandTypes(), getResultTypes());
  if (type != own)
    return emitOpError() << "has type " << own << ", but " << getCalleeAttr() << " has type "
                         << callee.getFunctionType();
  return success();
}

//===-- count_nonfinite
//----------------------------------------------------------------------------------------------------===//

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

//===-- optimizers
//----------------------------------------------------------------------------------------------------===//

static LogicalResult checkScalar(Operation *op, StringRef name, Value value) {
  if (int64_t rank = tensorType(value).getRank())
    return op->emitOpError() << name << " has rank " << rank << "; it is a scalar, of rank 0";
  return success();
}

/// ([i, j], ..., []) -> ([i, j], ...): the parameter's shape for all but the scalars at the end. No update is linear:
/// its operands are whole.
static Rule optimizerRule(Operation *op) {
  Value parameter = op->getOperand(0);
  Rule rule = elementwiseRule(shapeOf(parameter), op->getNumOperands(), op->getNumResults(), {});
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (operand.getType() != parameter.getType())
      rule.operands[i].clear();
  return rule;
}

/// The optional operand that holds an update back.
static LogicalResult checkSkip(Operation *op, Value skip) { return skip ? checkScalar(op, "skip", skip) : success(); }

LogicalResult SgdOp::verify() {
  return failed(checkScalar(*this, "lr", getLr())) ? failure() : checkSkip(*this, getSkip());
}

Rule SgdOp::getShardingRule() { return optimizerRule(*this); }

LogicalResult AdamwOp::verify() {
  if (failed(checkScalar(*this, "lr", getLr())) || failed(checkScalar(*this, "step", getStep())))
    return failure();
  return checkSkip(*this, getSkip());
}

Rule AdamwOp::getShardingRule() { return optimizerRule(*this); }
