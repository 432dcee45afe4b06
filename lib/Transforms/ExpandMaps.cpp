// SPDX-License-Identifier: Apache-2.0
// kerf-expand-maps (device level): replaces each map by the ops of its body, so that they are fused
// with their neighbours.
#include "kerf/Dialect/Kerf/Emit.h"
#include "kerf/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_EXPANDMAPS
#include "kerf/Transforms/Passes.h.inc"

namespace {

void expand(MapOp map) {
  OpBuilder builder(map);
  Emitter emit{builder, map.getLoc()};
  ArrayRef<int64_t> shape = tensorType(map.getResult(0)).getShape();
  SmallVector<NamedAttribute> discardable(map->getDiscardableAttrs());
  auto carry = [&](Operation *op) {
    for (NamedAttribute attribute : discardable)
      op->setDiscardableAttr(attribute.getName(), attribute.getValue());
  };
  // Ops on scalars alone stay scalar; a scalar is broadcast where an op combines it with a tensor.
  auto spread = [&](Value value) {
    if (tensorType(value).getShape() == shape)
      return value;
    Value made = emit.broadcast(value, shape, {});
    carry(made.getDefiningOp());
    return made;
  };
  IRMapping mapping;
  Block &body = map.getBody().front();
  mapping.map(body.getArguments(), map.getInputs());
  for (Operation &op : body.without_terminator()) {
    SmallVector<Value> operands;
    for (Value operand : op.getOperands())
      operands.push_back(mapping.lookup(operand));
    bool isScalar = llvm::all_of(operands, [](Value value) { return tensorType(value).getRank() == 0; });
    if (!isScalar)
      for (Value &operand : operands)
        operand = spread(operand);
    Type element = tensorType(op.getResult(0)).getElementType();
    auto type = RankedTensorType::get(isScalar ? ArrayRef<int64_t>() : shape, element);
    Value made = cloneWithTypes(builder, &op, operands, type).front();
    carry(made.getDefiningOp());
    mapping.map(op.getResult(0), made);
  }
  SmallVector<Value> results;
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(spread(mapping.lookup(value)));
  map->replaceAllUsesWith(results);
  map->erase();
}

struct ExpandMaps : impl::ExpandMapsBase<ExpandMaps> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (MapOp map : llvm::make_early_inc_range(function.getOps<MapOp>()))
        expand(map);
  }
};

} // namespace
} // namespace kerf
