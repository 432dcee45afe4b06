// SPDX-License-Identifier: Apache-2.0
// Instructions of a warp, executed for all of its lanes at once.
#include "PtxLanes.h"
#include "PtxText.h"

namespace kerf::standin::ptx {

namespace {

/// Calls `action(lane, thread)` for every lane of the mask.
template <class Action> void forEach(Warp &warp, uint32_t mask, Action action) {
  forEachLane(mask, [&](int lane) { action(lane, warp.threads[size_t(lane)]); });
}

enum ShuffleMode : int32_t { Up, Down, Butterfly, Index };

/// Follows the pseudocode of the PTX manual's `shfl.sync`. A lane that has not arrived gives the poison pattern.
void shuffle(const Inst *inst, Warp &warp, uint32_t mask) {
  std::array<uint32_t, kWarp> values;
  values.fill(uint32_t(kPoison));
  forEach(warp, mask, [&](int lane, Thread &thread) { values[size_t(lane)] = uint32_t(thread.r[inst->a]); });
  forEach(warp, mask, [&](int lane, Thread &thread) {
    int b = int(thread.r[inst->b] & 31), c = int(thread.r[inst->c] & 31), segment = int(thread.r[inst->c] >> 8 & 31);
    int most = (lane & segment) | (c & ~segment), least = lane & segment, from = lane;
    bool valid = false;
    switch (inst->list[2]) {
    case Up:
      from = lane - b, valid = from >= most;
      break;
    case Down:
      from = lane + b, valid = from <= most;
      break;
    case Butterfly:
      from = lane ^ b, valid = from <= most;
      break;
    default:
      from = least | (b & ~segment), valid = from <= most;
      break;
    }
    if (!valid)
      from = lane;
    thread.r[inst->d] = values[size_t(from)];
    if (inst->list[1] >= 0)
      thread.r[inst->list[1]] = valid;
  });
}

enum VoteMode : int32_t { All, Any, Uniform, Ballot };

void vote(const Inst *inst, Warp &warp, uint32_t mask) {
  uint32_t ballot = 0;
  forEach(warp, mask, [&](int lane, Thread &thread) { ballot |= uint32_t(thread.r[inst->a] & 1) << lane; });
  uint64_t result = ballot;
  switch (inst->list[2]) {
  case All:
    result = ballot == mask;
    break;
  case Any:
    result = ballot != 0;
    break;
  case Uniform:
    result = ballot == 0 || ballot == mask;
    break;
  default:
    break;
  }
  forEach(warp, mask, [&](int, Thread &thread) { thread.r[inst->d] = result; });
}

void match(const Inst *inst, Warp &warp, uint32_t mask) {
  bool all = inst->list[2], wide = inst->list[3] == 8;
  auto value = [&](int lane) {
    uint64_t bits = warp.threads[size_t(lane)].r[inst->a];
    return wide ? bits : uint32_t(bits);
  };
  std::array<uint32_t, kWarp> equal{};
  forEach(warp, mask, [&](int lane, Thread &) {
    forEach(warp, mask,
            [&](int other, Thread &) { equal[size_t(lane)] |= uint32_t(value(lane) == value(other)) << other; });
  });
  forEach(warp, mask, [&](int lane, Thread &thread) {
    uint32_t lanesEqual = equal[size_t(lane)];
    thread.r[inst->d] = all && lanesEqual != mask ? 0 : lanesEqual;
    if (inst->list[1] >= 0)
      thread.r[inst->list[1]] = lanesEqual == mask;
  });
}

enum ReduxMode : int32_t { Sum, Least, Most, BitAnd, BitOr, BitXor };

void redux(const Inst *inst, Warp &warp, uint32_t mask) {
  bool isFirst = true, isSignedType = inst->list[3];
  uint32_t result = 0;
  forEach(warp, mask, [&](int, Thread &thread) {
    uint32_t value = uint32_t(thread.r[inst->a]);
    bool less = isSignedType ? int32_t(value) < int32_t(result) : value < result;
    if (isFirst)
      result = value;
    else
      switch (inst->list[2]) {
      case Sum:
        result += value;
        break;
      case Least:
        result = less ? value : result;
        break;
      case Most:
        result = less ? result : value;
        break;
      case BitAnd:
        result &= value;
        break;
      case BitOr:
        result |= value;
        break;
      default:
        result ^= value;
        break;
      }
    isFirst = false;
  });
  forEach(warp, mask, [&](int, Thread &thread) { thread.r[inst->d] = result; });
}

} // namespace

void runWarp(const Inst *inst, Warp &warp, uint32_t mask) {
  switch (WarpOp(inst->e)) {
  case WarpOp::Shuffle:
    return shuffle(inst, warp, mask);
  case WarpOp::Vote:
    return vote(inst, warp, mask);
  case WarpOp::Match:
    return match(inst, warp, mask);
  case WarpOp::Redux:
    return redux(inst, warp, mask);
  case WarpOp::Sync:
    return;
  case WarpOp::ActiveMask:
    return forEach(warp, mask, [&](int, Thread &thread) { thread.r[inst->d] = mask; });
  case WarpOp::Elect: {
    int leader = std::countr_zero(mask);
    return forEach(warp, mask, [&](int lane, Thread &thread) {
      thread.r[inst->d] = uint64_t(leader);
      thread.r[inst->list[1]] = lane == leader;
    });
  }
  }
}

} // namespace kerf::standin::ptx
