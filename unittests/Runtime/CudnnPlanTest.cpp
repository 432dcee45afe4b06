// SPDX-License-Identifier: Apache-2.0
// Asks NVIDIA's own cuDNN for plans of Kerf's graphs on an H200 that this machine does not have: it takes the GPU's
// properties as text, and plans with the stand-in driver. A program of its own, because it loads the real library. It
// is skipped where cuDNN's Python package is not installed (pip install nvidia-cudnn-cu13 nvidia-cublas
// nvidia-cuda-nvrtc).
#include "../../lib/Runtime/Cuda/CudnnAttention.h"
#include "../../lib/Runtime/Cuda/CudnnConvolution.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace kerf::runtime::cuda {
namespace {

constexpr const char *kH200 = R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "regsPerBlock": 65536, "multiProcessorCount": 132, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "oversizedSharedMemoryPerBlock": 0,
  "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
  "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": 150754820096,
  "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "memoryBusWidth": 6144, "l2CacheSize": 62914560,
  "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000, "deviceName": "NVIDIA H200"})";

struct CudnnPlan : testing::Test {
  void SetUp() override {
    if (!std::getenv("KERF_REAL_CUDNN"))
      GTEST_SKIP() << "cuDNN's Python package is not installed";
  }
  /// Returns the plan's bytes of workspace; -1 if there is no plan within `most` bytes.
  static int64_t workspace(const CudnnGraph &graph, int64_t most) {
    auto cudnn = loadCudnn();
    EXPECT_TRUE(cudnn) << cudnn.error().message;
    std::string reason;
    auto plans = plansOf(**cudnn, {nullptr, kH200}, graph, {most, true}, 1, reason);
    EXPECT_TRUE(plans) << plans.error().message;
    if (!plans->empty())
      return plans->front()->workspaceBytes;
    EXPECT_NE(reason, "");
    return -1;
  }
};

/// Expects that cuDNN takes the gradients with exactly the workspace of the formula.
void expectGradients(const AttentionSizes &z, AttentionSlice slice, CudnnData type, QuerySums sums) {
  int64_t formula = backwardWorkspace(z, slice, sums);
  AttentionStrides dense = denseStrides(z);
  EXPECT_EQ(CudnnPlan::workspace(backwardGraph(z, dense, dense, slice, type, sums).graph, formula), formula);
}

AttentionSizes sizes(int64_t b, int64_t s, int64_t t, int64_t h, int64_t g, int64_t d, int64_t e, bool causal) {
  AttentionSizes z{};
  z.b = b, z.s = s, z.t = t, z.h = h, z.g = g, z.d = d, z.e = e;
  z.causal = causal, z.scale = 0.125;
  return z;
}

TEST_F(CudnnPlan, TakesAttentionWithTheWorkspaceOfTheFormula) {
  struct Case {
    AttentionSizes z;
    AttentionSlice slice;
  };
  for (const auto &[z, slice] : {Case{sizes(8, 1024, 1024, 12, 12, 64, 64, true), {8, 12}},
                                 {sizes(8, 1024, 1024, 12, 12, 64, 64, false), {8, 12}},
                                 {sizes(64, 1024, 1024, 12, 12, 64, 64, true), {8, 12}},
                                 {sizes(2, 1024, 1024, 32, 8, 128, 128, true), {1, 4}},
                                 {sizes(2, 1023, 1023, 6, 3, 256, 256, true), {2, 3}},
                                 {sizes(3, 77, 130, 4, 2, 64, 128, false), {3, 2}},
                                 {sizes(2, 100, 100, 4, 4, 24, 40, true), {1, 2}},
                                 {sizes(1, 2, 2, 1, 1, 8, 8, true), {1, 1}}})
    for (CudnnData type : {kDataBfloat16, kDataHalf}) {
      if (type == kDataHalf && z.b != 8) // planning takes a second for each shape
        continue;
      SCOPED_TRACE(testing::Message() << z.b << " x " << z.s << " x " << z.t << ", heads " << z.h << ", " << z.g
                                      << ", widths " << z.d << ", " << z.e);
      int64_t forward = workspace(forwardGraph(z, denseStrides(z), {z.b, z.g}, type).graph, kForwardWorkspace);
      EXPECT_GE(forward, 0);
      for (QuerySums sums : {QuerySums::Ordered, QuerySums::Unordered})
        expectGradients(z, slice, type, sums);
    }
}

// A mask is numbers in float32 that are added to the scores. It needs no more workspace.
TEST_F(CudnnPlan, TakesMasks) {
  struct Case {
    AttentionSizes z;
    AttentionSlice slice;
    bool ofEachBatch, ofEachHead;
  };
  for (Case c : {Case{sizes(8, 1024, 1024, 12, 12, 64, 64, true), {8, 12}, true, false},
                 {sizes(8, 512, 512, 12, 12, 64, 64, false), {8, 12}, false, false},
                 {sizes(2, 1024, 1024, 32, 8, 128, 128, true), {1, 4}, true, true},
                 {sizes(2, 13, 13, 6, 3, 256, 256, false), {2, 3}, false, true},
                 {sizes(3, 77, 130, 4, 2, 24, 40, false), {1, 1}, true, false}}) {
    c.z.masked = true;
    c.z.maskBatch = c.ofEachBatch, c.z.maskHead = c.ofEachHead;
    SCOPED_TRACE(testing::Message() << c.z.b << " x " << c.z.s << " x " << c.z.t);
    EXPECT_GE(workspace(forwardGraph(c.z, denseStrides(c.z), {c.slice.batches, c.z.g}, kDataBfloat16).graph,
                        kForwardWorkspace),
              0);
    for (QuerySums sums : {QuerySums::Ordered, QuerySums::Unordered})
      expectGradients(c.z, c.slice, kDataBfloat16, sums);
  }
}

// Queries, keys and values may lie side by side in rows, and so may their gradients. This needs no more workspace.
TEST_F(CudnnPlan, TakesPartsOfRows) {
  struct Case {
    AttentionSizes z;
    AttentionSlice slice;
  };
  for (const auto &[z, slice] : {Case{sizes(64, 1024, 1024, 12, 12, 64, 64, true), {64, 12}},
                                 {sizes(8, 197, 197, 16, 16, 64, 64, false), {8, 16}},
                                 {sizes(2, 256, 256, 8, 2, 128, 128, true), {1, 2}}}) {
    SCOPED_TRACE(testing::Message() << z.b << " x " << z.s << " x " << z.t);
    int64_t row = z.h * z.d + z.g * (z.d + z.e);
    AttentionStrides parts{row, row, row}, dense = denseStrides(z);
    EXPECT_GE(workspace(forwardGraph(z, parts, {z.b, z.g}, kDataBfloat16).graph, kForwardWorkspace), 0);
    for (QuerySums sums : {QuerySums::Ordered, QuerySums::Unordered}) {
      int64_t formula = backwardWorkspace(z, slice, sums);
      for (const AttentionStrides &gradients : {parts, dense})
        EXPECT_EQ(workspace(backwardGraph(z, parts, gradients, slice, kDataBfloat16, sums).graph, formula), formula);
    }
  }
}

TEST_F(CudnnPlan, RefusesPlansThatNeedMoreWorkspace) {
  AttentionSizes z = sizes(8, 1024, 1024, 12, 12, 64, 64, true);
  EXPECT_EQ(
      workspace(backwardGraph(z, denseStrides(z), denseStrides(z), {8, 12}, kDataBfloat16, QuerySums::Ordered).graph,
                backwardWorkspace(z, {8, 12}, QuerySums::Ordered) / 2),
      -1);
}

TEST_F(CudnnPlan, RefusesWidthsThatAreNoMultipleOfEight) {
  AttentionSizes z = sizes(2, 64, 64, 4, 4, 20, 20, true);
  EXPECT_EQ(workspace(forwardGraph(z, denseStrides(z), {2, 4}, kDataHalf).graph, int64_t(1) << 40), -1);
  EXPECT_EQ(workspace(backwardGraph(z, denseStrides(z), denseStrides(z), {2, 4}, kDataHalf, QuerySums::Ordered).graph,
                      int64_t(1) << 40),
            -1);
}

TEST_F(CudnnPlan, TakesConvolutions) {
  struct Case {
    int64_t n, channels, size, outputs, window, stride, before, after, groups, dilation;
  };
  for (const Case &c : {Case{32, 64, 56, 64, 3, 1, 1, 1, 1, 1},
                        {32, 3, 224, 64, 7, 2, 3, 3, 1, 1},
                        {8, 96, 27, 256, 5, 1, 2, 2, 2, 1},
                        {8, 64, 28, 64, 3, 1, 1, 1, 64, 1},
                        {4, 10, 9, 6, 3, 2, 1, 0, 1, 1},
                        {2, 16, 15, 24, 3, 1, 2, 2, 1, 2}}) {
    int64_t places = (c.size + c.before + c.after - (c.window - 1) * c.dilation - 1) / c.stride + 1;
    ConvolutionShape shape{{c.n, c.channels, c.size, c.size},
                           {c.outputs, c.channels / c.groups, c.window, c.window},
                           {c.n, c.outputs, places, places},
                           {{c.stride, c.stride}, {c.dilation, c.dilation}, {c.before, c.before}, {c.after, c.after}}};
    for (CudnnData type : {kDataBfloat16, kDataHalf, kDataFloat})
      for (CudnnKind kind : {kConvolutionForward, kConvolutionDataGradient, kConvolutionFilterGradient}) {
        shape.channelsLast = type == kDataBfloat16;
        EXPECT_GE(workspace(convolutionGraph(shape, kind, type).graph, convolutionWorkspace(shape, type)), 0)
            << c.channels << " to " << c.outputs << " channels, type " << type << ", kind " << kind;
      }
  }
}

} // namespace
} // namespace kerf::runtime::cuda
