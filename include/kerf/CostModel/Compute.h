// SPDX-License-Identifier: Apache-2.0
// Seconds of a kernel: a roofline with an efficiency per kernel class (docs/cost-model.md).
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/Support/Work.h"

namespace kerf {

/// Shares of peak that a class reaches on large shapes, and what a launch costs.
struct ComputeEfficiency {
  double flops = 1;         // of peak_flops
  double bytes = 1;         // of memory_bandwidth
  double launchSeconds = 0; // before the first element
};
ComputeEfficiency efficiencyOf(const Device &device, KernelClass kernelClass);

/// FLOP/s of a dtype: the device's own figure, or the nearest wider one that it has (f16 and bf16 stand for each other,
/// integers count as f32, f64 without a figure runs at half of f32).
double peakFlops(const Device &device, std::string_view dtype);

/// max(flops / (efficiency * peak), bytes / (efficiency * bandwidth)) + launches * launch latency.
double computeSeconds(const Device &device, const Work &work);

/// Returns bytes/s of copies between the device's memory and the host's, in one direction: the cluster file's
/// `host_bandwidth`. A CPU core without that figure reads and writes the memory that it shares, at half of its
/// bandwidth. 0: the link is not known.
double hostBandwidth(const Device &device);

/// The device as each of `ranks` busy ranks has it: where they share a host's cores and memory, a part of it. They take
/// turns when there are more than cores.
Device deviceAmong(const Device &device, int64_t ranks);
/// Seconds that a rank of `ranks` needs for what would take one second if it ran alone.
double turnsOf(const Device &device, int64_t ranks);

} // namespace kerf
