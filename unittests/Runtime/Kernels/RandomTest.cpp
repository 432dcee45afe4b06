// SPDX-License-Identifier: Apache-2.0
// Compares Philox with its authors' known answers, dropout of whole tensors and of shards with a loop over elements,
// and the number of dropped elements with its expectation.
#include "../../../lib/Runtime/Philox.h"
#include "KernelTestSupport.h"

#include <cmath>

namespace kerf::runtime::test {
namespace {

TEST(Philox, GivesTheKnownAnswers) {
  // Random123, tests/kat_vectors: philox4x32 10.
  struct Row {
    uint64_t low, high, key;
    std::array<uint32_t, 4> words;
  };
  const Row rows[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {~0ull, ~0ull, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x85a308d3243f6a88, 0x0370734413198a2e, 0x299f31d0a4093822, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const Row &row : rows)
    EXPECT_EQ(philox(row.low, row.high, row.key), row.words);
}

TEST(Philox, ARowHasTheWordsOfNeighbouringCounters) {
  for (uint64_t low : {0ull, 5ull, 0xfffffffaull, ~0ull - 3}) { // across the carry into the second word, and the end
    auto row = philoxRow<16>(low, 7, 11);
    for (uint64_t i = 0; i < 16; ++i)
      for (size_t word = 0; word < 4; ++word)
        EXPECT_EQ(row[word][i], philox(low + i, 7, 11)[word]);
  }
}

/// Computes one element of dropout's result by definition. `place` is the element's number in the global tensor.
bool drops(int64_t place, double rate, int64_t seed, int64_t step, int64_t stream) {
  uint64_t high = uint64_t(uint32_t(step)) | uint64_t(stream) << 32;
  return double(philox(uint64_t(place) / 4, high, ~uint64_t(seed))[size_t(place % 4)]) < rate * 0x1p32;
}

struct Numbers {
  int64_t seed, step, stream;
};

HostTensor dropped(const HostTensor &x, double rate, const Numbers &numbers, const HostTensor *offset = nullptr,
                   const Shape &sizes = {}) {
  std::vector<HostTensor> operands = {x};
  for (int64_t number : {numbers.seed, numbers.step, numbers.stream})
    operands.push_back(scalar(DType::I64, double(number)));
  Json attrs = {{"rate", rate}};
  if (offset) {
    operands.push_back(*offset);
    attrs["sizes"] = sizes;
  }
  return runKernel("dropout", attrs, operands, {{x.dtype, x.shape}})[0];
}

TEST(Dropout, IsTheLoopOverElements) {
  for (int seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Shape shape = random.shape(size_t(random.integer(0, 4)), seed % 3 ? 9 : 23);
    DType dtype = seed % 4 == 0 ? F64 : seed % 4 == 1 ? DType::BF16 : F32;
    HostTensor x = rounded(random.normals(dtype, shape));
    double rate = seed % 5 == 0 ? 0.0 : double(random.integer(0, 99)) / 100;
    Numbers numbers{random.integer(0, 1ll << 50), random.integer(0, 1000), random.integer(0, 50)};
    HostTensor expected = x;
    for (int64_t i = 0; i < x.elements(); ++i) {
      double kept = dtype == F64 ? x.values[i] * (1 / (1 - rate)) : float(x.values[i]) * float(1 / (1 - rate));
      expected.values[i] = drops(i, rate, numbers.seed, numbers.step, numbers.stream) ? 0 : kept;
    }
    EXPECT_EQ(dropped(x, rate, numbers).values, rounded(expected).values);
  }
}

TEST(Dropout, APieceHasWhatTheWholeHasThere) {
  for (int seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Shape sizes = random.shape(size_t(random.integer(1, 4)), seed % 3 ? 7 : 40), begin, extent;
    for (int64_t size : sizes) {
      begin.push_back(random.integer(0, std::max<int64_t>(size - 1, 0)));
      extent.push_back(random.integer(0, size - begin.back()));
    }
    HostTensor x = random.normals(F32, sizes);
    Numbers numbers{seed, 3, 1ll << 31};
    HostTensor whole = dropped(x, 0.3, numbers), piece{F32, extent, {}}, expected = piece;
    std::vector<int64_t> places;
    for (int64_t i = 0; i < elementsOf(extent); ++i) {
      int64_t place = 0, left = i, stride = 1;
      for (size_t d = sizes.size(); d-- > 0; left /= extent[d], stride *= sizes[d])
        place += (begin[d] + left % extent[d]) * stride;
      piece.values.push_back(x.values[place]);
      expected.values.push_back(whole.values[place]);
    }
    int64_t offset = 0;
    for (size_t d = 0; d < sizes.size(); ++d)
      offset = offset * sizes[d] + begin[d];
    HostTensor place = scalar(DType::I64, double(offset));
    EXPECT_EQ(dropped(piece, 0.3, numbers, &place, sizes).values, expected.values);
  }
}

/// Checks how often elements are kept, and how often two masks agree, against the expectation within a
/// few standard deviations.
TEST(Dropout, KeepsByChance) {
  constexpr int64_t kElements = 1 << 18;
  constexpr double kRate = 0.3, kDeviations = 5;
  HostTensor ones{F32, {kElements}, std::vector<double>(kElements, 1)};
  auto kept = [&](const Numbers &numbers) { return dropped(ones, kRate, numbers).values; };
  auto expectChance = [&](double count, double probability) {
    double deviation = std::sqrt(kElements * probability * (1 - probability));
    EXPECT_NEAR(count, kElements * probability, kDeviations * deviation);
  };
  std::vector<double> first = kept({7, 0, 0});
  expectChance(double(std::count_if(first.begin(), first.end(), [](double x) { return x != 0; })), 1 - kRate);
  double agree = (1 - kRate) * (1 - kRate) + kRate * kRate;
  for (const Numbers &other : {Numbers{8, 0, 0}, Numbers{7, 1, 0}, Numbers{7, 0, 1}}) {
    std::vector<double> second = kept(other);
    double same = 0;
    for (int64_t i = 0; i < kElements; ++i)
      same += first[i] == second[i];
    expectChance(same, agree);
  }
  double neighbours = 0;
  for (int64_t i = 0; i < kElements; ++i)
    neighbours += first[i] == first[(i + 1) % kElements];
  expectChance(neighbours, agree);
}

TEST(Dropout, SaysWhatIsWrong) {
  HostTensor x{F32, {2, 3}, std::vector<double>(6, 1)}, number = scalar(DType::I64, 0);
  std::vector<HostTensor> operands = {x, number, number, number};
  std::vector<ResultType> results = {{F32, {2, 3}}};
  EXPECT_NE(errorOf("dropout", {{"rate", 1.0}}, operands, results).find("'rate' is 1, not in [0, 1)"),
            std::string::npos);
  EXPECT_NE(errorOf("dropout", {{"rate", 0.5}}, {x, number, number}, results).find("operands"), std::string::npos);
  EXPECT_NE(errorOf("dropout", {{"rate", 0.5}}, {x, number, x, number}, results).find("the step"), std::string::npos);
  operands.push_back(number);
  EXPECT_NE(errorOf("dropout", {{"rate", 0.5}}, operands, results).find("'sizes'"), std::string::npos);
  EXPECT_NE(errorOf("dropout", {{"rate", 0.5}, {"sizes", {6}}}, operands, results).find("1 entries"),
            std::string::npos);
}

} // namespace
} // namespace kerf::runtime::test
