// SPDX-License-Identifier: Apache-2.0
// Runs a grid: block after block, and in a block warp after warp, each until it waits for others or has ended.
#include "PtxLanes.h"

#include <algorithm>

namespace kerf::standin::ptx {

void fault(FaultCode code, const std::string &text, const Inst *inst, const Warp &warp, int lane) {
  const uint64_t *r = warp.threads[size_t(lane)].r;
  auto triple = [&](int32_t slot) {
    return "(" + std::to_string(r[slot]) + "," + std::to_string(r[slot + kWarp]) + "," +
           std::to_string(r[slot + 2 * kWarp]) + ")";
  };
  throw FaultException{{code, warp.machine->kernel->name + ", line " + std::to_string(inst->line) + ", block " +
                                  triple(kCtaid) + ", thread " + triple(kTid) + ": " + text}};
}

std::byte *Machine::findGlobal(uint64_t address, size_t bytes, const Inst *inst, const Warp &warp, int lane) {
  Region region;
  auto number = [&] {
    char text[32];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
    return std::string(text);
  };
  if (!launch->find || !launch->find(address, region) || address < region.address ||
      address - region.address >= region.bytes)
    fault(FaultCode::IllegalAddress, "address " + number() + " lies in no allocation", inst, warp, lane);
  if (bytes > region.bytes - (address - region.address))
    fault(FaultCode::IllegalAddress,
          std::to_string(bytes) + " bytes at address " + number() + " reach beyond their allocation", inst, warp, lane);
  regions[nextRegion++ % regions.size()] = region;
  return region.host + (address - region.address);
}

namespace {

/// Runs the blocks of one launch on the calling thread.
class BlockRunner {
public:
  BlockRunner(Machine &machine, Extent block);

  void run(Extent index);

private:
  void start(Warp &warp);
  void end(Warp &warp);
  bool meetAtBarrier();
  void release(uint64_t id, uint64_t votes, size_t count);
  void checkAligned() const;
  [[noreturn]] void deadlock() const;

  Machine &machine;
  Extent block;
  size_t threads;
  Extent blockIndex;
  std::vector<Warp> warps;
  std::vector<std::unique_ptr<Frames>> frames;
  std::vector<Frames *> freeFrames;
};

BlockRunner::BlockRunner(Machine &machine, Extent block)
    : machine(machine), block(block), threads(size_t(block.x) * block.y * block.z),
      warps((threads + kWarp - 1) / kWarp) {
  for (size_t i = 0; i < warps.size(); ++i) {
    warps[i].machine = &machine;
    warps[i].firstThread = uint32_t(i * kWarp);
  }
}

/// Gives a warp a frame, and its special registers their values.
void BlockRunner::start(Warp &warp) {
  if (freeFrames.empty()) {
    frames.push_back(std::make_unique<Frames>());
    freeFrames.push_back(frames.back().get());
  }
  warp.frames = freeFrames.back();
  freeFrames.pop_back();
  warp.isFresh = false;
  warp.ready = warp.live;
  warp.atBarrier = warp.atWarp = 0;
  enterKernel(warp, *machine.kernel);
  auto set = [&](int32_t slot, uint64_t value) { std::fill_n(warp.r + slot, kWarp, value); };
  auto setAll = [&](int32_t slot, const Extent &extent) {
    set(slot, extent.x), set(slot + kWarp, extent.y), set(slot + 2 * kWarp, extent.z);
  };
  setAll(kNtid, block);
  setAll(kCtaid, blockIndex);
  setAll(kNctaid, machine.launch->grid);
  set(kWarpId, warp.firstThread / kWarp);
  set(kNwarpId, warps.size());
  set(kDynamicShared, machine.shared.size() - machine.launch->dynamicSharedBytes);
  set(kDynamicBytes, machine.launch->dynamicSharedBytes);
  set(kTotalShared, machine.shared.size());
  set(kNsmId, 1);
  set(kCarry, 0);
  uint32_t first = warp.firstThread;
  Extent at = {first % block.x, first / block.x % block.y, first / block.x / block.y};
  for (int lane = 0; lane < kWarp; ++lane) {
    uint64_t *r = warp.r + lane;
    r[kTid] = at.x, r[kTid + kWarp] = at.y, r[kTid + 2 * kWarp] = at.z;
    if (++at.x == block.x)
      at.x = 0, ++at.y;
    if (at.y == block.y)
      at.y = 0, ++at.z;
    r[kLaneId] = uint64_t(lane);
    r[kMaskEq] = 1u << lane;
    r[kMaskLt] = (1u << lane) - 1;
    r[kMaskLe] = r[kMaskEq] | r[kMaskLt];
    r[kMaskGe] = uint32_t(~r[kMaskLt]);
    r[kMaskGt] = uint32_t(~r[kMaskLe]);
  }
}

void BlockRunner::end(Warp &warp) {
  freeFrames.push_back(warp.frames);
  warp.frames = nullptr;
}

/// Fails if lanes of one warp wait at different aligned barriers.
void BlockRunner::checkAligned() const {
  for (const Warp &warp : warps) {
    const Inst *first = nullptr;
    forEachLane(warp.atBarrier, [&](int lane) {
      const Inst *inst = warp.threads[size_t(lane)].inst;
      if (!inst->list[0])
        return;
      if (first && first != inst)
        fault(FaultCode::LaunchFailed,
              "threads of a warp wait at different barriers; another waits in line " + std::to_string(first->line),
              inst, warp, lane);
      first = inst;
    });
  }
}

/// Returns the number of the barrier at which a lane waits.
uint64_t barrierOf(const Thread &thread) { return thread.r[thread.inst->a] & 15; }

/// Lets the `count` threads at barrier `id` go on, with the barrier's reduction if it has one.
void BlockRunner::release(uint64_t id, uint64_t votes, size_t count) {
  for (Warp &warp : warps) {
    uint32_t released = 0;
    forEachLane(warp.atBarrier, [&](int lane) {
      Thread &thread = warp.threads[size_t(lane)];
      const Inst *inst = thread.inst;
      if (barrierOf(thread) != id)
        return;
      released |= 1u << lane;
      if (inst->e)
        thread.r[inst->d] = inst->e == 1 ? votes : inst->e == 2 ? votes == count : votes > 0;
      thread.inst = inst + 1;
    });
    warp.atBarrier &= ~released;
    warp.ready |= released;
  }
}

/// Lets the threads of every complete barrier go on. Returns whether there was one.
bool BlockRunner::meetAtBarrier() {
  struct Arrived {
    size_t count = 0, expected = 0;
    uint64_t votes = 0;
  };
  std::array<Arrived, 16> arrived{};
  size_t live = 0;
  for (const Warp &warp : warps)
    live += size_t(std::popcount(warp.live));
  for (const Warp &warp : warps)
    forEachLane(warp.atBarrier, [&](int lane) {
      const Thread &thread = warp.threads[size_t(lane)];
      Arrived &barrier = arrived[barrierOf(thread)];
      if (barrier.count++ == 0)
        barrier.expected = thread.inst->b < 0 ? live : size_t(uint32_t(thread.r[thread.inst->b]));
      if (thread.inst->e)
        barrier.votes += thread.r[thread.inst->c] & 1;
    });
  bool progress = false;
  for (size_t id = 0; id < arrived.size(); ++id) {
    const Arrived &barrier = arrived[id];
    if (barrier.count == 0 || barrier.count < barrier.expected)
      continue;
    checkAligned();
    release(id, barrier.votes, barrier.count);
    progress = true;
  }
  return progress;
}

void BlockRunner::deadlock() const {
  size_t atBarrier = 0, atWarp = 0, live = 0;
  const Warp *first = nullptr;
  for (const Warp &warp : warps) {
    atBarrier += size_t(std::popcount(warp.atBarrier));
    atWarp += size_t(std::popcount(warp.atWarp));
    live += size_t(std::popcount(warp.live));
    if (!first && warp.live)
      first = &warp;
  }
  int lane = std::countr_zero(first->live);
  fault(FaultCode::LaunchTimeout,
        "deadlock: " + std::to_string(atBarrier) + " threads wait at barriers, " + std::to_string(atWarp) +
            " for lanes of their warp, and " + std::to_string(threads - live) + " have ended",
        first->threads[size_t(lane)].inst, *first, lane);
}

void BlockRunner::run(Extent index) {
  blockIndex = index;
  std::fill(machine.shared.begin(), machine.shared.end(), std::byte(0xBA));
  for (Warp &warp : warps) {
    warp.live = threads - warp.firstThread >= kWarp ? ~0u : (1u << (threads - warp.firstThread)) - 1;
    warp.isFresh = true;
  }
  while (true) {
    bool progress = false, ended = true;
    for (Warp &warp : warps) {
      if (!warp.live)
        continue;
      if (warp.isFresh)
        start(warp);
      progress |= runLanes(warp);
      if (warp.live)
        ended = false;
      else
        end(warp);
    }
    if (ended)
      break;
    progress |= meetAtBarrier();
    if (!progress)
      deadlock();
  }
  if (machine.launch->traffic)
    machine.launch->traffic->endBlock();
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
