// SPDX-License-Identifier: Apache-2.0
// Fits constants of the cost model to samples: each constant is multiplied or divided by ever smaller factors as long
// as the log error of predicted over measured seconds shrinks. This simple method suffices for a few constants with
// good starting values, and equal samples give equal constants.
#include "kerf/Profile/Profile.h"

#include "kerf/CostModel/Compute.h"
#include <algorithm>
#include <cmath>
#include <iterator>

using namespace kerf;

namespace {

/// A constant to fit and the range of its values.
struct Constant {
  double *value;
  double least, most;
};

constexpr double kFirstFactor = 2, kLastFactor = 1.005;
/// Errors above about this size count linearly instead of quadratically, so that one bad sample does not
/// distort the fit.
constexpr double kUsualError = 0.1;

/// Returns the loss: the sum over all samples of a robust function of the logarithm of predicted over measured seconds.
template <typename Predict, typename Samples> double lossOf(const Samples &samples, const Predict &predict) {
  double sum = 0;
  for (const auto &sample : samples) {
    double error = std::log(predict(sample) / sample.seconds) / kUsualError;
    sum += std::sqrt(1 + error * error) - 1;
  }
  return sum;
}

/// Fits the constants, starting from their current values, and returns the remaining loss.
template <typename Predict, typename Samples>
double fit(const std::vector<Constant> &constants, const Samples &samples, const Predict &predict) {
  double best = lossOf(samples, predict);
  for (double factor = kFirstFactor; factor > kLastFactor;) {
    bool better = false;
    for (const Constant &constant : constants)
      for (double by : {factor, 1 / factor}) {
        double before = *constant.value;
        *constant.value = std::clamp(before * by, constant.least, constant.most);
        double loss = lossOf(samples, predict);
        if (loss < best * (1 - 1e-9))
          best = loss, better = true;
        else
          *constant.value = before;
      }
    if (!better)
      factor = std::sqrt(factor);
  }
  return best;
}

/// Fits the constants from each of the starting points `starts` and keeps the best result.
template <typename Predict, typename Samples>
void fitFrom(const std::vector<std::vector<double>> &starts, const std::vector<Constant> &constants,
             const Samples &samples, const Predict &predict) {
  std::vector<double> best;
  double least = 0;
  for (const std::vector<double> &start : starts) {
    for (size_t i = 0; i < constants.size(); ++i)
      *constants[i].value = start[i];
    double loss = fit(constants, samples, predict);
    if (!best.empty() && loss >= least)
      continue;
    least = loss;
    best.clear();
    for (const Constant &constant : constants)
      best.push_back(*constant.value);
  }
  for (size_t i = 0; i < constants.size(); ++i)
    *constants[i].value = best[i];
}

std::vector<KernelSample> ofClass(std::span<const KernelSample> samples, KernelClass kernelClass) {
  std::vector<KernelSample> chosen;
  for (const KernelSample &sample : samples)
    if (sample.work.kernelClass == kernelClass)
      chosen.push_back(sample);
  return chosen;
}

double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

constexpr double kLeastShare = 1e-4;
constexpr double kLeastSeconds = 1e-9, kMostSeconds = 1e-3;
constexpr double kLargeBytes = 6e7; // more than the caches of GPUs
constexpr double kLeastElements = 0.01, kMostElements = 1000;

} // namespace

void kerf::fitKernels(DeviceSpec &device, std::span<const KernelSample> samples) {
  DeviceCurves &c = device.curves;
  auto predict = [&](const KernelSample &sample) { return computeSeconds(device, sample.work); };
  auto fitClass = [&](KernelClass kernelClass, std::vector<Constant> constants) {
    fit(constants, ofClass(samples, kernelClass), predict);
  };
  c.productOverheadM = c.productOverheadN = c.productOverheadK = 4;
  c.productCallSeconds = 1e-6;
  c.attentionHalfLength = c.attentionHalfWidth = 16;
  // Pointwise kernels are the most numerous; they determine the constants of caches and launches.
  std::vector<std::vector<double>> starts;
  for (double cacheBytes : {3e4, 3e5, 3e6})
    for (double speedup : {1.5, 4.0})
      for (double flops : {0.05, 0.2})
        starts.push_back({0.8, flops, cacheBytes, speedup, 1e-7});
  fitFrom(starts,
          {{&c.memoryEfficiency, kLeastShare, 1},
           {&c.pointwiseFlops, kLeastShare, 1},
           {&c.cacheBytes, 1e4, 1e9},
           {&c.cacheSpeedup, 1, 100},
           {&c.launchSeconds, kLeastSeconds, kMostSeconds}},
          ofClass(samples, KernelClass::Pointwise), predict);
  fitFrom({{0.8, 0.2}, {0.3, 0.05}, {0.8, 0.05}},
          {{&c.reductionMemory, kLeastShare, 1}, {&c.reductionFlops, kLeastShare, 1}},
          ofClass(samples, KernelClass::Reduction), predict);
  fitClass(KernelClass::Gather, {{&c.gatherMemory, kLeastShare, 1}});
  fitClass(KernelClass::Movement, {{&c.movementMemory, kLeastShare, 1}});
  fitClass(KernelClass::Product, {{&c.productEfficiency, kLeastShare, 1},
                                  {&c.productMemory, kLeastShare, 1},
                                  {&c.productOverheadM, kLeastElements, kMostElements},
                                  {&c.productOverheadN, kLeastElements, kMostElements},
                                  {&c.productOverheadK, kLeastElements, kMostElements},
                                  {&c.productCallSeconds, kLeastSeconds, kMostSeconds}});
  fitClass(KernelClass::Attention, {{&c.attentionEfficiency, kLeastShare, 1},
                                    {&c.attentionHalfLength, kLeastElements, kMostElements},
                                    {&c.attentionHalfWidth, kLeastElements, kMostElements}});
}

void kerf::fitDeviceKernels(DeviceSpec &device, std::span<const KernelSample> samples) {
  DeviceCurves &c = device.curves;
  constexpr double kMostK = 1e4, kLeastQuantization = 1e-3, kMostLength = 1e4;
  auto predict = [&](const KernelSample &sample) { return computeSeconds(device, sample.work); };
  auto fitClass = [&](KernelClass kernelClass, std::vector<Constant> constants) {
    fit(constants, ofClass(samples, kernelClass), predict);
  };
  // Tensors that fit into the device's cache are faster or wait for the launch, and take little of a step.
  auto fitLarge = [&](KernelClass kernelClass, std::vector<Constant> constants) {
    std::vector<KernelSample> all = ofClass(samples, kernelClass), large;
    std::copy_if(all.begin(), all.end(), std::back_inserter(large),
                 [](const KernelSample &sample) { return sample.work.bytes >= kLargeBytes; });
    fit(constants, large.empty() ? all : large, predict);
  };
  fitLarge(KernelClass::Pointwise, {{&c.memoryEfficiency, kLeastShare, 1}, {&c.pointwiseFlops, kLeastShare, 1}});
  fitLarge(KernelClass::Reduction, {{&c.reductionMemory, kLeastShare, 1}, {&c.reductionFlops, kLeastShare, 1}});
  fitLarge(KernelClass::Gather, {{&c.gatherMemory, kLeastShare, 1}});
  fitLarge(KernelClass::Movement, {{&c.movementMemory, kLeastShare, 1}});
  fitClass(KernelClass::Product, {{&c.productEfficiency, kLeastShare, 1},
                                  {&c.productMemory, kLeastShare, 1},
                                  {&c.productOverheadK, kLeastElements, kMostK},
                                  {&c.productQuantization, kLeastQuantization, 1}});
  c.attentionHalfLength = 256, c.attentionHalfWidth = 32;
  fitClass(KernelClass::Attention, {{&c.attentionEfficiency, kLeastShare, 1},
                                    {&c.attentionHalfLength, kLeastElements, kMostLength},
                                    {&c.attentionHalfWidth, kLeastElements, kMostElements}});
}

double kerf::predictedSeconds(const Cluster &cluster, const CollectiveSample &sample) {
  Mesh mesh{{{"data", sample.ranks}}};
  return CollectiveModel(mesh, cluster)
      .seconds(sample.collective, std::vector<AxisRef>{{0, 1, sample.ranks}}, sample.bytes);
}

void kerf::fitCollectives(Cluster &cluster, std::span<const CollectiveSample> samples) {
  Level &level = cluster.levels.front();
  std::vector<CollectiveSample> all(samples.begin(), samples.end());
  auto predict = [&](const CollectiveSample &sample) {
    level.nodeBandwidth = level.bandwidth;
    return predictedSeconds(cluster, sample);
  };
  std::vector<std::vector<double>> starts;
  for (double bandwidth : {2e9, 2e10})
    for (double latency : {1e-6, 1e-5})
      for (double call : {1e-6, 1e-5})
        starts.push_back({bandwidth, latency, call, 0.7});
  fitFrom(starts,
          {{&level.bandwidth, 1e6, 1e13},
           {&level.latency, kLeastSeconds, kMostSeconds},
           {&cluster.device.curves.collectiveSeconds, kLeastSeconds, kMostSeconds},
           {&cluster.device.curves.reduceShare, kLeastShare, 1}},
          all, predict);
  level.nodeBandwidth = level.bandwidth;
}

double kerf::medianError(const DeviceSpec &device, std::span<const KernelSample> samples, KernelClass kernelClass) {
  std::vector<double> errors;
  for (const KernelSample &sample : ofClass(samples, kernelClass))
    errors.push_back(std::abs(computeSeconds(device, sample.work) / sample.seconds - 1));
  return median(std::move(errors));
}

double kerf::medianError(const Cluster &cluster, std::span<const CollectiveSample> samples) {
  std::vector<double> errors;
  for (const CollectiveSample &sample : samples)
    errors.push_back(std::abs(predictedSeconds(cluster, sample) / sample.seconds - 1));
  return median(std::move(errors));
}
