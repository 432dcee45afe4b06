// SPDX-License-Identifier: Apache-2.0
// Finds the host's bytes for the addresses that the lanes of a warp access.
#pragma once

#include "PtxLanes.h"

namespace kerf::standin::ptx {

/// An access to memory by the lanes of a warp. Each lane reads or writes `bytes` bytes at the address that its slot
/// `slot` holds, plus `offset`.
struct Access {
  const Inst *inst = nullptr;
  int32_t slot = 0;
  uint64_t offset = 0;
  size_t bytes = 0;
  Space space = Space::Generic;
  bool isStore = false;
};

/// The host's bytes of each running lane.
using HostBytes = std::array<std::byte *, kWarp>;

/// Finds the host's bytes of every running lane by itself, or throws the fault of the first lane that has one.
void resolveEach(const Access &access, const Warp &warp, HostBytes &hosts);

/// Returns the memory that holds an address, or one without a host's address where that is not known without a search.
Region knownRegion(uint64_t address, Space space, Machine &machine);

/// Calls `action(lane, host)` for each running lane with the host's bytes of its address. Throws a fault where there
/// are none. The addresses are checked together where one region holds them all.
template <class Action> KERF_INLINE void forEachAddress(const Access &access, Warp &warp, Action action) {
  const uint64_t *addresses = warp.r + access.slot;
  const uint32_t mask = warp.mask;
  const Region region = knownRegion(addresses[std::countr_zero(mask)] + access.offset, access.space, *warp.machine);
  uint64_t bad = ~uint64_t(0);
  if (region.host && access.bytes <= region.bytes) {
    bad = 0;
    const uint64_t most = region.bytes - access.bytes, shift = access.offset - region.address;
    const uint64_t unaligned = access.bytes - 1;
    // The top bit of `offset | (most - offset)` is set unless 0 <= offset <= most, because `most` is far below 2^63.
    auto check = [&](int lane) {
      uint64_t offset = addresses[lane] + shift;
      bad |= ((offset | (most - offset)) & uint64_t(1) << 63) | ((addresses[lane] + access.offset) & unaligned);
    };
    forEachLane(mask, check);
  }
  if (bad == 0) [[likely]] {
    const uint64_t origin = reinterpret_cast<uintptr_t>(region.host) + access.offset - region.address;
    forEachLane(mask, [&](int lane) { action(lane, reinterpret_cast<std::byte *>(origin + addresses[lane])); });
    return;
  }
  HostBytes hosts;
  resolveEach(access, warp, hosts);
  forEachLane(mask, [&](int lane) { action(lane, hosts[size_t(lane)]); });
}

} // namespace kerf::standin::ptx
