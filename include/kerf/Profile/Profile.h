// SPDX-License-Identifier: Apache-2.0
// Measures the machine that it runs on and says what it found as a cluster: kernels one by one on one thread, on all
// cores at once, and collectives between ranks that are threads (docs/cost-model.md, "This machine").
#pragma once

#include "kerf/CostModel/Cluster.h"
#include "kerf/CostModel/Collectives.h"
#include "kerf/Support/Work.h"
#include <functional>
#include <span>

namespace kerf {

/// A kernel as it was measured: what it does, and how long one call took.
struct KernelSample {
  std::string name; // "dot_general 256 x 256 x 64"
  Work work;
  double seconds = 0;
};

/// A collective between all ranks of a mesh of one axis.
struct CollectiveSample {
  Collective collective = Collective::AllReduce;
  int64_t ranks = 2;
  double bytes = 0; // as CollectiveModel::seconds counts them
  double seconds = 0;
};

struct ProfileOptions {
  int64_t ranks = 0; // that the cluster is to have; 0: 4, or all cores where there are more
  enum class Effort { Quick, Full } effort = Effort::Full;
  /// Called before each group of measurements, with what is measured next.
  std::function<void(const std::string &)> onProgress = [](const std::string &) {};
};

struct Profile {
  Cluster cluster;
  std::vector<KernelSample> kernels;
  std::vector<CollectiveSample> collectives;
};

/// Takes at most 60 s, and 15 s with little effort, on an idle machine.
Result<Profile> profileCpu(const ProfileOptions &options);

/// The curves of the device that make computeSeconds agree best with the samples, by class. Peaks and memory bandwidth
/// must be set.
void fitKernels(Device &device, std::span<const KernelSample> samples);
/// The same for the innermost level and curves.collectiveSeconds, after fitKernels.
void fitCollectives(Cluster &cluster, std::span<const CollectiveSample> samples);

/// What the cluster's own model says of a sample.
double predictedSeconds(const Cluster &cluster, const CollectiveSample &sample);
/// Median of |predicted / measured - 1|, of one class or of the collectives.
double medianError(const Device &device, std::span<const KernelSample> samples, KernelClass kernelClass);
double medianError(const Cluster &cluster, std::span<const CollectiveSample> samples);

} // namespace kerf
