// SPDX-License-Identifier: Apache-2.0
// Compares every collective, on random meshes, process groups, sizes and types, element by element with its definition.
#include "TestPrograms.h"
#include "kerf/Package/Half.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <thread>

namespace kerf::runtime::test {
namespace {

double elementAt(DType dtype, const std::vector<std::byte> &bytes, int64_t index) {
  const std::byte *at = bytes.data() + index * bytesOf(dtype);
  auto get = [&](auto value) {
    std::memcpy(&value, at, sizeof(value));
    return value;
  };
  switch (dtype) {
  case DType::F64:
    return get(double());
  case DType::F32:
    return double(get(float()));
  case DType::BF16:
    return double(floatFromBf16(get(uint16_t())));
  case DType::F16:
    return double(floatFromF16(get(uint16_t())));
  case DType::I64:
    return double(get(int64_t()));
  case DType::I32:
    return double(get(int32_t()));
  default:
    return double(get(uint8_t()));
  }
}

/// Combines values in order of position, in the type that the collectives' contract prescribes.
double combine(DType dtype, const std::string &kind, const std::vector<double> &values) {
  double total = values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    if (kind == "max")
      total = std::max(total, values[i]);
    else if (kind == "min")
      total = std::min(total, values[i]);
    else if (dtype == DType::F64 || dtype == DType::I64 || dtype == DType::I32)
      total += values[i];
    else if (dtype == DType::Bool)
      total = std::max(total, values[i]);
    else
      total = double(float(total) + float(values[i]));
  }
  if (dtype == DType::BF16)
    return double(floatFromBf16(bf16FromFloat(float(total))));
  if (dtype == DType::F16)
    return double(floatFromF16(f16FromFloat(float(total))));
  return total;
}

int64_t flatIndex(const Shape &shape, const Shape &index) {
  int64_t flat = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    flat = flat * shape[d] + index[d];
  return flat;
}

std::vector<AxisRef> refsOf(const nlohmann::ordered_json &json, size_t from, size_t count) {
  std::vector<AxisRef> refs;
  for (size_t i = from; i < from + 3 * count; i += 3)
    refs.push_back({json[i].get<int>(), json[i + 1].get<int64_t>(), json[i + 2].get<int64_t>()});
  return refs;
}

/// Checks one element of the result of rank `rank` against the definition.
void checkElement(const CollectiveCase &test, const std::vector<std::vector<std::byte>> &operands, int64_t rank,
                  const Shape &index, double actual) {
  const auto &attrs = test.instruction.attrs;
  std::vector<AxisRef> refs = refsOf(attrs["axes"], 0, attrs["axes"].size() / 3);
  std::vector<int64_t> group = groupOf(test.mesh, refs, rank);
  int64_t self = std::find(group.begin(), group.end(), rank) - group.begin();
  const std::string &op = test.instruction.op;
  auto operand = [&](int64_t position, const Shape &at) {
    return elementAt(test.dtype, operands[size_t(group[size_t(position)])], flatIndex(test.operand, at));
  };
  if (op == "all_reduce" || op == "reduce_scatter") {
    Shape at = index;
    if (op == "reduce_scatter") {
      size_t dim = attrs["dim"].get<size_t>();
      at[dim] += self * test.result[dim];
      if (at[dim] >= test.operand[dim])
        return;
    }
    std::vector<double> values;
    for (int64_t position = 0; position < int64_t(group.size()); ++position)
      values.push_back(operand(position, at));
    ASSERT_EQ(actual, combine(test.dtype, attrs["kind"], values));
  } else if (op == "all_gather") {
    size_t dim = attrs["dim"].get<size_t>();
    Shape at = index;
    at[dim] = index[dim] % test.operand[dim];
    ASSERT_EQ(actual, operand(index[dim] / test.operand[dim], at));
  } else if (op == "all_to_all") {
    size_t dim = attrs["dim"].get<size_t>(), other = attrs["other_dim"].get<size_t>();
    Shape at = index;
    at[dim] = index[dim] % test.operand[dim];
    at[other] += self * test.result[other];
    if (at[other] < test.operand[other]) {
      ASSERT_EQ(actual, operand(index[dim] / test.operand[dim], at));
    }
  } else if (op == "ring_shift") {
    ASSERT_EQ(actual, operand((self + int64_t(group.size()) - 1) % int64_t(group.size()), index));
  } else if (op == "ring_balance") {
    size_t dim = attrs["dim"].get<size_t>();
    int64_t last = 2 * int64_t(group.size()) - 1, half = test.operand[dim] / 2;
    // In order, position p has the pieces 2p and 2p + 1. Mirrored, the position has the pieces p and last - p.
    bool back = attrs.contains("inverse");
    int64_t second = index[dim] / half, piece = back ? 2 * self + second : second ? last - self : self;
    int64_t source = back ? std::min(piece, last - piece) : piece / 2;
    Shape at = index;
    at[dim] = index[dim] % half + (back ? piece > last / 2 : piece % 2) * half;
    ASSERT_EQ(actual, operand(source, at));
  } else {
    std::vector<AxisRef> before = refsOf(attrs["before"], 2, attrs["before"][1].get<size_t>());
    std::vector<AxisRef> after = refsOf(attrs["after"], 2, attrs["after"][1].get<size_t>());
    bool found = false;
    for (int64_t source : group)
      if (position(test.mesh, before, source) == position(test.mesh, after, rank))
        found = found || elementAt(test.dtype, operands[size_t(source)], flatIndex(test.operand, index)) == actual;
    ASSERT_TRUE(found);
  }
}

TEST(Collectives, MatchTheirDefinitions) {
  constexpr uint32_t kSeed = 20240611;
  std::mt19937 random(kSeed);
  std::map<std::string, int> seen;
  for (int trial = 0; trial < 150; ++trial) {
    CollectiveCase test = randomCase(random, 1 + trial % 6);
    ++seen[test.instruction.op];
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", trial " + std::to_string(trial) + ": " + test.instruction.op +
                 " " + test.instruction.attrs.dump());
    std::vector<std::vector<std::byte>> operands;
    for (int64_t rank = 0; rank < test.mesh.ranks(); ++rank)
      operands.push_back(operandOf(test, rank));
    auto results = runCaseOnThreads(test);
    for (int64_t rank = 0; rank < test.mesh.ranks(); ++rank) {
      Shape index(test.result.size(), 0);
      for (int64_t i = 0; i < elementsOf(test.result); ++i) {
        int64_t rest = i;
        for (size_t d = test.result.size(); d-- > 0; rest /= test.result[d])
          index[d] = rest % test.result[d];
        checkElement(test, operands, rank, index, elementAt(test.dtype, results[size_t(rank)], i));
        if (testing::Test::HasFatalFailure())
          return;
      }
    }
  }
  EXPECT_EQ(seen.size(), 7u);
}

/// Runs several collectives on the same mesh as one bucket, and returns the results of the communicator's rank.
std::vector<std::vector<std::byte>> runAsOne(const std::vector<CollectiveCase> &tests, Communicator &communicator) {
  std::vector<std::vector<std::byte>> operands, results;
  CollectiveRequest request{{tests[0].instruction, {}, {}, tests[0].mesh, communicator.rank(), nullptr},
                            kFirstCollectiveTag};
  for (const CollectiveCase &test : tests) {
    operands.push_back(operandOf(test, communicator.rank()));
    results.emplace_back(size_t(elementsOf(test.result) * bytesOf(test.dtype)), std::byte{0x5a});
    request.bind.operands.push_back({operands.back().data(), test.dtype, test.operand});
    request.bind.results.push_back({results.back().data(), test.dtype, test.result});
    if (&test != &tests.front())
      request.others.push_back(&test.instruction);
  }
  std::vector<std::byte> scratch(size_t(*collectiveScratchBytes(request)));
  request.bind.scratch = scratch.data();
  auto kernel = bindCollective(request, communicator);
  EXPECT_TRUE(kernel);
  for (int time = 0; time < 2; ++time) {
    Status status = (*kernel)();
    EXPECT_TRUE(status);
  }
  return results;
}

TEST(Collectives, SeveralAsOneGiveTheBitsOfEach) {
  constexpr uint32_t kSeed = 5;
  std::mt19937 random(kSeed);
  for (int trial = 0; trial < 40; ++trial) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", trial " + std::to_string(trial));
    std::vector<CollectiveCase> tests = {randomCase(random, 2 + trial % 4)};
    while (tests.size() < 2 + size_t(trial % 5))
      if (CollectiveCase next = randomCase(random, 2 + trial % 4); next.mesh == tests[0].mesh)
        tests.push_back(std::move(next));
    auto communicators = createThreadCommunicators(tests[0].mesh.ranks());
    std::vector<std::vector<std::vector<std::byte>>> results(communicators.size());
    std::vector<std::thread> threads;
    for (size_t r = 0; r < communicators.size(); ++r)
      threads.emplace_back([&, r] { results[r] = runAsOne(tests, *communicators[r]); });
    for (std::thread &thread : threads)
      thread.join();
    for (size_t i = 0; i < tests.size(); ++i) {
      auto alone = runCaseOnThreads(tests[i]);
      for (size_t r = 0; r < communicators.size(); ++r)
        EXPECT_EQ(results[r][i], alone[r]) << tests[i].instruction.op << tests[i].instruction.attrs.dump();
    }
  }
}

TEST(Collectives, AnEmptyTensorPasses) {
  for (const char *op : {"all_reduce", "all_gather", "reduce_scatter"}) {
    CollectiveCase test;
    test.mesh.axes = {{"a", 3}};
    test.instruction.op = op;
    test.instruction.attrs = {{"axes", {0, 1, 3}}, {"dim", 0}, {"kind", "sum"}};
    test.operand = test.result = {0, 4};
    for (const auto &result : runCaseOnThreads(test))
      EXPECT_TRUE(result.empty());
  }
}

TEST(Collectives, BadAttributesAreMessages) {
  Mesh mesh{{{"a", 4}}};
  using Json = nlohmann::ordered_json;
  struct Row {
    std::string op;
    Json attrs;
    Shape operand, result;
    std::string message;
  };
  std::vector<Row> rows = {
      {"all_reduce", {{"kind", "sum"}}, {4}, {4}, "axes"},
      {"all_reduce", {{"axes", {0, 1}}, {"kind", "sum"}}, {4}, {4}, "triples"},
      {"all_reduce", {{"axes", {2, 1, 4}}, {"kind", "sum"}}, {4}, {4}, "axis 2 of a mesh of 1"},
      {"all_reduce", {{"axes", {0, 1, 3}}, {"kind", "sum"}}, {4}, {4}, "size 4"},
      {"all_reduce", {{"axes", {0, 1, 4, 0, 2, 2}}, {"kind", "sum"}}, {4}, {4}, "twice"},
      {"all_reduce", {{"axes", {0, 1, 4}}, {"kind", "mean"}}, {4}, {4}, "kind"},
      {"all_reduce", {{"axes", {0, 1, 4}}, {"kind", "sum"}}, {4}, {5}, "shape"},
      {"all_gather", {{"axes", {0, 1, 4}}, {"dim", 1}}, {4}, {16}, "dim is 1"},
      {"all_gather", {{"axes", {0, 1, 4}}, {"dim", 0}}, {4}, {17}, "17"},
      {"reduce_scatter", {{"axes", {0, 1, 4}}, {"dim", 0}, {"kind", "sum"}}, {17}, {4}, "17"},
      {"all_to_all", {{"axes", {0, 1, 4}}, {"dim", 0}, {"other_dim", 0}}, {4, 4}, {16, 4}, "both 0"},
      {"all_to_all", {{"axes", {0, 1, 4}}, {"dim", 0}, {"other_dim", "x"}}, {4, 4}, {16, 1}, "dimension 1"},
      {"ring_shift", {{"axes", {0, 1, 4}}}, {4}, {5}, "[4] and the result [5]"},
      {"ring_balance", {{"axes", {0, 1, 4}}, {"dim", 0}}, {5}, {5}, "dimension 0 of [5] has an odd size"},
      {"collective_permute", {{"axes", {0, 1, 4}}, {"before", {1, 1, 0, 1, 4}}, {"after", {1}}}, {4}, {4}, "after"},
      {"collective_permute",
       {{"axes", Json::array()}, {"before", {1, 1, 0, 1, 4}}, {"after", {1, 0}}},
       {4},
       {4},
       "no rank"},
  };
  for (const Row &row : rows) {
    package::Instruction instruction{row.op, {0}, {1}, row.attrs, "node"};
    CollectiveRequest request{
        {instruction, {{nullptr, DType::F32, row.operand}}, {{nullptr, DType::F32, row.result}}, mesh, 1, nullptr}, 4};
    auto bytes = collectiveScratchBytes(request);
    ASSERT_FALSE(bool(bytes)) << row.op << row.attrs;
    EXPECT_NE(bytes.error().message.find(row.message), std::string::npos) << bytes.error().message;
  }
}

/// Returns floats of very different magnitudes: the bits of their sum show the order in which they were added.
std::vector<std::vector<std::byte>> sums(const SumOrderSeed &order, int64_t tag) {
  constexpr int64_t kRanks = 6, kElements = 3000; // too large for an all_reduce of one phase
  Mesh mesh{{{"data", kRanks}}};
  package::Instruction instruction{"all_reduce", {0}, {1}, {{"axes", {0, 1, kRanks}}, {"kind", "sum"}}, "node"};
  auto communicators = createThreadCommunicators(kRanks);
  std::vector<std::vector<std::byte>> results(kRanks, std::vector<std::byte>(kElements * sizeof(float)));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      std::vector<float> operand(kElements);
      for (int64_t i = 0; i < kElements; ++i)
        operand[size_t(i)] = std::ldexp(1.0F + float(i), int(7 * rank % 11)) / 3;
      CollectiveRequest request{{instruction,
                                 {{operand.data(), DType::F32, {kElements}}},
                                 {{results[size_t(rank)].data(), DType::F32, {kElements}}},
                                 mesh,
                                 rank},
                                tag};
      std::vector<std::byte> scratch(size_t(*collectiveScratchBytes(request)));
      request.bind.scratch = scratch.data();
      auto kernel = bindCollective(request, *communicators[size_t(rank)], order);
      ASSERT_TRUE(kernel);
      EXPECT_TRUE((*kernel)());
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::vector<std::byte> &result : results)
    EXPECT_EQ(result, results[0]); // all ranks have the same bits, whatever the order
  return results;
}

TEST(Collectives, AnotherOrderGivesOtherBits) {
  auto ordered = sums({}, 4);
  EXPECT_EQ(ordered, sums({}, 10));
  auto textOf = [](const std::vector<std::byte> &bytes) {
    return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  };
  std::set<std::string> different = {textOf(ordered[0])};
  for (uint64_t seed = 0; seed < 5; ++seed) {
    auto shuffled = sums(seed, 4);
    EXPECT_EQ(shuffled, sums(seed, 4));
    different.insert(textOf(shuffled[0]));
  }
  EXPECT_GT(different.size(), 3U);
}

} // namespace
} // namespace kerf::runtime::test
