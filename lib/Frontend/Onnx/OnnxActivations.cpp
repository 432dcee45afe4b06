// SPDX-License-Identifier: Apache-2.0
// Activation functions, as formulas of elementwise operators.
#include "Common/Formula.h"

#include <fmt/format.h>

namespace kerf::frontend {

namespace {
/// Returns log(1 + exp(x)) without overflow, as max(x, 0) + log(1 + exp(-|x|)).
Term softplusOf(Formula &f, const Term &x) {
  Term small = f.unary(Unary::Exponential, f.unary(Unary::Negate, f.unary(Unary::Abs, x)));
  return f.add(f.maximum(x, f.number(0)), f.unary(Unary::Log, f.add(f.number(1), small)));
}

/// Returns alpha * (exp(x / width) - 1) where x < 0 and x elsewhere. Exponentials of positive numbers, which could
/// overflow, are avoided.
Term eluOf(Formula &f, const Term &x, double alpha, double width) {
  Term below = f.minimum(x, f.number(0));
  Term scaled = width == 1 ? below : f.divide(below, f.number(width));
  Term curve = f.multiply(f.number(alpha), f.subtract(f.unary(Unary::Exponential, scaled), f.number(1)));
  return f.add(f.maximum(x, f.number(0)), curve);
}

/// Returns max(0, min(1, alpha * x + beta)).
Term hardSigmoidOf(Formula &f, const Term &x, double alpha, double beta) {
  return f.maximum(f.number(0), f.minimum(f.number(1), f.add(f.multiply(f.number(alpha), x), f.number(beta))));
}
} // namespace

Status importLeakyRelu(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  return f.set(
      node, 0,
      f.select(f.compare(Order::Less, x, f.number(0)), f.multiply(x, f.number(node.number("alpha", 0.01f))), x));
}

Status importPRelu(OnnxNode &node) {
  const Term &x = node.input(0), &slope = node.input(1);
  Formula f(node.b, x.dtype);
  KERF_TRY(shape, broadcastShapes(x.shape, slope.shape));
  if (shape != x.shape)
    return Error{fmt::format("slopes of shape {} do not fit an operand of shape {}", shapeText(slope.shape),
                             shapeText(x.shape))};
  Term zero = f.number(0);
  return f.set(node, 0, f.select(f.compare(Order::Less, x, zero), f.multiply(slope, x), x));
}

Status importHardSigmoid(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  return f.set(node, 0, hardSigmoidOf(f, x, node.number("alpha", 0.2f), node.number("beta", 0.5f)));
}

Status importHardSwish(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  return f.set(node, 0, f.multiply(x, hardSigmoidOf(f, x, 1.0 / 6, 0.5)));
}

Status importSwish(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  double alpha = node.number("alpha", 1);
  return f.set(node, 0, f.multiply(x, f.unary(Unary::Logistic, alpha == 1 ? x : f.multiply(f.number(alpha), x))));
}

Status importElu(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  return f.set(node, 0, eluOf(f, x, node.number("alpha", 1), 1));
}

Status importCelu(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  double alpha = node.number("alpha", 1);
  if (alpha == 0)
    return Error{"alpha is 0, but the operand is divided by alpha"};
  return f.set(node, 0, eluOf(f, x, alpha, alpha));
}

Status importSelu(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  // The operator's defaults (Klambauer and others, Self-Normalizing Neural Networks, 2017).
  double alpha = node.number("alpha", 1.67326319217681884765625),
         gamma = node.number("gamma", 1.05070102214813232421875);
  return f.set(node, 0, f.multiply(f.number(gamma), eluOf(f, x, alpha, 1)));
}

Status importSoftplus(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  return f.set(node, 0, softplusOf(f, x));
}

Status importMish(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  return f.set(node, 0, f.multiply(x, f.unary(Unary::Tanh, softplusOf(f, x))));
}

Status importSoftsign(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  return f.set(node, 0, f.divide(x, f.add(f.number(1), f.unary(Unary::Abs, x))));
}

Status importThresholdedRelu(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  Term above = f.compare(Order::Greater, x, f.number(node.number("alpha", 1)));
  return f.set(node, 0, f.select(above, x, f.number(0)));
}

Status importShrink(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  double lambda = node.number("lambd", 0.5), bias = node.number("bias", 0);
  Term below = f.select(f.compare(Order::Less, x, f.number(-lambda)), f.add(x, f.number(bias)), f.number(0));
  return f.set(node, 0, f.select(f.compare(Order::Greater, x, f.number(lambda)), f.subtract(x, f.number(bias)), below));
}

Status importHyperbolic(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  Term up = f.unary(Unary::Exponential, x), down = f.unary(Unary::Exponential, f.unary(Unary::Negate, x));
  Term sum = node.opType() == "Cosh" ? f.add(up, down) : f.subtract(up, down);
  return f.set(node, 0, f.multiply(f.number(0.5), sum));
}

Status importInverseHyperbolic(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  Term one = f.number(1);
  if (node.opType() == "Atanh") {
    Term ratio = f.divide(f.add(one, x), f.subtract(one, x));
    return f.set(node, 0, f.multiply(f.number(0.5), f.unary(Unary::Log, ratio)));
  }
  Term square = f.multiply(x, x);
  if (node.opType() == "Acosh")
    return f.set(node, 0, f.unary(Unary::Log, f.add(x, f.unary(Unary::Sqrt, f.subtract(square, one)))));
  // The formula is computed for |x|, where its sum does not cancel, and gets the sign of x.
  Term sum = f.add(f.unary(Unary::Abs, x), f.unary(Unary::Sqrt, f.add(square, one)));
  Term above = f.unary(Unary::Log, sum);
  return f.set(node, 0, f.select(f.compare(Order::Less, x, f.number(0)), f.unary(Unary::Negate, above), above));
}

Status importTan(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  return f.set(node, 0, f.divide(f.unary(Unary::Sine, x), f.unary(Unary::Cosine, x)));
}

Status importIsInf(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  bool above = node.integer("detect_positive", 1), below = node.integer("detect_negative", 1);
  Term size = above && below ? f.unary(Unary::Abs, x) : below ? f.unary(Unary::Negate, x) : x;
  Term infinite = f.compare(Order::Equal, size, f.number(std::numeric_limits<double>::infinity()));
  if (!above && !below)
    infinite = f.compare(Order::NotEqual, infinite, infinite);
  return f.set(node, 0, infinite);
}

} // namespace kerf::frontend
