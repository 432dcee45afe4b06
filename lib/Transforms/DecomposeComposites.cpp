// SPDX-License-Identifier: Apache-2.0
// kerf-decompose-composites: replaces composites by simpler ops (kerf/Transforms/Decompose.h).
#include "kerf/Transforms/Decompose.h"
#include "kerf/Transforms/Passes.h"

namespace kerf {
#define GEN_PASS_DEF_DECOMPOSECOMPOSITES
#include "kerf/Transforms/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

namespace {
struct Recorder : OpBuilder::Listener {
  SmallVector<Operation *> made;
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override { made.push_back(op); }
};

struct DecomposeComposites : kerf::impl::DecomposeCompositesBase<DecomposeComposites> {
  using DecomposeCompositesBase::DecomposeCompositesBase;
  void runOnOperation() override {
    SmallVector<Operation *> composites;
    getOperation()->walk([&](Operation *op) {
      if (isa<DecomposableOpInterface>(op) && (all || cutsDecomposedFactor(op)))
        composites.push_back(op);
    });
    for (Operation *op : composites)
      if (failed(decomposeOp(op)))
        return signalPassFailure();
  }
};

/// Converts 16-bit operands to f32, in which the simpler ops compute like the composite's kernel. Returns the types of
/// the composite's results before that.
SmallVector<Type> widenOperands(OpBuilder &builder, Operation *op) {
  auto wide = [&](Value value) { return RankedTensorType::get(tensorType(value).getShape(), builder.getF32Type()); };
  auto isNarrow = [](Value value) { return isHalf(tensorType(value).getElementType()); };
  for (OpOperand &operand : op->getOpOperands())
    if (isNarrow(operand.get()))
      operand.set(ConvertOp::create(builder, op->getLoc(), wide(operand.get()), operand.get()));
  SmallVector<Type> types(op->getResultTypes());
  for (Value result : op->getResults())
    if (isNarrow(result))
      result.setType(wide(result));
  return types;
}
} // namespace

FailureOr<SmallVector<Operation *>> kerf::decomposeOp(Operation *op) {
  auto composite = dyn_cast<DecomposableOpInterface>(op);
  if (!composite)
    return op->emitOpError() << "is no composite, so it cannot be decomposed; shard it by a factor of another kind";
  for (Value operand : op->getOperands())
    if (operand.getDefiningOp<ShardOffsetOp>())
      return op->emitOpError() << "has an offset already; run kerf-decompose-composites before kerf-partition";
  Recorder recorder;
  OpBuilder builder(op);
  builder.setListener(&recorder);
  SmallVector<Type> types = widenOperands(builder, op);
  SmallVector<Value> results = composite.decompose(builder);
  for (auto [result, type] : llvm::zip(results, types))
    if (result.getType() != type)
      result = ConvertOp::create(builder, op->getLoc(), type, result);
  if (Attribute backward = op->getDiscardableAttr(KerfDialect::kBackwardAttr))
    for (Operation *made : recorder.made)
      made->setDiscardableAttr(KerfDialect::kBackwardAttr, backward);
  op->replaceAllUsesWith(results);
  op->erase();
  return recorder.made;
}

bool kerf::cutsDecomposedFactor(Operation *op) {
  auto strategy = op->getAttrOfType<DictionaryAttr>(KerfDialect::kStrategyAttr);
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!strategy || !ruled)
    return false;
  Rule rule = ruled.getShardingRule();
  return llvm::any_of(strategy, [&](NamedAttribute axis) {
    auto name = dyn_cast<StringAttr>(axis.getValue());
    return name && llvm::any_of(rule.factors, [&](const Factor &factor) {
             return factor.kind == FactorKind::Decomposed && name.getValue() == factor.name;
           });
  });
}
