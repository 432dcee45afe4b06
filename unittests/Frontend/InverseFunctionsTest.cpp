// SPDX-License-Identifier: Apache-2.0
// Arc functions against the C library's, at the ends, on all sides and at signed zeros and infinities too.
#include "Common/InverseFunctions.h"
#include "Terms.h"

#include <cmath>
#include <numbers>

namespace kerf {
namespace {

using namespace frontend;

TEST(InverseFunctions, ArcSinesAndCosinesOverTheWholeRange) {
  for (DType dtype : {DType::F64, DType::F32}) {
    Constants constants(dtype);
    std::vector<double> x{-1, 1, 0, kNan, 1.5, -1.0001};
    for (int i = -1000; i < 1000; ++i)
      x.push_back(float(i / 1000.0));
    for (int i = 1; i < 24; ++i)
      x.insert(x.end(), {1 - std::ldexp(1.0, -i), std::ldexp(1.0, -i) - 1, std::ldexp(1.0, -2 * i)});
    Term term = constants.vector(dtype, x);
    std::vector<double> sines = Constants::valuesOf(*arcSine(*constants.terms, term)),
                        cosines = Constants::valuesOf(*arcCosine(*constants.terms, term));
    const double unit = dtype == DType::F64 ? 0x1p-52 : 0x1p-23;
    for (size_t i = 0; i < x.size(); ++i) {
      double sine = std::asin(x[i]), cosine = std::acos(x[i]);
      if (std::isnan(sine)) {
        EXPECT_TRUE(std::isnan(sines[i]) && std::isnan(cosines[i])) << x[i];
        continue;
      }
      EXPECT_LE(std::abs(sines[i] - sine), 4 * unit * std::abs(sine)) << x[i];
      EXPECT_LE(std::abs(cosines[i] - cosine), 4 * unit * cosine) << x[i];
    }
  }
}

TEST(InverseFunctions, AnglesOnAllSides) {
  const double sides[] = {0.0, -0.0, 1, -1, 0.3, -2.5, 1e-300, -1e-300, 1e300, -1e300, kInf, -kInf, kNan};
  std::vector<double> ys, xs;
  for (double y : sides)
    for (double x : sides) {
      ys.push_back(y);
      xs.push_back(x);
    }
  Constants constants(DType::F64);
  std::vector<double> angles = Constants::valuesOf(
      *arcTangentOfRatio(*constants.terms, constants.vector(DType::F64, ys), constants.vector(DType::F64, xs)));
  for (size_t i = 0; i < ys.size(); ++i) {
    double expected = std::atan2(ys[i], xs[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(angles[i])) << ys[i] << ", " << xs[i];
      continue;
    }
    EXPECT_LE(std::abs(angles[i] - expected), 0x1p-51 * std::abs(expected)) << ys[i] << ", " << xs[i];
    EXPECT_EQ(std::signbit(angles[i]), std::signbit(expected)) << ys[i] << ", " << xs[i];
  }
}

} // namespace
} // namespace kerf
