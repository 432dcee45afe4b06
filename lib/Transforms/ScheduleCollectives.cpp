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

struct ScheduleCollectives : impl::ScheduleCollectivesBase<ScheduleCollectives> {
  using ScheduleCollectivesBase::ScheduleCollectivesBase;

  void runOnOperation() override {
    SmallVector<WaitOp> waits; // collected first, because a walk would visit moved ops a second time
    getOperation().walk([&](WaitOp wait) { waits.push_back(wait); });
    for (WaitOp wait : waits) {
      Operation *start = wait.getOperand().getDefiningOp();
      if (!start || start->getBlock() != wait->getBlock())
        continue;
      // The result of other reshards is mostly needed by the very next op.
      auto stream = start->getAttrOfType<StringAttr>("stream");
      Operation *ready = start->getOperand(0).getDefiningOp();
      if (all || (stream && stream.getValue().starts_with("gradient"))) {
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
