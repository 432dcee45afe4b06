// SPDX-License-Identifier: Apache-2.0
// Products of bf16 numbers by the processor's instructions for them, compared with sums in float64. The tests are
// skipped where the processor has no such instructions; Contraction's tests run the same products there without them.
#include "../../../lib/Runtime/Cpu/Kernels/GemmOfBf16.h"
#include "kerf/Package/Half.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace kerf::runtime::kernels {
namespace {

std::vector<uint16_t> numbersOf(std::mt19937 &random, int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<uint16_t> numbers(static_cast<size_t>(count));
  for (uint16_t &number : numbers)
    number = bf16FromFloat(normal(random));
  return numbers;
}

float valueOf(uint16_t number) { return floatFromBf16(number); }
float valueOf(float number) { return number; }

/// A product of m x k and k x n numbers. A factor that is not `dense` has its transposed matrix in memory.
struct Product {
  int64_t m, n, k;
  bool denseA, denseB;
  std::vector<uint16_t> a, b;

  Product(std::mt19937 &random, int64_t m, int64_t n, int64_t k, int order)
      : m(m), n(n), k(k), denseA(order & 1), denseB(order & 2), a(numbersOf(random, m * k)),
        b(numbersOf(random, k * n)) {}
  MatrixView<uint16_t> viewA(int64_t row = 0) const {
    return denseA ? MatrixView<uint16_t>{a.data() + row * k, k, 1} : MatrixView<uint16_t>{a.data() + row, 1, m};
  }
  MatrixView<uint16_t> viewB(int64_t column = 0) const {
    return denseB ? MatrixView<uint16_t>{b.data() + column, n, 1} : MatrixView<uint16_t>{b.data() + column * k, 1, k};
  }
  double exact(int64_t i, int64_t j) const {
    double sum = 0;
    auto x = viewA(), y = viewB();
    for (int64_t p = 0; p < k; ++p)
      sum += double(valueOf(x.data[i * x.row + p * x.column])) * valueOf(y.data[p * y.row + j * y.column]);
    return sum;
  }
  template <typename C> void run(int64_t row, int64_t rows, int64_t column, int64_t columns, const C *sum, C *c) const {
    std::vector<std::byte> scratch(static_cast<size_t>(gemmOfBf16ScratchBytes(rows, columns, k)));
    int64_t at = row * n + column;
    gemmOfBf16<C>(rows, columns, k, viewA(row), viewB(column), sum ? sum + at : nullptr, c + at, n, scratch.data());
  }
};

// Sizes beside those of tiles (16, 32), and past the blocks of the depth (1,024), of columns (672 with two blocks of
// the depth) and of rows (1,024).
constexpr int64_t kSizes[][3] = {{1, 1, 1},     {16, 16, 32}, {33, 47, 65}, {32, 32, 1024}, {40, 700, 1100},
                                 {70, 5, 2500}, {3, 800, 64}, {64, 64, 31}, {17, 33, 0},    {1030, 33, 1056}};

template <typename C> void compareAll(bool adds) {
  std::mt19937 random(5);
  for (const auto &[m, n, k] : kSizes)
    for (int order = 0; order < 4; ++order) {
      SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k << ", order " << order);
      Product product(random, m, n, k, order);
      std::vector<C> sum(static_cast<size_t>(m * n)), c(static_cast<size_t>(m * n));
      for (C &number : sum)
        number = std::is_same_v<C, float> ? C(random() % 100) : C(bf16FromFloat(float(random() % 100)));
      product.run<C>(0, m, 0, n, adds ? sum.data() : nullptr, c.data());
      const double rounding = std::is_same_v<C, float> ? 1e-6 : 1.0 / 256;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          const size_t at = static_cast<size_t>(i * n + j);
          const double expected = product.exact(i, j) + (adds ? valueOf(sum[at]) : 0);
          ASSERT_NEAR(valueOf(c[at]), expected, rounding * std::abs(expected) + 2e-6 * double(k + 1)) << i << ", " << j;
        }
    }
}

TEST(GemmOfBf16, ComputeProductsOfAllOrders) {
  if (!multipliesBf16())
    GTEST_SKIP() << "the processor has no instructions for bf16";
  for (bool adds : {false, true}) {
    compareAll<float>(adds);
    compareAll<uint16_t>(adds);
  }
}

TEST(GemmOfBf16, GiveAnElementTheSameBitsInAnyBlock) {
  if (!multipliesBf16())
    GTEST_SKIP() << "the processor has no instructions for bf16";
  std::mt19937 random(6);
  Product product(random, 75, 431, 1500, 1);
  std::vector<float> whole(75 * 431), parts(75 * 431);
  product.run<float>(0, 75, 0, 431, nullptr, whole.data());
  for (int64_t row = 0; row < 75; row += 29)
    for (int64_t column = 0; column < 431; column += 101)
      product.run<float>(row, std::min<int64_t>(29, 75 - row), column, std::min<int64_t>(101, 431 - column), nullptr,
                         parts.data());
  EXPECT_EQ(whole, parts);
}

// Attention multiplies blocks of fewer keys in scratch memory for all of them.
TEST(GemmOfBf16, SmallerProductsFitTheScratchMemoryOfLargerOnes) {
  if (!multipliesBf16())
    GTEST_SKIP() << "the processor has no instructions for bf16";
  constexpr std::byte kGuard{0xA5};
  std::mt19937 random(8);
  for (int seed = 0; seed < 60; ++seed) {
    auto upTo = [&](int64_t most) { return int64_t(1 + random() % uint64_t(most)); };
    const int64_t m = upTo(80), n = upTo(900), k = seed % 2 ? 1025 + upTo(300) : upTo(2200);
    const Product smaller(random, upTo(m), upTo(n), seed % 2 ? 1024 - upTo(50) : upTo(k), seed % 4);
    SCOPED_TRACE(::testing::Message() << smaller.m << " x " << smaller.n << " x " << smaller.k << " in memory for " << m
                                      << " x " << n << " x " << k);
    std::vector<std::byte> scratch(static_cast<size_t>(gemmOfBf16ScratchBytes(m, n, k)) + (1 << 20), kGuard);
    std::vector<float> c(static_cast<size_t>(smaller.m * smaller.n));
    gemmOfBf16<float>(smaller.m, smaller.n, smaller.k, smaller.viewA(), smaller.viewB(), nullptr, c.data(), smaller.n,
                      scratch.data());
    for (size_t at = scratch.size() - (1 << 20); at < scratch.size(); ++at)
      ASSERT_EQ(scratch[at], kGuard);
  }
}

TEST(GemmOfBf16, AddToASumInPlace) {
  if (!multipliesBf16())
    GTEST_SKIP() << "the processor has no instructions for bf16";
  std::mt19937 random(7);
  Product product(random, 50, 60, 1300, 3);
  std::vector<uint16_t> sum = numbersOf(random, 50 * 60), apart(50 * 60);
  product.run<uint16_t>(0, 50, 0, 60, sum.data(), apart.data());
  product.run<uint16_t>(0, 50, 0, 60, sum.data(), sum.data());
  EXPECT_EQ(sum, apart);
}

} // namespace
} // namespace kerf::runtime::kernels
