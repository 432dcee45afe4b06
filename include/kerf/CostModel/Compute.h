// SPDX-License-Identifier: Apache-2.0
// The time that a kernel takes: a roofline model with an efficiency for each class of kernels (docs/cost-model.md).
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/Support/Work.h"

namespace kerf {

/// The shares of a device's peak rates that large kernels of one class reach, and the cost of a launch.
struct ComputeEfficiency {
  double flops = 1;         // share of the peak FLOP/s of the kernel's element type
  double bytes = 1;         // share of the memory bandwidth
  double launchSeconds = 0; // seconds of a launch before the kernel's first element
};
/// The libraries of kernels of fused attention.
enum class AttentionLibrary {
  Common, // those that DeviceCurves::attentionEfficiency describes
  Vendor, // the device vendor's, DeviceCurves::vendorAttention
};
/// Returns the efficiency of kernels of class `kernelClass` on `device`.
ComputeEfficiency efficiencyOf(const DeviceSpec &device, KernelClass kernelClass,
                               AttentionLibrary attention = AttentionLibrary::Common);

/// Returns the peak FLOP/s of products in the element type `dtype`. If the cluster file has no number for this type,
/// f16 and bf16 stand in for each other and for f8, f64 runs at half the rate of f32, and all other types run at the
/// rate of f32.
double peakFlops(const DeviceSpec &device, std::string_view dtype);

/// Returns the seconds of a kernel on an otherwise idle device: max(flops / (efficiency * peak), bytes / (efficiency *
/// bandwidth)) + launches * seconds per launch.
double computeSeconds(const DeviceSpec &device, const Work &work,
                      AttentionLibrary attention = AttentionLibrary::Common);

/// Returns the bytes/s of copies between the device's memory and the host's memory, in one direction: `host_bandwidth`
/// of the cluster file. A CPU core without this number copies within its own memory, at half of the memory bandwidth.
/// Returns 0 if the number is not known.
double hostBandwidth(const DeviceSpec &device);

/// Returns the device as each of `ranks` busy ranks of one machine sees it. If the ranks share the cores and the memory
/// bandwidth of a host (DeviceCurves::hostCores), the rates are divided among them.
DeviceSpec sharedDevice(const DeviceSpec &device, int64_t ranks);
/// Returns the oversubscription of the host's cores by `ranks` ranks: ranks per core, at least 1. A computation that
/// takes one second alone takes this many seconds. The value is 1 for devices that ranks do not share.
double oversubscription(const DeviceSpec &device, int64_t ranks);

} // namespace kerf
