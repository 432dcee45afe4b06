// SPDX-License-Identifier: Apache-2.0
#include "PtxTraffic.h"

#include "PtxInst.h"
#include <algorithm>

namespace kerf::standin::ptx {

void TrafficCounter::note(const Inst *inst, uint32_t thread, uint64_t address, size_t bytes, bool isStore) {
  uint64_t occurrence = executions[{inst, thread, 0}]++;
  Request &request = requests[{inst, thread / kWarp, occurrence}];
  request.isStore = isStore;
  for (uint64_t sector = address / kSectorBytes; sector <= (address + bytes - 1) / kSectorBytes; ++sector)
    if (request.sectors.empty() || request.sectors.back() != sector)
      request.sectors.push_back(sector);
}

void TrafficCounter::endBlock() {
  for (auto &[key, request] : requests) {
    std::sort(request.sectors.begin(), request.sectors.end());
    request.sectors.erase(std::unique(request.sectors.begin(), request.sectors.end()), request.sectors.end());
    (request.isStore ? total.stores : total.loads) += 1;
    (request.isStore ? total.sectorsStored : total.sectorsLoaded) += int64_t(request.sectors.size());
    if (!request.sectors.empty()) {
      Traffic &page = byPage[request.sectors[0] * kSectorBytes / kPageBytes];
      (request.isStore ? page.stores : page.loads) += 1;
    }
    for (uint64_t sector : request.sectors) {
      Traffic &page = byPage[sector * kSectorBytes / kPageBytes];
      (request.isStore ? page.sectorsStored : page.sectorsLoaded) += 1;
    }
  }
  executions.clear();
  requests.clear();
}

} // namespace kerf::standin::ptx
