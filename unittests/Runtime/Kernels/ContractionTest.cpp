// SPDX-License-Identifier: Apache-2.0
// Compares dot_general and reduce with loops over index tuples in double, on random shapes and orders of dimensions.
#include "KernelTestSupport.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <thread>

namespace kerf::runtime::test {
namespace {

/// A random dot_general: sizes of batching, free and contracting dimensions, and their positions in both operands.
struct DotCase {
  Shape lhs, rhs, result;
  std::vector<int64_t> lhsBatch, rhsBatch, lhsContracted, rhsContracted, lhsFree, rhsFree;
  Json attrs() const {
    return {{"lhs_batching", lhsBatch},
            {"rhs_batching", rhsBatch},
            {"lhs_contracting", lhsContracted},
            {"rhs_contracting", rhsContracted}};
  }
};

DotCase randomDot(Random &random, int64_t largest) {
  DotCase c;
  Shape batch = random.shape(random.integer(0, 2), 3), contracted = random.shape(random.integer(0, 2), largest);
  Shape lhsFree = random.shape(random.integer(0, 2), largest), rhsFree = random.shape(random.integer(0, 2), largest);
  auto place = [&](const Shape &free, Shape &shape, std::vector<int64_t> &batchDims, std::vector<int64_t> &freeDims,
                   std::vector<int64_t> &contractedDims) {
    size_t rank = batch.size() + free.size() + contracted.size();
    std::vector<int64_t> places = random.permutation(rank);
    if (random.integer(0, 1))
      std::sort(places.begin(), places.end()); // the order in which nothing has to be packed
    shape.resize(rank);
    size_t next = 0;
    for (int64_t size : batch)
      shape[batchDims.emplace_back(places[next++])] = size;
    std::vector<int64_t> sorted(places.begin() + next, places.begin() + next + free.size());
    std::sort(sorted.begin(), sorted.end()); // free dimensions keep the operand's order
    for (size_t i = 0; i < free.size(); ++i, ++next)
      shape[freeDims.emplace_back(sorted[i])] = free[i];
    for (int64_t size : contracted)
      shape[contractedDims.emplace_back(places[next++])] = size;
  };
  place(lhsFree, c.lhs, c.lhsBatch, c.lhsFree, c.lhsContracted);
  place(rhsFree, c.rhs, c.rhsBatch, c.rhsFree, c.rhsContracted);
  c.result = batch;
  c.result.insert(c.result.end(), lhsFree.begin(), lhsFree.end());
  c.result.insert(c.result.end(), rhsFree.begin(), rhsFree.end());
  return c;
}

std::vector<double> oracleDot(const DotCase &c, const HostTensor &x, const HostTensor &y) {
  Shape contracted;
  for (int64_t d : c.lhsContracted)
    contracted.push_back(c.lhs[d]);
  std::vector<double> z;
  forEachIndex(c.result, [&](const std::vector<int64_t> &index) {
    std::vector<int64_t> left(c.lhs.size()), right(c.rhs.size());
    size_t next = 0;
    for (size_t i = 0; i < c.lhsBatch.size(); ++i, ++next)
      left[c.lhsBatch[i]] = right[c.rhsBatch[i]] = index[next];
    for (int64_t d : c.lhsFree)
      left[d] = index[next++];
    for (int64_t d : c.rhsFree)
      right[d] = index[next++];
    double sum = 0;
    forEachIndex(contracted, [&](const std::vector<int64_t> &k) {
      for (size_t i = 0; i < k.size(); ++i) {
        left[c.lhsContracted[i]] = k[i];
        right[c.rhsContracted[i]] = k[i];
      }
      sum += x.values[flatIndex(c.lhs, left)] * y.values[flatIndex(c.rhs, right)];
    });
    z.push_back(sum);
  });
  return z;
}

TEST(Contraction, DotGeneralOfRandomShapes) {
  const DType dtypes[] = {DType::F64, DType::F32, DType::BF16, DType::F16};
  for (int seed = 0; seed < 160; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    DType dtype = dtypes[seed % 4];
    DotCase c = randomDot(random, seed % 3 == 0 ? 13 : 6);
    HostTensor x = random.normals(dtype, c.lhs), y = random.normals(dtype, c.rhs);
    std::vector<double> expected = oracleDot(c, x, y);
    double scale = 1;
    for (int64_t d : c.lhsContracted)
      scale *= std::sqrt(double(c.lhs[d]));
    expectNear(runKernel("dot_general", c.attrs(), {x, y}, {{dtype, c.result}})[0], expected,
               scale * toleranceOf(dtype));
  }
}

TEST(Contraction, MatricesOfAllOrdersPastTheBlockSizes) {
  // Sizes are larger than one block of the depth (256), rows (96) and columns (768), and not multiples of tiles.
  const int64_t sizes[][3] = {{101, 50, 300}, {7, 800, 30}, {97, 25, 517}, {1, 64, 64}, {64, 1, 70}, {30, 40, 1}};
  for (auto [m, n, k] : sizes)
    for (int order = 0; order < 4; ++order)
      for (DType dtype : {DType::F64, DType::F32}) {
        SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k << " order " << order);
        Random random(order);
        DotCase c;
        c.lhsContracted = {order & 1 ? 0 : 1};
        c.lhsFree = {order & 1 ? 1 : 0};
        c.rhsContracted = {order & 2 ? 1 : 0};
        c.rhsFree = {order & 2 ? 0 : 1};
        c.lhs = order & 1 ? Shape{k, m} : Shape{m, k};
        c.rhs = order & 2 ? Shape{n, k} : Shape{k, n};
        c.result = {m, n};
        HostTensor x = random.normals(dtype, c.lhs), y = random.normals(dtype, c.rhs);
        expectNear(runKernel("dot_general", c.attrs(), {x, y}, {{dtype, c.result}})[0], oracleDot(c, x, y),
                   std::sqrt(double(k)) * toleranceOf(dtype));
      }
}

int64_t threadsOfThisProcess() {
  auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

/// Returns whether the kernels run on the CPU. A GPU's library may compute a product that is added in another order.
bool isOnCpu() {
  const char *device = std::getenv("KERF_KERNEL_DEVICE");
  return !device || !std::string_view(device).starts_with("cuda");
}

/// Returns sum + product, each rounded to the type as two instructions would.
std::vector<double> sumOf(const HostTensor &sum, const HostTensor &product) {
  std::vector<double> all;
  for (size_t i = 0; i < sum.values.size(); ++i)
    all.push_back(sum.dtype == DType::F32 ? double(float(sum.values[i]) + float(product.values[i]))
                                          : sum.values[i] + product.values[i]);
  return all;
}

TEST(Contraction, AProductThatIsAddedToASumHasTheBitsOfTwoInstructions) {
  for (int seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    DotCase c = randomDot(random, 5);
    DType dtype = seed % 2 ? DType::F32 : DType::F64;
    HostTensor x = random.normals(dtype, c.lhs), y = random.normals(dtype, c.rhs),
               sum = random.normals(dtype, c.result);
    HostTensor product = runKernel("dot_general", c.attrs(), {x, y}, {{dtype, c.result}})[0];
    HostTensor all = runKernel("dot_general", c.attrs(), {x, y, sum}, {{dtype, c.result}})[0];
    if (isOnCpu()) {
      EXPECT_EQ(all.values, sumOf(sum, product));
    }
    expectNear(all, sumOf(sum, product), toleranceOf(dtype));
  }
}

TEST(Contraction, AProductIsAddedInPartsPastTheBlockSizes) {
  // Rows, columns and terms of which none is a multiple of a block, 16-bit factors, and a sum without terms.
  struct Case {
    Shape lhs, rhs;
    DType factors;
  };
  const Case cases[] = {{{401, 600}, {600, 70}, DType::F32},  {{70, 300}, {300, 801}, DType::F32},
                        {{390, 300}, {300, 790}, DType::F32}, {{90, 301}, {301, 65}, DType::F64},
                        {{401, 290}, {290, 33}, DType::BF16}, {{65, 290}, {290, 801}, DType::F16},
                        {{7, 0}, {0, 9}, DType::F32}};
  int seed = 0;
  for (const Case &one : cases) {
    SCOPED_TRACE(::testing::Message() << "case " << seed);
    Random random(++seed);
    DotCase c;
    c.lhsContracted = {1};
    c.rhsContracted = {0};
    Shape shape = {one.lhs[0], one.rhs[1]};
    DType type = one.factors == DType::F64 ? DType::F64 : DType::F32;
    HostTensor x = random.normals(one.factors, one.lhs), y = random.normals(one.factors, one.rhs),
               sum = random.normals(type, shape, 10);
    HostTensor product = runKernel("dot_general", c.attrs(), {x, y}, {{type, shape}})[0];
    HostTensor all = runKernel("dot_general", c.attrs(), {x, y, sum}, {{type, shape}})[0];
    if (isOnCpu()) {
      EXPECT_EQ(all.values, sumOf(sum, product));
    }
    expectNear(all, sumOf(sum, product), 20 * toleranceOf(type));
  }
}

TEST(Contraction, AProductOfFewRowsHasTheBitsOfOneOfMany) {
  if (!isOnCpu())
    GTEST_SKIP() << "a GPU's library chooses the order of additions by the shape";
  constexpr int64_t kRows = 20;
  for (DType dtype : {DType::F32, DType::F64})
    for (bool byColumns : {false, true})
      for (auto [terms, columns] : {std::pair<int64_t, int64_t>{3, 70}, {300, 801}, {515, 5}, {1, 40}, {260, 64}}) {
        SCOPED_TRACE(::testing::Message() << terms << " terms, " << columns << " columns, by columns " << byColumns);
        Random random(int(terms + columns));
        DotCase c;
        c.lhsContracted = {1};
        c.rhsContracted = {byColumns ? 1 : 0};
        HostTensor x = random.normals(dtype, {kRows, terms});
        HostTensor y = random.normals(dtype, byColumns ? Shape{columns, terms} : Shape{terms, columns});
        HostTensor all = runKernel("dot_general", c.attrs(), {x, y}, {{dtype, {kRows, columns}}})[0];
        for (int64_t rows : {1, 3, 4, 8, 9}) {
          HostTensor few{dtype, {rows, terms}, {x.values.begin(), x.values.begin() + rows * terms}};
          HostTensor got = runKernel("dot_general", c.attrs(), {few, y}, {{dtype, {rows, columns}}})[0];
          EXPECT_EQ(got.values, std::vector<double>(all.values.begin(), all.values.begin() + rows * columns))
              << rows << " rows";
        }
      }
}

TEST(Contraction, RanksAsThreadsAgreeAndStartNoThreadsOfTheirOwn) {
  DotCase c;
  c.lhs = {90, 120};
  c.rhs = {120, 110};
  c.result = {90, 110};
  c.lhsContracted = {1};
  c.rhsContracted = {0};
  Random random(9);
  HostTensor x = random.normals(DType::F32, c.lhs), y = random.normals(DType::F32, c.rhs);
  constexpr int kRanks = 4;
  std::vector<std::vector<double>> results(kRanks);
  std::vector<std::thread> ranks;
  std::atomic<int> finished = 0;
  int64_t before = threadsOfThisProcess(), most = 0;
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.emplace_back([&, rank] {
      for (int i = 0; i < 5; ++i)
        results[rank] = runKernel("dot_general", c.attrs(), {x, y}, {{DType::F32, c.result}})[0].values;
      ++finished;
    });
  while (finished < kRanks)
    most = std::max(most, threadsOfThisProcess());
  for (std::thread &rank : ranks)
    rank.join();
  EXPECT_LE(most, before + kRanks);
  for (int rank = 1; rank < kRanks; ++rank)
    EXPECT_EQ(results[rank], results[0]);
}

TEST(Contraction, AnEmptySumIsZero) {
  for (DType dtype : {DType::F64, DType::F32}) {
    DotCase c;
    c.lhs = {3, 0};
    c.rhs = {0, 4};
    c.result = {3, 4};
    c.lhsContracted = {1};
    c.rhsContracted = {0};
    HostTensor y =
        runKernel("dot_general", c.attrs(), {{dtype, {3, 0}, {}}, {dtype, {0, 4}, {}}}, {{dtype, {3, 4}}})[0];
    EXPECT_EQ(y.values, std::vector<double>(12, 0));
    EXPECT_EQ(
        runKernel("reduce", {{"kind", "max"}, {"dimensions", {1}}}, {{dtype, {2, 0}, {}}}, {{dtype, {2}}})[0].values,
        std::vector<double>(2, -INFINITY));
  }
}

TEST(Contraction, DotGeneralFaultsAreMessages) {
  HostTensor x{DType::F32, {2, 3}, std::vector<double>(6)}, y{DType::F32, {4, 5}, std::vector<double>(20)};
  Json attrs = {{"lhs_batching", Json::array()},
                {"rhs_batching", Json::array()},
                {"lhs_contracting", {1}},
                {"rhs_contracting", {0}}};
  EXPECT_EQ(errorOf("dot_general", attrs, {x, y}, {{DType::F32, {2, 5}}}),
            "dot_general: contracting dimensions have 3 on the left and 4 on the right; compile the package again");
  HostTensor z{DType::F64, {3, 5}, std::vector<double>(15)};
  EXPECT_EQ(errorOf("dot_general", attrs, {x, z}, {{DType::F32, {2, 5}}}),
            "dot_general: the right side is f64, not f32; compile the package again");
  z.dtype = DType::F32;
  EXPECT_EQ(errorOf("dot_general", attrs, {x, z}, {{DType::F32, {5, 2}}}),
            "dot_general: the result has shape [5, 2], not [2, 5]; compile the package again");
  HostTensor short_{DType::F32, {2, 4}, std::vector<double>(8)};
  EXPECT_EQ(errorOf("dot_general", attrs, {x, z, short_}, {{DType::F32, {2, 5}}}),
            "dot_general: the sum so far is f32[2, 4], but the result is f32[2, 5]; compile the package again");
  attrs["lhs_batching"] = {1};
  attrs["rhs_batching"] = {0};
  EXPECT_EQ(errorOf("dot_general", attrs, {x, z}, {{DType::F32, {3, 2, 5}}}),
            "dot_general: dimension 1 is both batching and contracting; compile the package again");
}

TEST(Contraction, ReduceOfRandomShapes) {
  const DType dtypes[] = {DType::F64, DType::F32, DType::BF16, DType::I64, DType::I32, DType::Bool};
  const char *kinds[] = {"sum", "max", "min"};
  for (int seed = 0; seed < 180; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    DType dtype = dtypes[seed % 6];
    std::string kind = kinds[seed / 6 % 3];
    size_t rank = random.integer(0, 5);
    Shape shape = random.shape(rank, rank < 3 ? 50 : 6), kept;
    bool isFloat = dtype == DType::F64 || dtype == DType::F32 || dtype == DType::BF16;
    HostTensor x = isFloat ? random.normals(dtype, shape)
                           : random.integers(dtype, shape, dtype == DType::Bool ? 0 : -9, dtype == DType::Bool ? 1 : 9);
    std::vector<int64_t> dims, keptDims;
    for (size_t d = 0; d < rank; ++d)
      (random.integer(0, 1) ? dims : keptDims).push_back(d);
    for (int64_t d : keptDims)
      kept.push_back(shape[d]);
    std::vector<double> expected(elementsOf(kept), kind == "sum" ? 0 : kind == "max" ? -INFINITY : INFINITY);
    forEachIndex(shape, [&](const std::vector<int64_t> &index) {
      std::vector<int64_t> at;
      for (int64_t d : keptDims)
        at.push_back(index[d]);
      double &y = expected[flatIndex(kept, at)], v = x.values[flatIndex(shape, index)];
      y = kind == "sum" ? y + v : kind == "max" ? std::max(y, v) : std::min(y, v);
      if (dtype == DType::Bool && kind == "sum")
        y = y != 0;
    });
    expectNear(runKernel("reduce", {{"kind", kind}, {"dimensions", dims}}, {x}, {{dtype, kept}})[0], expected,
               toleranceOf(dtype));
  }
}

TEST(Contraction, LongFloatSumsLoseNothing) {
  // A running sum in float of 100,000 times 0.1f has a relative error of 1e-3.
  HostTensor x{DType::F32, {100000, 2}, std::vector<double>(200000, 0.1f)};
  HostTensor all = runKernel("reduce", {{"kind", "sum"}, {"dimensions", {0, 1}}}, {x}, {{DType::F32, {}}})[0];
  EXPECT_NEAR(all.values[0], double(0.1f) * 200000, 2e-3);
  HostTensor columns = runKernel("reduce", {{"kind", "sum"}, {"dimensions", {0}}}, {x}, {{DType::F32, {2}}})[0];
  EXPECT_NEAR(columns.values[1], double(0.1f) * 100000, 1e-3);
}

TEST(Contraction, SixteenBitSumsAreGivenInFloat32) {
  // 1 + 2^-12 is not representable in bf16 or f16. The result is right only if partial sums are not rounded.
  for (DType dtype : {DType::BF16, DType::F16}) {
    HostTensor x{dtype, {1, 2}, {1, 0x1p-12}}, ones{dtype, {2, 1}, {1, 1}};
    Json product = {{"lhs_batching", Json::array()},
                    {"rhs_batching", Json::array()},
                    {"lhs_contracting", {1}},
                    {"rhs_contracting", {0}}};
    Json sum = {{"kind", "sum"}, {"dimensions", {1}}};
    EXPECT_EQ(runKernel("dot_general", product, {x, ones}, {{DType::F32, {1, 1}}})[0].values[0], 1 + 0x1p-12);
    EXPECT_EQ(runKernel("dot_general", product, {x, ones}, {{dtype, {1, 1}}})[0].values[0], 1);
    EXPECT_EQ(runKernel("reduce", sum, {x}, {{DType::F32, {1}}})[0].values[0], 1 + 0x1p-12);
    EXPECT_EQ(runKernel("reduce", sum, {x}, {{dtype, {1}}})[0].values[0], 1);
  }
}

TEST(Contraction, NanReachesMaximaAndSums) {
  HostTensor x{DType::F32, {2, 40}, std::vector<double>(80, 1)};
  x.values[17] = NAN;
  for (const char *kind : {"sum", "max", "min"}) {
    HostTensor y = runKernel("reduce", {{"kind", kind}, {"dimensions", {1}}}, {x}, {{DType::F32, {2}}})[0];
    EXPECT_TRUE(std::isnan(y.values[0])) << kind;
    EXPECT_FALSE(std::isnan(y.values[1])) << kind;
    EXPECT_TRUE(
        std::isnan(runKernel("reduce", {{"kind", kind}, {"dimensions", {0}}}, {x}, {{DType::F32, {40}}})[0].values[17]))
        << kind;
  }
}

} // namespace
} // namespace kerf::runtime::test
