// SPDX-License-Identifier: Apache-2.0
// Tests of the fit: it finds the constants of a machine that follows the formulas, and tolerates outliers.
#include "kerf/CostModel/Compute.h"
#include "kerf/Profile/Profile.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace kerf;

namespace {

DeviceSpec machine() {
  DeviceSpec device;
  device.kind = "cpu";
  device.name = "one core of a made-up machine";
  device.peakFlops = {{"f32", 100e9}};
  device.memoryBandwidth = 10e9;
  device.curves = *knownCurves("cpu", device.name);
  return device;
}

/// Returns samples of kernels of all sizes with the seconds that the cost model predicts on `device`.
std::vector<KernelSample> samplesOf(const DeviceSpec &device) {
  std::vector<Work> works;
  for (double m : {1.0, 16.0, 64.0, 512.0})
    for (double n : {16.0, 64.0, 512.0})
      for (double k : {16.0, 64.0, 512.0})
        works.push_back({KernelClass::Product, 2 * m * n * k, 4 * (m * k + k * n + m * n), "f32", 1, m, n, k});
  for (double length : {64.0, 256.0, 1024.0})
    for (double width : {16.0, 32.0, 64.0, 128.0})
      works.push_back(
          {KernelClass::Attention, 4 * length * length * width, 16 * length * width, "f32", 1, length, length, width});
  for (double elements = 1e3; elements < 1e8; elements *= 4)
    for (double flops : {1.0, 8.0, 20.0})
      for (KernelClass kernelClass :
           {KernelClass::Pointwise, KernelClass::Reduction, KernelClass::Gather, KernelClass::Movement})
        works.push_back({kernelClass, kernelClass >= KernelClass::Gather ? 0 : flops * elements, 8 * elements});
  std::vector<KernelSample> samples;
  for (const Work &work : works)
    samples.push_back({"", work, computeSeconds(device, work)});
  return samples;
}

void expectNear(const DeviceSpec &fitted, const DeviceSpec &truth, std::span<const KernelSample> samples,
                double tolerance) {
  size_t off = 0;
  for (const KernelSample &sample : samples)
    off += std::abs(computeSeconds(fitted, sample.work) / computeSeconds(truth, sample.work) - 1) > tolerance;
  EXPECT_LE(off, samples.size() / 10) << "kernels off by more than " << tolerance; // sizes near that of the cache
}

} // namespace

TEST(Fit, FindsTheMachineThatMadeTheSamples) {
  for (double cacheBytes : {1e5, 4e6}) {
    DeviceSpec truth = machine();
    DeviceCurves &c = truth.curves;
    c.productEfficiency = 0.9, c.productOverheadM = 8, c.productOverheadN = 3, c.productOverheadK = 20;
    c.productCallSeconds = 2e-6, c.productMemory = 0.5;
    c.attentionEfficiency = 0.6, c.attentionHalfLength = 100, c.attentionHalfWidth = 25;
    c.memoryEfficiency = 0.8, c.pointwiseFlops = 0.08, c.launchSeconds = 3e-7;
    c.cacheBytes = cacheBytes, c.cacheSpeedup = 3;
    c.reductionMemory = 0.6, c.reductionFlops = 0.15, c.gatherMemory = 0.4, c.movementMemory = 0.3;
    std::vector<KernelSample> samples = samplesOf(truth);
    DeviceSpec fitted = machine();
    fitKernels(fitted, samples);
    expectNear(fitted, truth, samples, 0.05);

    // The same samples, with one in nine twice as slow, as if another process had run.
    std::vector<KernelSample> disturbed = samples;
    for (size_t i = 0; i < disturbed.size(); i += 9)
      disturbed[i].seconds *= 2;
    DeviceSpec robust = machine();
    fitKernels(robust, disturbed);
    expectNear(robust, truth, samples, 0.3);
  }
}

TEST(Fit, EqualSamplesGiveEqualConstants) {
  std::mt19937 random(7);
  std::vector<KernelSample> samples = samplesOf(machine());
  for (KernelSample &sample : samples)
    sample.seconds *= std::exp(std::normal_distribution<double>(0, 0.1)(random));
  DeviceSpec once = machine(), again = machine();
  fitKernels(once, samples);
  fitKernels(again, samples);
  EXPECT_EQ(once.curves, again.curves);
}

TEST(Fit, CollectivesOfAMachineWhoseRanksTakeTurns) {
  Cluster truth;
  truth.device = machine();
  truth.device.memoryBytes = 1 << 30;
  truth.device.curves.hostCores = 2;
  truth.device.curves.collectiveSeconds = 3e-6;
  truth.device.curves.reduceShare = 0.6;
  truth.levels = {{"threads", 4, 5e9, 4e-6, 5e9}};
  truth.usedRanks = 4;
  std::vector<CollectiveSample> samples;
  for (int64_t ranks : {2, 4})
    for (double bytes : {1e3, 3e4, 1e6, 3e7})
      for (Collective collective :
           {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll}) {
        samples.push_back({collective, ranks, bytes});
        samples.back().seconds = predictedSeconds(truth, samples.back());
      }
  Cluster fitted = truth;
  fitted.levels[0].bandwidth = 1e9, fitted.levels[0].latency = 1e-6;
  fitted.device.curves.reduceShare = 1;
  fitCollectives(fitted, samples);
  EXPECT_LT(medianError(fitted, samples), 0.02);
  EXPECT_NEAR(fitted.levels[0].bandwidth, 5e9, 0.2e9);
  EXPECT_NEAR(fitted.device.curves.reduceShare, 0.6, 0.03);
}
