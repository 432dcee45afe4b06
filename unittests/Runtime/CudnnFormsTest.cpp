// SPDX-License-Identifier: Apache-2.0
// The forms of attention and convolution that cuDNN computes, and those that Kerf's own kernels compute (docs/gpu.md).
#include "../../lib/Runtime/Cuda/Context.h"

#include <gtest/gtest.h>

namespace kerf::runtime::cuda {
namespace {
using Json = nlohmann::ordered_json;

struct Form {
  std::string op;
  Json attrs;
  std::vector<TensorView> operands, results;
};

/// Whether cuDNN computes an instruction. The scratch memory must be at least `workspace` bytes then.
bool byCudnn(const Form &form, int64_t workspace = 256) {
  static const std::shared_ptr<Context> gpu = std::move(*Context::open(0));
  package::Instruction instruction{form.op, {}, {}, form.attrs, "node"};
  Mesh mesh{{{"x", 4}}};
  KernelRequest request{instruction, form.operands, form.results, mesh, 1};
  auto calls = cudnnCallsOf({request, {}, gpu});
  EXPECT_TRUE(calls) << calls.error().message;
  if (!*calls)
    return false;
  EXPECT_GE((*calls)->scratchBytes, workspace);
  return true;
}

struct Attention {
  DType type = DType::BF16, lse = DType::F32;
  int64_t s = 8, t = 8, d = 16, e = 24;
  std::vector<TensorView> mask = {};
  Json attrs = {{"scale", 0.5}};

  Form forward() const {
    Form form{"attention", attrs, inputs(), {{nullptr, type, {2, s, 4, e}}, {nullptr, lse, {2, 4, s}}}};
    return form;
  }
  Form backward() const {
    Form form{"attention_backward", attrs, inputs(), inputs()};
    for (TensorView view : {forward().results[0], forward().results[1], forward().results[0]})
      form.operands.push_back(view);
    form.results.resize(3);
    return form;
  }
  std::vector<TensorView> inputs() const {
    std::vector<TensorView> all = {
        {nullptr, type, {2, s, 4, d}}, {nullptr, type, {2, t, 2, d}}, {nullptr, type, {2, t, 2, e}}};
    all.insert(all.end(), mask.begin(), mask.end());
    return all;
  }
};

TEST(CudnnForms, OfAttention) {
  auto both = [](const Attention &one) {
    bool forward = byCudnn(one.forward()), backward = byCudnn(one.backward(), 2 * 4 * 64 * 128 * 2 + 256);
    EXPECT_EQ(forward, backward);
    return forward;
  };
  EXPECT_TRUE(both({}));
  EXPECT_TRUE(both({.type = DType::F16}));
  EXPECT_TRUE(both({.attrs = {{"scale", 0.5}, {"causal", true}}}));
  EXPECT_TRUE(both({.s = 5, .t = 9}));
  EXPECT_TRUE(both({.d = 256, .e = 256}));
  EXPECT_FALSE(both({.type = DType::F32}));
  EXPECT_FALSE(both({.type = DType::F64, .lse = DType::F64}));
  EXPECT_FALSE(both({.lse = DType::BF16}));
  EXPECT_FALSE(both({.d = 12}));
  EXPECT_FALSE(both({.e = 264}));
  for (const Shape &mask : {Shape{1, 1, 8, 8}, {2, 1, 8, 8}, {1, 4, 8, 8}, {2, 4, 8, 8}})
    for (bool causal : {false, true}) {
      Json attrs = {{"scale", 0.5}, {"causal", causal}};
      EXPECT_TRUE(both({.mask = {{nullptr, DType::Bool, mask}}, .attrs = attrs}));
      EXPECT_TRUE(both({.mask = {{nullptr, DType::BF16, mask}}, .attrs = attrs}));
      EXPECT_TRUE(both({.mask = {{nullptr, DType::F32, mask}}, .attrs = attrs}));
    }
  EXPECT_FALSE(both({.type = DType::F32, .mask = {{nullptr, DType::Bool, {1, 1, 8, 8}}}}));
  EXPECT_FALSE(both({.t = 0}));
  // Rank 1 of four has the second quarter of the queries.
  EXPECT_FALSE(both({.t = 32, .attrs = {{"scale", 0.5}, {"causal", true}, {"query_axes", {0, 1, 4}}}}));
}

// Gradients that cuDNN computes wrongly for some inputs are Kerf's own (hasGradients).
TEST(CudnnForms, OfGradientsWithDefectsInCudnn) {
  auto gradients = [](const Attention &one) {
    EXPECT_TRUE(byCudnn(one.forward()));
    return byCudnn(one.backward());
  };
  EXPECT_FALSE(gradients({.s = 1, .t = 1}));
  EXPECT_FALSE(gradients({.s = 1, .t = 128}));
  EXPECT_TRUE(gradients({.s = 2, .t = 128}));
  for (int64_t keys : {64, 192, 1216})
    EXPECT_FALSE(gradients({.t = keys})) << keys << " keys: half of a tile";
  for (int64_t keys : {63, 65, 128, 197, 1000})
    EXPECT_TRUE(gradients({.t = keys})) << keys << " keys";
  EXPECT_TRUE(gradients({.s = 64, .t = 64, .attrs = {{"scale", 0.5}, {"causal", true}}}));
}

TEST(CudnnForms, OfConvolution) {
  auto all = [](DType x, DType k, DType y, size_t spatial, int64_t samples = 2) {
    auto view = [&](DType type, Shape shape, int64_t size) {
      shape.insert(shape.end(), spatial, size);
      return TensorView{nullptr, type, shape};
    };
    std::vector<int64_t> ones(spatial, 1), zeros(spatial, 0);
    Json attrs = {{"strides", ones}, {"dilations", ones}, {"low", zeros}, {"high", zeros}};
    TensorView sample = view(x, {samples, 4}, 6), kernel = view(k, {6, 2}, 3), result = view(y, {samples, 6}, 4);
    constexpr int64_t kRest = int64_t(1) << 20;
    bool forward = byCudnn({"convolution", attrs, {sample, kernel}, {result}}, kRest);
    EXPECT_EQ(byCudnn({"convolution_transpose", attrs, {result, kernel}, {sample}}, kRest), forward);
    EXPECT_EQ(byCudnn({"convolution_kernel", attrs, {sample, result}, {kernel}}, kRest), forward);
    return forward;
  };
  for (DType type : {DType::F32, DType::BF16, DType::F16})
    for (size_t spatial : {1, 2, 3})
      EXPECT_TRUE(all(type, type, type, spatial)) << toString(type) << " in " << spatial << " dimensions";
  EXPECT_FALSE(all(DType::F32, DType::F32, DType::F32, 4));
  EXPECT_FALSE(all(DType::F64, DType::F64, DType::F64, 2));
  EXPECT_FALSE(all(DType::BF16, DType::BF16, DType::F32, 2));
  EXPECT_FALSE(all(DType::F32, DType::F32, DType::F32, 2, 0));
}

} // namespace
} // namespace kerf::runtime::cuda
