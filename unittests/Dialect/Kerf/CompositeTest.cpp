// SPDX-License-Identifier: Apache-2.0
// Composites: their rules have the documented form; their decompositions have the values of their formulas; and their
// gradients, decomposed as well, agree with central differences.
#include "Interpreter.h"

#include "mlir/IR/Verifier.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace kerf;
using namespace kerf::ir;
using namespace kerf::ir::test;
using mlir::Value;

namespace {

struct Row {
  const char *name, *arguments, *op, *rule;
};

constexpr Row kRules[] = {
    {"softmax", "%x: tensor<4x5x6xf32>",
     "%y = kerf.softmax %x {dimension = 1 : i64} : (tensor<4x5x6xf32>) -> tensor<4x5x6xf32>",
     "([i0, v, i2]) -> ([i0, v, i2])  v: decomposed"},
    {"layer_norm", "%x: tensor<4x8xf32>, %s: tensor<8xf32>",
     "%y:3 = kerf.layer_norm %x, %s, %s {epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> "
     "(tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)",
     "([i0, d], [d], [d]) -> ([i0, d], [i0], [i0])  d: decomposed"},
    {"rms_norm_backward", "%x: tensor<4x8xf32>, %s: tensor<8xf32>, %r: tensor<4xf32>",
     "%y:2 = kerf.rms_norm_backward %x, %s, %r, %x : (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4x8xf32>) "
     "-> (tensor<4x8xf32>, tensor<8xf32>)",
     "([i0, d], [d], [i0], [i0, d]) -> ([i0, d], [d])  i0: reduction(sum), d: decomposed, sum0: partial(3) -> (0, 1)"},
    {"attention", "%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %m: tensor<1x4x8x8xi1>",
     "%y:2 = kerf.attention %q, %k, %k, %m {scale = 0.25 : f64} : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, "
     "tensor<2x8x2x16xf32>, tensor<1x4x8x8xi1>)"
     " -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)",
     "([b, s, gr, d], [b, t, g, d], [b, t, g, e], [1, gr, s, t]) -> ([b, s, gr, e], [b, gr, s])  b=2, g=2, r=2, s=8, "
     "t=8: replicated, d=16: replicated, e=16: replicated"},
    {"cross_entropy", "%x: tensor<4x97xf32>, %l: tensor<4xi64>",
     "%y:2 = kerf.cross_entropy %x, %l {ignore_index = -100 : i64} : (tensor<4x97xf32>, tensor<4xi64>) -> "
     "(tensor<4xf32>, tensor<4xf32>)",
     "([i0, v], [i0]) -> ([i0], [i0])  v: decomposed"},
    {"embedding", "%t: tensor<97x8xf32>, %i: tensor<2x3xi64>",
     "%y = kerf.embedding %t, %i {rows = 97 : i64} : (tensor<97x8xf32>, tensor<2x3xi64>) -> tensor<2x3x8xf32>",
     "([v, d], [t0, t1]) -> ([t0, t1, d])  v: reduction(sum), sum0: partial(0) -> (0)"},
    {"embedding_backward", "%i: tensor<4xi64>, %g: tensor<4x8xf32>",
     "%y = kerf.embedding_backward %i, %g {rows = 97 : i64} : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<97x8xf32>",
     "([t0], [t0, d]) -> ([v, d])  t0: reduction(sum), sum0: partial(1) -> (0)"},
};

TEST(CompositeTest, RulesAreWellFormedAndReadAsWritten) {
  Context context;
  for (const Row &row : kRules) {
    SCOPED_TRACE(row.name);
    Sample sample = parseSample(context, row.arguments, row.op);
    ASSERT_TRUE(sample.op);
    Rule rule = llvm::cast<ShardingRuleOpInterface>(sample.op).getShardingRule();
    std::vector<Shape> operands, results;
    for (Value value : sample.op->getOperands())
      operands.push_back(shapeOf(value));
    for (Value value : sample.op->getResults())
      results.push_back(shapeOf(value));
    Status status = checkRule(rule, operands, results);
    EXPECT_TRUE(status) << status.error().message;
    EXPECT_EQ(toString(rule), row.rule);
  }
}

/// Interprets all ops of the sample, including those that only decompositions use: iota and integer constants.
void interpretAll(const Sample &sample, Values &values) {
  for (mlir::Operation *op = &sample.body->front(); op != sample.body->getTerminator(); op = op->getNextNode()) {
    if (auto iota = llvm::dyn_cast<IotaOp>(op)) {
      Shape shape = shapeOf(iota.getResult());
      int64_t inner = 1;
      for (size_t d = iota.getDimension() + 1; d < shape.size(); ++d)
        inner *= shape[d];
      Numbers numbers(tensorType(iota.getResult()).getNumElements());
      for (size_t e = 0; e < numbers.size(); ++e)
        numbers[e] = static_cast<double>(static_cast<int64_t>(e) / inner % shape[iota.getDimension()]);
      values[iota.getResult()] = numbers;
      continue;
    }
    auto constant = llvm::dyn_cast<ConstantOp>(op);
    if (constant && !llvm::isa<mlir::FloatType>(tensorType(constant.getResult()).getElementType())) {
      Numbers numbers;
      for (const llvm::APInt &number :
           llvm::cast<mlir::DenseElementsAttr>(constant.getValue()).getValues<llvm::APInt>())
        numbers.push_back(static_cast<double>(number.getSExtValue()));
      values[constant.getResult()] = numbers;
      continue;
    }
    ASSERT_TRUE(interpret(op, values)) << op->getName().getStringRef().str();
  }
}

/// Decomposes every composite of the sample. Values in `kept` are updated to their replacements.
void decomposeAll(Sample &sample, std::vector<Value *> kept) {
  for (mlir::Operation &op : llvm::make_early_inc_range(*sample.body)) {
    auto composite = llvm::dyn_cast<DecomposableOpInterface>(op);
    if (!composite)
      continue;
    mlir::OpBuilder builder(&op);
    auto results = composite.decompose(builder);
    for (auto [old, made] : llvm::zip(op.getResults(), results)) {
      ASSERT_EQ(old.getType(), made.getType());
      for (Value *value : kept)
        if (*value == old)
          *value = made;
    }
    op.replaceAllUsesWith(results);
    op.erase();
  }
  for (mlir::Operation &op : *sample.body)
    ASSERT_TRUE(mlir::succeeded(mlir::verify(&op)));
}

Numbers randomNumbers(Value value, std::mt19937_64 &random) {
  Numbers numbers;
  mlir::Type type = tensorType(value).getElementType();
  for (int64_t e = 0; e < tensorType(value).getNumElements(); ++e)
    numbers.push_back(llvm::isa<mlir::FloatType>(type) ? std::normal_distribution<double>()(random)
                      : type.isInteger(1)              ? static_cast<double>(random() % 3 != 0)
                                                       : static_cast<double>(random() % 5));
  return numbers;
}

constexpr std::pair<const char *, const char *> kDifferentiable[] = {
    {"%x: tensor<3x4x2xf64>", "%y = kerf.softmax %x {dimension = 1 : i64} : (tensor<3x4x2xf64>) -> tensor<3x4x2xf64>"},
    {"%x: tensor<3x4xf64>", "%y = kerf.gelu %x : (tensor<3x4xf64>) -> tensor<3x4xf64>"},
    {"%x: tensor<3x4xf64>", "%y = kerf.gelu %x {approximate} : (tensor<3x4xf64>) -> tensor<3x4xf64>"},
    {"%x: tensor<2x3x4xf64>, %s: tensor<4xf64>, %b: tensor<4xf64>",
     "%y:3 = kerf.layer_norm %x, %s, %b {epsilon = 1.0e-2 : f64} : (tensor<2x3x4xf64>, tensor<4xf64>, tensor<4xf64>) "
     "-> (tensor<2x3x4xf64>, tensor<2x3xf64>, tensor<2x3xf64>)"},
    {"%x: tensor<2x3x4xf64>, %s: tensor<4xf64>",
     "%y:2 = kerf.rms_norm %x, %s {epsilon = 1.0e-2 : f64} : (tensor<2x3x4xf64>, tensor<4xf64>) -> (tensor<2x3x4xf64>, "
     "tensor<2x3xf64>)"},
    {"%q: tensor<2x3x4x5xf64>, %k: tensor<2x3x2x5xf64>, %v: tensor<2x3x2x6xf64>",
     "%y:2 = kerf.attention %q, %k, %v {scale = 0.3 : f64, causal} : (tensor<2x3x4x5xf64>, tensor<2x3x2x5xf64>, "
     "tensor<2x3x2x6xf64>) -> (tensor<2x3x4x6xf64>, tensor<2x4x3xf64>)"},
    {"%q: tensor<2x3x4x5xf64>, %k: tensor<2x4x2x5xf64>, %v: tensor<2x4x2x6xf64>, %m: tensor<1x4x3x4xi1>",
     "%y:2 = kerf.attention %q, %k, %v, %m {scale = 0.3 : f64} : (tensor<2x3x4x5xf64>, tensor<2x4x2x5xf64>, "
     "tensor<2x4x2x6xf64>, tensor<1x4x3x4xi1>) -> (tensor<2x3x4x6xf64>, tensor<2x4x3xf64>)"},
    {"%x: tensor<2x3x5xf64>, %l: tensor<2x3xi64>",
     "%y:2 = kerf.cross_entropy %x, %l {ignore_index = 2 : i64} : (tensor<2x3x5xf64>, tensor<2x3xi64>) -> "
     "(tensor<2x3xf64>, tensor<2x3xf64>)"},
    {"%t: tensor<5x4xf64>, %i: tensor<2x3xi64>",
     "%y = kerf.embedding %t, %i {rows = 5 : i64} : (tensor<5x4xf64>, tensor<2x3xi64>) -> tensor<2x3x4xf64>"},
};

TEST(CompositeTest, GradientsAreCentralDifferences) {
  constexpr double kStep = 1e-5, kTolerance = 1e-7;
  std::mt19937_64 random(11);
  Context context;
  for (auto [arguments, text] : kDifferentiable) {
    SCOPED_TRACE(text);
    Sample sample = parseSample(context, arguments, text);
    ASSERT_TRUE(sample.op);
    Value result = sample.op->getResult(0);
    Value seed = sample.body->addArgument(result.getType(), result.getLoc());
    std::vector<Value> resultGradients(sample.op->getNumResults());
    resultGradients[0] = seed;
    llvm::SmallVector<bool> wanted;
    for (Value operand : sample.op->getOperands())
      wanted.push_back(llvm::isa<mlir::FloatType>(tensorType(operand).getElementType()));
    llvm::SmallVector<Value> gradients;
    mlir::OpBuilder builder(sample.body->getTerminator());
    ASSERT_TRUE(mlir::succeeded(
        llvm::cast<GradientOpInterface>(sample.op).buildGradient(builder, resultGradients, wanted, gradients)));
    std::vector<Value *> kept = {&result};
    for (Value &gradient : gradients)
      kept.push_back(&gradient);
    llvm::SmallVector<Value> operands(sample.op->getOperands());
    decomposeAll(sample, kept);
    Values inputs;
    for (Value argument : sample.body->getArguments())
      inputs[argument] = randomNumbers(argument, random);
    auto loss = [&](Values values) {
      interpretAll(sample, values);
      double sum = 0;
      for (size_t e = 0; e < values[result].size(); ++e)
        sum += values[result][e] * values[seed][e];
      return sum;
    };
    Values all = inputs;
    interpretAll(sample, all);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!wanted[i])
        continue;
      const size_t stride = inputs[operands[i]].size() / 8 + 1; // about eight elements of each operand
      for (size_t e = 0; e < inputs[operands[i]].size(); e += stride) {
        Values above = inputs, below = inputs;
        above[operands[i]][e] += kStep;
        below[operands[i]][e] -= kStep;
        EXPECT_NEAR(all[gradients[i]][e], (loss(above) - loss(below)) / (2 * kStep), kTolerance)
            << "operand " << i << " element " << e;
      }
    }
  }
}

TEST(CompositeTest, AttentionIsItsFormula) {
  constexpr int64_t kBatch = 2, kQueries = 3, kHeads = 4, kGroups = 2, kKeys = 3, kDim = 5;
  Context context;
  Sample sample = parseSample(
      context, "%q: tensor<2x3x4x5xf64>, %k: tensor<2x3x2x5xf64>, %v: tensor<2x3x2x5xf64>, %m: tensor<2x1x3x3xi1>",
      "%y:2 = kerf.attention %q, %k, %v, %m {scale = 0.3 : f64, causal} : (tensor<2x3x4x5xf64>, tensor<2x3x2x5xf64>, "
      "tensor<2x3x2x5xf64>, tensor<2x1x3x3xi1>)"
      " -> (tensor<2x3x4x5xf64>, tensor<2x4x3xf64>)");
  ASSERT_TRUE(sample.op);
  Value output = sample.op->getResult(0), lse = sample.op->getResult(1);
  decomposeAll(sample, {&output, &lse});
  std::mt19937_64 random(5);
  Values values;
  for (Value argument : sample.body->getArguments())
    values[argument] = randomNumbers(argument, random);
  Numbers &mask = values[sample.body->getArgument(3)];
  std::fill(mask.begin(), mask.begin() + kKeys, 0.0); // a query that attends to no key
  interpretAll(sample, values);
  auto at = [&](int argument, int64_t b, int64_t row, int64_t head, int64_t heads, int64_t d) {
    return values[sample.body->getArgument(argument)][((b * kQueries + row) * heads + head) * kDim + d];
  };
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t s = 0; s < kQueries; ++s) {
        int64_t g = h / (kHeads / kGroups);
        double total = 0;
        Numbers sum(kDim);
        for (int64_t t = 0; t <= s; ++t) {
          if (mask[(b * kQueries + s) * kKeys + t] == 0)
            continue;
          double score = 0;
          for (int64_t d = 0; d < kDim; ++d)
            score += 0.3 * at(0, b, s, h, kHeads, d) * at(1, b, t, g, kGroups, d);
          total += std::exp(score);
          for (int64_t d = 0; d < kDim; ++d)
            sum[d] += std::exp(score) * at(2, b, t, g, kGroups, d);
        }
        for (int64_t d = 0; d < kDim; ++d)
          EXPECT_NEAR(values[output][((b * kQueries + s) * kHeads + h) * kDim + d], total == 0 ? 0.0 : sum[d] / total,
                      1e-12);
        if (total != 0) {
          EXPECT_NEAR(values[lse][(b * kHeads + h) * kQueries + s], std::log(total), 1e-12);
        }
      }
}

TEST(CompositeTest, CrossEntropyIgnoresItsIndexAndIsStable) {
  Context context;
  Sample sample = parseSample(context, "%x: tensor<3x2xf64>, %l: tensor<3xi64>",
                              "%y:2 = kerf.cross_entropy %x, %l {ignore_index = -100 : i64} : (tensor<3x2xf64>, "
                              "tensor<3xi64>) -> (tensor<3xf64>, tensor<3xf64>)");
  ASSERT_TRUE(sample.op);
  Value nll = sample.op->getResult(0), lse = sample.op->getResult(1);
  decomposeAll(sample, {&nll, &lse});
  Values values;
  values[sample.body->getArgument(0)] = {1000, 1001, 0, 0, 2, 3};
  values[sample.body->getArgument(1)] = {0, 1, -100};
  interpretAll(sample, values);
  const double kExpected[] = {1 + std::log1p(std::exp(-1.0)), std::log(2.0), 0};
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(values[nll][i], kExpected[i], 1e-12);
  EXPECT_NEAR(values[lse][2], 3 + std::log1p(std::exp(-1.0)), 1e-12);
}

} // namespace
