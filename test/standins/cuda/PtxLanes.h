// SPDX-License-Identifier: Apache-2.0
// Makes handlers for warps out of the meaning of an instruction in one lane, or out of a body that loops over lanes.
#pragma once

#include "PtxInst.h"

#include <cstdlib>

namespace kerf::standin::ptx {

// Tells the compiler that the turns of a loop over lanes do not depend on each other: each lane has its own words.
#ifdef __clang__
#define KERF_LANES_ARE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define KERF_LANES_ARE_INDEPENDENT _Pragma("GCC ivdep")
#endif

/// Marks the functions below and those that they are given: only when all is one function can the loop over lanes be
/// compiled to vector instructions.
#define KERF_INLINE [[gnu::always_inline]] inline

/// Calls `action(lane)` for each lane of a mask, from the lowest one on.
template <class Action> KERF_INLINE void forEachLane(uint32_t mask, Action action) {
  if (mask == ~0u)
    for (int lane = 0; lane < kWarp; ++lane)
      action(lane);
  else
    for (; mask; mask &= mask - 1)
      action(std::countr_zero(mask));
}

/// Returns the running lanes whose predicate in `slot` is set.
KERF_INLINE uint32_t lanesWith(const Warp &warp, int32_t slot) {
  uint64_t bits = 0;
  for (int lane = 0; lane < kWarp; ++lane)
    bits |= (warp.r[slot + lane] & 1) << lane;
  return uint32_t(bits) & warp.mask;
}

#ifdef __x86_64__
/// A handler for processors with AVX2 and fused multiplication and addition.
template <Handler body> [[gnu::target("avx2,fma")]] const Inst *wide(const Inst *inst, Warp &warp) {
  return body(inst, warp);
}
/// Returns whether the processor can execute these. Tests set a variable for what other processors execute.
inline bool hasWideVectors() {
  static const bool has =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && !std::getenv("KERF_STANDIN_BASELINE");
  return has;
}
template <Handler body> Handler chosen() { return hasWideVectors() ? wide<body> : body; }
#else
template <Handler body> Handler chosen() { return body; }
#endif

/// The meaning of an instruction in one lane, whose word of slot `s` is r[s]. It reads and writes nothing else.
using LaneFunction = void (*)(const Inst &inst, uint64_t *r);

template <LaneFunction function> KERF_INLINE const Inst *onRegisters(const Inst *inst, Warp &warp) {
  const Inst fields = *inst;
  uint64_t *r = warp.r;
  if (warp.isWhole) {
    KERF_LANES_ARE_INDEPENDENT
    for (int lane = 0; lane < kWarp; ++lane)
      function(fields, r + lane);
  } else {
    for (uint32_t mask = warp.mask; mask; mask &= mask - 1)
      function(fields, r + std::countr_zero(mask));
  }
  return inst + 1;
}

/// Returns the handler that executes a lane's function in all running lanes, for this machine's processor.
template <LaneFunction function> Handler lanewise() { return chosen<onRegisters<function>>(); }

} // namespace kerf::standin::ptx
