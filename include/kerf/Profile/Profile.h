// SPDX-License-Identifier: Apache-2.0
// Measurement of the machine that Kerf runs on (`kerf profile`). It measures single kernels on one thread, kernels on
// all cores at once, and collectives between ranks that are threads, and returns the result as a cluster
// (docs/cost-model.md, "This machine").
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/CostModel/Collectives.h"
#include "kerf/Support/Work.h"
#include <functional>
#include <span>

namespace kerf {

/// A measured kernel.
struct KernelSample {
  std::string name;   // operator and sizes: "dot_general 256 x 256 x 64"
  Work work;          // operations, bytes and shape of one call
  double seconds = 0; // seconds of one call
};

/// A measured collective between all ranks of a mesh with one axis.
struct CollectiveSample {
  Collective collective = Collective::AllReduce; // communication pattern
  int64_t ranks = 2;                             // ranks of the mesh
  double bytes = 0;                              // bytes of one call, counted as in CollectiveModel::seconds
  double seconds = 0;                            // seconds of one call
};

/// The options of a profile.
struct ProfileOptions {
  int64_t ranks = 0; // ranks of the resulting cluster; 0: the number of cores, but at least 4
  /// How long to measure: at most 15 s (Quick) or 60 s (Full) on an idle machine.
  enum class Effort { Quick, Full } effort = Effort::Full;
  /// A function that is called before each group of measurements with a description of the group.
  std::function<void(const std::string &)> onProgress = [](const std::string &) {};
};

/// The measurements of a machine, and the cluster that was fitted to them.
struct Profile {
  Cluster cluster;                           // cluster whose constants were fitted to the measurements
  std::vector<KernelSample> kernels;         // measured kernels
  std::vector<CollectiveSample> collectives; // measured collectives
};

/// Measures the CPUs of the machine that Kerf runs on. Fails if a kernel or a collective does not run.
Result<Profile> profileCpu(const ProfileOptions &options);

/// Measures the accelerators of this machine through the device `kind`: NVIDIA GPUs through `cuda`, NPUs through
/// `ascend`. The sizes of the kernels are such that none takes long. `options.ranks` is the number of devices; 0: all.
/// Fails if there is no such device, or if a kernel or a collective fails.
Result<Profile> profileAccelerators(std::string_view kind, const ProfileOptions &options);

/// A size of tensors: `rows` x `columns`.
struct RowsOfKernels {
  int64_t rows = 0, columns = 0;
};
/// Measures the kernels whose time is that of memory, on bf16 tensors of one size, for a second or two. The first
/// sample is an addition of large tensors, whose speed is taken as the memory's. Fails if there is no GPU, or no memory
/// for the tensors, or if a kernel fails.
Result<std::vector<KernelSample>> profileRows(const RowsOfKernels &size);

/// Sets the curves of an accelerator, whose processors, launch time, peak FLOP/s and memory bandwidth must already be
/// set, as fitKernels does.
void fitDeviceKernels(DeviceSpec &device, std::span<const KernelSample> samples);

/// Sets the efficiency curves of `device`, one class of kernels after the other, to the values for which computeSeconds
/// agrees best with `samples`. The device's peak FLOP/s and memory bandwidth must already be set.
void fitKernels(DeviceSpec &device, std::span<const KernelSample> samples);
/// Sets bandwidth and latency of the cluster's innermost level and the device's collectiveSeconds and reduceShare to
/// the values for which predictedSeconds agrees best with `samples`. Must be called after fitKernels.
void fitCollectives(Cluster &cluster, std::span<const CollectiveSample> samples);

/// Returns the seconds that the cost model predicts for the collective of `sample` on `cluster`.
double predictedSeconds(const Cluster &cluster, const CollectiveSample &sample);
/// Returns the median of |predicted / measured - 1| over the samples of the class `kernelClass`; 0 without samples.
double medianError(const DeviceSpec &device, std::span<const KernelSample> samples, KernelClass kernelClass);
/// Returns the median of |predicted / measured - 1| over the collectives in `samples`; 0 without samples.
double medianError(const Cluster &cluster, std::span<const CollectiveSample> samples);

} // namespace kerf
