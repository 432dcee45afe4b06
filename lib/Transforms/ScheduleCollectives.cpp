// SPDX-License-Identifier: Apache-2.0
// kerf-schedule-collectives (device level): starts collectives as early, and waits for them as late, as data
// dependences allow.
#include "kerf/Transforms/Passes.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_SCHEDULECOLLECTIVES
#include "kerf/Transforms/Passes.h.inc"

namespace {

/// Returns the last product before `op` with no call of a layer between them, or null.
Operation *productBefore(Operation *op) {
  for (Operation *before = op->getPrevNode(); before && !isa<CallOp>(before); before = before->getPrevNode())
    if (isa<DotGeneralOp>(before))
      return before;
  return nullptr;
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

  /// Starts a collective that kernels of the backward may run beside. A gathered tensor is larger than its operand, so
  /// it is made one product ahead and not earlier.
  static void startBesideProducts(Operation *start) {
    if (isa<AllReduceOp, ReduceScatterOp>(start))
      return startEarly(start);
    if (Operation *product = productBefore(start); product && isa<BlockArgument>(start->getOperand(0)))
      start->moveBefore(product);
  }

  void runOnOperation() override {
    SmallVector<WaitOp> waits; // collected first, because a walk would visit moved ops a second time
    getOperation().walk([&](WaitOp wait) { waits.push_back(wait); });
    for (WaitOp wait : waits) {
      Operation *start = wait.getOperand().getDefiningOp();
      if (!start || start->getBlock() != wait->getBlock())
        continue;
      // The result of other reshards is mostly needed by the very next op.
      auto stream = start->getAttrOfType<StringAttr>("stream");
      if (all || (stream && stream.getValue().starts_with("gradient")))
        startEarly(start);
      else if (tensor)
        startBesideProducts(start);
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
