// SPDX-License-Identifier: Apache-2.0
// The decoded form of a PTX function, and the state of the threads that execute it.
// Every operand is a slot: the index of a 64-bit word in the frame of a function's call. Registers, constants and
// special registers are all slots, so that an instruction need not distinguish them.
#pragma once

#include "Ptx.h"
#include "PtxTraffic.h"

#include <array>
#include <bit>
#include <cstring>
#include <deque>

namespace kerf::standin::ptx {

struct Inst;
struct Thread;

/// Executes one instruction. Returns the next one, or null if the thread waits or has ended.
using Handler = const Inst *(*)(const Inst *inst, Thread &thread);

/// One decoded instruction. What the fields mean depends on the handler; usually slots of destination and sources.
struct Inst {
  Handler handler = nullptr;
  int32_t d = 0, a = 0, b = 0, c = 0, e = 0;
  uint32_t line = 0;
  const int32_t *list = nullptr; // further slots or branch distances
};

/// Slots that every frame begins with: special registers and bases.
enum FixedSlot : int32_t {
  kTid = 0,
  kNtid = 3,
  kCtaid = 6,
  kNctaid = 9,
  kLaneId = 12,
  kWarpId,
  kNwarpId,
  kMaskEq,
  kMaskLe,
  kMaskLt,
  kMaskGe,
  kMaskGt,
  kDynamicShared, // offset of the dynamic part of shared memory
  kLocalBase,     // local address of this call's frame
  kSmId,
  kNsmId,
  kDynamicBytes,
  kTotalShared,
  kZero,
  kFixedSlots = 32
};

/// Pattern of registers that nothing has written: a NaN as f32 and as f64.
constexpr uint64_t kPoison = 0x7FF7BAD17FA7BAD1;

/// Generic addresses of shared, local and parameter memory; the highest byte tells them from device addresses.
constexpr uint64_t kSharedWindow = 0xF1ull << 56;
constexpr uint64_t kLocalWindow = 0xF2ull << 56;
constexpr uint64_t kParamWindow = 0xF3ull << 56;
constexpr uint64_t kCodeWindow = 0xF4ull << 56;
constexpr int kWarp = 32;

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
  std::vector<uint64_t> image; // the frame at the beginning of a call: constants, and poison for registers
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
  std::array<Region, 4> regions; // the allocations that were accessed last
  unsigned nextRegion = 0;
  uint64_t instructions = 0;

  std::byte *findGlobal(uint64_t address, size_t bytes, const Inst *inst, const Thread &thread);
};

/// Memory of one running thread, given to another one when the thread has ended.
struct Frames {
  std::vector<uint64_t> slots;
  std::vector<std::byte> local;
};

/// Where a function continues after a call.
struct Return {
  const Inst *inst = nullptr;
  const Function *function = nullptr;
  size_t slotBase = 0, localBase = 0;
  const CallSite *site = nullptr;
};

enum class ThreadState : uint8_t { Fresh, Ready, AtBarrier, AtWarp, Done };

/// One thread of a block.
struct Thread {
  uint64_t *r = nullptr; // slots of the current frame
  Machine *machine = nullptr;
  const Inst *inst = nullptr;
  const Function *function = nullptr;
  Frames *frames = nullptr;
  size_t slotBase = 0, localBase = 0, localTop = 0;
  std::vector<Return> returns;
  uint32_t index = 0;
  ThreadState state = ThreadState::Fresh;
  bool carry = false;
};

/// Throws the fault of an instruction; `text` is completed with thread, block and line.
[[noreturn]] void fault(FaultCode code, const std::string &text, const Inst *inst, const Thread &thread);

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

/// Finds the host's bytes for `bytes` bytes at an address of a state space, or throws a fault.
inline std::byte *resolve(uint64_t address, size_t bytes, Space space, const Inst *inst, Thread &thread,
                          bool isStore = false) {
  if (address & (bytes - 1))
    fault(FaultCode::Misaligned, "misaligned address", inst, thread);
  Machine &machine = *thread.machine;
  if (space == Space::Generic) {
    uint64_t window = address & (0xFFull << 56);
    if (window == kSharedWindow)
      space = Space::Shared;
    else if (window == kLocalWindow)
      space = Space::Local;
    else if (window == kParamWindow)
      space = Space::Param;
    else
      space = Space::Global;
    if (space != Space::Global)
      address &= ~(0xFFull << 56);
  }
  if (space == Space::Global) {
    if (machine.launch->traffic) [[unlikely]]
      machine.launch->traffic->note(inst, thread.index, address, bytes, isStore);
    for (const Region &region : machine.regions) {
      uint64_t offset = address - region.address;
      if (offset < region.bytes && bytes <= region.bytes - offset)
        return region.host + offset;
    }
    return machine.findGlobal(address, bytes, inst, thread);
  }
  std::byte *base = space == Space::Shared  ? machine.shared.data()
                    : space == Space::Local ? thread.frames->local.data()
                                            : machine.arguments.data();
  size_t size = space == Space::Shared  ? machine.shared.size()
                : space == Space::Local ? thread.localTop
                                        : machine.arguments.size();
  if (address >= size || bytes > size - address)
    fault(FaultCode::IllegalAddress,
          space == Space::Shared  ? "access outside of the block's shared memory"
          : space == Space::Local ? "access outside of the thread's local memory"
                                  : "access outside of the kernel's parameters",
          inst, thread);
  return base + address;
}

/// Operations of a warp that `runWarp` executes when all lanes have arrived.
enum class WarpOp : int32_t { Shuffle, Vote, Match, Redux, ActiveMask, Sync, Elect };

/// Handlers that make a thread wait; the scheduler recognises instructions by them.
const Inst *waitAtBarrier(const Inst *inst, Thread &thread);
const Inst *waitForWarp(const Inst *inst, Thread &thread);
const Inst *endThread(const Inst *inst, Thread &thread);
/// Returns from a call, or ends the thread in a kernel.
const Inst *returnFromCall(const Inst *inst, Thread &thread);

/// Executes a warp instruction for the lanes of `mask`, all of which wait at it. Unused entries are null.
void runWarp(const Inst *inst, std::span<Thread *const> lanes, uint32_t mask);

/// Prepares a frame for `function` and makes it the current one.
void enterFrame(Thread &thread, const Function &function, size_t slotBase, size_t localBase);

} // namespace kerf::standin::ptx
