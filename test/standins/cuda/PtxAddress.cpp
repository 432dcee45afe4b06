// SPDX-License-Identifier: Apache-2.0
#include "PtxAddress.h"

namespace kerf::standin::ptx {

namespace {

constexpr uint64_t kWindows = 0xFFull << 56; // the bits of a generic address that name the window

/// Returns the state space that a generic address belongs to.
Space spaceOf(uint64_t address) {
  switch (address & kWindows) {
  case kSharedWindow:
    return Space::Shared;
  case kLocalWindow:
    return Space::Local;
  case kParamWindow:
    return Space::Param;
  default:
    return Space::Global;
  }
}

/// Finds the host's bytes of one lane, or throws a fault.
std::byte *resolve(const Access &access, const Warp &warp, int lane) {
  Machine &machine = *warp.machine;
  const Thread &thread = warp.threads[size_t(lane)];
  uint64_t address = thread.r[access.slot] + access.offset;
  if (address & (access.bytes - 1))
    fault(FaultCode::Misaligned, "misaligned address", access.inst, warp, lane);
  Space space = access.space;
  if (space == Space::Generic) {
    space = spaceOf(address);
    if (space != Space::Global)
      address &= ~kWindows;
  }
  if (space == Space::Global) {
    if (machine.launch->traffic)
      machine.launch->traffic->note(access.inst, warp.firstThread + uint32_t(lane), address, access.bytes,
                                    access.isStore);
    for (const Region &region : machine.regions) {
      uint64_t offset = address - region.address;
      if (offset < region.bytes && access.bytes <= region.bytes - offset)
        return region.host + offset;
    }
    return machine.findGlobal(address, access.bytes, access.inst, warp, lane);
  }
  std::vector<std::byte> &memory = space == Space::Shared  ? machine.shared
                                   : space == Space::Local ? warp.frames->local[size_t(lane)]
                                                           : machine.arguments;
  size_t size = space == Space::Local ? thread.localTop : memory.size();
  if (address >= size || access.bytes > size - address)
    fault(FaultCode::IllegalAddress,
          space == Space::Shared  ? "access outside of the block's shared memory"
          : space == Space::Local ? "access outside of the thread's local memory"
                                  : "access outside of the kernel's parameters",
          access.inst, warp, lane);
  return memory.data() + address;
}

} // namespace

void resolveEach(const Access &access, const Warp &warp, HostBytes &hosts) {
  forEachLane(warp.mask, [&](int lane) { hosts[size_t(lane)] = resolve(access, warp, lane); });
}

Region knownRegion(uint64_t address, Space space, Machine &machine) {
  uint64_t window = 0;
  if (space == Space::Generic) {
    space = spaceOf(address);
    window = space == Space::Global ? 0 : address & kWindows;
  }
  auto whole = [&](std::vector<std::byte> &memory) { return Region{window, memory.size(), memory.data()}; };
  if (space == Space::Shared)
    return whole(machine.shared);
  if (space == Space::Param)
    return whole(machine.arguments);
  if (space == Space::Global && !machine.launch->traffic)
    for (const Region &region : machine.regions)
      if (address - region.address < region.bytes)
        return region;
  return {};
}

} // namespace kerf::standin::ptx
