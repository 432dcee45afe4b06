// SPDX-License-Identifier: Apache-2.0
// Gradients of ops that are no composites: the emitted IR verifies, has the operands' types and no op that a wanted
// gradient does not need, and agrees with central differences of the reference implementation (Interpreter.h).
#include "Interpreter.h"

#include "mlir/IR/Verifier.h"
#include <gtest/gtest.h>
#include <random>

using namespace kerf;
using namespace kerf::ir;
using namespace kerf::ir::test;
using mlir::Value;

namespace {

/// One op to test. `present` has a character for each operand: 1 where it has a gradient. Sizes differ, so that
/// dimensions in the wrong order would fail verification.
struct GradientRow {
  const char *arguments, *op;
  std::vector<int> present;
};

std::string unary(const std::string &name) {
  return "%y = kerf." + name + " %x : (tensor<4x8xf32>) -> tensor<4x8xf32>";
}
std::string binary(const std::string &name) {
  return "%z = kerf." + name + " %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>";
}
std::string dot(const std::string &batch, const std::string &contract, const std::string &types) {
  auto attribute = [](const std::string &name, const std::string &dims) { return name + " = array<i64" + dims + ">"; };
  size_t half = batch.find('|'), middle = contract.find('|');
  return "%z = kerf.dot_general %x, %y {" + attribute("lhs_batching", batch.substr(0, half)) + ", " +
         attribute("rhs_batching", batch.substr(half + 1)) + ", " +
         attribute("lhs_contracting", contract.substr(0, middle)) + ", " +
         attribute("rhs_contracting", contract.substr(middle + 1)) + "} : " + types;
}

/// Sets `values` to the results of every op of the sample before `end`.
void interpretUntil(const Sample &sample, mlir::Operation *end, Values &values) {
  for (mlir::Operation *op = &sample.body->front(); op != end; op = op->getNextNode())
    ASSERT_TRUE(interpret(op, values)) << op->getName().getStringRef().str();
}

/// Floats lie in [0.3, 2.3), where every op here is smooth. Indices and booleans are 0 or 1.
void checkValues(const Sample &sample, llvm::ArrayRef<Value> resultGradients, llvm::ArrayRef<Value> operandGradients) {
  constexpr double kStep = 1e-5,
                   kTolerance = 1e-7; // the error of central differences is about step^2, of rounding 1e-16 / step
  std::mt19937_64 random(7);
  Values values;
  for (Value argument : sample.body->getArguments())
    for (int64_t e = 0; e < tensorType(argument).getNumElements(); ++e)
      values[argument].push_back(llvm::isa<mlir::FloatType>(tensorType(argument).getElementType())
                                     ? std::uniform_real_distribution<double>(0.3, 2.3)(random)
                                     : static_cast<double>(random() % 2));
  auto loss = [&](const Values &inputs) {
    Values all = inputs;
    interpretUntil(sample, sample.op->getNextNode(), all);
    double sum = 0;
    for (size_t e = 0; e < all[sample.op->getResult(0)].size(); ++e)
      sum += all[sample.op->getResult(0)][e] * all[resultGradients[0]][e];
    return sum;
  };
  Values all = values;
  interpretUntil(sample, sample.body->getTerminator(), all);
  for (size_t i = 0; i < operandGradients.size(); ++i) {
    Value operand = sample.op->getOperand(i);
    if (!operandGradients[i] || !llvm::isa<mlir::BlockArgument>(operand))
      continue;
    const size_t stride = values[operand].size() / 10 + 1; // about ten elements of each operand
    for (size_t e = 0; e < values[operand].size(); e += stride) {
      Values above = values, below = values;
      above[operand][e] += kStep;
      below[operand][e] -= kStep;
      double expected = (loss(above) - loss(below)) / (2 * kStep), actual = all[operandGradients[i]][e];
      EXPECT_NEAR(actual, expected, kTolerance * (1 + std::abs(expected))) << "element " << e << " of operand " << i;
    }
  }
}

/// Emits the gradient for the operands in `wanted`, and checks it.
void checkGradient(Context &context, const std::string &arguments, const std::string &text, llvm::ArrayRef<bool> wanted,
                   llvm::ArrayRef<bool> expected) {
  Sample sample = parseSample(context, arguments, text);
  ASSERT_TRUE(sample.op);
  auto op = llvm::dyn_cast<GradientOpInterface>(sample.op);
  ASSERT_TRUE(op);
  mlir::SmallVector<Value> resultGradients, operandGradients;
  for (Value result : sample.op->getResults())
    resultGradients.push_back(sample.body->addArgument(result.getType(), sample.op->getLoc()));
  mlir::OpBuilder builder(sample.body->getTerminator());
  mlir::Operation *last = sample.op;
  ASSERT_TRUE(succeeded(op.buildGradient(builder, resultGradients, wanted, operandGradients)));
  ASSERT_EQ(operandGradients.size(), sample.op->getNumOperands());
  for (size_t i = 0; i < operandGradients.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(static_cast<bool>(operandGradients[i]), wanted[i] && expected[i]);
    if (operandGradients[i]) {
      EXPECT_EQ(operandGradients[i].getType(), sample.op->getOperand(i).getType());
    }
  }
  for (mlir::Operation *made = last->getNextNode(); made != sample.body->getTerminator(); made = made->getNextNode()) {
    EXPECT_TRUE(succeeded(mlir::verify(made)));
    bool isGradient =
        llvm::any_of(made->getResults(), [&](Value value) { return llvm::is_contained(operandGradients, value); });
    EXPECT_TRUE(isGradient || !made->use_empty()) << "nothing needs " << made->getName().getStringRef().str();
  }
  checkValues(sample, resultGradients, operandGradients);
}

/// Checks the gradient with all operands wanted, then with each alone.
void checkRow(Context &context, const std::string &arguments, const std::string &text, llvm::ArrayRef<int> present) {
  SCOPED_TRACE(text);
  mlir::SmallVector<bool> expected(present.begin(), present.end());
  checkGradient(context, arguments, text, mlir::SmallVector<bool>(present.size(), true), expected);
  for (size_t i = 0; i < present.size(); ++i) {
    mlir::SmallVector<bool> alone(present.size(), false);
    alone[i] = true;
    checkGradient(context, arguments, text, alone, expected);
  }
}

TEST(GradientTest, ElementwiseOps) {
  Context context;
  const std::string one = "%x: tensor<4x8xf32>", two = "%x: tensor<4x8xf32>, %y: tensor<4x8xf32>";
  for (const char *name :
       {"negate", "abs", "exponential", "log", "sqrt", "rsqrt", "tanh", "logistic", "erf", "sine", "cosine", "atan"})
    checkRow(context, one, unary(name), {1});
  for (const char *name : {"sign", "floor", "ceil", "round_nearest_even", "stop_gradient"})
    checkRow(context, one, unary(name), {0});
  for (const char *name : {"add", "subtract", "multiply", "divide", "maximum", "minimum", "power"})
    checkRow(context, two, binary(name), {1, 1});
  for (const char *exponent : {"1.0", "2.0", "3.0", "0.5", "-1.7"})
    checkRow(
        context, one,
        std::string("%n = kerf.constant dense<") + exponent + "> : tensor<f32>\n" +
            "%y = kerf.broadcast_in_dim %n {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>\n" +
            binary("power"),
        {1, 1});
  checkRow(context, one, "%y = kerf.constant dense<0.0> : tensor<4x8xf32>\n" + binary("power"), {0, 1});
  checkRow(context, "%p: tensor<4x8xi1>, %x: tensor<4x8xf32>, %y: tensor<4x8xf32>",
           "%z = kerf.select %p, %x, %y : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>",
           {0, 1, 1});
  checkRow(context, one, "%y = kerf.convert %x : (tensor<4x8xf32>) -> tensor<4x8xbf16>", {1});
  checkRow(context, "%x: tensor<4xi32>", "%y = kerf.convert %x : (tensor<4xi32>) -> tensor<4xf32>", {0});
  checkRow(context, "%x: tensor<4xf64>", "%y = kerf.convert %x : (tensor<4xf64>) -> tensor<4xi1>", {0});
  checkRow(context, "%x: tensor<4xi32>, %y: tensor<4xi32>",
           "%z = kerf.add %x, %y : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>", {0, 0});
}

TEST(GradientTest, AGradientIsRoundedAsTheValueWas) {
  Context context;
  // The format is so fine that differences do not notice the rounding.
  checkRow(context, "%x: tensor<4xf64>",
           "%y = kerf.reduce_precision %x {mantissa_bits = 46 : i64, min_exponent = -6 : i64} : (tensor<4xf64>) -> "
           "tensor<4xf64>",
           {1});
  Sample sample = parseSample(context, "%x: tensor<2xf32>",
                              "%y = kerf.reduce_precision %x {mantissa_bits = 3 : i64, min_exponent = -6 : i64} : "
                              "(tensor<2xf32>) -> tensor<2xf32>");
  ASSERT_TRUE(sample.op);
  Value gradient = sample.body->addArgument(sample.op->getResult(0).getType(), sample.op->getLoc());
  mlir::OpBuilder builder(sample.body->getTerminator());
  mlir::SmallVector<Value> gradients;
  ASSERT_TRUE(
      succeeded(llvm::cast<GradientOpInterface>(sample.op).buildGradient(builder, gradient, {true}, gradients)));
  Values values{{sample.body->getArgument(0), {5.0, 6.0}}, {gradient, {1.06, 0.0019}}};
  interpretUntil(sample, sample.body->getTerminator(), values);
  EXPECT_EQ(values[gradients[0]], (Numbers{1.0, 0.001953125})); // the smallest subnormal is 2^-9
}

TEST(GradientTest, ReluAndClampHaveNoSlopeAtTheBound) {
  Context context;
  // With a constant operand, ties get no share; between two tensors they do, which takes one comparison for equality.
  for (bool isBound : {true, false}) {
    Sample sample =
        parseSample(context, isBound ? "%x: tensor<4x8xf32>" : "%x: tensor<4x8xf32>, %y: tensor<4x8xf32>",
                    (isBound ? "%y = kerf.constant dense<0.0> : tensor<4x8xf32>\n" : "") + binary("maximum"));
    ASSERT_TRUE(sample.op);
    Value gradient = sample.body->addArgument(sample.op->getResult(0).getType(), sample.op->getLoc());
    mlir::OpBuilder builder(sample.body->getTerminator());
    mlir::SmallVector<Value> gradients;
    ASSERT_TRUE(succeeded(
        llvm::cast<GradientOpInterface>(sample.op).buildGradient(builder, gradient, {true, false}, gradients)));
    int equal = 0, greater = 0;
    sample.body->walk([&](CompareOp op) {
      equal += op.getDirection() == Comparison::EQ;
      greater += op.getDirection() == Comparison::GT;
    });
    EXPECT_EQ(equal, isBound ? 0 : 1);
    EXPECT_EQ(greater, 1);
  }
}

TEST(GradientTest, ShapeOps) {
  Context context;
  const GradientRow rows[] = {
      {"%x: tensor<8xf32>",
       "%y = kerf.broadcast_in_dim %x {broadcast_dimensions = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>",
       {1}},
      {"%x: tensor<4x1xf32>",
       "%y = kerf.broadcast_in_dim %x {broadcast_dimensions = array<i64: 1, 2>} : (tensor<4x1xf32>) -> "
       "tensor<3x4x8xf32>",
       {1}},
      {"%x: tensor<1x1xf32>",
       "%y = kerf.broadcast_in_dim %x {broadcast_dimensions = array<i64: 1, 2>} : (tensor<1x1xf32>) -> "
       "tensor<1x1x8xf32>",
       {1}},
      {"%x: tensor<f32>",
       "%y = kerf.broadcast_in_dim %x {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x8xf32>",
       {1}},
      {"%x: tensor<8x4xf32>", "%y = kerf.reshape %x : (tensor<8x4xf32>) -> tensor<2x16xf32>", {1}},
      {"%x: tensor<2x3x4xf32>",
       "%y = kerf.transpose %x {permutation = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>",
       {1}},
      {"%x: tensor<4x9xf32>",
       "%y = kerf.slice %x {start = array<i64: 1, 2>, limit = array<i64: 4, 8>, strides = array<i64: 1, 4>} : "
       "(tensor<4x9xf32>) -> tensor<3x2xf32>",
       {1}},
      {"%x: tensor<4xf32>",
       "%y = kerf.slice %x {start = array<i64: 2>, limit = array<i64: 2>, strides = array<i64: 1>} : (tensor<4xf32>) "
       "-> tensor<0xf32>",
       {0}},
      {"%x: tensor<4x3xf32>, %v: tensor<f32>",
       "%y = kerf.pad %x, %v {low = array<i64: 1, 0>, high = array<i64: 0, 2>, interior = array<i64: 0, 3>} : "
       "(tensor<4x3xf32>, tensor<f32>) -> tensor<5x11xf32>",
       {1, 1}},
      {"%x: tensor<2x8xf32>, %y: tensor<3x8xf32>",
       "%z = kerf.concatenate %x, %y {dimension = 0 : i64} : (tensor<2x8xf32>, tensor<3x8xf32>) -> tensor<5x8xf32>",
       {1, 1}},
  };
  for (const GradientRow &row : rows)
    checkRow(context, row.arguments, row.op, row.present);
}

TEST(GradientTest, Contractions) {
  Context context;
  // All sizes within a row differ.
  const std::vector<std::array<std::string, 4>> products = {
      {"%x: tensor<4x8xf32>, %y: tensor<8x16xf32>", "|", ": 1|: 0",
       "(tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>"},
      {"%x: tensor<8x4xf32>, %y: tensor<16x8xf32>", "|", ": 0|: 1",
       "(tensor<8x4xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>"},
      {"%x: tensor<2x4x3x8xf32>, %y: tensor<2x5x3x8xf32>", ": 0, 2|: 0, 2", ": 3|: 3",
       "(tensor<2x4x3x8xf32>, tensor<2x5x3x8xf32>) -> tensor<2x3x4x5xf32>"},
      {"%x: tensor<4x3x2x8xf32>, %y: tensor<2x8x5x3xf32>", ": 2, 1|: 0, 3", ": 3|: 1",
       "(tensor<4x3x2x8xf32>, tensor<2x8x5x3xf32>) -> tensor<2x3x4x5xf32>"},
      {"%x: tensor<2x3x4x5xf32>, %y: tensor<5x4x6x7xf32>", "|", ": 2, 3|: 1, 0",
       "(tensor<2x3x4x5xf32>, tensor<5x4x6x7xf32>) -> tensor<2x3x6x7xf32>"},
      {"%x: tensor<5x2x4x3xf32>, %y: tensor<6x5x7x4xf32>", "|", ": 2, 0|: 3, 1",
       "(tensor<5x2x4x3xf32>, tensor<6x5x7x4xf32>) -> tensor<2x3x6x7xf32>"},
      {"%x: tensor<8xf32>, %y: tensor<8xf32>", "|", ": 0|: 0", "(tensor<8xf32>, tensor<8xf32>) -> tensor<f32>"},
      {"%x: tensor<4xf32>, %y: tensor<8xf32>", "|", "|", "(tensor<4xf32>, tensor<8xf32>) -> tensor<4x8xf32>"},
  };
  for (const auto &[arguments, batch, contract, types] : products)
    checkRow(context, arguments, dot(batch, contract, types), {1, 1});
  const GradientRow rows[] = {
      {"%x: tensor<4x8x3xf32>",
       "%y = kerf.reduce %x {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0, 2>} : (tensor<4x8x3xf32>) -> "
       "tensor<8xf32>",
       {1}},
      {"%x: tensor<4x8x3xf32>",
       "%y = kerf.reduce %x {kind = #kerf<reduce_kind max>, dimensions = array<i64: 1>} : (tensor<4x8x3xf32>) -> "
       "tensor<4x3xf32>",
       {1}},
      {"%x: tensor<4x8xf64>",
       "%y = kerf.reduce %x {kind = #kerf<reduce_kind min>, dimensions = array<i64: 0, 1>} : (tensor<4x8xf64>) -> "
       "tensor<f64>",
       {1}},
      {"%x: tensor<5x9x8xf32>, %i: tensor<2x3xi64>",
       "%y = kerf.gather %x, %i {axis = 1 : i64} : (tensor<5x9x8xf32>, tensor<2x3xi64>) -> tensor<5x2x3x8xf32>",
       {1, 0}},
      {"%i: tensor<2x3xi64>, %x: tensor<5x2x3x8xf32>",
       "%y = kerf.scatter_add %i, %x {axis = 1 : i64} : (tensor<2x3xi64>, tensor<5x2x3x8xf32>) -> tensor<5x9x8xf32>",
       {0, 1}},
      {"%x: tensor<5x9x3xf32>, %i: tensor<5x4xi64>",
       "%y = kerf.take_along %x, %i {batch_dims = 1 : i64, size = 9 : i64} : (tensor<5x9x3xf32>, tensor<5x4xi64>) -> "
       "tensor<5x4x3xf32>",
       {1, 0}},
      {"%i: tensor<5x2xi64>, %x: tensor<5x2xf32>",
       "%y = kerf.take_along_backward %i, %x {batch_dims = 1 : i64, size = 9 : i64} : (tensor<5x2xi64>, "
       "tensor<5x2xf32>) -> tensor<5x9xf32>",
       {0, 1}},
  };
  for (const GradientRow &row : rows)
    checkRow(context, row.arguments, row.op, row.present);
}

TEST(GradientTest, Routing) {
  Context context;
  checkRow(context, "%x: tensor<3x4x6xf32>",
           "%v, %i = kerf.top_k %x : (tensor<3x4x6xf32>) -> (tensor<3x4x2xf32>, tensor<3x4x2xi64>)", {1});
  for (const char *slots : {"8", "3"}) { // enough slots for all choices of a row of four tokens, and too few
    std::string type = std::string("tensor<2x3x") + slots + "x5xf32>";
    checkRow(context, "%x: tensor<3x4x5xf32>, %i: tensor<3x4x2xi64>, %w: tensor<3x4x2xf32>",
             "%y = kerf.dispatch %x, %i, %w {experts = 2 : i64} : (tensor<3x4x5xf32>, tensor<3x4x2xi64>, "
             "tensor<3x4x2xf32>) -> " +
                 type,
             {1, 0, 1});
    checkRow(context, "%x: " + type + ", %i: tensor<3x4x2xi64>, %w: tensor<3x4x2xf32>",
             "%y = kerf.combine %x, %i, %w {experts = 2 : i64} : (" + type +
                 ", tensor<3x4x2xi64>, tensor<3x4x2xf32>) -> tensor<3x4x5xf32>",
             {1, 0, 1});
  }
}

std::string steps(const std::string &strides, const std::string &dilations, const std::string &low,
                  const std::string &high) {
  return "strides = array<i64: " + strides + ">, dilations = array<i64: " + dilations + ">, low = array<i64: " + low +
         ">, high = array<i64: " + high + ">}";
}

TEST(GradientTest, Convolutions) {
  Context context;
  struct Row {
    std::string steps, operand, kernel, result;
  };
  const Row rows[] = {
      {steps("1", "1", "0", "0"), "tensor<2x3x5xf32>", "tensor<4x3x2xf32>", "tensor<2x4x4xf32>"},
      {steps("2", "1", "1", "0"), "tensor<2x6x7xf32>", "tensor<4x3x3xf32>", "tensor<2x4x3xf32>"}, // two groups
      {steps("3", "1", "0", "1"), "tensor<1x4x8xf32>", "tensor<8x1x2xf32>", "tensor<1x8x3xf32>"}, // of one channel
      {steps("1, 2", "2, 1", "1, 0", "0, 2"), "tensor<2x2x5x6xf32>", "tensor<3x2x2x3xf32>", "tensor<2x3x4x3xf32>"},
      {steps("2, 1, 1", "1, 1, 2", "0, 1, 2", "1, 0, 2"), "tensor<1x2x3x2x3xf32>", "tensor<2x2x2x2x3xf32>",
       "tensor<1x2x2x2x3xf32>"},
      {steps("3", "1", "4", "5"), "tensor<1x1x2xf32>", "tensor<1x1x2xf32>", "tensor<1x1x4xf32>"}, // padding only
  };
  for (const Row &row : rows) {
    checkRow(context, "%x: " + row.operand + ", %k: " + row.kernel,
             "%y = kerf.convolution %x, %k {" + row.steps + " : (" + row.operand + ", " + row.kernel + ") -> " +
                 row.result,
             {1, 1});
    checkRow(context, "%y: " + row.result + ", %k: " + row.kernel,
             "%x = kerf.convolution_transpose %y, %k {" + row.steps + " : (" + row.result + ", " + row.kernel +
                 ") -> " + row.operand,
             {1, 1});
  }
}

TEST(GradientTest, Pools) {
  Context context;
  struct Row {
    std::string window, steps, operand, result;
  };
  const Row rows[] = {
      {"1, 1, 3", steps("1, 1, 2", "1, 1, 1", "0, 0, 1", "0, 0, 0"), "tensor<2x3x8xf32>", "tensor<2x3x4xf32>"},
      {"1, 2, 2", steps("1, 2, 2", "1, 1, 1", "0, 0, 0", "0, 0, 0"), "tensor<2x4x6xf32>", "tensor<2x2x3xf32>"},
      {"2, 3, 1", steps("1, 3, 1", "2, 1, 1", "1, 0, 0", "2, 1, 0"), "tensor<3x7x2xf32>", "tensor<4x2x2xf32>"},
      {"2", steps("1", "1", "3", "4"), "tensor<2xf32>", "tensor<8xf32>"}, // positions in the padding only
      {"1, 1", steps("1, 1", "1, 1", "0, 0", "0, 0"), "tensor<2x3xf32>", "tensor<2x3xf32>"},
      {"4", steps("1", "1", "3", "0"), "tensor<5xf32>", "tensor<5xf32>"}, // the cases up to here are sums
  };
  for (const Row &row : rows)
    for (const char *kind : {"sum", "max", "min"}) {
      if (row.window == "2" && std::string(kind) != "sum")
        continue; // infinite
      checkRow(context, "%x: " + row.operand,
               std::string("%y = kerf.reduce_window %x {kind = #kerf<reduce_kind ") + kind + ">, window = array<i64: " +
                   row.window + ">, " + row.steps + " : (" + row.operand + ") -> " + row.result,
               {1});
    }
}

TEST(GradientTest, ALinearLayerNeedsNoTranspose) {
  Context context;
  const std::array<std::array<std::string, 3>, 2> layers = {{
      {"%x: tensor<4x8xf32>, %y: tensor<8x16xf32>", ": 1|: 0",
       "(tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>"},
      {"%x: tensor<4x8xf32>, %y: tensor<16x8xf32>", ": 1|: 1",
       "(tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>"},
  }};
  for (const auto &[arguments, contract, types] : layers) {
    Sample sample = parseSample(context, arguments, dot("|", contract, types));
    ASSERT_TRUE(sample.op);
    Value gradient = sample.body->addArgument(sample.op->getResult(0).getType(), sample.op->getLoc());
    mlir::OpBuilder builder(sample.body->getTerminator());
    mlir::SmallVector<Value> gradients;
    ASSERT_TRUE(succeeded(
        llvm::cast<GradientOpInterface>(sample.op).buildGradient(builder, gradient, {true, true}, gradients)));
    for (mlir::Operation &op : *sample.body)
      EXPECT_FALSE(llvm::isa<TransposeOp>(op));
  }
}

} // namespace
