// SPDX-License-Identifier: Apache-2.0
// Compares element-wise kernels with the C++ library's functions in double, including NaN, infinities, overflow and
// division by zero.
#include "KernelTestSupport.h"

#include <cmath>
#include <limits>

namespace kerf::runtime::test {
namespace {
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const DType kFloats[] = {DType::F64, DType::F32, DType::BF16, DType::F16};

struct UnaryCase {
  const char *op;
  double (*f)(double);
  bool positive;
};
const UnaryCase kUnaryCases[] = {
    {"negate", [](double x) { return -x; }, false},
    {"abs", [](double x) { return std::fabs(x); }, false},
    {"sign", [](double x) { return x > 0   ? 1.0
                                   : x < 0 ? -1.0
                                           : x; }, false},
    {"exponential", [](double x) { return std::exp(x); }, false},
    {"log", [](double x) { return std::log(x); }, true},
    {"sqrt", [](double x) { return std::sqrt(x); }, true},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, true},
    {"tanh", [](double x) { return std::tanh(x); }, false},
    {"logistic", [](double x) { return 1 / (1 + std::exp(-x)); }, false},
    {"erf", [](double x) { return std::erf(x); }, false},
    {"sine", [](double x) { return std::sin(x); }, false},
    {"cosine", [](double x) { return std::cos(x); }, false},
    {"atan", [](double x) { return std::atan(x); }, false},
};

TEST(Elementwise, UnaryMatchesTheLibrary) {
  Random random(1);
  for (const UnaryCase &c : kUnaryCases)
    for (DType dtype : kFloats) {
      SCOPED_TRACE(std::string(c.op) + " " + std::string(toString(dtype)) + " seed 1");
      HostTensor x = random.normals(dtype, {7, 19}, 2);
      std::vector<double> expected;
      for (double &v : x.values)
        expected.push_back(c.f(v = c.positive ? std::fabs(v) + 0.25 : v));
      x = rounded(x);
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] = c.f(x.values[i]);
      expectNear(runKernel(c.op, Json::object(), {x}, {{dtype, x.shape}})[0], expected, toleranceOf(dtype) / 4);
    }
}

TEST(Elementwise, AccumulateAddsInTheWiderType) {
  Random random(9);
  for (auto [in, sum] : {std::pair{DType::BF16, DType::F32},
                         {DType::F16, DType::F32},
                         {DType::F32, DType::F64},
                         {DType::F32, DType::F32},
                         {DType::BF16, DType::BF16},
                         {DType::I32, DType::I32}}) {
    SCOPED_TRACE(std::string(toString(in)) + " into " + std::string(toString(sum)));
    HostTensor x = in == DType::I32 ? random.integers(in, {5, 7}, -9, 9) : rounded(random.normals(in, {5, 7}));
    HostTensor before = in == DType::I32 ? random.integers(sum, {5, 7}, -9, 9) : rounded(random.normals(sum, {5, 7}));
    HostTensor first = runKernel("accumulate", Json::object(), {x}, {{sum, x.shape}})[0];
    EXPECT_EQ(first.values, x.values);
    HostTensor expected = before;
    for (size_t i = 0; i < x.values.size(); ++i)
      expected.values[i] += x.values[i];
    HostTensor after = runKernel("accumulate", Json::object(), {before, x}, {{sum, x.shape}})[0];
    EXPECT_EQ(after.values, rounded(expected).values);
  }
  HostTensor x{DType::F32, {3}, {1, 2, 3}}, other{DType::F32, {2}, {1, 2}}, wide{DType::F64, {3}, {1, 2, 3}};
  EXPECT_NE(errorOf("accumulate", Json::object(), {x, other}, {{DType::F32, {3}}}).find("the value"),
            std::string::npos);
  EXPECT_NE(errorOf("accumulate", Json::object(), {wide, x}, {{DType::F32, {3}}}).find("the sum so far"),
            std::string::npos);
}

TEST(Elementwise, ExponentialsAreAccurateOverTheWholeRange) {
  HostTensor wide{DType::F64, {4001}, {}}, narrow{DType::F32, {4001}, {}};
  for (int i = -2000; i <= 2000; ++i) {
    wide.values.push_back(i * 0.37);
    narrow.values.push_back(float(i * 0.045));
  }
  HostTensor y = runKernel("exponential", Json::object(), {wide}, {{DType::F64, {4001}}})[0];
  HostTensor z = runKernel("exponential", Json::object(), {narrow}, {{DType::F32, {4001}}})[0];
  for (size_t i = 0; i < 4001; ++i) {
    double expected = std::exp(wide.values[i]);
    if (std::isinf(expected))
      EXPECT_EQ(y.values[i], expected);
    else
      EXPECT_NEAR(y.values[i], expected, 5e-16 * expected + 1e-322) << wide.values[i];
    float narrowExpected = float(std::exp(narrow.values[i]));
    if (std::isinf(narrowExpected))
      EXPECT_EQ(z.values[i], narrowExpected);
    else
      EXPECT_NEAR(z.values[i], narrowExpected, 2.5e-7 * narrowExpected + 3e-45) << narrow.values[i];
  }
}

TEST(Elementwise, TanhKeepsRelativeAccuracyNearZero) {
  HostTensor x{DType::F64, {5}, {1e-12, -3e-9, 1e-4, 0.3, -25}};
  HostTensor y = runKernel("tanh", Json::object(), {x}, {{DType::F64, {5}}})[0];
  for (size_t i = 0; i < 5; ++i)
    EXPECT_NEAR(y.values[i] / std::tanh(x.values[i]), 1, 1e-15);
}

TEST(Elementwise, SpecialValuesPassAsInTheLibrary) {
  for (DType dtype : {DType::F64, DType::F32}) {
    HostTensor x{dtype, {6}, {kNan, kInf, -kInf, 0.0, 1000, -1000}};
    for (const char *op : {"exponential", "tanh", "logistic", "abs", "sign", "sqrt", "erf", "atan"})
      for (const UnaryCase &c : kUnaryCases)
        if (std::string(op) == c.op) {
          std::vector<double> expected;
          for (double v : x.values)
            expected.push_back(c.f(v));
          expectNear(runKernel(op, Json::object(), {x}, {{dtype, {6}}})[0], expected, 1e-6, op);
        }
    HostTensor nan = runKernel("is_nan", Json::object(), {x}, {{DType::Bool, {6}}})[0];
    EXPECT_EQ(nan.values, (std::vector<double>{1, 0, 0, 0, 0, 0}));
  }
}

/// Rounds x by definition: to the nearest multiple of the unit in the last place at x's magnitude, computed exactly.
double inPrecision(double x, int mantissaBits, int minExponent) {
  if (x == 0 || !std::isfinite(x))
    return x;
  int unit = std::max(std::ilogb(x), minExponent) - mantissaBits;
  return std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
}

TEST(Elementwise, PrecisionIsReducedToTheNearestEven) {
  struct Format {
    DType dtype;
    int mantissaBits, minExponent;
  };
  const Format formats[] = {
      {DType::F32, 3, -6},    {DType::F32, 3, -7},     {DType::F32, 2, -14},    {DType::F32, 2, -15},
      {DType::F32, 1, 0},     {DType::F32, 0, 0},      {DType::F32, 10, -14},   {DType::F32, 7, -126},
      {DType::F32, 23, -126}, {DType::F32, 23, -20},   {DType::F32, 22, -126},  {DType::F64, 3, -6},
      {DType::F64, 52, -30},  {DType::F64, 52, -1022}, {DType::F64, 51, -1000}, {DType::F64, 0, -1022},
      {DType::F64, 23, -126}, {DType::BF16, 3, -6},    {DType::F16, 2, -14}};
  Random random(5);
  for (const Format &format : formats) {
    SCOPED_TRACE(std::string(toString(format.dtype)) + " " + std::to_string(format.mantissaBits) + " " +
                 std::to_string(format.minExponent));
    bool isDouble = format.dtype == DType::F64;
    HostTensor x{format.dtype, {}, {0.0, -0.0, kInf, -kInf, kNan}};
    // Ties and their neighbours, around the format's smallest numbers, numbers near 1 and the type's largest numbers.
    for (int exponent : {format.minExponent - format.mantissaBits - 1, format.minExponent - 2, format.minExponent - 1,
                         format.minExponent, format.minExponent + 1, 0, 1, isDouble ? 1022 : 14})
      for (int step = 0; step <= 64; ++step) {
        double tie = std::ldexp(step / 32.0, exponent);
        for (double near : {tie, tie * (1 + 0x1p-22), tie * (1 - 0x1p-22), tie * (1 + 0x1p-51), tie * (1 - 0x1p-51)})
          x.values.insert(x.values.end(), {near, -near});
      }
    for (int i = 0; i < 3000; ++i)
      x.values.push_back(std::ldexp(random.normal(), int(random.integer(-20, 14))));
    x.shape = {int64_t(x.values.size())};
    x = rounded(x);
    HostTensor expected = x;
    for (double &value : expected.values)
      value = inPrecision(value, format.mantissaBits, format.minExponent);
    expected = rounded(expected); // beyond the type's largest
    HostTensor y = runKernel("reduce_precision",
                             Json{{"mantissa_bits", format.mantissaBits}, {"min_exponent", format.minExponent}}, {x},
                             {{format.dtype, x.shape}})[0];
    for (size_t i = 0; i < y.values.size(); ++i) {
      ASSERT_TRUE(y.values[i] == expected.values[i] || (std::isnan(x.values[i]) && std::isnan(y.values[i])))
          << x.values[i] << " becomes " << y.values[i] << ", not " << expected.values[i];
      ASSERT_EQ(std::signbit(y.values[i]), std::signbit(x.values[i])) << x.values[i];
    }
  }
  HostTensor x{DType::F32, {1}, {1}};
  auto error = [&](int bits, int exponent) {
    return errorOf("reduce_precision", Json{{"mantissa_bits", bits}, {"min_exponent", exponent}}, {x},
                   {{DType::F32, {1}}});
  };
  EXPECT_NE(error(24, 0).find("mantissa_bits is 24"), std::string::npos);
  EXPECT_NE(error(-1, 0).find("mantissa_bits is -1"), std::string::npos);
  EXPECT_NE(error(3, 1).find("min_exponent is 1"), std::string::npos);
  EXPECT_NE(error(3, -127).find("min_exponent is -127"), std::string::npos);
}

TEST(Elementwise, BinaryMatchesTheLibrary) {
  struct Case {
    const char *op;
    double (*f)(double, double);
  };
  const Case cases[] = {{"add", [](double x, double y) { return x + y; }},
                        {"subtract", [](double x, double y) { return x - y; }},
                        {"multiply", [](double x, double y) { return x * y; }},
                        {"divide", [](double x, double y) { return x / y; }},
                        {"maximum", [](double x, double y) { return x != x || y != y ? kNan : std::fmax(x, y); }},
                        {"minimum", [](double x, double y) { return x != x || y != y ? kNan : std::fmin(x, y); }},
                        {"power", [](double x, double y) { return std::pow(x, y); }}};
  Random random(2);
  for (const Case &c : cases)
    for (DType dtype : kFloats) {
      SCOPED_TRACE(std::string(c.op) + " " + std::string(toString(dtype)) + " seed 2");
      HostTensor x = random.normals(dtype, {131}), y = random.normals(dtype, {131});
      x.values[3] = kNan;
      y.values[7] = kNan;
      x.values[11] = kInf;
      for (double &v : y.values) // 16-bit quotients by tiny numbers would only test rounding
        v = std::fabs(v) < 0.1 ? 0.5 : v;
      std::vector<double> expected;
      for (size_t i = 0; i < 131; ++i)
        expected.push_back(c.f(x.values[i], y.values[i]));
      expectNear(runKernel(c.op, Json::object(), {x, y}, {{dtype, {131}}})[0], expected, toleranceOf(dtype));
    }
}

TEST(Elementwise, IntegersWrapTruncateAndNeverTrap) {
  for (DType dtype : {DType::I64, DType::I32, DType::I16, DType::I8}) {
    double lowest = -std::exp2(double(8 * bytesOf(dtype) - 1));
    HostTensor x{dtype, {5}, {7, -7, lowest, 5, lowest}}, y{dtype, {5}, {2, 2, -1, 0, 1}};
    auto run = [&](const char *op) { return runKernel(op, Json::object(), {x, y}, {{dtype, {5}}})[0].values; };
    EXPECT_EQ(run("divide"), (std::vector<double>{3, -3, lowest, -1, lowest}));
    EXPECT_EQ(run("add"), (std::vector<double>{9, -5, -(lowest + 1), 5, lowest + 1})) << toString(dtype);
    EXPECT_EQ(run("maximum"), (std::vector<double>{7, 2, -1, 5, 1}));
    EXPECT_EQ(run("and"), (std::vector<double>{2, 0, lowest, 0, 0}));
    EXPECT_EQ(runKernel("negate", Json::object(), {x}, {{dtype, {5}}})[0].values,
              (std::vector<double>{-7, 7, lowest, -5, lowest}));
    EXPECT_EQ(runKernel("not", Json::object(), {y}, {{dtype, {5}}})[0].values,
              (std::vector<double>{-3, -3, 0, -1, -2}));
  }
  for (DType dtype : {DType::U32, DType::U16, DType::U8}) {
    double highest = std::exp2(double(8 * bytesOf(dtype))) - 1;
    HostTensor x{dtype, {3}, {7, highest, 5}}, y{dtype, {3}, {2, 1, 0}};
    auto run = [&](const char *op) { return runKernel(op, Json::object(), {x, y}, {{dtype, {3}}})[0].values; };
    EXPECT_EQ(run("divide"), (std::vector<double>{3, highest, highest})) << toString(dtype);
    EXPECT_EQ(run("add"), (std::vector<double>{9, 0, 5})) << toString(dtype);
    EXPECT_EQ(run("maximum"), (std::vector<double>{7, highest, 5})) << toString(dtype);
  }
  HostTensor p{DType::Bool, {4}, {0, 0, 1, 1}}, q{DType::Bool, {4}, {0, 1, 0, 1}};
  auto run = [&](const char *op) { return runKernel(op, Json::object(), {p, q}, {{DType::Bool, {4}}})[0].values; };
  EXPECT_EQ(run("add"), (std::vector<double>{0, 1, 1, 1}));
  EXPECT_EQ(run("or"), (std::vector<double>{0, 1, 1, 1}));
  EXPECT_EQ(run("multiply"), (std::vector<double>{0, 0, 0, 1}));
  EXPECT_EQ(run("and"), (std::vector<double>{0, 0, 0, 1}));
  EXPECT_EQ(runKernel("not", Json::object(), {p}, {{DType::Bool, {4}}})[0].values, (std::vector<double>{1, 1, 0, 0}));
}

TEST(Elementwise, CompareAndSelect) {
  HostTensor x{DType::F32, {4}, {1, 2, 3, kNan}}, y{DType::F32, {4}, {2, 2, 2, kNan}};
  std::pair<const char *, std::vector<double>> cases[] = {{"EQ", {0, 1, 0, 0}}, {"NE", {1, 0, 1, 1}},
                                                          {"LT", {1, 0, 0, 0}}, {"LE", {1, 1, 0, 0}},
                                                          {"GT", {0, 0, 1, 0}}, {"GE", {0, 1, 1, 0}}};
  for (auto &[direction, expected] : cases)
    EXPECT_EQ(runKernel("compare", {{"direction", direction}}, {x, y}, {{DType::Bool, {4}}})[0].values, expected)
        << direction;
  for (DType dtype : {DType::F64, DType::BF16, DType::I8, DType::Bool}) {
    HostTensor p{DType::Bool, {3}, {1, 0, 1}}, a{dtype, {3}, {1, 1, 0}}, b{dtype, {3}, {0, 0, 1}};
    EXPECT_EQ(runKernel("select", Json::object(), {p, a, b}, {{dtype, {3}}})[0].values, (std::vector<double>{1, 0, 0}));
  }
}

TEST(Elementwise, ConvertTruncatesSaturatesAndRounds) {
  HostTensor x{DType::F64, {7}, {1.9, -1.9, 0, 300, -1e30, 1e30, kNan}};
  auto to = [&](DType dtype) { return runKernel("convert", Json::object(), {x}, {{dtype, {7}}})[0].values; };
  EXPECT_EQ(to(DType::I64),
            (std::vector<double>{1, -1, 0, 300, -0x1p63, 0x1p63, 0})); // 2^63 - 1 reads as 2^63 in double
  EXPECT_EQ(to(DType::I32), (std::vector<double>{1, -1, 0, 300, -0x1p31, 0x1p31 - 1, 0}));
  EXPECT_EQ(to(DType::I8), (std::vector<double>{1, -1, 0, 127, -128, 127, 0}));
  EXPECT_EQ(to(DType::I16), (std::vector<double>{1, -1, 0, 300, -0x1p15, 0x1p15 - 1, 0}));
  EXPECT_EQ(to(DType::U64), (std::vector<double>{1, 0, 0, 300, 0, 0x1p64, 0})); // 2^64 - 1 reads as 2^64 in double
  EXPECT_EQ(to(DType::U32), (std::vector<double>{1, 0, 0, 300, 0, 0x1p32 - 1, 0}));
  EXPECT_EQ(to(DType::U16), (std::vector<double>{1, 0, 0, 300, 0, 0x1p16 - 1, 0}));
  EXPECT_EQ(to(DType::U8), (std::vector<double>{1, 0, 0, 255, 0, 255, 0}));
  EXPECT_EQ(to(DType::Bool), (std::vector<double>{1, 1, 0, 1, 1, 1, 1}));
  EXPECT_EQ(to(DType::BF16)[0], 1.8984375);
  EXPECT_EQ(to(DType::F16)[5], kInf);
  HostTensor i{DType::I32, {3}, {-2, 0, 7}};
  for (DType dtype : kFloats)
    EXPECT_EQ(runKernel("convert", Json::object(), {i}, {{dtype, {3}}})[0].values, i.values);
}

TEST(Elementwise, BitsDoNotDependOnWhereAnElementLies) {
  const int64_t kElements = std::getenv("KERF_KERNEL_DEVICE") ? 2100 : 20000; // each part is a launch
  Random random(7);
  HostTensor x = random.normals(DType::F32, {kElements}, 2), dy = random.normals(DType::F32, {kElements});
  auto part = [](const HostTensor &tensor, int64_t begin, int64_t end) {
    return HostTensor{tensor.dtype, {end - begin}, {tensor.values.begin() + begin, tensor.values.begin() + end}};
  };
  for (const char *op : {"gelu", "gelu_backward", "tanh", "erf", "logistic", "exponential"})
    for (bool byTanh : {false, true}) {
      bool isGelu = std::string_view(op).starts_with("gelu");
      if (byTanh && !isGelu)
        continue;
      Json attrs = isGelu ? Json{{"approximate", byTanh}} : Json::object();
      auto run = [&](int64_t begin, int64_t end) {
        std::vector<HostTensor> operands = {part(x, begin, end)};
        if (std::string_view(op) == "gelu_backward")
          operands.push_back(part(dy, begin, end));
        return runKernel(op, attrs, operands, {{DType::F32, {end - begin}}})[0].values;
      };
      std::vector<double> whole = run(0, kElements);
      for (int64_t begin = 0; begin < kElements; begin += 7 * 15)
        for (int64_t size : {7, 15}) { // less than a vector
          std::vector<double> got = run(begin, begin + size);
          for (int64_t i = 0; i < size; ++i)
            ASSERT_EQ(got[size_t(i)], whole[size_t(begin + i)])
                << op << (byTanh ? " by tanh" : "") << " of " << x.values[size_t(begin + i)];
        }
    }
}

TEST(Elementwise, GeluOfFloatsIsAccurate) {
  constexpr int64_t kElements = 24001; // from -12 to 12
  HostTensor x{DType::F32, {kElements}, {}}, one{DType::F32, {kElements}, std::vector<double>(kElements, 1)};
  for (int64_t i = 0; i < kElements; ++i)
    x.values.push_back(double(float(-12 + double(i) * 1e-3)));
  const Json attrs = {{"approximate", false}};
  std::vector<double> y = runKernel("gelu", attrs, {x}, {{DType::F32, {kElements}}})[0].values;
  std::vector<double> slope = runKernel("gelu_backward", attrs, {x, one}, {{DType::F32, {kElements}}})[0].values;
  for (size_t i = 0; i < y.size(); ++i) {
    const double v = x.values[i], below = 0.5 * std::erfc(-v / std::sqrt(2.0));
    ASSERT_NEAR(y[i], v * below, 4e-7 * std::max(1.0, std::fabs(v))) << v;
    ASSERT_NEAR(slope[i], below + v * std::exp(-0.5 * v * v) / std::sqrt(2 * M_PI), 6e-7) << v;
  }
}

TEST(Elementwise, GeluMatchesItsFormulaAndItsSlope) {
  Random random(3);
  for (bool approximate : {false, true}) {
    Json attrs = approximate ? Json{{"approximate", true}} : Json::object();
    HostTensor x = random.normals(DType::F64, {40}, 2), weights = random.normals(DType::F64, {40});
    auto forward = [&](const std::vector<HostTensor> &in) {
      return runKernel("gelu", attrs, in, {{DType::F64, {40}}})[0].values;
    };
    std::vector<double> expected;
    for (double v : x.values)
      expected.push_back(approximate ? 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)))
                                     : 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))));
    expectNear({DType::F64, {40}, forward({x})}, expected, 1e-14);
    HostTensor dx = runKernel("gelu_backward", attrs, {x, weights}, {{DType::F64, {40}}})[0];
    expectGradient(forward, {x}, 0, weights.values, dx, 1e-8);
    HostTensor far{DType::F32, {3}, {1e30, -1e30, 0}}, one{DType::F32, {3}, {1, 1, 1}};
    EXPECT_EQ(runKernel("gelu_backward", attrs, {far, one}, {{DType::F32, {3}}})[0].values,
              (std::vector<double>{1, 0, 0.5}));
  }
}

} // namespace
} // namespace kerf::runtime::test
