// SPDX-License-Identifier: Apache-2.0
// Compares kernels that work on rows with their definitions for the widths at which kernels for GPUs take another way:
// rows of a warp, of a block and longer ones, and widths that are not whole numbers of 16 bytes.
#include "KernelTestSupport.h"

#include <algorithm>
#include <cmath>

namespace kerf::runtime::test {
namespace {
const int64_t kRowWidths[] = {1, 3, 193, 256, 768, 770, 1028, 1500, 16400, 4104};

struct RowTypes {
  DType type, rest; // of the rows, and of the statistics
};
const RowTypes kRowTypes[] = {
    {F32, F32}, {F64, F64}, {DType::BF16, F32}, {DType::F16, F32}, {DType::BF16, DType::BF16}};

/// Calls test(random, types, width) for all widths, with the types in turn.
template <typename F> void forWidths(F test) {
  int number = 0;
  for (int64_t width : kRowWidths)
    for (int k = 0; k < (width > 1000 ? 1 : 2); ++k, ++number) {
      RowTypes one = kRowTypes[number % 5];
      SCOPED_TRACE("width " + std::to_string(width) + " of " + std::string(toString(one.type)) + ", seed " +
                   std::to_string(number));
      Random random(number);
      test(random, one, width);
    }
}

TEST(Rows, NormsAndTheirGradientsOfAllWidths) {
  forWidths([](Random &random, RowTypes one, int64_t n) {
    const int64_t rows = n > 2000 ? 2 : 19; // more than one block of eight warps, and than one piece of 16 rows
    HostTensor x = random.normals(one.type, {rows, n}, 2), dy = random.normals(one.type, {rows, n});
    HostTensor scale = random.normals(one.rest, {n}), bias = random.normals(one.rest, {n});
    auto y = runKernel("layer_norm", {{"epsilon", 1e-3}}, {x, scale, bias},
                       {{one.type, x.shape}, {one.rest, {rows}}, {one.rest, {rows}}});
    auto back = runKernel("layer_norm_backward", Json::object(), {x, scale, y[1], y[2], dy},
                          {{one.type, x.shape}, {one.rest, {n}}, {one.rest, {n}}});
    std::vector<double> normed, dx, dScale(size_t(n), 0.0), dBias(size_t(n), 0.0);
    for (int64_t r = 0; r < rows; ++r) {
      const double *row = x.values.data() + r * n, *g = dy.values.data() + r * n;
      double sum = 0, square = 0, meanOfG = 0, meanOfDot = 0;
      for (int64_t i = 0; i < n; ++i)
        sum += row[i];
      for (int64_t i = 0; i < n; ++i)
        square += (row[i] - sum / double(n)) * (row[i] - sum / double(n));
      double exact = 1 / std::sqrt(square / double(n) + 1e-3);
      // The gradients are those for the statistics that the kernel is given.
      double mean = y[1].values[size_t(r)], rstd = y[2].values[size_t(r)];
      ASSERT_NEAR(mean, sum / double(n), toleranceOf(one.rest) * (1 + std::fabs(mean)));
      ASSERT_NEAR(rstd, exact, toleranceOf(one.rest) * exact);
      for (int64_t i = 0; i < n; ++i) {
        double hat = (row[i] - mean) * rstd;
        normed.push_back((row[i] - sum / double(n)) * exact * scale.values[size_t(i)] + bias.values[size_t(i)]);
        meanOfG += g[i] * scale.values[size_t(i)] / double(n);
        meanOfDot += g[i] * scale.values[size_t(i)] * hat / double(n);
        dScale[size_t(i)] += g[i] * hat;
        dBias[size_t(i)] += g[i];
      }
      for (int64_t i = 0; i < n; ++i)
        dx.push_back(rstd * (g[i] * scale.values[size_t(i)] - meanOfG - (row[i] - mean) * rstd * meanOfDot));
    }
    double tolerance = 4 * toleranceOf(one.type);
    expectNear(y[0], normed, tolerance, "y");
    expectNear(back[0], dx, tolerance, "dx");
    expectNear(back[1], dScale, 4 * toleranceOf(one.rest), "dScale");
    expectNear(back[2], dBias, 4 * toleranceOf(one.rest), "dBias");
  });
}

TEST(Rows, RmsNormsAndTheirGradientsOfAllWidths) {
  forWidths([](Random &random, RowTypes one, int64_t n) {
    const int64_t rows = n > 2000 ? 3 : 19;
    HostTensor x = random.normals(one.type, {rows, n}, 2), dy = random.normals(one.type, {rows, n});
    HostTensor scale = random.normals(one.rest, {n});
    auto y = runKernel("rms_norm", {{"epsilon", 1e-3}}, {x, scale}, {{one.type, x.shape}, {one.rest, {rows}}});
    auto back =
        runKernel("rms_norm_backward", Json::object(), {x, scale, y[1], dy}, {{one.type, x.shape}, {one.rest, {n}}});
    std::vector<double> normed, dx, dScale(size_t(n), 0.0);
    for (int64_t r = 0; r < rows; ++r) {
      const double *row = x.values.data() + r * n, *g = dy.values.data() + r * n;
      double square = 0, meanOfDot = 0, rstd = y[1].values[size_t(r)];
      for (int64_t i = 0; i < n; ++i)
        square += row[i] * row[i];
      const double exact = 1 / std::sqrt(square / double(n) + 1e-3);
      ASSERT_NEAR(rstd, exact, toleranceOf(one.rest) * exact);
      for (int64_t i = 0; i < n; ++i) {
        normed.push_back(row[i] * exact * scale.values[size_t(i)]);
        meanOfDot += g[i] * scale.values[size_t(i)] * row[i] * rstd / double(n);
        dScale[size_t(i)] += g[i] * row[i] * rstd;
      }
      for (int64_t i = 0; i < n; ++i)
        dx.push_back(rstd * (g[i] * scale.values[size_t(i)] - row[i] * rstd * meanOfDot));
    }
    expectNear(y[0], normed, 4 * toleranceOf(one.type), "y");
    expectNear(back[0], dx, 4 * toleranceOf(one.type), "dx");
    expectNear(back[1], dScale, 4 * toleranceOf(one.rest), "dScale");
  });
}

TEST(Rows, StatisticsOfLargeAndSmallNumbersAreExact) {
  for (double size : {1e-25, 1e-12, 1e12, 1e25})
    for (int64_t n : {770, 1500, 4104}) { // rows of warps, of blocks, and of blocks with single elements
      SCOPED_TRACE("numbers of " + std::to_string(size) + ", width " + std::to_string(n));
      Random random(5);
      HostTensor x = random.normals(F32, {2, n}), one{F32, {n}, std::vector<double>(size_t(n), 1)};
      for (double &value : x.values)
        value = double(float(value * size));
      auto rms = runKernel("rms_norm", {{"epsilon", 0.0}}, {x, one}, {{F32, x.shape}, {F32, {2}}})[1];
      auto layer = runKernel("layer_norm", {{"epsilon", 0.0}}, {x, one, one}, {{F32, x.shape}, {F32, {2}}, {F32, {2}}});
      for (int64_t r = 0; r < 2; ++r) {
        double sum = 0, square = 0, distance = 0;
        for (int64_t i = 0; i < n; ++i)
          sum += x.values[size_t(r * n + i)], square += std::pow(x.values[size_t(r * n + i)], 2);
        for (int64_t i = 0; i < n; ++i)
          distance += std::pow(x.values[size_t(r * n + i)] - sum / double(n), 2);
        EXPECT_NEAR(rms.values[size_t(r)] * std::sqrt(square / double(n)), 1, 1e-6);
        EXPECT_NEAR(layer[1].values[size_t(r)] / size, sum / double(n) / size, 1e-6);
        EXPECT_NEAR(layer[2].values[size_t(r)] * std::sqrt(distance / double(n)), 1, 1e-6);
      }
    }
}

TEST(Rows, LossesAndSoftmaxOfAllWidths) {
  forWidths([](Random &random, RowTypes one, int64_t n) {
    const int64_t rows = n > 2000 ? 2 : 5;
    HostTensor x = random.normals(one.type, {rows, n}, 3), labels = random.integers(DType::I32, {rows}, 0, n - 1);
    HostTensor dy = random.normals(one.rest, {rows});
    x.values[0] = -kInf; // a masked class
    Json attrs = {{"ignore_index", 0}};
    labels.values[1] = 0;
    labels.values[0] = double(n - 1);
    auto loss = runKernel("cross_entropy", attrs, {x, labels}, {{one.rest, {rows}}, {one.rest, {rows}}});
    auto dx = runKernel("cross_entropy_backward", attrs, {x, labels, loss[1], dy}, {{one.type, x.shape}})[0];
    auto y = runKernel("softmax", {{"dimension", 1}}, {x}, {{one.type, x.shape}})[0];
    std::vector<double> nll, gradients, softmax;
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i)
        sum += std::exp(x.values[size_t(r * n + i)]);
      int64_t label = int64_t(labels.values[size_t(r)]);
      nll.push_back(label == 0 ? 0 : std::log(sum) - x.values[size_t(r * n + label)]);
      for (int64_t i = 0; i < n; ++i) {
        double lse = loss[1].values[size_t(r)], p = std::exp(x.values[size_t(r * n + i)] - lse);
        gradients.push_back(label == 0 ? 0 : (p - (i == label)) * dy.values[size_t(r)]);
        softmax.push_back(std::exp(x.values[size_t(r * n + i)]) / sum);
      }
    }
    if (n == 1) // the only class of row 0 is masked
      softmax[0] = NAN;
    expectNear(loss[0], nll, 2 * toleranceOf(one.rest), "nll");
    expectNear(dx, gradients, toleranceOf(one.type), "gradient");
    expectNear(y, softmax, toleranceOf(one.type), "softmax");
  });
}

TEST(Rows, ReductionsInSeveralPieces) {
  // Shapes (outer, kept, inner) of tables, long runs, short runs, and sums of everything.
  const Shape kShapes[] = {{700, 64, 1}, {300, 10, 1}, {200, 257, 1}, {9, 3, 1500},  {300, 2, 49}, {1, 5, 9000},
                           {1, 300, 7},  {30, 4, 2},   {1, 1, 20011}, {900, 128, 1}, {3000, 8, 1}, {600, 24, 1}};
  const DType kTypes[] = {F32, DType::BF16, F64, DType::I32, DType::I8, DType::F16, DType::Bool, DType::U64};
  int number = 0;
  for (const Shape &shape : kShapes)
    for (std::string kind : {"sum", "max", "min"}) {
      Random random(number);
      DType type = kTypes[number++ % 8];
      SCOPED_TRACE("seed " + std::to_string(number - 1) + ", " + kind + " of " + std::string(toString(type)));
      HostTensor x = random.integers(type, shape, type == DType::Bool ? 0 : 1, type == DType::Bool ? 1 : 3);
      std::vector<double> expected(size_t(shape[1]), kind == "sum" ? 0 : kind == "max" ? -kInf : kInf);
      forEachIndex(shape, [&](const std::vector<int64_t> &index) {
        double value = x.values[size_t(flatIndex(shape, index))], &to = expected[size_t(index[1])];
        to = kind == "sum" ? to + value : kind == "max" ? std::max(to, value) : std::min(to, value);
      });
      for (double &value : expected)
        if (type == DType::I8)
          value = double(int8_t(int64_t(value)));
        else if (type == DType::Bool)
          value = value != 0;
      HostTensor y = runKernel("reduce", {{"kind", kind}, {"dimensions", {0, 2}}}, {x}, {{type, {shape[1]}}})[0];
      expectNear(y, expected, toleranceOf(type));
    }
}

} // namespace
} // namespace kerf::runtime::test
