// SPDX-License-Identifier: Apache-2.0
// Calls of repeated layers and optimizer updates: verifiers and sharding rules. (The rule of sync_gradient is
// generated: elementwise, and no partial sum passes.)
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

LogicalResult SgdOp::verify() { return checkScalar(*this, "lr", getLr()); }

Rule SgdOp::getShardingRule() { return optimizerRule(*this); }

LogicalResult AdamwOp::verify() {
  return failed(checkScalar(*this, "lr", getLr())) ? failure() : checkScalar(*this, "step", getStep());
}

Rule AdamwOp::getShardingRule() { return optimizerRule(*this); }
