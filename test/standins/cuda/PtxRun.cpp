// SPDX-License-Identifier: Apache-2.0
// Runs a grid: block after block, and in a block thread after thread, each until it waits for others or has ended.
#include "PtxText.h"

#include <algorithm>

namespace kerf::standin::ptx {

void fault(FaultCode code, const std::string &text, const Inst *inst, const Thread &thread) {
  const uint64_t *r = thread.r;
  auto triple = [&](int32_t slot) {
    return "(" + std::to_string(r[slot]) + "," + std::to_string(r[slot + 1]) + "," + std::to_string(r[slot + 2]) + ")";
  };
  throw FaultException{{code, thread.machine->kernel->name + ", line " + std::to_string(inst->line) + ", block " +
                                  triple(kCtaid) + ", thread " + triple(kTid) + ": " + text}};
}

std::byte *Machine::findGlobal(uint64_t address, size_t bytes, const Inst *inst, const Thread &thread) {
  Region region;
  char number[32];
  std::snprintf(number, sizeof number, "0x%llx", static_cast<unsigned long long>(address));
  if (!launch->find || !launch->find(address, region) || address < region.address ||
      address - region.address >= region.bytes)
    fault(FaultCode::IllegalAddress, std::string("address ") + number + " lies in no allocation", inst, thread);
  if (bytes > region.bytes - (address - region.address))
    fault(FaultCode::IllegalAddress,
          std::to_string(bytes) + " bytes at address " + number + " reach beyond their allocation", inst, thread);
  regions[nextRegion++ % regions.size()] = region;
  return region.host + (address - region.address);
}

namespace {

constexpr uint64_t kSlice = 1 << 16; // instructions after which other threads of the block get a turn

/// Runs the blocks of one launch on the calling thread.
class BlockRunner {
public:
  BlockRunner(Machine &machine, Extent block)
      : machine(machine), block(block), threads(size_t(block.x) * block.y * block.z) {}

  void run(Extent index);

private:
  void start(Thread &thread);
  void runThread(Thread &thread);
  bool runWarpOf(size_t first, size_t count);
  bool meetInWarp(std::span<Thread> warp);
  bool meetAtBarrier();
  void release(std::vector<Thread *> &group);
  void checkAligned() const;
  [[noreturn]] void deadlock() const;

  Machine &machine;
  Extent block;
  Extent blockIndex;
  std::vector<Thread> threads;
  std::vector<std::unique_ptr<Frames>> frames;
  std::vector<Frames *> freeFrames;
};

void BlockRunner::start(Thread &thread) {
  const Function &kernel = *machine.kernel;
  if (freeFrames.empty()) {
    frames.push_back(std::make_unique<Frames>());
    freeFrames.push_back(frames.back().get());
  }
  thread.frames = freeFrames.back();
  freeFrames.pop_back();
  thread.returns.clear();
  thread.carry = false;
  thread.machine = &machine;
  enterFrame(thread, kernel, 0, 0);
  uint64_t *r = thread.r;
  const Extent &grid = machine.launch->grid;
  uint32_t index = thread.index, lane = index % kWarp;
  r[kTid] = index % block.x, r[kTid + 1] = index / block.x % block.y, r[kTid + 2] = index / block.x / block.y;
  r[kNtid] = block.x, r[kNtid + 1] = block.y, r[kNtid + 2] = block.z;
  r[kCtaid] = blockIndex.x, r[kCtaid + 1] = blockIndex.y, r[kCtaid + 2] = blockIndex.z;
  r[kNctaid] = grid.x, r[kNctaid + 1] = grid.y, r[kNctaid + 2] = grid.z;
  r[kLaneId] = lane;
  r[kWarpId] = index / kWarp;
  r[kNwarpId] = (threads.size() + kWarp - 1) / kWarp;
  r[kMaskEq] = 1u << lane;
  r[kMaskLt] = (1u << lane) - 1;
  r[kMaskLe] = r[kMaskEq] | r[kMaskLt];
  r[kMaskGe] = uint32_t(~r[kMaskLt]);
  r[kMaskGt] = uint32_t(~r[kMaskLe]);
  r[kDynamicShared] = machine.shared.size() - machine.launch->dynamicSharedBytes;
  r[kDynamicBytes] = machine.launch->dynamicSharedBytes;
  r[kTotalShared] = machine.shared.size();
  r[kNsmId] = 1;
  thread.inst = kernel.code.data();
  thread.state = ThreadState::Ready;
}

void BlockRunner::runThread(Thread &thread) {
  if (thread.state == ThreadState::Fresh)
    start(thread);
  const Inst *inst = thread.inst;
  uint64_t left = kSlice;
  while (inst && left) {
    inst = inst->handler(inst, thread);
    --left;
  }
  machine.instructions += kSlice - left;
  if (inst)
    thread.inst = inst;
  if (thread.state == ThreadState::Done) {
    freeFrames.push_back(thread.frames);
    thread.frames = nullptr;
  }
}

/// Executes every warp instruction of the warp for which all lanes have arrived. Returns whether there was one.
bool BlockRunner::meetInWarp(std::span<Thread> warp) {
  std::array<Thread *, kWarp> lanes{};
  uint32_t live = 0;
  for (size_t i = 0; i < warp.size(); ++i)
    if (warp[i].state != ThreadState::Done) {
      lanes[i] = &warp[i];
      live |= 1u << i;
    }
  bool progress = false;
  uint32_t handled = 0;
  for (size_t i = 0; i < warp.size(); ++i) {
    if (warp[i].state != ThreadState::AtWarp || (handled >> i & 1))
      continue;
    const Inst *inst = warp[i].inst;
    bool collects = WarpOp(inst->e) == WarpOp::ActiveMask;
    uint32_t named = collects ? ~0u : uint32_t(warp[i].r[inst->list[0]]);
    if (!(named >> i & 1))
      fault(FaultCode::LaunchFailed, "the lane is not in its own mask", inst, warp[i]);
    uint32_t arrived = 0;
    for (size_t j = 0; j < warp.size(); ++j)
      if (warp[j].state == ThreadState::AtWarp && warp[j].inst == inst &&
          (collects || uint32_t(warp[j].r[inst->list[0]]) == named))
        arrived |= 1u << j;
    if (!collects && (named & live & ~arrived))
      continue;
    uint32_t group = arrived & named;
    runWarp(inst, lanes, group);
    for (size_t j = 0; j < warp.size(); ++j)
      if (group >> j & 1) {
        warp[j].inst = inst + 1;
        warp[j].state = ThreadState::Ready;
      }
    handled |= group;
    progress = true;
  }
  return progress;
}

/// Runs the lanes of a warp until all wait at a barrier, have ended, or cannot meet. Returns whether any ran.
bool BlockRunner::runWarpOf(size_t first, size_t count) {
  std::span<Thread> warp(threads.data() + first, count);
  bool progress = false;
  while (true) {
    bool ready = false, turn = false;
    for (Thread &thread : warp) {
      if (thread.state != ThreadState::Ready && thread.state != ThreadState::Fresh)
        continue;
      progress = true;
      runThread(thread);
      ready |= thread.state == ThreadState::Ready;
      turn |= thread.state == ThreadState::Ready;
    }
    if (meetInWarp(warp)) {
      progress = true;
      continue;
    }
    if (!ready)
      return progress;
    if (turn)
      return true; // a lane has used up its slice, perhaps waiting for another warp
  }
}

/// Fails if lanes of one warp wait at different aligned barriers.
void BlockRunner::checkAligned() const {
  for (size_t first = 0; first < threads.size(); first += kWarp) {
    const Inst *inst = nullptr;
    for (size_t i = first; i < std::min(first + kWarp, threads.size()); ++i) {
      const Thread &thread = threads[i];
      if (thread.state != ThreadState::AtBarrier || !thread.inst->list[0])
        continue;
      if (inst && inst != thread.inst)
        fault(FaultCode::LaunchFailed,
              "threads of a warp wait at different barriers; another waits in line " + std::to_string(inst->line),
              thread.inst, thread);
      inst = thread.inst;
    }
  }
}

/// Lets the threads of a complete barrier go on, with the barrier's reduction if it has one.
void BlockRunner::release(std::vector<Thread *> &group) {
  uint64_t votes = 0;
  for (Thread *thread : group)
    if (thread->inst->e)
      votes += thread->r[thread->inst->c] & 1;
  for (Thread *thread : group) {
    const Inst *inst = thread->inst;
    if (inst->e)
      thread->r[inst->d] = inst->e == 1 ? votes : inst->e == 2 ? votes == group.size() : votes > 0;
    thread->inst = inst + 1;
    thread->state = ThreadState::Ready;
  }
}

bool BlockRunner::meetAtBarrier() {
  size_t live = 0;
  std::array<std::vector<Thread *>, 16> waiting;
  for (Thread &thread : threads) {
    live += thread.state != ThreadState::Done;
    if (thread.state == ThreadState::AtBarrier)
      waiting[thread.r[thread.inst->a] & 15].push_back(&thread);
  }
  bool progress = false;
  for (auto &group : waiting) {
    if (group.empty())
      continue;
    const Inst *inst = group.front()->inst;
    size_t expected = inst->b < 0 ? live : size_t(uint32_t(group.front()->r[inst->b]));
    if (group.size() < expected)
      continue;
    checkAligned();
    release(group);
    progress = true;
  }
  return progress;
}

void BlockRunner::deadlock() const {
  size_t atBarrier = 0, atWarp = 0, done = 0;
  const Thread *first = nullptr;
  for (const Thread &thread : threads) {
    atBarrier += thread.state == ThreadState::AtBarrier;
    atWarp += thread.state == ThreadState::AtWarp;
    done += thread.state == ThreadState::Done;
    if (!first && thread.state != ThreadState::Done)
      first = &thread;
  }
  fault(FaultCode::LaunchTimeout,
        "deadlock: " + std::to_string(atBarrier) + " threads wait at barriers, " + std::to_string(atWarp) +
            " for lanes of their warp, and " + std::to_string(done) + " have ended",
        first->inst, *first);
}

void BlockRunner::run(Extent index) {
  blockIndex = index;
  std::fill(machine.shared.begin(), machine.shared.end(), std::byte(0xBA));
  for (size_t i = 0; i < threads.size(); ++i) {
    threads[i].index = uint32_t(i);
    threads[i].state = ThreadState::Fresh;
  }
  while (true) {
    bool progress = false;
    for (size_t first = 0; first < threads.size(); first += kWarp)
      progress |= runWarpOf(first, std::min<size_t>(kWarp, threads.size() - first));
    progress |= meetAtBarrier();
    if (std::all_of(threads.begin(), threads.end(), [](const Thread &t) { return t.state == ThreadState::Done; })) {
      if (machine.launch->traffic)
        machine.launch->traffic->endBlock();
      return;
    }
    if (!progress)
      deadlock();
  }
}

} // namespace

std::optional<Fault> run(const Function &kernel, const Launch &launch, uint64_t *instructions) {
  Machine machine;
  machine.kernel = &kernel;
  machine.launch = &launch;
  machine.arguments.assign(launch.arguments.begin(), launch.arguments.end());
  machine.arguments.resize(kernel.parameterBytes, std::byte(0xBA));
  machine.shared.resize((kernel.sharedBytes + 15) / 16 * 16 + launch.dynamicSharedBytes);
  std::optional<Fault> result;
  try {
    BlockRunner runner(machine, launch.block);
    for (uint32_t z = 0; z < launch.grid.z; ++z)
      for (uint32_t y = 0; y < launch.grid.y; ++y)
        for (uint32_t x = 0; x < launch.grid.x; ++x)
          runner.run({x, y, z});
  } catch (const FaultException &exception) {
    result = exception.fault;
  }
  if (instructions)
    *instructions += machine.instructions;
  return result;
}

} // namespace kerf::standin::ptx
