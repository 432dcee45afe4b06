// SPDX-License-Identifier: Apache-2.0
// quantize, and products with 8-bit factors.
#include "KernelTestSupport.h"

#include "kerf/Package/Float8.h"
#include <cmath>

namespace kerf::runtime::test {
namespace {

constexpr DType E4M3 = DType::F8E4M3FN, E5M2 = DType::F8E5M2;
const Float8Format &float8FormatOf(DType dtype) { return dtype == E5M2 ? kE5M2 : kE4M3FN; }

TEST(Quantize, RoundsWithTheScaleOfTheMagnitude) {
  Random random(5);
  for (DType dtype : {F32, DType::BF16, DType::F16})
    for (DType format : {E4M3, E5M2})
      for (Shape shape : {Shape{}, Shape{0, 4}, Shape{3, 5, 7}, Shape{40, 1000}}) {
        HostTensor x = random.normals(dtype, shape, 3);
        double magnitude = 0;
        for (double value : x.values)
          magnitude = std::max(magnitude, std::fabs(value));
        HostTensor size = rounded(scalar(dtype, magnitude));
        HostTensor y = runKernel("quantize", {}, {x, size}, {{format, shape}})[0];
        float scale = float(float8FormatOf(format).largest) / std::max(float(size.values[0]), 0x1p-100f);
        for (size_t i = 0; i < y.values.size(); ++i) {
          float scaled = float(x.values[i]) * scale;
          ASSERT_EQ(y.values[i],
                    floatFromFloat8(float8FromFloat(scaled, float8FormatOf(format)), float8FormatOf(format)));
          ASSERT_LE(std::fabs(y.values[i] - scaled), std::fabs(scaled) / (format == E4M3 ? 16 : 8) + 0x1p-10);
        }
        double largest = 0;
        for (double value : y.values)
          largest = std::max(largest, std::fabs(value));
        if (magnitude > 0) {
          EXPECT_EQ(largest, float8FormatOf(format).largest);
        }
      }
}

struct Float8Form {
  Shape left, right;
  int64_t leftContracted, rightContracted;
};

/// An element of a product of 8-bit matrices.
struct Float8Sum {
  double exact;   // what exact arithmetic gives
  double largest; // the largest absolute value among the terms and the sums of the first terms
};

/// Multiplies two 8-bit matrices.
std::vector<Float8Sum> float8Product(const Float8Form &form, const HostTensor &left, const HostTensor &right,
                                     double scale) {
  int64_t m = form.left[1 - form.leftContracted], k = form.left[form.leftContracted],
          n = form.right[1 - form.rightContracted];
  std::vector<Float8Sum> result;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, largest = 0;
      for (int64_t c = 0; c < k; ++c) {
        double term = left.values[form.leftContracted ? i * k + c : c * m + i] *
                      right.values[form.rightContracted ? j * k + c : c * n + j];
        sum += term;
        largest = std::max({largest, std::fabs(term), std::fabs(sum)});
      }
      result.push_back({sum * scale, largest * scale});
    }
  return result;
}

/// Returns the largest error of a sum of `depth` terms on 8-bit tensor cores (docs/mixed-precision.md): they add 32
/// terms and the sum so far at a time, and cut each of the 33 numbers to 14 bits below the largest one's highest bit.
double tensorCoreError(int64_t depth, double largest) {
  constexpr int64_t kTogether = 32;
  return double((depth + kTogether - 1) / kTogether * (kTogether + 1)) * 0x1p-13 * largest;
}

Json attrsOfFloat8(const Float8Form &form) {
  return {{"lhs_batching", Json::array()},
          {"rhs_batching", Json::array()},
          {"lhs_contracting", {form.leftContracted}},
          {"rhs_contracting", {form.rightContracted}}};
}

TEST(Float8Product, HasTheNumbersOfExactArithmetic) {
  const bool onGpu = isOnRealGpu();
  Random random(6);
  const Float8Form forms[] = {{{32, 48}, {48, 16}, 1, 0},  {{32, 48}, {16, 48}, 1, 1}, {{48, 32}, {48, 16}, 0, 0},
                              {{48, 32}, {16, 48}, 0, 1},  {{5, 7}, {7, 3}, 1, 0},     {{128, 96}, {96, 112}, 1, 0},
                              {{96, 128}, {96, 112}, 0, 0}};
  for (const Float8Form &form : forms)
    for (auto [a, b] : {std::pair{E4M3, E4M3}, {E5M2, E4M3}, {E4M3, E5M2}})
      for (DType dtype : {F32, DType::BF16}) {
        HostTensor left = rounded(random.normals(a, form.left, 40)), right = rounded(random.normals(b, form.right, 40));
        HostTensor leftSize = rounded(scalar(DType::BF16, 3.5)), rightSize = rounded(scalar(DType::BF16, 0.0625));
        double scale = 3.5 / float8FormatOf(a).largest * 0.0625 / float8FormatOf(b).largest;
        Shape shape = {form.left[1 - form.leftContracted], form.right[1 - form.rightContracted]};
        HostTensor y =
            runKernel("dot_general", attrsOfFloat8(form), {left, right, leftSize, rightSize}, {{dtype, shape}})[0];
        std::vector<Float8Sum> expected = float8Product(form, left, right, scale);
        double largest = 0;
        for (const Float8Sum &sum : expected)
          largest = std::max(largest, std::fabs(sum.exact));
        for (size_t i = 0; i < expected.size(); ++i) {
          double ofCores = onGpu ? tensorCoreError(form.left[form.leftContracted], expected[i].largest) : 0;
          ASSERT_NEAR(y.values[i], expected[i].exact, largest * (dtype == F32 ? 1e-6 : 4e-3) + ofCores) << i;
        }
      }
}

TEST(Float8Product, InfiniteAndUnknownMagnitudesGiveNaN) {
  const Float8Form form{{16, 16}, {16, 16}, 1, 0};
  Random random(7);
  HostTensor left = random.normals(F32, form.left), right = rounded(random.normals(E4M3, form.right));
  for (double magnitude : {kInf, std::nan("")}) {
    HostTensor size = scalar(F32, magnitude), one = scalar(F32, 1);
    HostTensor codes = runKernel("quantize", {}, {left, size}, {{E4M3, form.left}})[0];
    HostTensor y = runKernel("dot_general", attrsOfFloat8(form), {codes, right, size, one}, {{F32, {16, 16}}})[0];
    for (double value : y.values)
      ASSERT_TRUE(std::isnan(value)) << magnitude;
  }
}

TEST(Float8Product, RefusesWrongOperands) {
  const Float8Form form{{16, 16}, {16, 16}, 1, 0};
  HostTensor x{E4M3, {16, 16}, std::vector<double>(256, 1)}, one = scalar(F32, 1);
  EXPECT_NE(errorOf("dot_general", attrsOfFloat8(form), {x, x}, {{F32, {16, 16}}}), "");
  HostTensor wide{F32, {16, 16}, std::vector<double>(256, 1)};
  EXPECT_NE(errorOf("dot_general", attrsOfFloat8(form), {x, wide, one, one}, {{F32, {16, 16}}}), "");
  EXPECT_NE(errorOf("quantize", {}, {wide, one}, {{F32, {16, 16}}}), "");
  EXPECT_NE(errorOf("quantize", {}, {wide, wide}, {{E4M3, {16, 16}}}), "");
}

} // namespace
} // namespace kerf::runtime::test
