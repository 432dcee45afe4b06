// SPDX-License-Identifier: Apache-2.0
// Frames of functions, calls and returns. Each lane has a stack of calls of its own.
#include "PtxLanes.h"
#include "PtxText.h"

#include <algorithm>

namespace kerf::standin::ptx {

void enterKernel(Warp &warp, const Function &kernel) {
  // Constants do not change: they are right where the frame has been used by another warp.
  std::vector<uint64_t> &slots = warp.frames->slots;
  const std::vector<uint64_t> &image = kernel.image;
  bool isNew = slots.empty();
  if (isNew)
    slots.resize(image.size() * kWarp);
  for (size_t i = 0; i < image.size(); ++i)
    if (isNew || image[i] == kPoison)
      std::fill_n(slots.data() + i * kWarp, kWarp, image[i]);
  warp.r = slots.data();
  forEachLane(warp.live, [&](int lane) {
    Thread &thread = warp.threads[size_t(lane)];
    thread.r = slots.data() + lane;
    thread.inst = kernel.code.data();
    thread.function = &kernel;
    thread.slotBase = thread.localBase = 0;
    thread.localTop = kernel.localBytes;
    thread.returns.clear();
    if (auto &local = warp.frames->local[size_t(lane)]; local.size() < kernel.localBytes)
      local.resize(kernel.localBytes, std::byte(0xBA));
  });
}

namespace {

constexpr size_t kMostCalls = 2000; // calls within calls; more is endless recursion

/// Prepares a frame for `function` and makes it the current one of a lane.
void enterFrame(Warp &warp, int lane, const Function &function, size_t slotBase, size_t localBase) {
  std::vector<uint64_t> &slots = warp.frames->slots;
  size_t end = slotBase + function.image.size() * kWarp;
  if (slots.size() < end) {
    slots.resize(end + end / 2);
    forEachLane(warp.live, [&](int other) {
      Thread &thread = warp.threads[size_t(other)];
      thread.r = slots.data() + thread.slotBase + other;
    });
  }
  std::vector<std::byte> &bytes = warp.frames->local[size_t(lane)];
  size_t top = localBase + function.localBytes;
  if (bytes.size() < top)
    bytes.resize(top + top / 2, std::byte(0xBA));
  Thread &thread = warp.threads[size_t(lane)];
  const uint64_t *caller = thread.r;
  thread.slotBase = slotBase;
  thread.localBase = localBase;
  thread.localTop = top;
  thread.function = &function;
  thread.r = slots.data() + slotBase + lane;
  for (size_t i = 0; i < function.image.size(); ++i)
    thread.r[i * kWarp] = i < kFixedSlots ? caller[i * kWarp] : function.image[i];
  thread.r[kLocalBase] = localBase;
}

/// Returns the function that a lane calls.
const Function &calleeOf(const Inst *inst, const CallSite &site, const Warp &warp, int lane) {
  if (site.callee)
    return *site.callee;
  const Thread &thread = warp.threads[size_t(lane)];
  uint64_t index = thread.r[site.pointer] - kCodeWindow;
  const auto &all = thread.function->module->functions;
  if (index >= all.size() || !all[index]->isDefined || all[index]->isEntry)
    fault(FaultCode::LaunchFailed, "indirect call of something that is no function", inst, warp, lane);
  const Function &callee = *all[index];
  if (callee.incoming.size() != site.arguments.size() || callee.returned.size() != site.results.size())
    fault(FaultCode::LaunchFailed, "indirect call with other parameters than the function has", inst, warp, lane);
  return callee;
}

void callInLane(const Inst *inst, Warp &warp, int lane) {
  Thread &thread = warp.threads[size_t(lane)];
  const Function &caller = *thread.function;
  const CallSite &site = caller.calls[size_t(inst->a)];
  const Function &callee = calleeOf(inst, site, warp, lane);
  if (thread.returns.size() >= kMostCalls)
    fault(FaultCode::LaunchFailed, "too many calls within calls", inst, warp, lane);
  thread.returns.push_back({inst + 1, &caller, thread.slotBase, thread.localBase, &site});
  size_t callerLocal = thread.localBase;
  enterFrame(warp, lane, callee, thread.slotBase + caller.image.size() * kWarp,
             (callerLocal + caller.localBytes + 15) / 16 * 16);
  std::byte *local = warp.frames->local[size_t(lane)].data();
  for (size_t i = 0; i < callee.incoming.size(); ++i)
    std::memcpy(local + thread.localBase + callee.incoming[i].offset, local + callerLocal + site.arguments[i].offset,
                std::min(callee.incoming[i].bytes, site.arguments[i].bytes));
  thread.inst = callee.code.data();
}

void returnInLane(Warp &warp, int lane) {
  Thread &thread = warp.threads[size_t(lane)];
  Return target = thread.returns.back();
  thread.returns.pop_back();
  const Function &callee = *thread.function;
  std::byte *local = warp.frames->local[size_t(lane)].data();
  for (size_t i = 0; i < target.site->results.size(); ++i)
    std::memcpy(local + target.localBase + target.site->results[i].offset,
                local + thread.localBase + callee.returned[i].offset,
                std::min(callee.returned[i].bytes, target.site->results[i].bytes));
  thread.slotBase = target.slotBase;
  thread.localBase = target.localBase;
  thread.localTop = target.localBase + target.function->localBytes;
  thread.function = target.function;
  uint64_t carry = thread.r[kCarry];
  thread.r = warp.frames->slots.data() + thread.slotBase + lane;
  thread.r[kCarry] = carry;
  thread.inst = target.inst;
}

} // namespace

const Inst *callFunction(const Inst *inst, Warp &warp) {
  forEachLane(warp.mask, [&](int lane) { callInLane(inst, warp, lane); });
  return nullptr;
}

const Inst *returnFromCall(const Inst *inst, Warp &warp) {
  if (warp.threads[size_t(std::countr_zero(warp.mask))].returns.empty())
    return endThread(inst, warp); // the lanes that run are in the same frame: that of the kernel
  forEachLane(warp.mask, [&](int lane) { returnInLane(warp, lane); });
  return nullptr;
}

} // namespace kerf::standin::ptx
