// SPDX-License-Identifier: Apache-2.0
// A property test of `project`: ops are executed on the local tensors of every rank, sharded by a random strategy, and
// must give the global result.
#include "Simulation.h"
#include "kerf/Sharding/Rule.h"

#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::simulation;

namespace {

/// An op that can be executed on global and on local tensors. `resultShape` is given if the operands do not determine
/// it (reshape).
using Op = std::function<Array(const std::vector<Array> &operands, const Shape &resultShape)>;

Factor factor(std::string name, int64_t size) {
  Factor made;
  made.name = std::move(name);
  made.size = size;
  return made;
}

Array dot(const std::vector<Array> &operands, const Shape &) {
  const Array &a = operands[0], &b = operands[1];
  Array c({a.shape[0], a.shape[1], b.shape[2]});
  forEachIndex(c.shape, [&](const Shape &i) {
    for (int64_t k = 0; k < a.shape[2]; ++k)
      c.at(i) += a.at({i[0], i[1], k}) * b.at({i[0], k, i[2]});
  });
  return c;
}

Array reshaped(const std::vector<Array> &operands, const Shape &resultShape) {
  Array result(resultShape);
  EXPECT_EQ(result.data.size(), operands[0].data.size());
  result.data = operands[0].data;
  return result;
}

/// Transposes [a, b, c] to [c, a, b].
Array rotate(const std::vector<Array> &operands, const Shape &) {
  const Shape &s = operands[0].shape;
  Array result({s[2], s[0], s[1]});
  forEachIndex(result.shape, [&](const Shape &i) { result.at(i) = operands[0].at({i[1], i[2], i[0]}); });
  return result;
}

Array add(const std::vector<Array> &operands, const Shape &) {
  Array sum = operands[0];
  for (size_t i = 0; i < sum.data.size(); ++i)
    sum.data[i] += operands[1].data[i];
  return sum;
}

/// Reduces [a, b] to [a]: the maximum of each row.
Array rowMax(const std::vector<Array> &operands, const Shape &) {
  const Shape &s = operands[0].shape;
  Array result({s[0]}, -INFINITY);
  forEachIndex(
      s, [&](const Shape &i) { result.at({i[0]}) = combine(ReduceKind::Max, result.at({i[0]}), operands[0].at(i)); });
  return result;
}

/// Writes `neutral` into the padding of dimensions that contain the factor `reduced`.
void mask(const Mesh &mesh, const Shape &shape, const Sharding &sharding, const FactorMap &map, int reduced,
          double neutral, Ranks &ranks) {
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
    forEachIndex(ranks[rank].shape, [&](const Shape &index) {
      for (size_t d = 0; d < shape.size(); ++d)
        if (std::count(map[d].begin(), map[d].end(), reduced) &&
            index[d] >= validExtent(shape[d], sharding.dims[d], mesh, rank).count)
          ranks[rank].at(index) = neutral;
    });
}

struct Case {
  const char *name;
  Rule rule;
  std::vector<Shape> operandShapes;
  Shape resultShape;
  Op op;
  int reduced = -1; // index of the factor that the op reduces; -1: none
  double neutral = 0;
};

/// Executes the case under the strategy. Returns the first difference from the global result, "" if there is none, or
/// nothing if `project` rejects the strategy.
std::optional<std::string> tryStrategy(const Case &test, const Mesh &mesh, const Strategy &strategy,
                                       std::mt19937 &random) {
  const std::optional<OpSharding> sharding = project(test.rule, mesh, strategy);
  if (!sharding)
    return std::nullopt;
  std::vector<Array> whole;
  std::vector<Ranks> local;
  for (size_t o = 0; o < test.operandShapes.size(); ++o) {
    if (Status status = checkSharding(mesh, test.operandShapes[o], sharding->operands[o]); !status)
      return status.error().message;
    whole.push_back(randomArray(test.operandShapes[o], random));
    local.push_back(place(mesh, whole[o], sharding->operands[o], random));
    mask(mesh, test.operandShapes[o], sharding->operands[o], test.rule.operands[o], test.reduced, test.neutral,
         local[o]);
  }
  if (Status status = checkSharding(mesh, test.resultShape, sharding->results[0]); !status)
    return status.error().message;
  Ranks results;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    std::vector<Array> operands;
    for (const Ranks &operand : local)
      operands.push_back(operand[rank]);
    results.push_back(test.op(operands, localShape(test.resultShape, sharding->results[0])));
  }
  return difference(mesh, test.op(whole, test.resultShape), sharding->results[0], results);
}

/// Returns a random shape to which `shape` can be reshaped.
Shape regroup(const Shape &shape, std::mt19937 &random) {
  std::vector<int64_t> primes;
  for (int64_t size : shape)
    for (int64_t p = 2; size > 1;)
      size % p == 0 ? (primes.push_back(p), size /= p) : ++p;
  if (pick(random, 0, 1))
    std::shuffle(primes.begin(), primes.end(), random);
  Shape result(pick(random, 1, 4), 1);
  std::vector<size_t> dims;
  for (size_t i = 0; i < primes.size(); ++i)
    dims.push_back(random() % result.size());
  std::sort(dims.begin(), dims.end());
  for (size_t i = 0; i < primes.size(); ++i)
    result[dims[i]] *= primes[i];
  return result;
}

Case randomCase(std::mt19937 &random) {
  const int64_t a = pick(random, 1, 7), b = pick(random, 1, 8), c = pick(random, 1, 7), d = pick(random, 1, 5);
  switch (pick(random, 0, 4)) {
  case 0:
    return {"dot_general",
            {{factor("b", a), factor("m", b), factor("k", c), factor("n", d)},
             {{{0}, {1}, {2}}, {{0}, {2}, {3}}},
             {{{0}, {1}, {3}}}},
            {{a, b, c}, {a, c, d}},
            {a, b, d},
            dot,
            2,
            0};
  case 1:
    return {"transpose",
            {{factor("a", a), factor("b", b), factor("c", c)}, {{{0}, {1}, {2}}}, {{{2}, {0}, {1}}}},
            {{a, b, c}},
            {c, a, b},
            rotate};
  case 2:
    return {"add", elementwiseRule({a, b}, 2, 1, {{0, 1}}), {{a, b}, {a, b}}, {a, b}, add};
  case 3: {
    Case test{"reduce max", {{factor("a", a), factor("b", b)}, {{{0}, {1}}}, {{{0}}}}, {{a, b}}, {a}, rowMax, 1,
              -INFINITY};
    test.rule.factors[1].reduction = ReduceKind::Max;
    return test;
  }
  default: {
    const Shape from{a, b, c}, to = regroup(from, random);
    return {"reshape", reshapeRule(from, to), {from}, to, reshaped};
  }
  }
}

std::string describe(const Case &test, const Mesh &mesh, const Strategy &strategy) {
  std::string text = fmt::format("{} {} on", test.name, toString(test.rule));
  for (size_t x = 0; x < mesh.axes.size(); ++x)
    text += fmt::format(" {}={}:{}", mesh.axes[x].name, mesh.axes[x].size, strategy.factorOfAxis[x]);
  return text;
}

} // namespace

TEST(Project, EnumeratedStrategiesGiveTheGlobalResult) {
  int cutting = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const Mesh mesh = randomMesh(random, 12);
    const Case test = randomCase(random);
    ASSERT_TRUE(checkRule(test.rule, test.operandShapes, {&test.resultShape, 1})) << toString(test.rule);
    std::vector<Strategy> strategies = enumerateStrategies(test.rule, mesh);
    std::shuffle(strategies.begin(), strategies.end(), random);
    strategies.resize(std::min<size_t>(strategies.size(), 8));
    for (const Strategy &strategy : strategies) {
      cutting += strategy.factorOfAxis != std::vector<int>(mesh.axes.size(), -1);
      ASSERT_EQ(tryStrategy(test, mesh, strategy, random), "")
          << "seed " << seed << ": " << describe(test, mesh, strategy);
    }
  }
  EXPECT_GT(cutting, 500);
}

TEST(Project, ForcedStrategiesAreRefusedOrGiveTheGlobalResult) {
  // Sizes include factors smaller than their shard count, and minor factors.
  int accepted = 0;
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    std::mt19937 random(seed);
    const Mesh mesh = randomMesh(random, 24);
    const Case test = randomCase(random);
    Strategy strategy;
    for (size_t axis = 0; axis < mesh.axes.size(); ++axis)
      strategy.factorOfAxis.push_back(
          static_cast<int>(pick(random, -1, static_cast<int64_t>(test.rule.factors.size()) - 1)));
    const std::optional<std::string> wrong = tryStrategy(test, mesh, strategy, random);
    accepted += wrong.has_value();
    ASSERT_EQ(wrong.value_or(""), "") << "seed " << seed << ": " << describe(test, mesh, strategy);
  }
  EXPECT_GT(accepted, 2000);
}
