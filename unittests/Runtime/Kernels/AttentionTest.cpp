// SPDX-License-Identifier: Apache-2.0
// Attention with grouped queries, masks and causality against its definition in double; its backward form against
// finite differences.
#include "KernelTestSupport.h"

#include <cmath>

namespace kerf::runtime::test {
namespace {
constexpr DType F64 = DType::F64, F32 = DType::F32;
constexpr double kInf = std::numeric_limits<double>::infinity();

struct AttentionCase {
  int64_t b, s, t, h, g, d, e;
  double scale = 0.3;
  bool causal = false;
  std::vector<HostTensor> in; // query, key, value, and a mask or none

  Json attrs() const {
    Json json = {{"scale", scale}};
    if (causal)
      json["causal"] = true;
    return json;
  }
  std::vector<ResultType> types() const { return {{in[0].dtype, {b, s, h, e}}, {in[0].dtype, {b, h, s}}}; }
};

struct Oracle {
  std::vector<double> out, lse;
};

Oracle oracleAttention(const AttentionCase &c) {
  auto at = [](const HostTensor &x, int64_t i, int64_t j, int64_t k, int64_t l) {
    return x.values[flatIndex(x.shape, {i, j, k, l})];
  };
  Oracle o{std::vector<double>(c.b * c.s * c.h * c.e), std::vector<double>(c.b * c.h * c.s)};
  for (int64_t b = 0; b < c.b; ++b)
    for (int64_t h = 0; h < c.h; ++h)
      for (int64_t i = 0; i < c.s; ++i) {
        std::vector<double> weights(c.t);
        double sum = 0;
        for (int64_t j = 0; j < c.t; ++j) {
          double score = 0;
          for (int64_t d = 0; d < c.d; ++d)
            score += c.scale * at(c.in[0], b, i, h, d) * at(c.in[1], b, j, h / (c.h / c.g), d);
          if (c.in.size() == 4) {
            const HostTensor &m = c.in[3];
            double mask = at(m, m.shape[0] == 1 ? 0 : b, m.shape[1] == 1 ? 0 : h, i, j);
            score = m.dtype == DType::Bool ? (mask ? score : -kInf) : score + mask;
          }
          weights[j] = c.causal && j > i ? 0 : std::exp(score);
          sum += weights[j];
        }
        o.lse[(b * c.h + h) * c.s + i] = std::log(sum);
        for (int64_t j = 0; j < c.t && sum > 0; ++j)
          for (int64_t e = 0; e < c.e; ++e)
            o.out[((b * c.s + i) * c.h + h) * c.e + e] += weights[j] / sum * at(c.in[2], b, j, h / (c.h / c.g), e);
      }
  return o;
}

enum class MaskKind { None, Float, Bool };

AttentionCase randomCase(Random &random, DType dtype, MaskKind mask, bool causal, int64_t longest) {
  AttentionCase c;
  c.b = random.integer(1, 2);
  c.g = random.integer(1, 2);
  c.h = c.g * random.integer(1, 3);
  c.t = random.integer(1, longest);
  c.s = causal ? c.t : random.integer(1, longest);
  c.d = random.integer(1, 9);
  c.e = random.integer(1, 9);
  c.causal = causal;
  c.in = {random.normals(dtype, {c.b, c.s, c.h, c.d}), random.normals(dtype, {c.b, c.t, c.g, c.d}),
          random.normals(dtype, {c.b, c.t, c.g, c.e})};
  Shape maskShape = {random.integer(0, 1) ? 1 : c.b, random.integer(0, 1) ? 1 : c.h, c.s, c.t};
  if (mask == MaskKind::Float)
    c.in.push_back(random.normals(dtype, maskShape));
  if (mask == MaskKind::Bool)
    c.in.push_back(random.integers(DType::Bool, maskShape, 0, 1));
  if (mask != MaskKind::None)
    for (int64_t j = 0; j < c.t; ++j) // query 0 sees nothing
      c.in[3].values[j] = mask == MaskKind::Bool ? 0 : -kInf;
  return c;
}

TEST(Attention, MatchesTheDefinition) {
  for (int seed = 0; seed < 36; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    DType dtype = seed % 5 == 0 ? DType::BF16 : seed % 2 ? F32 : F64;
    // 150 queries are three blocks of rows.
    AttentionCase c = randomCase(random, dtype, MaskKind(seed % 3), seed / 3 % 2, seed % 4 == 0 ? 150 : 12);
    Oracle oracle = oracleAttention(c);
    std::vector<HostTensor> out = runKernel("attention", c.attrs(), c.in, c.types());
    expectNear(out[0], oracle.out, toleranceOf(dtype), "out");
    expectNear(out[1], oracle.lse, toleranceOf(dtype), "lse");
  }
}

TEST(Attention, GradientsMatchFiniteDifferences) {
  for (int seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    AttentionCase c = randomCase(random, F64, MaskKind(seed % 3), seed / 3 % 2, 7);
    std::vector<HostTensor> out = runKernel("attention", c.attrs(), c.in, c.types());
    HostTensor dOut = random.normals(F64, out[0].shape);
    std::vector<HostTensor> backward = c.in;
    backward.insert(backward.end(), {out[0], out[1], dOut});
    std::vector<HostTensor> gradients = runKernel("attention_backward", c.attrs(), backward,
                                                  {{F64, c.in[0].shape}, {F64, c.in[1].shape}, {F64, c.in[2].shape}});
    for (size_t i = 0; i < 3; ++i)
      expectGradient([&](const auto &in) { return runKernel("attention", c.attrs(), in, c.types())[0].values; }, c.in,
                     i, dOut.values, gradients[i]);
  }
}

TEST(Attention, BackwardOverSeveralBlocksAgreesWithFloat64) {
  // The same numbers once in float32 over three blocks of rows, once in float64.
  Random random(5);
  AttentionCase wide = randomCase(random, F32, MaskKind::None, true, 12);
  wide = {2, 150, 150, 4, 2, 8, 6, 0.35, true, {}};
  wide.in = {random.normals(F32, {2, 150, 4, 8}), random.normals(F32, {2, 150, 2, 8}),
             random.normals(F32, {2, 150, 2, 6})};
  HostTensor dOut = random.normals(F32, {2, 150, 4, 6});
  std::vector<HostTensor> gradients[2];
  for (DType dtype : {F32, F64}) {
    AttentionCase c = wide;
    for (HostTensor &x : c.in)
      x.dtype = dtype;
    dOut.dtype = dtype;
    std::vector<HostTensor> out = runKernel("attention", c.attrs(), c.in, c.types()), backward = c.in;
    backward.insert(backward.end(), {out[0], out[1], dOut});
    gradients[dtype == F64] = runKernel("attention_backward", c.attrs(), backward,
                                        {{dtype, c.in[0].shape}, {dtype, c.in[1].shape}, {dtype, c.in[2].shape}});
  }
  for (size_t i = 0; i < 3; ++i)
    expectNear(gradients[0][i], gradients[1][i].values, 5e-5, "gradient " + std::to_string(i));
}

TEST(Attention, LargestNegativeMasksAreNotExclusion) {
  // Exported masks add the lowest finite number: a row of them attends to all keys alike, as in the framework.
  AttentionCase c{1, 1, 2, 1, 1, 1, 1, 1.0, false, {}};
  double lowest = std::numeric_limits<float>::lowest();
  c.in = {{F32, {1, 1, 1, 1}, {1}},
          {F32, {1, 2, 1, 1}, {1, 2}},
          {F32, {1, 2, 1, 1}, {4, 8}},
          {F32, {1, 1, 1, 2}, {lowest, lowest}}};
  EXPECT_EQ(runKernel("attention", c.attrs(), c.in, c.types())[0].values, std::vector<double>{6});
}

TEST(Attention, FaultsAreMessages) {
  AttentionCase c{1, 2, 3, 3, 2, 1, 1, 1.0, false, {}};
  auto zeros = [](Shape shape) { return HostTensor{F32, shape, std::vector<double>(elementsOf(shape))}; };
  c.in = {zeros({1, 2, 3, 1}), zeros({1, 3, 2, 1}), zeros({1, 3, 2, 1})};
  EXPECT_EQ(errorOf("attention", c.attrs(), c.in, c.types()),
            "attention: 3 query heads are no multiple of 2 key/value heads");
  c.in = {zeros({1, 2, 3, 1}), zeros({1, 3, 3, 1}), zeros({1, 3, 3, 1})};
  c.causal = true;
  EXPECT_EQ(errorOf("attention", c.attrs(), c.in, c.types()), "attention: causal attention of 2 queries over 3 keys");
  c.causal = false;
  c.in.push_back(zeros({1, 1, 3, 2}));
  EXPECT_EQ(errorOf("attention", c.attrs(), c.in, c.types()),
            "attention: the mask is f32[1, 1, 3, 2], not [1 or 1, 1 or 3, 2, 3]");
}

} // namespace
} // namespace kerf::runtime::test
