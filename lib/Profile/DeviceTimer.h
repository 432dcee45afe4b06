// SPDX-License-Identifier: Apache-2.0
// Measurement of kernels, copies and collectives on a device of the runtime, with events on its streams.
#pragma once

#include "KernelTimer.h"
#include "kerf/Runtime/Device.h"

namespace kerf::profile {

/// A kernel bound to several copies of its tensors on a device.
class DeviceKernel {
public:
  static Result<std::unique_ptr<DeviceKernel>> make(runtime::Device &device, const KernelSpec &spec);
  /// Enqueues call number `call`, on the copies in turns.
  Status launch(runtime::Stream &stream, size_t call) { return kernels[call % kernels.size()]->launch(stream); }

private:
  package::Instruction instruction;
  Mesh mesh;
  std::vector<std::shared_ptr<std::byte>> memory;
  std::vector<std::unique_ptr<runtime::BoundKernel>> kernels;
};

/// Returns the seconds of one of the calls that `launch` enqueues: the 30th percentile of several rounds, each with as
/// many calls one after the other as take about a tenth of `budgetSeconds`. The first calls are not counted.
Result<double> secondsOnDevice(runtime::Device &device, double budgetSeconds,
                               const std::function<Status(runtime::Stream &, size_t)> &launch);
/// Measures a kernel for about `budgetSeconds`.
Result<KernelSample> measureOnDevice(runtime::Device &device, const KernelSpec &spec, double budgetSeconds);
/// Returns the rate of a kernel that has run for `seconds` without a pause, divided by its rate in the first calls; at
/// most 1.
Result<double> measureSustained(runtime::Device &device, const KernelSpec &spec, double seconds);
/// Returns the seconds of one of many small kernels that depend on each other: enqueued one by one, and as a recording
/// (nothing on a device that records nothing).
struct LaunchTimes {
  double single = 0;
  std::optional<double> recorded;
};
Result<LaunchTimes> measureLaunches(runtime::Device &device, double budgetSeconds);
/// Returns the bytes/s of copies of `bytes` bytes from the host's memory to the device.
Result<double> measureHostCopies(runtime::Device &device, int64_t bytes, double budgetSeconds);

/// Measures a collective between `ranks` devices of the kind `kind`, as measureCollective does between CPU ranks; the
/// calls follow each other on one stream of each device.
Result<CollectiveSample> measureOnDevices(std::string_view kind, Collective collective, int64_t ranks, int64_t bytes,
                                          double budgetSeconds);

} // namespace kerf::profile
