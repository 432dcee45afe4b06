// SPDX-License-Identifier: Apache-2.0
// Imports normalizations of images: over the batch, over a sample, and over groups of channels.
#include "Common/Formula.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::frontend {

namespace {

/// Returns a vector with one value for each channel, reshaped to broadcast over the dimensions after the channels.
Shape channelsOf(const Term &x) {
  Shape shape(x.rank() - 1, 1);
  shape[0] = x.shape[1];
  return shape;
}

Status checkChannels(OnnxNode &node) {
  const Term &x = node.input(0);
  if (x.rank() < 2 || !isFloat(x.dtype))
    return Error{fmt::format("an operand has the type {} and the shape {}, but a floating-point tensor with channels "
                             "in dimension 1 is needed",
                             toString(x.dtype), shapeText(x.shape))};
  return ok();
}

/// Normalizes each row of `x`, its last dimension, to mean 0 and variance 1.
Term normalizedRows(TermBuilder &b, const Term &x, double epsilon) {
  Shape rows(x.shape.begin(), x.shape.end() - 1), row{x.shape.back()};
  mlir::Value operand = b.emit(x), ones = b.emitAs(b.scalar(x.dtype, 1), row),
              zeros = b.emitAs(b.scalar(x.dtype, 0), row);
  mlir::RankedTensorType statistic = b.type(x.dtype, rows);
  auto op = ir::LayerNormOp::create(b.builder, b.loc, mlir::TypeRange{operand.getType(), statistic, statistic}, operand,
                                    ones, zeros, b.builder.getF64FloatAttr(epsilon));
  return b.fromValue(op.getResult());
}

/// Normalizes `x` over groups of neighbouring channels of each sample, then scales and shifts it by values of shape
/// `spread`.
Status normalizeGroups(OnnxNode &node, int64_t groups, const Shape &spread) {
  const Term &x = node.input(0);
  Formula f(node.b, x.dtype);
  int64_t width = elementsOf(Shape(x.shape.begin() + 1, x.shape.end())) / groups;
  Term rows = f.reshape(x, {x.shape[0], groups, width});
  Term y = f.reshape(normalizedRows(node.b, rows, node.number("epsilon", 1e-5f)), x.shape);
  const Term &scale = node.input(1), &bias = node.input(2);
  if (!scale.isConstant() || !allElementsEqual(*scale.literal, 1))
    y = f.multiply(y, f.reshape(scale, spread));
  return f.set(node, 0, f.add(y, f.reshape(bias, spread)));
}

} // namespace

Status importInstanceNormalization(OnnxNode &node) {
  KERF_CHECK(checkChannels(node));
  const Term &x = node.input(0);
  for (int i : {1, 2})
    if (node.input(i).shape != Shape{x.shape[1]})
      return Error{fmt::format("operand {} has the shape {}, but one value for each of {} channels is needed", i,
                               shapeText(node.input(i).shape), x.shape[1])};
  return normalizeGroups(node, x.shape[1], channelsOf(x));
}

Status importGroupNormalization(OnnxNode &node) {
  KERF_CHECK(checkChannels(node));
  const Term &x = node.input(0);
  int64_t groups = node.integer("num_groups", 0), channels = x.shape[1];
  if (groups < 1 || channels % groups != 0)
    return Error{fmt::format("{} groups do not divide {} channels", groups, channels)};
  // Scale and bias have one value for each group before operator set 21, and for each channel since then.
  int64_t values = node.opset() < 21 ? groups : channels;
  for (int i : {1, 2})
    if (node.input(i).shape != Shape{values})
      return Error{fmt::format("operand {} has the shape {}, but {} values are needed", i,
                               shapeText(node.input(i).shape), values)};
  if (values == channels)
    return normalizeGroups(node, groups, channelsOf(x));
  // The value of each group is repeated for its channels.
  const Term original = x;
  Formula f(node.b, x.dtype);
  Shape whole = x.shape;
  int64_t width = elementsOf(Shape(whole.begin() + 1, whole.end())) / groups;
  Term y = normalizedRows(node.b, f.reshape(original, {whole[0], groups, width}), node.number("epsilon", 1e-5f));
  y = f.multiply(y, f.reshape(node.input(1), {groups, 1}));
  return f.set(node, 0, f.reshape(f.add(y, f.reshape(node.input(2), {groups, 1})), whole));
}

Status importBatchNormalization(OnnxNode &node) {
  KERF_CHECK(checkChannels(node));
  const Term &x = node.input(0);
  for (int i : {1, 2, 3, 4})
    if (node.input(i).shape != Shape{x.shape[1]} || node.input(i).dtype != x.dtype)
      return Error{fmt::format(
          "operand {} has the type {} and the shape {}, but one value of {} for each of {} channels is needed", i,
          toString(node.input(i).dtype), shapeText(node.input(i).shape), toString(x.dtype), x.shape[1])};
  Formula f(node.b, x.dtype);
  Shape spread = channelsOf(x);
  Term mean = f.reshape(node.input(3), spread), variance = node.input(4);
  Term centered = f.subtract(x, mean);
  if (node.integer("training_mode", 0)) { // statistics of the whole batch, however the batch is sharded
    std::vector<int64_t> others{0};
    for (int64_t d = 2; d < x.rank(); ++d)
      others.push_back(d);
    Term own = f.mean(x, others);
    centered = f.subtract(x, own);
    variance = f.reshape(f.mean(f.multiply(centered, centered), others), {x.shape[1]});
    double momentum = node.number("momentum", 0.9f);
    auto running = [&](int input, const Term &batch) {
      Term kept = f.multiply(node.input(input), f.number(momentum));
      Term updated = f.add(kept, f.multiply(batch, f.number(1 - momentum)));
      node.update(input, updated);
      return f.set(node, input - 2, updated);
    };
    KERF_CHECK(running(3, f.reshape(own, {x.shape[1]})));
    KERF_CHECK(running(4, variance));
  }
  Term deviation = f.unary(Unary::Sqrt, f.add(variance, f.number(node.number("epsilon", 1e-5f))));
  Term factor = f.reshape(f.divide(node.input(1), deviation), spread);
  Term result = f.add(f.multiply(centered, factor), f.reshape(node.input(2), spread));
  if (mlir::Operation *op = f.fault ? nullptr : node.b.emit(result).getDefiningOp())
    op->setAttr(ir::KerfDialect::kNormalizedAttr, node.b.builder.getUnitAttr());
  return f.set(node, 0, result);
}

Status importMeanVarianceNormalization(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  std::vector<int64_t> axes = node.has("axes") ? node.integers("axes") : std::vector<int64_t>{0, 2, 3};
  for (int64_t &axis : axes) {
    KERF_TRY(inside, normalizeAxis(axis, x.rank()));
    axis = inside;
  }
  std::sort(axes.begin(), axes.end());
  constexpr double kEpsilon = 1e-9; // value in the definition of the operator
  Formula f(node.b, x.dtype);
  Term centered = f.subtract(x, f.mean(x, axes));
  Term deviation = f.unary(Unary::Sqrt, f.mean(f.multiply(centered, centered), axes));
  return f.set(node, 0, f.divide(centered, f.add(deviation, f.number(kEpsilon))));
}

Status importLpNormalization(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  KERF_TRY(axis, normalizeAxis(node.integer("axis", -1), x.rank()));
  int64_t p = node.integer("p", 2);
  if (p != 1 && p != 2)
    return Error{fmt::format("p is {}, but only 1 and 2 are defined", p)};
  Formula f(node.b, x.dtype);
  Shape kept = x.shape;
  kept[axis] = 1;
  Term sum = f.reduce(Reduction::Sum, p == 1 ? f.unary(Unary::Abs, x) : f.multiply(x, x), {axis});
  Term norm = f.reshape(p == 1 ? sum : f.unary(Unary::Sqrt, sum), kept);
  // A row of zeros stays zero, instead of being divided by its norm 0.
  Term isZero = f.compare(Order::Equal, norm, f.number(0));
  return f.set(node, 0, f.divide(x, f.select(isZero, f.number(1), norm)));
}

/// Imports LRN: divides by a power of the sum of squares over neighbouring channels (Krizhevsky, Sutskever and Hinton,
/// 2012).
Status importLrn(OnnxNode &node) {
  KERF_CHECK(checkChannels(node));
  const Term &x = node.input(0);
  int64_t size = node.integer("size", 0);
  if (size < 1 || size > 2 * x.shape[1] + 1)
    return Error{fmt::format("a neighbourhood of {} channels does not fit {} channels", size, x.shape[1])};
  Formula f(node.b, x.dtype);
  Shape ones(x.shape.size(), 1), low(x.shape.size(), 0), window = ones, high = low;
  window[1] = size;
  low[1] = (size - 1) / 2;
  high[1] = size - 1 - low[1];
  mlir::Value squares = node.b.emit(f.multiply(x, x));
  if (f.fault)
    return *f.fault;
  Term sum = node.b.fromValue(ir::ReduceWindowOp::create(node.b.builder, node.b.loc, squares.getType(), squares,
                                                         ir::ReduceKindIR::sum, window, ones, ones, low, high));
  Term scaled = f.multiply(sum, f.number(node.number("alpha", 0.0001f) / double(size)));
  Term divisor = f.power(f.add(scaled, f.number(node.number("bias", 1))), f.number(node.number("beta", 0.75)));
  return f.set(node, 0, f.divide(x, divisor));
}

} // namespace kerf::frontend
