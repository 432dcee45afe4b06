// SPDX-License-Identifier: Apache-2.0
// Device level: starts collectives as early and waits for them as late as the program's order allows.
#include "kerf/Transforms/Passes.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_SCHEDULECOLLECTIVES
#include "kerf/Transforms/Passes.h.inc"

namespace {

struct ScheduleCollectives : impl::ScheduleCollectivesBase<ScheduleCollectives> {
  using ScheduleCollectivesBase::ScheduleCollectivesBase;

  void runOnOperation() override {
    SmallVector<WaitOp> waits; // first found, then moved: a walk would meet what was moved ahead again
    getOperation().walk([&](WaitOp wait) { waits.push_back(wait); });
    for (WaitOp wait : waits) {
      Operation *start = wait.getOperand().getDefiningOp();
      if (!start || start->getBlock() != wait->getBlock())
        continue;
      // Most of what else is resharded is needed by the very next op.
      auto stream = start->getAttrOfType<StringAttr>("stream");
      Operation *ready = start->getOperand(0).getDefiningOp();
      if (all || (stream && stream.getValue() == "gradients")) {
        if (ready)
          start->moveAfter(ready);
        else
          start->moveBefore(&start->getBlock()->front());
      }
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
