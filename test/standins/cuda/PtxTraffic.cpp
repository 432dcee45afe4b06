// SPDX-License-Identifier: Apache-2.0
#include "PtxTraffic.h"

#include "PtxInst.h"
#include <algorithm>

namespace kerf::standin::ptx {

void TrafficCounter::note(const Inst *inst, uint32_t thread, uint64_t address, size_t bytes, bool isStore) {
  Key key = {inst, thread / kWarp};
  if (!latestSite || key != latest) {
    latest = key;
    latestSite = &sites[key];
    latestSite->isStore = isStore;
  }
  uint64_t occurrence = latestSite->executions[thread % kWarp]++;
  std::vector<Touch> &touches = latestSite->touches;
  for (uint64_t sector = address / kSectorBytes; sector <= (address + bytes - 1) / kSectorBytes; ++sector)
    if (Touch touch = {occurrence, sector}; touches.empty() || touches.back() != touch)
      touches.push_back(touch);
}

void TrafficCounter::addUp(Site &site) {
  std::vector<Touch> &touches = site.touches;
  if (!std::is_sorted(touches.begin(), touches.end()))
    std::sort(touches.begin(), touches.end());
  touches.erase(std::unique(touches.begin(), touches.end()), touches.end());
  for (size_t i = 0; i < touches.size(); ++i) {
    Traffic &page = byPage[touches[i].sector * kSectorBytes / kPageBytes];
    if (i == 0 || touches[i].occurrence != touches[i - 1].occurrence) {
      (site.isStore ? total.stores : total.loads) += 1;
      (site.isStore ? page.stores : page.loads) += 1;
    }
    (site.isStore ? page.sectorsStored : page.sectorsLoaded) += 1;
  }
  (site.isStore ? total.sectorsStored : total.sectorsLoaded) += int64_t(touches.size());
  touches.clear();
  site.executions.fill(0);
}

void TrafficCounter::endBlock() {
  for (auto &[key, site] : sites)
    addUp(site);
}

} // namespace kerf::standin::ptx
