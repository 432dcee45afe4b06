// SPDX-License-Identifier: Apache-2.0
// kerf-offload-activations: what layers keep for their backward pass waits for it in the host's memory.
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

/// A value of the forward pass that in the backward one only calls which offload read: nothing else keeps it on the
/// device. Tables that several layers read stay there.
bool isKeptForThese(Value value) {
  Operation *maker = value.getDefiningOp();
  if (!maker || isBackward(maker))
    return false;
  if (llvm::any_of(value.getUsers(), [](Operation *user) { return isBackward(user) && !offloads(user); }))
    return false;
  return isa<CallOp>(maker) ||
         llvm::count_if(value.getUsers(), [](Operation *user) { return isa<CallOp>(user) && !isBackward(user); }) == 1;
}

/// Ops that it adds have the location of the backward call: kerf-assign-tasks finds the part of a gradient by that of
/// what it is of.
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

  /// Returns the copy of `value` in the host's memory, which is made as soon as the value is. Each part of the pipeline
  /// has a copy of its own: stages send each other values of the device alone.
  Value inHost(Value value, CallOp call) {
    Value &copy = copies[{value, call->getAttr(KerfDialect::kPartAttr)}];
    if (copy)
      return copy;
    OpBuilder after(value.getContext());
    after.setInsertionPointAfter(value.getDefiningOp());
    auto started = OffloadOp::create(after, call.getLoc(), pending(value), value, after.getStringAttr("offload"));
    copy = WaitOp::create(after, call.getLoc(), value.getType(), started);
    for (Operation *op : {started.getOperation(), copy.getDefiningOp()})
      if (Attribute part = call->getAttr(KerfDialect::kPartAttr)) // where it is wanted again, whoever made it
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
