// SPDX-License-Identifier: Apache-2.0
// The roofline: which side binds, which peak a dtype gets, and agreement with public product timings.
#include "kerf/CostModel/Compute.h"
#include <gtest/gtest.h>

using namespace kerf;

namespace {
Device device(const std::string &file) {
  return readCluster(std::string(KERF_CLUSTERS) + "/" + file + ".json")->device;
}
} // namespace

TEST(Compute, TheSlowerSideBinds) {
  Device cpu = device("cpu-4");
  ComputeEfficiency share = efficiencyOf(cpu, KernelClass::Product);
  Work work{KernelClass::Product, 1e12, 1e6, "f32", 1};
  EXPECT_DOUBLE_EQ(computeSeconds(cpu, work), 1e12 / (share.flops * 240e9) + share.launchSeconds);
  work = {KernelClass::Product, 1e3, 1e9, "f32", 3};
  EXPECT_DOUBLE_EQ(computeSeconds(cpu, work), 1e9 / (share.bytes * 12e9) + 3 * share.launchSeconds);
}

TEST(Compute, NothingCostsNothing) {
  EXPECT_EQ(computeSeconds(device("cpu-4"), Work{KernelClass::Nothing, 1e9, 1e9, "f32", 1}), 0);
}

TEST(Compute, PeaksOfDtypes) {
  Device v100 = device("v100-nodes");
  EXPECT_EQ(peakFlops(v100, "f16"), 125e12);
  EXPECT_EQ(peakFlops(v100, "bf16"), 125e12) << "no figure: f16's";
  EXPECT_EQ(peakFlops(v100, "i64"), 15.7e12) << "integers count as f32";
  EXPECT_EQ(peakFlops(v100, "f64"), 7.8e12);
  Device odd;
  odd.peakFlops = {{"f32", 100}};
  EXPECT_EQ(peakFlops(odd, "f64"), 50);
  EXPECT_EQ(peakFlops(odd, "bf16"), 100);
  odd.peakFlops = {{"bf16", 400}, {"f8", 800}};
  EXPECT_EQ(peakFlops(odd, "f32"), 400);
}

TEST(Compute, APublicProductWithinAQuarter) {
  // bf16, m = 8192, n = 65536, k = 4096 on A100-SXM4-80GB: 16.7 ms (aiconfigurator's TensorRT-LLM table).
  double m = 8192, n = 65536, k = 4096;
  Work work{KernelClass::Product, 2 * m * n * k, 2 * (m * k + k * n + m * n), "bf16", 1};
  double seconds = computeSeconds(device("dgx-a100"), work);
  EXPECT_GT(seconds, 0.75 * 16.7e-3);
  EXPECT_LT(seconds, 1.25 * 16.7e-3);
}

TEST(Compute, EveryClassTakesLongerForMore) {
  for (const char *file : {"cpu-4", "dgx-a100", "ascend-910b"})
    for (auto kind : {KernelClass::Product, KernelClass::Attention, KernelClass::Pointwise, KernelClass::Reduction,
                      KernelClass::Gather, KernelClass::Movement}) {
      Work work{kind, 1e9, 1e9, "f32", 1}, more{kind, 2e9, 2e9, "f32", 1};
      EXPECT_GT(computeSeconds(device(file), work), 0) << toString(kind);
      EXPECT_GT(computeSeconds(device(file), more), computeSeconds(device(file), work)) << toString(kind);
    }
}
