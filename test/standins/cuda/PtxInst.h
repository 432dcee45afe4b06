// SPDX-License-Identifier: Apache-2.0
// The decoded form of a PTX function, and the state of the warps that execute it.
// Every operand is a slot of the frame of a function's call: a row of 64-bit words, one for each lane of the warp.
// Registers, constants and special registers are all slots, so that an instruction need not distinguish them. A slot is
// numbered by the position of its first word, which is a multiple of 32: with `r` at the beginning of the frame, the
// word of lane `l` in slot `s` is r[s + l].
#pragma once

#include "Ptx.h"
#include "PtxTraffic.h"

#include <array>
#include <bit>
#include <cstring>
#include <deque>

namespace kerf::standin::ptx {

struct Inst;
struct Warp;

/// Executes one instruction for the running lanes of a warp, `warp.mask`. Returns the next one, or null if these lanes
/// do not go on together: then each lane's next instruction is in its `Thread`, and the masks of the warp say which
/// lanes wait or have ended.
using Handler = const Inst *(*)(const Inst *inst, Warp &warp);

/// One decoded instruction. What the fields mean depends on the handler; usually slots of destination and sources.
struct Inst {
  Handler handler = nullptr;
  int32_t d = 0, a = 0, b = 0, c = 0, e = 0;
  uint32_t line = 0;
  const int32_t *list = nullptr; // further slots or branch distances
};

/// Slots that every frame begins with: special registers and bases.
enum FixedSlot : int32_t {
  kTid = 0, // of x; y and z follow, also below
  kNtid = 3 * kWarp,
  kCtaid = 6 * kWarp,
  kNctaid = 9 * kWarp,
  kLaneId = 12 * kWarp,
  kWarpId = 13 * kWarp,
  kNwarpId = 14 * kWarp,
  kMaskEq = 15 * kWarp,
  kMaskLe = 16 * kWarp,
  kMaskLt = 17 * kWarp,
  kMaskGe = 18 * kWarp,
  kMaskGt = 19 * kWarp,
  kDynamicShared = 20 * kWarp, // offset of the dynamic part of shared memory
  kLocalBase = 21 * kWarp,     // local address of this call's frame
  kSmId = 22 * kWarp,
  kNsmId = 23 * kWarp,
  kDynamicBytes = 24 * kWarp,
  kTotalShared = 25 * kWarp,
  kZero = 26 * kWarp,
  kCarry = 27 * kWarp // the carry flag
};
constexpr size_t kFixedSlots = 32; // the number of such slots, with some to spare

/// Pattern of registers that nothing has written: a NaN as f32 and as f64.
constexpr uint64_t kPoison = 0x7FF7BAD17FA7BAD1;

/// Generic addresses of shared, local and parameter memory; the highest byte tells them from device addresses.
constexpr uint64_t kSharedWindow = 0xF1ull << 56;
constexpr uint64_t kLocalWindow = 0xF2ull << 56;
constexpr uint64_t kParamWindow = 0xF3ull << 56;
constexpr uint64_t kCodeWindow = 0xF4ull << 56;

/// The address of a variable, to be stored in a constant slot when the module is linked.
struct Fixup {
  int32_t slot = 0;
  const Variable *variable = nullptr;
  int64_t addend = 0;
};

/// A parameter or a result of a call: its bytes in the frame of local memory.
struct Place {
  size_t offset = 0, bytes = 0;
};

/// One call instruction: which function, and what is copied.
struct CallSite {
  Function *callee = nullptr; // null for an indirect call
  int32_t pointer = 0;        // slot of the function's address of an indirect call
  std::vector<Place> arguments, results;
};

/// One function or kernel.
struct Function {
  std::string name;
  int index = 0;
  bool isEntry = false, isDefined = false;
  std::vector<Inst> code;
  std::vector<uint64_t> image; // a word of each slot at the beginning of a call: constants, and poison for registers
  std::deque<std::vector<int32_t>> lists;
  std::deque<CallSite> calls;
  std::vector<Fixup> fixups;
  std::vector<Parameter> parameters;
  std::vector<Place> incoming, returned; // parameters and results of a function, in its local frame
  size_t parameterBytes = 0;
  size_t localBytes = 0;
  size_t sharedBytes = 0;
  uint32_t maxThreads = 1024;
  int registers = 0;
  const Module *module = nullptr;
};

/// Ends a launch; thrown by handlers and caught by `run`.
struct FaultException {
  Fault fault;
};

/// The state that all blocks of one launch share.
struct Machine {
  const Function *kernel = nullptr;
  const Launch *launch = nullptr;
  std::vector<std::byte> arguments;
  std::vector<std::byte> shared;
  std::array<Region, 16> regions; // the allocations that were accessed last
  unsigned nextRegion = 0;
  uint64_t instructions = 0;

  std::byte *findGlobal(uint64_t address, size_t bytes, const Inst *inst, const Warp &warp, int lane);
};

/// Memory of one running warp, given to another one when the warp has ended.
struct Frames {
  std::vector<uint64_t> slots;
  std::array<std::vector<std::byte>, kWarp> local;
};

/// Where a function continues after a call.
struct Return {
  const Inst *inst = nullptr;
  const Function *function = nullptr;
  size_t slotBase = 0, localBase = 0;
  const CallSite *site = nullptr;
};

/// One thread of a block: a lane of its warp.
struct Thread {
  uint64_t *r = nullptr; // the lane's words of the current frame: slot s is r[s]
  const Inst *inst = nullptr;
  const Function *function = nullptr;
  size_t slotBase = 0, localBase = 0, localTop = 0; // `slotBase` counts words of the warp's slots
  std::vector<Return> returns;
};

/// One warp. Its lanes run in groups: those that are at the same instruction of the same frame execute it together.
struct Warp {
  uint64_t *r = nullptr; // the frame of the lanes that run now
  uint32_t mask = 0;     // the lanes that run now
  /// Whether the lanes that run are all that have not ended. Then instructions on registers may work on all 32 lanes:
  /// nobody reads the words of lanes that have ended.
  bool isWhole = false;
  uint32_t live = 0; // the lanes that have not ended; each of them is in one of the three masks below
  uint32_t ready = 0, atBarrier = 0, atWarp = 0;
  uint32_t firstThread = 0; // index of lane 0 in the block
  bool isFresh = false;     // its lanes have not begun
  Machine *machine = nullptr;
  Frames *frames = nullptr;
  std::array<Thread, kWarp> threads;
};

/// Throws the fault of a lane's instruction; `text` is completed with thread, block and line.
[[noreturn]] void fault(FaultCode code, const std::string &text, const Inst *inst, const Warp &warp, int lane);

/// Reads the low bits of a slot as T.
template <class T> inline T get(uint64_t slot) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(uint32_t(slot));
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<double>(slot);
  else
    return T(slot);
}

/// Makes the content of a slot; bits above T's width are not significant.
template <class T> inline uint64_t put(T value) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<uint32_t>(value);
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<uint64_t>(value);
  else
    return uint64_t(value);
}

/// As `put`, with the NaN that a GPU's f32 arithmetic returns.
template <class T> inline uint64_t putResult(T value) {
  if constexpr (std::is_same_v<T, float>)
    if (value != value)
      return 0x7FFFFFFF;
  return put(value);
}

/// Operations of a warp that `runWarp` executes when all lanes have arrived.
enum class WarpOp : int32_t { Shuffle, Vote, Match, Redux, ActiveMask, Sync, Elect };

/// Handlers that make lanes wait or end.
const Inst *waitAtBarrier(const Inst *inst, Warp &warp);
const Inst *waitForWarp(const Inst *inst, Warp &warp);
const Inst *endThread(const Inst *inst, Warp &warp);
/// Handler of calls: field `a` is the index of the call site in the function.
const Inst *callFunction(const Inst *inst, Warp &warp);
/// Returns from a call, or ends the lanes in a kernel.
const Inst *returnFromCall(const Inst *inst, Warp &warp);

/// Returns whether the lanes that run can execute a warp instruction without waiting for others.
bool canMeet(const Inst *inst, const Warp &warp);
/// Executes a warp instruction for the lanes of `mask`, all of which have arrived at it.
void runWarp(const Inst *inst, Warp &warp, uint32_t mask);

/// Begins the kernel in all lanes of `warp.live`: fills their registers, except for the special ones.
void enterKernel(Warp &warp, const Function &kernel);
/// Makes a lane go on at `inst`, when the lanes of the warp run again.
inline void continueAt(Warp &warp, int lane, const Inst *inst) { warp.threads[size_t(lane)].inst = inst; }

/// Runs the lanes of a warp until all wait at a barrier, have ended, cannot meet or have used up their time slice.
/// Returns whether any ran.
bool runLanes(Warp &warp);

} // namespace kerf::standin::ptx
