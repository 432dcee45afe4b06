// SPDX-License-Identifier: Apache-2.0
// The 8-bit formats against ml_dtypes (float8.json, written by make_float8.py), and their scales.
#include "kerf/Package/Float8.h"
#include "kerf/Package/Package.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>

namespace kerf {
namespace {

const nlohmann::ordered_json &reference() {
  static const auto json = [] {
    std::ifstream file(KERF_FLOAT8_FILE);
    return nlohmann::ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  }();
  return json;
}

struct Named {
  const char *name;
  const Float8Format &format;
};
constexpr Named kFormats[] = {{"f8e4m3fn", kE4M3FN}, {"f8e5m2", kE5M2}};

TEST(Float8, AllCodesHaveTheValuesOfMlDtypes) {
  for (const auto &[name, format] : kFormats) {
    const auto &values = reference().at(name).at("values");
    ASSERT_EQ(values.size(), 256u);
    for (size_t code = 0; code < 256; ++code) {
      float expected = std::bit_cast<float>(values[code].get<uint32_t>());
      float actual = floatFromFloat8(uint8_t(code), format);
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(actual)) << name << " " << code;
      else
        EXPECT_EQ(std::bit_cast<uint32_t>(actual), std::bit_cast<uint32_t>(expected)) << name << " " << code;
    }
  }
}

TEST(Float8, FloatsAreRoundedAsMlDtypesRoundsThem) {
  for (const auto &[name, format] : kFormats) {
    const auto &cases = reference().at(name).at("rounded");
    ASSERT_GT(cases.size(), 200u);
    for (const auto &one : cases) {
      float value = std::bit_cast<float>(one[0].get<uint32_t>());
      int code = float8FromFloat(value, format);
      if (std::isnan(value))
        EXPECT_EQ(code & 0x7f, 0x7f) << name;
      else
        EXPECT_EQ(code, one[1].get<int>()) << name << " " << value;
    }
  }
}

TEST(Float8, EveryNumberIsRoundedToItself) {
  for (const auto &[name, format] : kFormats)
    for (int code = 0; code < 256; ++code)
      if ((code & 0x7f) <= format.largestCode) {
        EXPECT_EQ(float8FromFloat(floatFromFloat8(uint8_t(code), format), format), code) << name;
      }
}

TEST(Float8, ScalesMapTheMagnitudeToTheLargestNumber) {
  EXPECT_EQ(quantizingScale(7, kE4M3FN), 64);
  EXPECT_EQ(restoringScale(7, kE4M3FN), 1.0F / 64);
  EXPECT_EQ(quantizingScale(0, kE5M2), 57344 * 0x1p100f) << "zeros stay zeros";
  EXPECT_TRUE(std::isnan(restoringScale(std::nanf(""), kE4M3FN)));
  EXPECT_TRUE(std::isinf(restoringScale(INFINITY, kE4M3FN)));
  EXPECT_EQ(quantizingScale(INFINITY, kE4M3FN), 0);
}

} // namespace
} // namespace kerf
