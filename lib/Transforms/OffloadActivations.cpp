// SPDX-License-Identifier: Apache-2.0
// kerf-offload-activations: keeps saved activations in host memory until the backward pass needs them.
#include "kerf/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_OFFLOADACTIVATIONS
#include "kerf/Transforms/Passes.h.inc"

namespace {

bool isBackward(Operation *op) { return op->hasAttr(KerfDialect::kBackwardAttr); }
bool offloads(Operation *op) { return op->hasAttr(KerfDialect::kOffloadAttr); }

/// Returns whether the backward pass reads the value only in calls with kerf.offload, so that nothing else keeps it in
/// device memory. Tables that several layers read stay in device memory, and so do converted parameters, which serve
/// all microbatches.
bool isKeptForThese(Value value) {
  Operation *maker = value.getDefiningOp();
  if (!maker || isBackward(maker) || (isa<ConvertOp>(maker) && isa<BlockArgument>(maker->getOperand(0))))
    return false;
  if (llvm::any_of(value.getUsers(), [](Operation *user) { return isBackward(user) && !offloads(user); }))
    return false;
  return isa<CallOp>(maker) ||
         llvm::count_if(value.getUsers(), [](Operation *user) { return isa<CallOp>(user) && !isBackward(user); }) == 1;
}

/// The ops that the pass adds have the location of the backward call, by which kerf-assign-tasks finds the pipeline
/// part of a gradient.
struct OffloadActivations : impl::OffloadActivationsBase<OffloadActivations> {
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>(KerfDialect::kEntryName);
    if (!main)
      return;
    SmallVector<CallOp> calls;
    for (auto call : main.getOps<CallOp>())
      if (offloads(call))
        calls.push_back(call);
    for (CallOp call : calls)
      rewrite(call);
    for (CallOp call : calls)
      call->removeAttr(KerfDialect::kOffloadAttr);
  }

private:
  void rewrite(CallOp call) {
    llvm::SetVector<Value> values;
    for (Value operand : call.getInputs())
      if (isKeptForThese(operand))
        values.insert(operand);
    OpBuilder before(call);
    SmallVector<Value> started;
    for (Value value : values)
      started.push_back(ofStep(call, PrefetchOp::create(before, call.getLoc(), pending(value), inHost(value, call),
                                                        before.getStringAttr("prefetch"))));
    for (auto [value, prefetch] : llvm::zip(values, started)) {
      Value back = ofStep(call, WaitOp::create(before, call.getLoc(), value.getType(), prefetch));
      call->replaceUsesOfWith(value, back);
    }
  }

  static Type pending(Value value) { return PendingType::get(value.getContext(), tensorType(value)); }

  /// Returns the copy of `value` in host memory, which is started as soon as the value is computed. Each part of the
  /// pipeline has its own copy, because stages can only exchange values in device memory.
  Value inHost(Value value, CallOp call) {
    Value &copy = copies[{value, call->getAttr(KerfDialect::kPartAttr)}];
    if (copy)
      return copy;
    OpBuilder after(value.getContext());
    after.setInsertionPointAfter(value.getDefiningOp());
    auto started = OffloadOp::create(after, call.getLoc(), pending(value), value, after.getStringAttr("offload"));
    copy = WaitOp::create(after, call.getLoc(), value.getType(), started);
    for (Operation *op : {started.getOperation(), copy.getDefiningOp()})
      if (Attribute part = call->getAttr(KerfDialect::kPartAttr)) // the part that reads the copy
        op->setAttr(KerfDialect::kPartAttr, part);
    return copy;
  }

  static Value ofStep(CallOp call, Value value) {
    for (StringRef attr : {KerfDialect::kBackwardAttr, KerfDialect::kPartAttr})
      if (Attribute its = call->getAttr(attr))
        value.getDefiningOp()->setAttr(attr, its);
    return value;
  }

  DenseMap<std::pair<Value, Attribute>, Value> copies;
};

} // namespace
} // namespace kerf
