// SPDX-License-Identifier: Apache-2.0
// kerf-schedule-collectives (device level): starts collectives as early, and waits for them as late, as data
// dependences allow.
#include "kerf/Transforms/Passes.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_SCHEDULECOLLECTIVES
#include "kerf/Transforms/Passes.h.inc"

namespace {

using OpSet = llvm::SetVector<Operation *>; // in the order of the block

/// Returns the ops before `end`, back to a call or to one of `settled`.
OpSet opsBefore(Operation *end, const llvm::DenseSet<Operation *> &settled) {
  SmallVector<Operation *> reversed;
  for (Operation *op = end->getPrevNode(); op && !isa<CallOp>(op) && !settled.contains(op); op = op->getPrevNode())
    reversed.push_back(op);
  return OpSet(reversed.rbegin(), reversed.rend());
}

/// Returns those of `ops` that `op` needs.
OpSet neededBy(Operation *op, const OpSet &ops) {
  llvm::DenseSet<Operation *> found;
  SmallVector<Operation *> pending{op};
  while (!pending.empty())
    for (Value operand : pending.pop_back_val()->getOperands())
      if (Operation *before = operand.getDefiningOp(); ops.contains(before) && found.insert(before).second)
        pending.push_back(before);
  auto inOrder = llvm::make_filter_range(ops, [&](Operation *one) { return found.contains(one); });
  return OpSet(inOrder.begin(), inOrder.end());
}

/// Returns the products of a backward that are among `ops` and not among `needed`, with the ops that use them.
OpSet productsBeside(const OpSet &ops, const OpSet &needed) {
  OpSet found;
  for (Operation *op : ops) {
    bool uses = llvm::any_of(op->getOperands(), [&](Value operand) { return found.contains(operand.getDefiningOp()); });
    if (!needed.contains(op) && (uses || (isa<DotGeneralOp>(op) && op->hasAttr(KerfDialect::kBackwardAttr))))
      found.insert(op);
  }
  return found;
}

struct ScheduleCollectives : impl::ScheduleCollectivesBase<ScheduleCollectives> {
  using ScheduleCollectivesBase::ScheduleCollectivesBase;

  /// Starts the collective where its operand is computed, at the front of the block for an argument.
  static void startEarly(Operation *start) {
    if (Operation *ready = start->getOperand(0).getDefiningOp())
      start->moveAfter(ready);
    else
      start->moveBefore(&start->getBlock()->front());
  }

  /// Starts the sum of an input's gradient before the products that it does not need: those of weight gradients. The
  /// activations that are gathered for these products are gathered one product before the sum, and not earlier, because
  /// a gathered tensor takes more memory. Both have streams of their own, so that they wait for no gathers of
  /// parameters. `settled`: the waits for the sums before.
  static void startBesideProducts(WaitOp waitForSum, llvm::DenseSet<Operation *> &settled) {
    Operation *sum = waitForSum.getOperand().getDefiningOp();
    startEarly(sum);
    auto putOn = [](Operation *start, StringRef stream) {
      start->setAttr("stream", StringAttr::get(start->getContext(), stream));
    };
    putOn(sum, "sums");
    OpSet ops = opsBefore(waitForSum, settled), needed = neededBy(sum, ops), beside = productsBeside(ops, needed);
    auto product = llvm::find_if(llvm::reverse(needed), [](Operation *op) { return isa<DotGeneralOp>(op); });
    for (Operation *op : ops) {
      auto wait = dyn_cast<WaitOp>(op);
      Operation *start = wait ? wait.getOperand().getDefiningOp() : nullptr;
      bool gathers = start && isa<BlockArgument>(start->getOperand(0)) && product != needed.rend();
      if (gathers && llvm::all_of(wait->getUsers(), [&](Operation *user) { return beside.contains(user); })) {
        putOn(start, "gathers");
        start->moveBefore(*product);
      }
    }
    for (Operation *op : llvm::reverse(beside))
      if (op->isBeforeInBlock(sum))
        op->moveAfter(sum);
    settled.insert(waitForSum);
  }

  /// Returns the waits for sums of gradients of inputs, in the order of their blocks.
  SmallVector<WaitOp> inputGradientSums() {
    SmallVector<WaitOp> sums;
    getOperation().walk([&](WaitOp wait) {
      Operation *start = wait.getOperand().getDefiningOp();
      if (!isa_and_nonnull<AllReduceOp, ReduceScatterOp>(start) || start->getBlock() != wait->getBlock())
        return;
      Operation *maker = start->getOperand(0).getDefiningOp();
      if (maker && maker->hasAttr(KerfDialect::kBackwardAttr) && !isGradientOfWeights(start))
        sums.push_back(wait);
    });
    return sums;
  }

  static bool isGradientOfWeights(Operation *start) {
    auto stream = start->getAttrOfType<StringAttr>("stream");
    return stream && stream.getValue().starts_with("gradient");
  }

  void runOnOperation() override {
    if (tensor && !all) {
      llvm::DenseSet<Operation *> settled;
      for (WaitOp sum : inputGradientSums())
        startBesideProducts(sum, settled);
    }
    SmallVector<WaitOp> waits; // collected first, because a walk would visit moved ops a second time
    getOperation().walk([&](WaitOp wait) { waits.push_back(wait); });
    for (WaitOp wait : waits) {
      Operation *start = wait.getOperand().getDefiningOp();
      if (!start || start->getBlock() != wait->getBlock())
        continue;
      if (all || isGradientOfWeights(start)) // the result of other reshards is mostly needed by the very next op
        startEarly(start);
      Operation *first = nullptr;
      for (Operation *user : wait->getUsers())
        if (!first || user->isBeforeInBlock(first))
          first = user;
      if (first && first->getBlock() == wait->getBlock())
        wait->moveBefore(first);
    }
  }
};

} // namespace
} // namespace kerf
