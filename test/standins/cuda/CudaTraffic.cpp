// SPDX-License-Identifier: Apache-2.0
// The memory traffic of all launches, for tests and for the file that the variable KERF_STANDIN_TRAFFIC names.
#include "CudaTraffic.h"

#include "CudaState.h"
#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace kerf::standin::cuda {

namespace {
/// Traffic since counting began.
struct Totals {
  std::mutex mutex;
  std::map<std::string, std::pair<int64_t, ptx::Traffic>> kernels; // launches and traffic by kernel
  std::map<uint64_t, ptx::Traffic> pages;
};
Totals &totals() {
  static Totals *all = new Totals; // never destroyed: threads may still use it when the process ends
  return *all;
}
std::atomic<bool> counts{std::getenv("KERF_STANDIN_TRAFFIC") != nullptr};

void add(ptx::Traffic &to, const ptx::Traffic &from) {
  to.loads += from.loads, to.stores += from.stores;
  to.sectorsLoaded += from.sectorsLoaded, to.sectorsStored += from.sectorsStored;
}

void writeTraffic() {
  FILE *file = std::fopen(std::getenv("KERF_STANDIN_TRAFFIC"), "w");
  if (!file)
    return;
  std::lock_guard lock(totals().mutex);
  std::fprintf(file, "%-28s %9s %12s %12s %12s %12s\n", "kernel", "launches", "loads", "sectors", "stores", "sectors");
  for (const auto &[name, entry] : totals().kernels) {
    const auto &[launches, traffic] = entry;
    std::fprintf(file, "%-28s %9lld %12lld %12lld %12lld %12lld\n", name.c_str(), static_cast<long long>(launches),
                 static_cast<long long>(traffic.loads), static_cast<long long>(traffic.sectorsLoaded),
                 static_cast<long long>(traffic.stores), static_cast<long long>(traffic.sectorsStored));
  }
  std::fclose(file);
}
} // namespace

bool countsTraffic() {
  static const bool registered = std::getenv("KERF_STANDIN_TRAFFIC") && std::atexit(writeTraffic) == 0;
  return registered || counts;
}

void addTraffic(const std::string &kernel, const ptx::TrafficCounter &counter) {
  Totals &all = totals();
  std::lock_guard lock(all.mutex);
  auto &[launches, traffic] = all.kernels[kernel];
  ++launches;
  add(traffic, counter.total);
  for (const auto &[page, part] : counter.byPage)
    add(all.pages[page], part);
}

/// For tests: begins counting from zero.
KERF_CUDA_API kerfStandinCountTraffic() {
  std::lock_guard lock(totals().mutex);
  totals().kernels.clear();
  totals().pages.clear();
  counts = true;
  return kSuccess;
}

namespace {
/// Returns the traffic in `bytes` bytes of device memory from `address` on, which begin at a multiple of 256.
ptx::Traffic trafficIn(uint64_t address, uint64_t bytes) {
  constexpr uint64_t kPage = ptx::TrafficCounter::kPageBytes;
  std::lock_guard lock(totals().mutex);
  ptx::Traffic sum;
  auto &pages = totals().pages;
  for (auto page = pages.lower_bound(address / kPage); page != pages.end() && page->first * kPage < address + bytes;
       ++page)
    add(sum, page->second);
  return sum;
}
} // namespace

/// For tests: writes the numbers of sectors that warps have loaded and stored in `bytes` bytes of device memory from
/// `address` on, which begin at a multiple of 256.
KERF_CUDA_API kerfStandinSectors(uint64_t address, uint64_t bytes, int64_t *loaded, int64_t *stored) {
  if (address % ptx::TrafficCounter::kPageBytes != 0)
    return kInvalidValue;
  ptx::Traffic traffic = trafficIn(address, bytes);
  *loaded = traffic.sectorsLoaded, *stored = traffic.sectorsStored;
  return kSuccess;
}

/// For tests: writes how many requests of warps have loaded and stored there.
KERF_CUDA_API kerfStandinRequests(uint64_t address, uint64_t bytes, int64_t *loads, int64_t *stores) {
  if (address % ptx::TrafficCounter::kPageBytes != 0)
    return kInvalidValue;
  ptx::Traffic traffic = trafficIn(address, bytes);
  *loads = traffic.loads, *stores = traffic.stores;
  return kSuccess;
}

} // namespace kerf::standin::cuda
