// SPDX-License-Identifier: Apache-2.0
// The cluster that stands for this machine when no file does. Speed is constants and not a measurement, so that a plan
// made twice is the same plan; `kerf profile` is what measures.
#include "kerf/CostModel/Cluster.h"
#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

using namespace kerf;

namespace {

// One core with AVX-512 in oneDNN's sgemm, n = 512, measured on an EPYC of 2023: 246 GFLOP/s; f64 half of it.
constexpr double kCorePeakFlops32 = 240e9;
constexpr double kCorePeakFlops64 = 120e9;
// One core streams about this much (STREAM triad, one thread, servers of 2019-2023: 10-14 GB/s); four saturate a socket
// of a virtual machine.
constexpr double kCoreMemoryBandwidth = 12e9;
constexpr double kMachineMemoryBandwidth = 48e9;
// A message between two threads is a copy through memory: read and written once, by the receiver.
constexpr double kThreadBandwidth = 5e9;
// To wake a thread that waits on a condition variable (Linux futex, both ends on one socket).
constexpr double kThreadLatency = 10e-6;
// Memory is told in whole steps of this: the figure must not move with a page that firmware keeps.
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
  // A rank computes on one core. Ranks that outnumber the cores take turns, as many as a plan uses.
  cluster.device.curves.hostCores = static_cast<double>(cores);
  cluster.device.curves.hostMemoryBandwidth = kMachineMemoryBandwidth;
  cluster.levels = {{"threads", ranks, kThreadBandwidth, kThreadLatency, kThreadBandwidth}};
  cluster.source = {
      {"device", "lib/CostModel/ThisMachine.cpp: constants per core; cores and memory as the system says"}};
  cluster.usedRanks = ranks;
  return cluster;
}
