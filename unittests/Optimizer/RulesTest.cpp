// SPDX-License-Identifier: Apache-2.0
// The rules of optimizers, computed with numbers instead of IR. test/e2e/test_optimizers.py compares whole trainings
// with PyTorch.
#include "kerf/Optimizer/Options.h"
#include "kerf/Optimizer/Update.h"

#include <cmath>
#include <gtest/gtest.h>

namespace kerf {
namespace {

/// An emitter that computes at once: vectors of numbers, and scalars of 32 and 64 bits.
class Calculator : public TermEmitter {
public:
  struct Number {
    std::vector<double> elements;
    Shape shape;
    unsigned bits;
  };

  Term vector(std::vector<double> elements) {
    auto size = static_cast<int64_t>(elements.size());
    return {*this, add({std::move(elements), {size}, 32})};
  }
  Term scalar(double value, unsigned bits) { return {*this, add({{value}, {}, bits})}; }
  const Number &operator[](const Term &term) const { return numbers[static_cast<size_t>(term.id())]; }

  Shape shape(TermValue value) const override { return of(value).shape; }
  unsigned elementBits(TermValue value) const override { return of(value).bits; }
  TermValue constant(double number, TermValue like) override {
    Number made = of(like);
    std::fill(made.elements.begin(), made.elements.end(), number);
    return add(made);
  }
  TermValue convert(TermValue value, TermValue like) override {
    Number made = of(value);
    if (made.shape.empty())
      made = {std::vector<double>(of(like).elements.size(), made.elements.front()), of(like).shape, 0};
    made.bits = of(like).bits;
    return add(made);
  }
  TermValue binary(BinaryTerm operation, TermValue x, TermValue y) override {
    EXPECT_EQ(of(x).shape, of(y).shape);
    EXPECT_EQ(of(x).bits, of(y).bits);
    Number made = of(x);
    for (size_t i = 0; i < made.elements.size(); ++i)
      made.elements[i] = result(operation, of(x).elements[i], of(y).elements[i]);
    return add(made);
  }
  TermValue unary(UnaryTerm operation, TermValue x) override {
    Number made = of(x);
    for (double &element : made.elements)
      element = operation == UnaryTerm::Sqrt    ? std::sqrt(element)
                : operation == UnaryTerm::Floor ? std::floor(element)
                                                : (element > 0) - (element < 0);
    return add(made);
  }
  TermValue wherePositive(TermValue condition, TermValue x, TermValue y) override {
    Number made = of(x);
    for (size_t i = 0; i < made.elements.size(); ++i)
      made.elements[i] = of(condition).elements[i] > 0 ? made.elements[i] : of(y).elements[i];
    return add(made);
  }
  TermValue sum(TermValue x, const Shape &) override { // over all dimensions
    double total = 0;
    for (double element : of(x).elements)
      total += element;
    return add({{total}, {}, of(x).bits});
  }
  TermValue along(TermValue, TermValue, int64_t) override { throw std::logic_error("no matrices here"); }
  TermValue reshape(TermValue, const Shape &) override { throw std::logic_error("no matrices here"); }
  TermValue product(TermValue, int64_t, TermValue, int64_t) override { throw std::logic_error("no matrices here"); }

private:
  static double result(BinaryTerm operation, double x, double y) {
    switch (operation) {
    case BinaryTerm::Add:
      return x + y;
    case BinaryTerm::Subtract:
      return x - y;
    case BinaryTerm::Multiply:
      return x * y;
    case BinaryTerm::Divide:
      return x / y;
    case BinaryTerm::Power:
      return std::pow(x, y);
    case BinaryTerm::Maximum:
      return std::max(x, y);
    case BinaryTerm::Minimum:
      return std::min(x, y);
    }
    return 0;
  }
  const Number &of(TermValue value) const { return numbers[static_cast<size_t>(value)]; }
  TermValue add(Number number) {
    numbers.push_back(std::move(number));
    return static_cast<TermValue>(numbers.size()) - 1;
  }

  std::vector<Number> numbers;
};

TEST(TermTest, ConstantsAreComputedAtOnce) {
  Term product = 2 * Term(3) + pow(Term(2), 3);
  ASSERT_TRUE(product.isConstant());
  EXPECT_EQ(product.number(), 14);
  EXPECT_EQ(sqrt(Term(9)).number(), 3);
  EXPECT_EQ(sign(Term(-2)).number(), -1);
  EXPECT_EQ(wherePositive(Term(-1), Term(5), Term(6)).number(), 6);
}

TEST(TermTest, AScalarTakesTheTypeOfATensorAndTheWiderScalarWins) {
  Calculator numbers;
  Term narrow = numbers.scalar(2, 32), wide = numbers.scalar(3, 64), tensor = numbers.vector({1, 10});
  EXPECT_EQ(numbers[narrow * wide].bits, 64u);
  EXPECT_EQ(numbers[wide * narrow].bits, 64u);
  EXPECT_EQ(numbers[wide - tensor].elements, (std::vector<double>{2, -7}));
  EXPECT_EQ(numbers[wide - tensor].bits, 32u);
  EXPECT_EQ(numbers[1 / tensor].elements, (std::vector<double>{1, 0.1}));
  EXPECT_DOUBLE_EQ(numbers[norm(numbers.vector({3, 4}))].elements.front(), 5);
  EXPECT_DOUBLE_EQ(numbers[mean(numbers.vector({3, 5}), {})].elements.front(), 4);
}

/// Returns the parameter after updates number 1 to `gradients.size()` of the optimizer with its default settings.
std::vector<double> trained(const char *optimizer, std::vector<double> parameter, const SettingValues &given,
                            const std::vector<std::vector<double>> &gradients, double rate) {
  Calculator numbers;
  OptimizerOptions options;
  options.optimizer = optimizer;
  options.settings = given;
  Shape shape = {static_cast<int64_t>(parameter.size())};
  ParameterOptimizer chosen = parameterOptimizer(options, "w", shape);
  Term current = numbers.vector(parameter);
  std::vector<std::pair<std::string_view, Term>> states;
  for (const OptimizerState &state : chosen.states(shape))
    states.emplace_back(state.name, numbers.vector(std::vector<double>(parameter.size(), 0)));
  for (size_t step = 0; step < gradients.size(); ++step) {
    Update update{current, numbers.vector(gradients[step]), numbers.scalar(rate, 64), {}, chosen.settings, states};
    if (chosen.record->readsUpdateNumber)
      update.number = numbers.scalar(static_cast<double>(step) + 1, 64);
    chosen.record->rule(update);
    current = update.parameter;
    states = update.states;
  }
  return numbers[current].elements;
}

TEST(RulesTest, SgdWithMomentumAddsUpVelocities) {
  // Velocities 1, then 0.5 * 1 + 2 = 2.5: the parameter moves by -0.1 * (1 + 2.5).
  EXPECT_NEAR(trained("sgd", {7}, {{"momentum", 0.5}}, {{1}, {2}}, 0.1)[0], 7 - 0.35, 1e-15);
}

TEST(RulesTest, TheFirstStepOfAdamWHasTheSizeOfTheRate) {
  // Corrected means of the first step are g and g^2, so the step is rate * g / (|g| + eps), after the decay of 1 %.
  std::vector<double> after = trained("adamw", {2, -3}, {{"weight-decay", 0.01}}, {{4, -0.5}}, 0.1);
  EXPECT_NEAR(after[0], 2 * (1 - 0.1 * 0.01) - 0.1 * 4 / (4 + 1e-8), 1e-14);
  EXPECT_NEAR(after[1], -3 * (1 - 0.1 * 0.01) + 0.1 * 0.5 / (0.5 + 1e-8), 1e-14);
}

TEST(RulesTest, TheDivisorOfZeroOneAdamFollowsAtGrowingDistances) {
  // With two updates at each distance, the squares follow in batches 0 and 1, then 2 and 4, and not from batch 5 on.
  const double rate = 0.1, beta1 = 0.9, beta2 = 0.999;
  std::vector<std::vector<double>> gradients = {{1}, {-2}, {30}, {4}, {-50}, {6}, {70}};
  double parameter = 5, mean = 0, square = 0;
  int follows = 0;
  for (size_t step = 0; step < gradients.size(); ++step) {
    const double gradient = gradients[step][0];
    if (step == 0 || step == 1 || step == 2 || step == 4)
      ++follows, square = beta2 * square + (1 - beta2) * gradient * gradient;
    mean = beta1 * mean + (1 - beta1) * gradient;
    parameter -= rate * mean / (1 - std::pow(beta1, double(step + 1))) /
                 (std::sqrt(square / (1 - std::pow(beta2, follows))) + 1e-8);
  }
  EXPECT_NEAR(trained("zero-one-adam", {5}, {{"freeze-step", 5}, {"var-update-scaler", 2}}, gradients, rate)[0],
              parameter, 1e-12);
}

TEST(RulesTest, LionMovesByTheSign) {
  EXPECT_NEAR(trained("lion", {1, 1}, {}, {{5, -0.001}}, 0.25)[0], 0.75, 1e-15);
  EXPECT_NEAR(trained("lion", {1, 1}, {}, {{5, -0.001}}, 0.25)[1], 1.25, 1e-15);
}

TEST(RulesTest, LambScalesTheStepToTheParametersNorm) {
  // The first step of Adam is the vector of signs, of norm sqrt(2); the parameter's norm is 5.
  std::vector<double> after = trained("lamb", {3, 4}, {}, {{1e3, -1e3}}, 0.1);
  EXPECT_NEAR(after[0], 3 - 0.1 * 5 / std::sqrt(2), 1e-6);
  EXPECT_NEAR(after[1], 4 + 0.1 * 5 / std::sqrt(2), 1e-6);
}

TEST(RulesTest, MuonLeavesVectorsToAdamW) {
  EXPECT_EQ(trained("muon", {2, -3}, {{"weight-decay", 0.01}}, {{4, -0.5}}, 0.1),
            trained("adamw", {2, -3}, {{"weight-decay", 0.01}}, {{4, -0.5}}, 0.1));
}

} // namespace
} // namespace kerf
