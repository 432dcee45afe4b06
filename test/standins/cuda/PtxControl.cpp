// SPDX-License-Identifier: Apache-2.0
// Branches, calls, and the instructions at which a thread waits for others.
#include "PtxText.h"

#include <algorithm>

namespace kerf::standin::ptx {

const Inst *branchAlways(const Inst *inst, Thread &) { return inst + inst->a; }
const Inst *branchIf(const Inst *inst, Thread &thread) { return thread.r[inst->b] & 1 ? inst + inst->a : inst + 1; }
const Inst *branchIfNot(const Inst *inst, Thread &thread) { return thread.r[inst->b] & 1 ? inst + 1 : inst + inst->a; }

const Inst *branchIndexed(const Inst *inst, Thread &thread) {
  uint32_t index = uint32_t(thread.r[inst->b]);
  if (index >= uint32_t(inst->d))
    fault(FaultCode::LaunchFailed, "index " + std::to_string(index) + " is outside of the branch table", inst, thread);
  return inst + inst->list[index];
}

const Inst *waitAtBarrier(const Inst *inst, Thread &thread) {
  thread.inst = inst;
  thread.state = ThreadState::AtBarrier;
  return nullptr;
}

const Inst *waitForWarp(const Inst *inst, Thread &thread) {
  thread.inst = inst;
  thread.state = ThreadState::AtWarp;
  return nullptr;
}

const Inst *endThread(const Inst *inst, Thread &thread) {
  thread.inst = inst;
  thread.state = ThreadState::Done;
  return nullptr;
}

void enterFrame(Thread &thread, const Function &function, size_t slotBase, size_t localBase) {
  Frames &frames = *thread.frames;
  size_t slots = slotBase + function.image.size();
  if (frames.slots.size() < slots)
    frames.slots.resize(slots + slots / 2);
  size_t local = localBase + function.localBytes;
  if (frames.local.size() < local)
    frames.local.resize(local + local / 2, std::byte(0xBA));
  thread.slotBase = slotBase;
  thread.localBase = localBase;
  thread.localTop = local;
  thread.function = &function;
  thread.r = frames.slots.data() + slotBase;
  std::memcpy(thread.r, function.image.data(), function.image.size() * sizeof(uint64_t));
  thread.r[kLocalBase] = localBase;
}

namespace {

const Inst *nothing(const Inst *inst, Thread &) { return inst + 1; }

const Inst *trap(const Inst *inst, Thread &thread) {
  fault(FaultCode::LaunchFailed, "the kernel executed `trap`", inst, thread);
}

constexpr size_t kMostCalls = 2000; // calls within calls; more is endless recursion

const Inst *call(const Inst *inst, Thread &thread) {
  const Function &caller = *thread.function;
  const CallSite &site = caller.calls[size_t(inst->a)];
  const Function *callee = site.callee;
  if (!callee) {
    uint64_t index = thread.r[site.pointer] - kCodeWindow;
    const auto &all = caller.module->functions;
    if (index >= all.size() || !all[index]->isDefined || all[index]->isEntry)
      fault(FaultCode::LaunchFailed, "indirect call of something that is no function", inst, thread);
    callee = all[index].get();
    if (callee->incoming.size() != site.arguments.size() || callee->returned.size() != site.results.size())
      fault(FaultCode::LaunchFailed, "indirect call with other parameters than the function has", inst, thread);
  }
  if (thread.returns.size() >= kMostCalls)
    fault(FaultCode::LaunchFailed, "too many calls within calls", inst, thread);
  std::array<uint64_t, kFixedSlots> fixed;
  std::copy_n(thread.r, kFixedSlots, fixed.begin());
  thread.returns.push_back({inst + 1, &caller, thread.slotBase, thread.localBase, &site});
  size_t callerLocal = thread.localBase;
  enterFrame(thread, *callee, thread.slotBase + caller.image.size(), (callerLocal + caller.localBytes + 15) / 16 * 16);
  fixed[kLocalBase] = thread.localBase;
  std::copy_n(fixed.begin(), kFixedSlots, thread.r);
  std::byte *local = thread.frames->local.data();
  for (size_t i = 0; i < callee->incoming.size(); ++i)
    std::memcpy(local + thread.localBase + callee->incoming[i].offset, local + callerLocal + site.arguments[i].offset,
                std::min(callee->incoming[i].bytes, site.arguments[i].bytes));
  return callee->code.data();
}

} // namespace

const Inst *returnFromCall(const Inst *inst, Thread &thread) {
  if (thread.returns.empty())
    return endThread(inst, thread);
  Return target = thread.returns.back();
  thread.returns.pop_back();
  const Function &callee = *thread.function;
  std::byte *local = thread.frames->local.data();
  for (size_t i = 0; i < target.site->results.size(); ++i)
    std::memcpy(local + target.localBase + target.site->results[i].offset,
                local + thread.localBase + callee.returned[i].offset,
                std::min(callee.returned[i].bytes, target.site->results[i].bytes));
  thread.slotBase = target.slotBase;
  thread.localBase = target.localBase;
  thread.localTop = target.localBase + target.function->localBytes;
  thread.function = target.function;
  thread.r = thread.frames->slots.data() + thread.slotBase;
  return target.inst;
}

namespace {

bool decodeBarrier(Builder &builder, const Statement &s) {
  // bar.sync a{, b}; bar.red.popc.u32 d, a{, b}, p; also spelled barrier and with .cta and .aligned.
  builder.allow({"sync", "red", "cta", "aligned", "popc", "and", "or"});
  bool reduces = s.has("red");
  size_t at = reduces ? 1 : 0;
  size_t operands = s.operands.size();
  if (operands < at + 1 || operands > at + (reduces ? 3u : 2u))
    builder.fail("has an unexpected number of operands");
  int32_t destination = reduces ? builder.destination(s.operands[0]) : 0;
  int32_t id = builder.source(s.operands[at], Type::U32);
  bool counts = reduces ? operands == at + 3 : operands == at + 2;
  int32_t count = counts ? builder.source(s.operands[at + 1], Type::U32) : -1;
  int32_t predicate = reduces ? builder.source(s.operands.back(), Type::Pred) : 0;
  int32_t kind = !reduces ? 0 : s.has("popc") ? 1 : s.has("and") ? 2 : 3;
  Inst &inst = builder.emit(waitAtBarrier, destination, id, count, predicate, kind);
  inst.list = builder.list({s.parts[0] == "bar" || s.has("aligned")});
  return true;
}

int32_t maskOperand(Builder &builder, const Operand &operand) { return builder.source(operand, Type::B32); }

/// Fields of a warp instruction: `d` destination, `a` the value, `e` the WarpOp, list: mask slot, predicate
/// destination, further operands.
bool decodeShuffle(Builder &builder, const Statement &s) {
  static constexpr std::string_view kModes[] = {"up", "down", "bfly", "idx"};
  builder.expect(5);
  auto mode = std::find_if(std::begin(kModes), std::end(kModes), [&](auto name) { return s.has(name); });
  if (mode == std::end(kModes) || !s.has("sync") || !s.has("b32"))
    builder.fail("is not supported; only shfl.sync of b32 is");
  bool pair = s.operands[0].kind == Operand::Kind::Pair;
  int32_t d = builder.destination(pair ? s.operands[0].parts[0] : s.operands[0]);
  int32_t p = pair ? builder.destination(s.operands[0].parts[1]) : -1;
  int32_t a = builder.source(s.operands[1], Type::B32), b = builder.source(s.operands[2], Type::B32);
  int32_t c = builder.source(s.operands[3], Type::B32), mask = maskOperand(builder, s.operands[4]);
  Inst &inst = builder.emit(waitForWarp, d, a, b, c, int32_t(WarpOp::Shuffle));
  inst.list = builder.list({mask, p, int32_t(mode - std::begin(kModes))});
  return true;
}

bool decodeVote(Builder &builder, const Statement &s) {
  static constexpr std::string_view kModes[] = {"all", "any", "uni", "ballot"};
  builder.expect(3);
  auto mode = std::find_if(std::begin(kModes), std::end(kModes), [&](auto name) { return s.has(name); });
  if (mode == std::end(kModes) || !s.has("sync"))
    builder.fail("is not supported");
  int32_t d = builder.destination(s.operands[0]), a = builder.source(s.operands[1], Type::Pred);
  int32_t mask = maskOperand(builder, s.operands[2]);
  Inst &inst = builder.emit(waitForWarp, d, a, 0, 0, int32_t(WarpOp::Vote));
  inst.list = builder.list({mask, -1, int32_t(mode - std::begin(kModes))});
  return true;
}

bool decodeMatch(Builder &builder, const Statement &s) {
  builder.expect(3);
  bool pair = s.operands[0].kind == Operand::Kind::Pair;
  int32_t d = builder.destination(pair ? s.operands[0].parts[0] : s.operands[0]);
  int32_t p = pair ? builder.destination(s.operands[0].parts[1]) : -1;
  int32_t a = builder.source(s.operands[1], s.type()), mask = maskOperand(builder, s.operands[2]);
  Inst &inst = builder.emit(waitForWarp, d, a, 0, 0, int32_t(WarpOp::Match));
  inst.list = builder.list({mask, p, s.has("all"), int32_t(bytesOf(s.type()))});
  return true;
}

bool decodeRedux(Builder &builder, const Statement &s) {
  static constexpr std::string_view kModes[] = {"add", "min", "max", "and", "or", "xor"};
  builder.expect(3);
  auto mode = std::find_if(std::begin(kModes), std::end(kModes), [&](auto name) { return s.has(name); });
  builder.allow({"sync", "add", "min", "max", "and", "or", "xor"});
  if (mode == std::end(kModes) || bytesOf(s.type()) != 4 || isFloat(s.type()))
    builder.fail("is not supported");
  int32_t d = builder.destination(s.operands[0]), a = builder.source(s.operands[1], s.type());
  int32_t mask = maskOperand(builder, s.operands[2]);
  Inst &inst = builder.emit(waitForWarp, d, a, 0, 0, int32_t(WarpOp::Redux));
  inst.list = builder.list({mask, -1, int32_t(mode - std::begin(kModes)), s.type() == Type::S32});
  return true;
}

bool decodeElect(Builder &builder, const Statement &s) {
  builder.expect(2);
  if (s.operands[0].kind != Operand::Kind::Pair)
    builder.fail("needs a pair of destinations");
  int32_t d = builder.destination(s.operands[0].parts[0]), p = builder.destination(s.operands[0].parts[1]);
  int32_t mask = maskOperand(builder, s.operands[1]);
  builder.emit(waitForWarp, d, 0, 0, 0, int32_t(WarpOp::Elect)).list = builder.list({mask, p});
  return true;
}

bool decodeBranch(Builder &builder, const Statement &s) {
  builder.expect(1);
  int32_t predicate = 0;
  if (!s.predicate.empty()) {
    const Name *name = builder.find(s.predicate);
    if (!name || name->kind != Name::Kind::Register)
      builder.fail("unknown predicate " + s.predicate);
    predicate = name->slot;
  }
  builder.branchTo(s.operands[0].name);
  builder.emit(s.predicate.empty() ? branchAlways : s.negated ? branchIfNot : branchIf, 0, 0, predicate);
  return true;
}

} // namespace

bool decodeControl(Builder &builder, const Statement &s) {
  const std::string &op = s.parts[0];
  if (op == "bra")
    return decodeBranch(builder, s);
  if (op == "brx") {
    builder.expect(2);
    builder.branchByTable(s.operands[1], builder.source(s.operands[0], Type::U32));
    return true;
  }
  if (op == "call") {
    builder.callSite(s);
    builder.emit(call, 0, int32_t(builder.function.calls.size() - 1));
    return true;
  }
  if (s.opcode == "bar.warp.sync") {
    builder.expect(1);
    int32_t mask = maskOperand(builder, s.operands[0]);
    builder.emit(waitForWarp, 0, 0, 0, 0, int32_t(WarpOp::Sync)).list = builder.list({mask, -1});
    return true;
  }
  if (op == "activemask") {
    builder.expect(1);
    int32_t d = builder.destination(s.operands[0]);
    builder.emit(waitForWarp, d, 0, 0, 0, int32_t(WarpOp::ActiveMask)).list = builder.list({-1, -1});
    return true;
  }
  if (op == "ret" || op == "exit" || op == "trap" || op == "brkpt") {
    builder.emit(op == "ret" ? returnFromCall : op == "exit" ? endThread : trap);
    return true;
  }
  if (op == "membar" || op == "fence" || op == "prefetch" || op == "prefetchu" || op == "nanosleep" ||
      op == "griddepcontrol" || op == "pmevent") {
    if (s.has("proxy") && s.has("tensormap::generic"))
      builder.fail("is not supported");
    builder.emit(nothing);
    return true;
  }
  return ((op == "bar" || op == "barrier") && !s.has("cluster") && decodeBarrier(builder, s)) ||
         (op == "shfl" && decodeShuffle(builder, s)) || (op == "vote" && decodeVote(builder, s)) ||
         (op == "match" && decodeMatch(builder, s)) || (op == "redux" && decodeRedux(builder, s)) ||
         (op == "elect" && decodeElect(builder, s));
}

} // namespace kerf::standin::ptx
