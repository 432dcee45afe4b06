// SPDX-License-Identifier: Apache-2.0
// Counts the memory traffic of a launch as a GPU has it: the loads and stores of a warp's threads by one instruction
// are one request, which moves every sector of 32 bytes that it touches once.
#pragma once

#include "Ptx.h"

#include <array>
#include <compare>
#include <map>
#include <unordered_map>

namespace kerf::standin::ptx {

struct Inst;

/// Numbers of requests of warps, and of the sectors that they touch.
struct Traffic {
  int64_t loads = 0, stores = 0;
  int64_t sectorsLoaded = 0, sectorsStored = 0;
};

/// Collects the accesses of one launch. The n-th execution of an instruction by one thread of a warp belongs to the
/// n-th of the others.
class TrafficCounter {
public:
  /// Notes that thread number `thread` of its block accesses `bytes` bytes of global memory.
  void note(const Inst *inst, uint32_t thread, uint64_t address, size_t bytes, bool isStore);
  /// Ends a block: adds up its requests.
  void endBlock();

  Traffic total;
  std::map<uint64_t, Traffic> byPage; // by address / kPageBytes; a request counts in the page where it begins
  static constexpr uint64_t kSectorBytes = 32, kPageBytes = 256;

private:
  /// A sector that one execution of an instruction touches.
  struct Touch {
    uint64_t occurrence, sector;
    auto operator<=>(const Touch &) const = default;
  };
  /// The accesses of one warp's lanes at one instruction.
  struct Site {
    std::array<uint64_t, kWarp> executions{}; // of each lane
    std::vector<Touch> touches;
    bool isStore = false;
  };
  struct Key {
    const Inst *inst = nullptr;
    uint32_t warp = 0;
    bool operator==(const Key &) const = default;
  };
  struct Hash {
    size_t operator()(const Key &key) const { return reinterpret_cast<size_t>(key.inst) * 31 + key.warp; }
  };
  void addUp(Site &site);

  std::unordered_map<Key, Site, Hash> sites;
  Key latest; // the lanes of a warp come one after the other, and mostly to the same site
  Site *latestSite = nullptr;
};

} // namespace kerf::standin::ptx
