// SPDX-License-Identifier: Apache-2.0
// Tests of the roofline model: which side limits, which peak a dtype has, and agreement with public
// timings of products.
#include "kerf/CostModel/Compute.h"
#include <gtest/gtest.h>
#include <random>

using namespace kerf;

namespace {
DeviceSpec device(const std::string &file) {
  return readCluster(std::string(KERF_CLUSTERS) + "/" + file + ".json")->device;
}
} // namespace

TEST(Compute, TheSlowerSideBinds) {
  DeviceSpec cpu = device("cpu-4");
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
  DeviceSpec v100 = device("v100-nodes");
  EXPECT_EQ(peakFlops(v100, "f16"), 125e12);
  EXPECT_EQ(peakFlops(v100, "bf16"), 125e12) << "no figure: f16's";
  EXPECT_EQ(peakFlops(v100, "i64"), 15.7e12) << "integers count as f32";
  EXPECT_EQ(peakFlops(v100, "f64"), 7.8e12);
  DeviceSpec odd;
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

// Rows of public bf16 tables (aiconfigurator, TensorRT-LLM 1.0.0): m, n, k, milliseconds. The benchmarks are short, so
// the clock is at its maximum.
TEST(Compute, PublicProducts) {
  struct Row {
    const char *file;
    double m, n, k, milliseconds;
  };
  const Row rows[] = {
      {"dgx-a100", 512, 1024, 1024, 0.011025},      {"dgx-a100", 2048, 2048, 1024, 0.05946},
      {"dgx-a100", 512, 8192, 2048, 0.108203},      {"dgx-a100", 1024, 1024, 12288, 0.119433},
      {"dgx-a100", 4096, 2048, 2048, 0.165171},     {"dgx-a100", 512, 1536, 65536, 0.425882},
      {"dgx-a100", 1024, 10240, 8192, 0.606754},    {"dgx-a100", 4096, 4096, 5120, 0.682567},
      {"dgx-a100", 8192, 5120, 5120, 1.603857},     {"dgx-a100", 8192, 65536, 4096, 16.700587},
      {"dgx-a100", 32768, 65536, 7168, 122.943644},
  };
  for (const Row &row : rows) {
    DeviceSpec gpu = device(row.file);
    gpu.curves.sustained = 1;
    Work work{KernelClass::Product,
              2 * row.m * row.n * row.k,
              2 * (row.m * row.k + row.k * row.n + row.m * row.n),
              "bf16",
              1,
              row.m,
              row.n,
              row.k};
    double ratio = computeSeconds(gpu, work) / (row.milliseconds * 1e-3);
    EXPECT_GT(ratio, 0.7) << row.m << " x " << row.n << " x " << row.k;
    EXPECT_LT(ratio, 1.3) << row.m << " x " << row.n << " x " << row.k;
  }
}

TEST(Compute, LastWavesOfTiles) {
  DeviceSpec gpu = device("dgx-a100");
  auto seconds = [&](double m, double n, double k, double batch) {
    Work work{
        KernelClass::Product, 2 * m * n * k * batch, 2 * batch * (m * k + k * n + m * n), "bf16", 1, m, n, k, batch};
    return computeSeconds(gpu, work);
  };
  // 108 tiles of 256 x 128 are one wave, 109 are two: the second wave takes longer than its share of tiles.
  double one = seconds(256, 128 * 108, 4096, 1), more = seconds(256, 128 * 109, 4096, 1);
  EXPECT_GT(more / one, 1 + 1.5 / 108);
  EXPECT_LT(more / one, 2);
  // No product is faster than a large product with the same work, and more work is never faster.
  EXPECT_GT(seconds(64, 64, 4096, 1) / (64.0 * 64), seconds(8192, 8192, 4096, 1) / (8192.0 * 8192));
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) {
    // Rows of batched factors are multiples of 16 bytes, because padding such rows makes a product faster.
    double m = 1 + random() % 5000, n = 8 + random() % 5000 / 8 * 8, k = 8 + random() % 5000 / 8 * 8,
           batch = 1 + random() % 20;
    double base = seconds(m, n, k, batch);
    EXPECT_GE(seconds(m + random() % 300, n, k, batch), base * (1 - 1e-12));
    EXPECT_GE(seconds(m, n, k + random() % 300 / 8 * 8, batch), base * (1 - 1e-12));
    EXPECT_GE(seconds(m, n, k, batch + 1), base * (1 - 1e-12));
  }
}

TEST(Compute, LongSumsOfFewTilesAreCutIntoParts) {
  DeviceSpec gpu = device("dgx-a100");
  auto seconds = [&](double m, double n, double k) {
    Work work{KernelClass::Product, 2 * m * n * k, 2 * (m * k + k * n + m * n), "bf16", 1, m, n, k, 1};
    return computeSeconds(gpu, work);
  };
  // The weight gradient of a convolution in ResNet-50, and a square product with the same multiplications: in one part
  // the first one would keep one or two of the 108 processors busy.
  double gradient = seconds(256, 64, 802816), square = seconds(2360, 2360, 2360);
  EXPECT_GT(gradient, square);
  EXPECT_LT(gradient, 3 * square);
  // With more tiles than half of the processors, the sum stays whole: twice the sum takes about twice the time.
  EXPECT_NEAR(seconds(256 * 8, 128 * 8, 16384) / seconds(256 * 8, 128 * 8, 8192), 2, 0.05);
}

TEST(Compute, BatchedProductsOfUnalignedRowsDoNotUseTheMatrixUnits) {
  DeviceSpec gpu = device("dgx-a100");
  auto seconds = [&](double k, double batch, const char *dtype) {
    Work work{KernelClass::Product, 2 * 2048 * 2048 * k * batch, 1, dtype, 1, 2048, 2048, k, batch};
    return computeSeconds(gpu, work);
  };
  // Heads of 108 elements have rows of 216 bytes, heads of 112 have 224 = 14 x 16.
  EXPECT_GT(seconds(108, 96, "bf16"), 5 * seconds(112, 96, "bf16"));
  EXPECT_LT(seconds(108, 96, "f32"), seconds(112, 96, "f32")) << "rows of 432 bytes are aligned";
  EXPECT_LT(seconds(108, 1, "bf16"), seconds(112, 1, "bf16")) << "frameworks pad the rows of single products";
}

TEST(Compute, AttentionOnShortSequencesIsSlower) {
  DeviceSpec gpu = device("dgx-a100");
  auto rate = [&](double keys) {
    Work work{KernelClass::Attention, 1e12, 1e6, "bf16", 1, keys, keys, 128, 64};
    return 1e12 / computeSeconds(gpu, work);
  };
  EXPECT_GT(rate(8192), 1.3 * rate(1024));
  EXPECT_NEAR(rate(1e9) / rate(gpu.curves.attentionHalfLength), 2, 0.01);
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

// The curves of a CPU core, computed by hand.
TEST(Compute, AProductOnOneCore) {
  DeviceSpec cpu = device("cpu-4"); // 240 GFLOP/s, 12 GB/s
  cpu.curves.productEfficiency = 0.5;
  cpu.curves.productOverheadM = 8, cpu.curves.productOverheadN = 4, cpu.curves.productOverheadK = 16;
  cpu.curves.productCallSeconds = 2e-6, cpu.curves.launchSeconds = 1e-6;
  // 3 products of 64 x 32 by 32 x 16: 196,608 flops at half of the peak, losses by short dimensions, three
  // calls, one launch.
  Work work{KernelClass::Product, 2.0 * 3 * 64 * 16 * 32, 1, "f32", 1, 64, 16, 32, 3};
  EXPECT_DOUBLE_EQ(computeSeconds(cpu, work), 196608 / 120e9 * 1.125 * 1.25 * 1.5 + 3 * 2e-6 + 1e-6);
}

TEST(Compute, ACacheHoldsAKernelsFirstBytes) {
  DeviceSpec cpu = device("cpu-4");
  cpu.curves.memoryEfficiency = 0.5, cpu.curves.launchSeconds = 0;
  cpu.curves.cacheBytes = 1e6, cpu.curves.cacheSpeedup = 4;
  auto seconds = [&](double bytes, double launches) {
    return computeSeconds(cpu, {KernelClass::Pointwise, 0, bytes, "f32", launches});
  };
  EXPECT_DOUBLE_EQ(seconds(1e6, 1), 1e6 / 4 / 6e9);
  EXPECT_DOUBLE_EQ(seconds(3e6, 1), (2e6 + 1e6 / 4) / 6e9);
  EXPECT_DOUBLE_EQ(seconds(3e6, 3), 3e6 / 4 / 6e9) << "three kernels of 1 MB";
}

TEST(Compute, RanksOfAHostShareItsCoresAndMemory) {
  DeviceSpec cpu = device("cpu-4");
  EXPECT_EQ(sharedDevice(cpu, 64).peakFlops, cpu.peakFlops) << "a device of its own";
  cpu.curves.hostCores = 2, cpu.curves.hostMemoryBandwidth = 18e9;
  cpu.curves.cacheBytes = 1e6, cpu.curves.cacheSpeedup = 3;
  cpu.curves.launchSeconds = 1e-6;
  DeviceSpec one = sharedDevice(cpu, 1), two = sharedDevice(cpu, 2), eight = sharedDevice(cpu, 8);
  EXPECT_EQ(one.peakFlops, cpu.peakFlops);
  EXPECT_DOUBLE_EQ(one.memoryBandwidth, 12e9);
  EXPECT_DOUBLE_EQ(two.peakFlops.at("f32"), 240e9) << "a core each";
  EXPECT_DOUBLE_EQ(two.memoryBandwidth, 9e9);
  EXPECT_DOUBLE_EQ(two.memoryBandwidth * two.curves.cacheSpeedup, 36e9) << "a cache is a core's own";
  EXPECT_DOUBLE_EQ(eight.peakFlops.at("f32"), 60e9) << "a quarter of a core each";
  EXPECT_DOUBLE_EQ(eight.memoryBandwidth, 18e9 / 8);
  EXPECT_DOUBLE_EQ(eight.memoryBandwidth * eight.curves.cacheSpeedup, 9e9);
  EXPECT_DOUBLE_EQ(eight.curves.launchSeconds, 4e-6);
  // All work of all ranks takes as long on two ranks as on eight.
  Work work{KernelClass::Product, 1e12, 0, "f32"};
  EXPECT_DOUBLE_EQ(4 * computeSeconds(two, work) - 4 * 1e-6, computeSeconds(eight, work) - 4e-6);
}
