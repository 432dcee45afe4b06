// SPDX-License-Identifier: Apache-2.0
// The cluster of the local machine, if no cluster file is given. Its speed is constant, not measured, so that equal
// inputs always give equal plans; `kerf profile` measures.
#include "kerf/CostModel/Cluster.h"
#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

using namespace kerf;

namespace {

// One core with AVX-512 in oneDNN's sgemm, n = 512, measured on an EPYC of 2023: 246 GFLOP/s; f64 runs at half of it.
constexpr double kCorePeakFlops32 = 240e9;
constexpr double kCorePeakFlops64 = 120e9;
// Memory bandwidth of one core (STREAM triad, one thread, servers of 2019-2023: 10-14 GB/s). Four cores saturate a
// socket of a virtual machine.
constexpr double kCoreMemoryBandwidth = 12e9;
constexpr double kMachineMemoryBandwidth = 48e9;
// A message between two threads is a copy through memory: the receiver reads and writes it once.
constexpr double kThreadBandwidth = 5e9;
// Seconds to wake a thread that waits on a condition variable (Linux futex, both threads on one socket).
constexpr double kThreadLatency = 10e-6;
// Memory is rounded down to multiples of this, so that the number does not change with a page that firmware reserves.
constexpr int64_t kMemoryStep = int64_t(64) << 20;
constexpr int64_t kMaxThreadRanks = 4096;

} // namespace

Result<Cluster> kerf::thisMachine(int64_t ranks) {
  if (ranks < 1 || ranks > kMaxThreadRanks)
    return Error{
        fmt::format("{} ranks on this machine; give <ranks> from 1 to {}, or <cluster>", ranks, kMaxThreadRanks)};
  int64_t cores = std::max<long>(1, sysconf(_SC_NPROCESSORS_ONLN));
  int64_t memory = std::max<int64_t>(kMemoryStep, int64_t(sysconf(_SC_PHYS_PAGES)) * int64_t(sysconf(_SC_PAGESIZE)));
  Cluster cluster;
  cluster.name = "this machine";
  cluster.device.kind = "cpu";
  cluster.device.name = "one core";
  cluster.device.curves = *knownCurves("cpu", "one core");
  cluster.device.memoryBytes = std::max(kMemoryStep, memory / ranks / kMemoryStep * kMemoryStep);
  cluster.device.peakFlops = {{"f32", kCorePeakFlops32}, {"f64", kCorePeakFlops64}};
  cluster.device.memoryBandwidth = kCoreMemoryBandwidth;
  // A rank computes on one core. If a plan uses more ranks than cores, the ranks share the cores.
  cluster.device.curves.hostCores = static_cast<double>(cores);
  cluster.device.curves.hostMemoryBandwidth = kMachineMemoryBandwidth;
  cluster.levels = {{"threads", ranks, kThreadBandwidth, kThreadLatency, kThreadBandwidth}};
  cluster.source = {
      {"device", "lib/CostModel/ThisMachine.cpp: constants per core; cores and memory as the system says"}};
  cluster.usedRanks = ranks;
  return cluster;
}
