// SPDX-License-Identifier: Apache-2.0
// Runs the lanes of a warp in groups. Lanes that are at the same instruction of the same frame are a group and execute
// it together. A group that disagrees about a branch separates. Of several groups the one runs that is deepest in calls
// and, among these, at the lowest instruction, until it comes to where another one waits: there they join. So the lanes
// of an `if` meet behind it, and those that leave a loop early wait at its end for the others.
#include "PtxLanes.h"

#include <algorithm>
#include <functional>

namespace kerf::standin::ptx {

namespace {

constexpr uint64_t kSlice = 1 << 16; // instructions of a group after which other threads of the block get a turn
constexpr int kFewLanes = 8;         // fewer take less time one by one than all 32 words by vector instructions

/// Makes the next group of `candidates` the running lanes of the warp. Returns the instruction at which another group
/// of the same frame waits: the first one behind the group's own; or null.
const Inst *chooseGroup(Warp &warp, uint32_t candidates) {
  constexpr std::less<const Inst *> before;
  int best = std::countr_zero(candidates);
  warp.mask = 0;
  const Inst *limit = nullptr;
  if (warp.machine->launch->lanes == Lanes::Alone)
    candidates = 1u << best;
  forEachLane(candidates, [&](int lane) {
    const Thread &thread = warp.threads[size_t(lane)], &leader = warp.threads[size_t(best)];
    bool isDeeper = thread.slotBase > leader.slotBase, isAsDeep = thread.slotBase == leader.slotBase;
    if (isAsDeep && thread.inst == leader.inst) {
      warp.mask |= 1u << lane;
    } else if (isDeeper || (isAsDeep && before(thread.inst, leader.inst))) {
      limit = isDeeper ? nullptr : leader.inst;
      best = lane;
      warp.mask = 1u << lane;
    } else if (isAsDeep && (!limit || before(thread.inst, limit))) {
      limit = thread.inst;
    }
  });
  warp.r = warp.threads[size_t(best)].r - best;
  warp.isWhole = warp.mask == warp.live && std::popcount(warp.mask) >= kFewLanes;
  return limit;
}

/// Runs the chosen group until it separates, waits, ends, comes to `limit` or has executed `most` instructions. Returns
/// how many it has executed.
uint64_t runGroup(Warp &warp, const Inst *limit, uint64_t most) {
  const Inst *inst = warp.threads[size_t(std::countr_zero(warp.mask))].inst;
  constexpr std::less<const Inst *> before;
  uint64_t left = most;
  if (!limit)
    while (inst && left) {
      inst = inst->handler(inst, warp);
      --left;
    }
  else
    while (inst && left && before(inst, limit)) {
      inst = inst->handler(inst, warp);
      --left;
    }
  if (inst)
    forEachLane(warp.mask, [&](int lane) { continueAt(warp, lane, inst); });
  warp.machine->instructions += (most - left) * uint64_t(std::popcount(warp.mask));
  return most - left;
}

/// Returns the lanes that a lane's warp instruction names. `activemask` names none: it takes those that are there.
uint32_t namedBy(const Inst *inst, const Thread &thread) {
  return WarpOp(inst->e) == WarpOp::ActiveMask ? ~0u : uint32_t(thread.r[inst->list[0]]);
}

/// Executes every warp instruction for which all lanes have arrived. Returns whether there was one.
bool meetInWarp(Warp &warp) {
  uint32_t left = warp.atWarp;
  bool progress = false;
  while (left) {
    int lane = std::countr_zero(left);
    left &= left - 1;
    const Inst *inst = warp.threads[size_t(lane)].inst;
    uint32_t named = namedBy(inst, warp.threads[size_t(lane)]), arrived = 0;
    if (!(named >> lane & 1))
      fault(FaultCode::LaunchFailed, "the lane is not in its own mask", inst, warp, lane);
    forEachLane(warp.atWarp, [&](int other) {
      const Thread &thread = warp.threads[size_t(other)];
      if (thread.inst == inst && namedBy(inst, thread) == named)
        arrived |= 1u << other;
    });
    if (WarpOp(inst->e) != WarpOp::ActiveMask && (named & warp.live & ~arrived))
      continue;
    uint32_t group = arrived & named;
    runWarp(inst, warp, group);
    forEachLane(group, [&](int other) { continueAt(warp, other, inst + 1); });
    warp.atWarp &= ~group;
    warp.ready |= group;
    left &= ~group;
    progress = true;
  }
  return progress;
}

} // namespace

bool canMeet(const Inst *inst, const Warp &warp) {
  if (WarpOp(inst->e) == WarpOp::ActiveMask)
    return warp.mask == warp.live;
  const uint64_t *named = warp.r + inst->list[0];
  const uint32_t first = uint32_t(named[std::countr_zero(warp.mask)]);
  uint32_t differences = 0;
  forEachLane(warp.mask, [&](int lane) { differences |= uint32_t(named[lane]) ^ first; });
  return differences == 0 && (first & warp.live) == warp.mask;
}

bool runLanes(Warp &warp) {
  bool progress = false;
  while (true) {
    uint32_t hadTurn = 0;
    uint64_t left = kSlice;
    while (uint32_t candidates = warp.ready & ~hadTurn) {
      progress = true;
      const Inst *limit = chooseGroup(warp, candidates);
      left -= runGroup(warp, limit, left);
      if (left == 0) { // perhaps the group waits for another one, or for another warp
        hadTurn |= warp.mask;
        left = kSlice;
      }
    }
    if (!meetInWarp(warp))
      return progress;
    progress = true;
  }
}

} // namespace kerf::standin::ptx
