// SPDX-License-Identifier: Apache-2.0
// Branches, and the instructions at which a thread waits for others.
#include "PtxLanes.h"
#include "PtxText.h"

#include <algorithm>

namespace kerf::standin::ptx {

namespace {

/// Lets the running lanes go on at `inst` each, when they are chosen again.
void continueAllAt(Warp &warp, const Inst *inst) {
  forEachLane(warp.mask, [&](int lane) { continueAt(warp, lane, inst); });
}

/// Branches in the lanes of `taken`.
KERF_INLINE const Inst *branch(const Inst *inst, Warp &warp, uint32_t taken) {
  const Inst *target = inst + inst->a;
  if (taken == warp.mask)
    return target;
  if (taken == 0)
    return inst + 1;
  forEachLane(warp.mask, [&](int lane) { continueAt(warp, lane, taken >> lane & 1 ? target : inst + 1); });
  return nullptr;
}

const Inst *jump(const Inst *inst, Warp &) { return inst + inst->a; }
KERF_INLINE const Inst *jumpIf(const Inst *inst, Warp &warp) { return branch(inst, warp, lanesWith(warp, inst->b)); }
KERF_INLINE const Inst *jumpIfNot(const Inst *inst, Warp &warp) {
  return branch(inst, warp, warp.mask & ~lanesWith(warp, inst->b));
}

const Inst *jumpIndexed(const Inst *inst, Warp &warp) {
  forEachLane(warp.mask, [&](int lane) {
    uint32_t index = uint32_t(warp.r[inst->b + lane]);
    if (index >= uint32_t(inst->d))
      fault(FaultCode::LaunchFailed, "index " + std::to_string(index) + " is outside of the branch table", inst, warp,
            lane);
    continueAt(warp, lane, inst + inst->list[index]);
  });
  return nullptr;
}

} // namespace

const Handler branchAlways = jump;
const Handler branchIf = chosen<jumpIf>();
const Handler branchIfNot = chosen<jumpIfNot>();
const Handler branchIndexed = jumpIndexed;

const Inst *waitAtBarrier(const Inst *inst, Warp &warp) {
  continueAllAt(warp, inst);
  warp.ready &= ~warp.mask;
  warp.atBarrier |= warp.mask;
  return nullptr;
}

const Inst *waitForWarp(const Inst *inst, Warp &warp) {
  if (canMeet(inst, warp)) {
    runWarp(inst, warp, warp.mask);
    return inst + 1;
  }
  continueAllAt(warp, inst);
  warp.ready &= ~warp.mask;
  warp.atWarp |= warp.mask;
  return nullptr;
}

const Inst *endThread(const Inst *inst, Warp &warp) {
  continueAllAt(warp, inst);
  warp.ready &= ~warp.mask;
  warp.live &= ~warp.mask;
  return nullptr;
}

namespace {

const Inst *nothing(const Inst *inst, Warp &) { return inst + 1; }

const Inst *trap(const Inst *inst, Warp &warp) {
  fault(FaultCode::LaunchFailed, "the kernel executed `trap`", inst, warp, std::countr_zero(warp.mask));
}

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
  std::string_view op = s.parts[0];
  if (op == "bra")
    return decodeBranch(builder, s);
  if (op == "brx") {
    builder.expect(2);
    builder.branchByTable(s.operands[1], builder.source(s.operands[0], Type::U32));
    return true;
  }
  if (op == "call") {
    builder.callSite(s);
    builder.emit(callFunction, 0, int32_t(builder.function.calls.size() - 1));
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
