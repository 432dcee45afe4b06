// SPDX-License-Identifier: Apache-2.0
// Compares softmax, normalizations and cross entropy with their definitions in double, and gradients
// with finite differences.
#include "KernelTestSupport.h"

#include <algorithm>
#include <cmath>

namespace kerf::runtime::test {
namespace {

std::vector<double> oracleSoftmax(const HostTensor &x, size_t dimension) {
  std::vector<double> y(x.values.size());
  forEachIndex(x.shape, [&](std::vector<int64_t> index) {
    int64_t at = flatIndex(x.shape, index);
    double sum = 0;
    for (index[dimension] = 0; index[dimension] < x.shape[dimension]; ++index[dimension])
      sum += std::exp(x.values[flatIndex(x.shape, index)] - x.values[at]);
    y[at] = 1 / sum;
  });
  return y;
}

TEST(Softmax, MatchesTheDefinitionAlongAnyDimension) {
  for (int seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    DType dtype = seed % 3 == 0 ? F32 : seed % 3 == 1 ? F64 : DType::BF16;
    size_t rank = random.integer(1, 4), dimension = random.integer(0, rank - 1);
    HostTensor x = random.normals(dtype, random.shape(rank, rank == 1 ? 300 : 8), 5);
    Json attrs = {{"dimension", dimension}};
    HostTensor y = runKernel("softmax", attrs, {x}, {{dtype, x.shape}})[0];
    expectNear(y, oracleSoftmax(x, dimension), toleranceOf(dtype));
    if (dtype != F64)
      continue;
    HostTensor dy = random.normals(dtype, x.shape);
    HostTensor dx = runKernel("softmax_backward", attrs, {y, dy}, {{dtype, x.shape}})[0];
    expectGradient([&](const auto &in) { return runKernel("softmax", attrs, in, {{dtype, x.shape}})[0].values; }, {x},
                   0, dy.values, dx);
  }
}

TEST(Softmax, InfinitiesAndNanStayInTheirRows) {
  HostTensor x{F32, {5, 3}, {0, -kInf, 0, -kInf, -kInf, -kInf, 1, NAN, 1, kInf, 0, 0, 1e30, 0, 1e30}};
  HostTensor y = runKernel("softmax", {{"dimension", 1}}, {x}, {{F32, {5, 3}}})[0];
  expectNear(y, {0.5, 0, 0.5, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0.5, 0, 0.5}, 1e-6);
}

struct NormOracle {
  std::vector<double> y, mean, rstd;
};
enum class Norm { Layer, Rms };

NormOracle oracleNorm(Norm kind, const std::vector<HostTensor> &in, double epsilon) {
  int64_t n = in[0].shape.back(), rows = in[0].elements() / n;
  NormOracle o;
  for (int64_t r = 0; r < rows; ++r) {
    const double *x = in[0].values.data() + r * n;
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n && kind == Norm::Layer; ++i)
      mean += x[i] / n;
    for (int64_t i = 0; i < n; ++i)
      square += (x[i] - mean) * (x[i] - mean) / n;
    double rstd = 1 / std::sqrt(square + epsilon);
    for (int64_t i = 0; i < n; ++i)
      o.y.push_back((x[i] - mean) * rstd * in[1].values[i] + (kind == Norm::Layer ? in[2].values[i] : 0));
    o.mean.push_back(mean);
    o.rstd.push_back(rstd);
  }
  return o;
}

TEST(Norm, MatchesTheDefinitionAndItsGradient) {
  for (int seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Norm kind = seed % 2 ? Norm::Rms : Norm::Layer;
    DType dtype = seed % 4 < 2 ? F64 : F32;
    Shape shape = random.shape(random.integer(1, 3), 6);
    shape.back() = random.integer(1, 40);
    Shape last = {shape.back()}, rows(shape.begin(), shape.end() - 1);
    std::vector<HostTensor> in = {random.normals(dtype, shape, 3), random.normals(dtype, last)};
    if (kind == Norm::Layer)
      in.push_back(random.normals(dtype, last));
    for (double &v : in[0].values)
      v += 2; // a mean that matters
    in[0] = rounded(in[0]);
    Json attrs = {{"epsilon", 1e-2}};
    std::string op = kind == Norm::Layer ? "layer_norm" : "rms_norm";
    std::vector<ResultType> types = {{dtype, shape}, {dtype, rows}, {dtype, rows}};
    if (kind == Norm::Rms)
      types.pop_back();
    std::vector<HostTensor> out = runKernel(op, attrs, in, types);
    NormOracle oracle = oracleNorm(kind, in, 1e-2);
    expectNear(out[0], oracle.y, 2 * toleranceOf(dtype), "y");
    expectNear(out.back(), oracle.rstd, toleranceOf(dtype), "rstd");
    if (kind == Norm::Layer)
      expectNear(out[1], oracle.mean, toleranceOf(dtype), "mean");
    if (dtype != F64)
      continue;
    HostTensor dy = random.normals(F64, shape);
    std::vector<HostTensor> backward = {in[0], in[1]};
    backward.insert(backward.end(), out.begin() + 1, out.end());
    backward.push_back(dy);
    std::vector<ResultType> gradientTypes = {{F64, shape}, {F64, last}, {F64, last}};
    gradientTypes.resize(in.size());
    std::vector<HostTensor> gradients = runKernel(op + "_backward", Json::object(), backward, gradientTypes);
    for (size_t i = 0; i < in.size(); ++i)
      expectGradient([&](const auto &operands) { return runKernel(op, attrs, operands, types)[0].values; }, in, i,
                     dy.values, gradients[i], 1e-5);
  }
}

TEST(Norm, Float32VarianceSurvivesALargeMean) {
  HostTensor x{F32, {1, 1000}, {}};
  for (int i = 0; i < 1000; ++i)
    x.values.push_back(4096 + (i % 2)); // variance 1/4; x^2 in float32 has steps of 2
  HostTensor one{F32, {1000}, std::vector<double>(1000, 1)}, zero{F32, {1000}, std::vector<double>(1000, 0)};
  HostTensor rstd =
      runKernel("layer_norm", {{"epsilon", 0.0}}, {x, one, zero}, {{F32, {1, 1000}}, {F32, {1}}, {F32, {1}}})[2];
  EXPECT_NEAR(rstd.values[0], 2, 1e-5);
}

TEST(Norm, SixteenBitRowsHaveFloat32Statistics) {
  for (DType dtype : {DType::BF16, DType::F16}) {
    // A mean of squares in bf16 would lose the variance of 128 +- 1 completely.
    HostTensor x{dtype, {1, 4}, {127, 129, 127, 129}}, scale{DType::F32, {4}, {1, 1, 1, 1 + 0x1p-20}},
        bias{DType::F32, {4}, {0, 0, 0, 0}};
    auto norm = runKernel("layer_norm", {{"epsilon", 0.0}}, {x, scale, bias},
                          {{dtype, {1, 4}}, {DType::F32, {1}}, {DType::F32, {1}}});
    EXPECT_EQ(norm[0].values, (std::vector<double>{-1, 1, -1, 1}));
    EXPECT_EQ(norm[1].values[0], 128);
    EXPECT_EQ(norm[2].values[0], 1);
    auto rms = runKernel("rms_norm", {{"epsilon", 0.0}}, {x, scale}, {{dtype, {1, 4}}, {DType::F32, {1}}});
    EXPECT_NEAR(rms[1].values[0], 1 / std::sqrt(16385.0), 1e-9);
    HostTensor mean{DType::F32, {1}, norm[1].values}, rstd{DType::F32, {1}, norm[2].values},
        dy{dtype, {1, 4}, {1, 0, 0, 0}};
    auto back = runKernel("layer_norm_backward", Json::object(), {x, scale, mean, rstd, dy},
                          {{dtype, {1, 4}}, {DType::F32, {4}}, {DType::F32, {4}}});
    EXPECT_EQ(back[1].values, (std::vector<double>{-1, 0, 0, 0}));
    EXPECT_EQ(back[0].values, (std::vector<double>{0.5, 0, -0.5, 0}));
  }
}

TEST(CrossEntropy, SixteenBitLogitsHaveAFloat32Loss) {
  HostTensor logits{DType::BF16, {1, 3}, {8, 0, 0}}, labels{DType::I64, {1}, {0}};
  auto loss =
      runKernel("cross_entropy", {{"ignore_index", -100}}, {logits, labels}, {{DType::F32, {1}}, {DType::F32, {1}}});
  EXPECT_NEAR(loss[0].values[0], std::log1p(2 * std::exp(-8.0)), 1e-9); // bf16: 0, its lse being 8
  HostTensor lse{DType::F32, {1}, loss[1].values}, dy{DType::F32, {1}, {1}};
  auto back =
      runKernel("cross_entropy_backward", {{"ignore_index", -100}}, {logits, labels, lse, dy}, {{DType::BF16, {1, 3}}});
  EXPECT_NEAR(back[0].values[1], std::exp(-8.0), 2e-6);
}

TEST(CrossEntropy, OfBf16LogitsAgreesWithFloat64) {
  for (int seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const int64_t classes = random.integer(1, 60), columns = classes + (seed % 2 ? 0 : random.integer(1, 9));
    const Shape rows = {random.integer(1, 9)}, shape = {rows[0], columns};
    HostTensor x = rounded(random.normals(DType::BF16, shape, 4));
    HostTensor labels = random.integers(DType::I64, rows, 0, classes - 1), dy = random.normals(F32, rows);
    labels.values[0] = -100;
    for (int64_t i = 0; i < x.elements(); ++i)
      if (i % columns >= classes)
        x.values[i] = std::nan(""); // which nothing may read
    const Json attrs = {{"ignore_index", -100}, {"classes", classes}};
    std::vector<HostTensor> gradients;
    std::vector<std::vector<HostTensor>> losses;
    for (DType dtype : {DType::BF16, F64}) {
      x.dtype = dtype;
      dy.dtype = dtype == F64 ? F64 : F32;
      losses.push_back(runKernel("cross_entropy", attrs, {x, labels}, {{dy.dtype, rows}, {dy.dtype, rows}}));
      gradients.push_back(
          runKernel("cross_entropy_backward", attrs, {x, labels, losses.back()[1], dy}, {{dtype, shape}})[0]);
    }
    expectNear(losses[0][0], losses[1][0].values, 1e-5, "nll");
    expectNear(losses[0][1], losses[1][1].values, 1e-5, "lse");
    expectNear(gradients[0], gradients[1].values, 1.0 / 256, "gradient");
  }
}

TEST(CrossEntropy, MatchesTheDefinitionAndItsGradient) {
  for (int seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    DType dtype = seed % 2 ? F32 : F64, labelType = seed % 3 ? DType::I64 : DType::I32;
    int64_t classes = random.integer(1, 60), columns = classes + (seed % 4 < 2 ? 0 : random.integer(1, 9));
    Shape rows = random.shape(random.integer(0, 2), 5), shape = rows;
    shape.push_back(columns);
    HostTensor x = random.normals(dtype, shape, 4), labels = random.integers(labelType, rows, 0, classes - 1);
    for (double &label : labels.values)
      label = random.integer(0, 4) ? label : -100;
    Json attrs = {{"ignore_index", -100}};
    if (columns > classes)
      attrs["classes"] = classes;
    for (int64_t i = 0; i < x.elements(); ++i)
      if (i % columns >= classes)
        x.values[i] = std::nan(""); // which nothing may read
    std::vector<ResultType> types = {{dtype, rows}, {dtype, rows}};
    std::vector<HostTensor> out = runKernel("cross_entropy", attrs, {x, labels}, types);
    std::vector<double> nll, lse;
    for (int64_t r = 0; r < labels.elements(); ++r) {
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c)
        sum += std::exp(x.values[r * columns + c]);
      lse.push_back(std::log(sum));
      nll.push_back(labels.values[r] < 0 ? 0 : lse.back() - x.values[r * columns + int64_t(labels.values[r])]);
    }
    expectNear(out[0], nll, toleranceOf(dtype), "nll");
    expectNear(out[1], lse, toleranceOf(dtype), "lse");
    HostTensor dy = random.normals(dtype, rows);
    HostTensor dx = runKernel("cross_entropy_backward", attrs, {x, labels, out[1], dy}, {{dtype, shape}})[0];
    for (int64_t i = 0; i < dx.elements(); ++i)
      if (i % columns >= classes) {
        EXPECT_EQ(dx.values[i], 0) << "element " << i;
      }
    if (dtype == F64)
      expectGradient([&](const auto &in) { return runKernel("cross_entropy", attrs, in, types)[0].values; },
                     {x, labels}, 0, dy.values, dx);
  }
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  HostTensor x{F32, {2, 3}, {1000, 999, -1000, -kInf, 5, -kInf}}, labels{DType::I64, {2}, {1, 1}};
  std::vector<HostTensor> out =
      runKernel("cross_entropy", {{"ignore_index", -1}}, {x, labels}, {{F32, {2}}, {F32, {2}}});
  expectNear(out[0], {std::log(1 + std::exp(1.0)), 0}, 1e-6); // though the log-sum-exp, near 1,000, has steps of 6e-5
}

TEST(CrossEntropy, LabelsOutOfRangeAreMessages) {
  HostTensor x{F32, {8, 97}, std::vector<double>(8 * 97)}, labels{DType::I64, {8}, {0, 96, 5, -100, 1, 123, 2, 3}};
  HostTensor rows{F32, {8}, std::vector<double>(8)};
  Json attrs = {{"ignore_index", -100}};
  std::string expected =
      "label 123 of row 5 is outside of [0, 97) and is not the ignored label -100; check the input data";
  EXPECT_EQ(errorOf("cross_entropy", attrs, {x, labels}, {{F32, {8}}, {F32, {8}}}), expected);
  EXPECT_EQ(errorOf("cross_entropy_backward", attrs, {x, labels, rows, rows}, {{F32, {8, 97}}}), expected);
  labels.values[5] = -1;
  EXPECT_NE(errorOf("cross_entropy", attrs, {x, labels}, {{F32, {8}}, {F32, {8}}}).find("label -1 of row 5"),
            std::string::npos);
  EXPECT_EQ(errorOf("cross_entropy", attrs, {x, rows}, {{F32, {8}}, {F32, {8}}}),
            "cross_entropy: the labels is f32, not i64 or i32; compile the package again");
  EXPECT_EQ(errorOf("cross_entropy", Json::object(), {x, labels}, {{F32, {8}}, {F32, {8}}}),
            "cross_entropy: attribute 'ignore_index' is missing; compile the package again");
}

} // namespace
} // namespace kerf::runtime::test
