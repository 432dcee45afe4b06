// SPDX-License-Identifier: Apache-2.0
// Imports operators that are composite operators of the dialect: softmax, GELU, norms and cross entropy.
#include "Common/Formula.h"
#include "Common/Lookups.h"

#include <fmt/format.h>
#include <limits>

namespace kerf::frontend {

Status importSoftmax(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(axis, normalizeAxis(node.integer("axis", -1), x.rank()));
  KERF_TRY(operand, emitFloat(node.b, x, x.shape));
  return node.set(0, node.b.fromValue(ir::SoftmaxOp::create(node.b.builder, node.b.loc, operand.getType(), operand,
                                                            node.b.builder.getI64IntegerAttr(axis))));
}

Status importGelu(OnnxNode &node) {
  const Term &x = node.input(0);
  std::string approximate = node.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return Error{fmt::format("approximate '{}' is not supported; supported are 'none' and 'tanh'", approximate)};
  KERF_TRY(operand, emitFloat(node.b, x, x.shape));
  mlir::UnitAttr byTanh = approximate == "tanh" ? node.b.builder.getUnitAttr() : mlir::UnitAttr();
  return node.set(0,
                  node.b.fromValue(ir::GeluOp::create(node.b.builder, node.b.loc, operand.getType(), operand, byTanh)));
}

namespace {

/// The operands of a norm, with the normalized dimensions merged into the last dimension.
struct NormOperands {
  mlir::Value operand, scale, bias;
  Shape statistics; // shape of the statistics of each row, as ONNX has them
};

Result<NormOperands> normOperands(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(axis, normalizeAxis(node.integer("axis", -1), x.rank()));
  Shape rows(x.shape.begin(), x.shape.begin() + axis), row(x.shape.begin() + axis, x.shape.end());
  NormOperands result;
  result.statistics = rows;
  result.statistics.resize(x.rank(), 1);
  int64_t width = elementsOf(row);
  rows.push_back(width);
  KERF_TRY(flat, node.b.reshape(x, rows));
  KERF_TRY(operand, emitFloat(node.b, flat, rows));
  result.operand = operand;
  auto vector = [&](const Term &given) -> Result<mlir::Value> {
    KERF_TRY(whole, node.b.broadcast(given, row));
    KERF_TRY(line, node.b.reshape(whole, {width}));
    return emitFloat(node.b, line, {width});
  };
  KERF_TRY(scale, vector(node.input(1)));
  result.scale = scale;
  KERF_TRY(bias, vector(node.hasInput(2) ? node.input(2) : node.b.scalar(x.dtype, 0)));
  result.bias = bias;
  return result;
}

} // namespace

Status importLayerNormalization(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(from, normOperands(node));
  TermBuilder &b = node.b;
  Shape rows = ir::shapeOf(from.operand);
  rows.pop_back();
  mlir::RankedTensorType statistic = b.type(x.dtype, rows);
  auto op = ir::LayerNormOp::create(b.builder, b.loc, mlir::TypeRange{from.operand.getType(), statistic, statistic},
                                    from.operand, from.scale, from.bias,
                                    b.builder.getF64FloatAttr(node.number("epsilon", 1e-5f)));
  KERF_CHECK(node.set(0, b.reshape(b.fromValue(op.getResult()), x.shape)));
  if (node.isOutputUsed(1))
    KERF_CHECK(node.set(1, b.reshape(b.fromValue(op.getMean()), from.statistics)));
  if (node.isOutputUsed(2))
    KERF_CHECK(node.set(2, b.reshape(b.fromValue(op.getRstd()), from.statistics)));
  return ok();
}

Status importRmsNormalization(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(from, normOperands(node));
  TermBuilder &b = node.b;
  Shape rows = ir::shapeOf(from.operand);
  rows.pop_back();
  auto op = ir::RmsNormOp::create(b.builder, b.loc, mlir::TypeRange{from.operand.getType(), b.type(x.dtype, rows)},
                                  from.operand, from.scale, b.builder.getF64FloatAttr(node.number("epsilon", 1e-5f)));
  return node.set(0, b.reshape(b.fromValue(op.getResult()), x.shape));
}

Result<Term> crossEntropy(TermBuilder &b, const Term &logits, const Term &labels, std::optional<int64_t> ignored,
                          std::string_view reduction) {
  Shape rows = logits.shape;
  if (rows.empty())
    return Error{"the logits have no class dimension"};
  rows.pop_back();
  if (labels.shape != rows || (labels.dtype != DType::I64 && labels.dtype != DType::I32))
    return Error{
        fmt::format("labels of type {} and shape {} do not fit logits of shape {}; one integer for each row is needed",
                    toString(labels.dtype), shapeText(labels.shape), shapeText(logits.shape))};
  // Without an ignored label, a value that no label has is used.
  int64_t ignore = ignored.value_or(std::numeric_limits<int64_t>::min());
  KERF_TRY(operand, emitFloat(b, logits, logits.shape));
  mlir::Value classes = b.emit(labels);
  mlir::RankedTensorType type = b.type(logits.dtype, rows);
  auto op = ir::CrossEntropyOp::create(b.builder, b.loc, mlir::TypeRange{type, type}, operand, classes,
                                       b.builder.getI64IntegerAttr(ignore), /*classes=*/nullptr);
  Term each = b.fromValue(op.getResult());
  if (reduction == "none")
    return each;
  std::vector<int64_t> all;
  for (int64_t d = 0; d < each.rank(); ++d)
    all.push_back(d);
  KERF_TRY(sum, b.reduce(Reduction::Sum, each, all));
  if (reduction == "sum")
    return sum;
  if (!ignored)
    return b.binary(Binary::Divide, sum, b.integer(sum.dtype, elementsOf(rows)));
  // The graph counts the labels that are not ignored, so that the denominator is that of the whole batch, however the
  // batch is sharded.
  KERF_TRY(counts, b.compare(Order::NotEqual, b.fromValue(classes), b.integer(labels.dtype, ignore)));
  KERF_TRY(ones, b.convert(counts, logits.dtype));
  KERF_TRY(count, b.reduce(Reduction::Sum, ones, all));
  return b.binary(Binary::Divide, sum, count);
}

namespace {

/// Moves the classes from dimension 1, where ONNX has them, to the last dimension.
Result<Term> classesLast(TermBuilder &b, const Term &scores) {
  std::vector<int64_t> permutation{0};
  for (int64_t d = 2; d < scores.rank(); ++d)
    permutation.push_back(d);
  permutation.push_back(1);
  return b.transpose(scores, permutation);
}

/// Returns x - log(sum(exp(x))) along `axis`.
Term logSoftmax(Formula &f, const Term &x, int64_t axis) {
  Shape kept = x.shape;
  kept[axis] = 1;
  Term shifted = f.subtract(x, f.reshape(f.reduce(Reduction::Maximum, x, {axis}), kept));
  Term sum = f.reduce(Reduction::Sum, f.unary(Unary::Exponential, shifted), {axis});
  return f.subtract(shifted, f.reshape(f.unary(Unary::Log, sum), kept));
}

/// Returns the negative log-likelihood: -weight * x at each label, reduced. `x` has log probabilities with the classes
/// in dimension 1. A lookup is used, so that each row needs one number instead of one for each class.
Status setLikelihoodLoss(OnnxNode &node, const Term &x, std::string_view reduction) {
  const Term &labels = node.input(1);
  Shape rows = x.shape;
  int64_t count = x.shape[1];
  rows.erase(rows.begin() + 1);
  if (labels.shape != rows || (labels.dtype != DType::I64 && labels.dtype != DType::I32))
    return Error{
        fmt::format("labels of type {} and shape {} do not fit scores of shape {}; one integer for each row is needed",
                    toString(labels.dtype), shapeText(labels.shape), shapeText(x.shape))};
  if (node.hasInput(2) && node.input(2).shape != Shape{count})
    return Error{fmt::format("weights of shape {} do not fit {} classes", shapeText(node.input(2).shape), count)};
  Formula f(node.b, x.dtype);
  KERF_TRY(scores, classesLast(node.b, x));
  auto whole = [&](int64_t value) { return node.b.integer(labels.dtype, value); };
  // For an ignored label, class 0 is read. Negative labels are not counted from the end.
  Term place = f.select(f.compare(Order::Less, labels, whole(0)), whole(count), labels);
  std::optional<Term> isIgnored;
  if (node.has("ignore_index")) {
    isIgnored = f.compare(Order::Equal, labels, whole(node.integer("ignore_index", 0)));
    place = f.select(*isIgnored, whole(0), place);
  }
  Shape column = rows;
  column.push_back(1);
  Term zero = f.number(0);
  auto unlessIgnored = [&](const Term &value) { return isIgnored ? f.select(*isIgnored, zero, value) : value; };
  Term picked = f.reshape(f.unwrap(takeAlong(node.b, scores, f.reshape(place, column), scores.rank() - 1)), rows);
  std::optional<Term> weight; // weight of each row
  if (node.hasInput(2))
    weight = unlessIgnored(f.unwrap(node.b.gather(node.input(2), place, 0)));
  Term each = f.unary(Unary::Negate, unlessIgnored(weight ? f.multiply(picked, *weight) : picked));
  if (reduction == "none")
    return f.set(node, 0, each);
  std::vector<int64_t> all;
  for (int64_t d = 0; d < each.rank(); ++d)
    all.push_back(d);
  Term sum = f.reduce(Reduction::Sum, each, all);
  if (reduction == "mean") { // the denominator is the sum of weights over the whole batch, however the batch is sharded
    Term counted = weight ? *weight : unlessIgnored(f.broadcast(f.number(1), rows));
    sum = f.divide(sum, f.reduce(Reduction::Sum, counted, all));
  }
  return f.set(node, 0, sum);
}

} // namespace

Status importLogSoftmax(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  KERF_TRY(axis, normalizeAxis(node.integer("axis", -1), x.rank()));
  Formula f(node.b, x.dtype);
  return f.set(node, 0, logSoftmax(f, x, axis));
}

Status importLikelihoodLoss(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  std::string reduction = node.text("reduction", "mean");
  if (x.rank() < 2 || (reduction != "mean" && reduction != "sum" && reduction != "none"))
    return Error{
        fmt::format("scores of shape {} with reduction '{}' are not supported", shapeText(x.shape), reduction)};
  return setLikelihoodLoss(node, x, reduction);
}

Status importCrossEntropyLoss(OnnxNode &node) {
  const Term &scores = node.input(0), &labels = node.input(1);
  KERF_CHECK(checkFloat(scores));
  std::string reduction = node.text("reduction", "mean");
  if (scores.rank() < 2 || (reduction != "mean" && reduction != "sum" && reduction != "none"))
    return Error{
        fmt::format("scores of shape {} with reduction '{}' are not supported", shapeText(scores.shape), reduction)};
  Formula f(node.b, scores.dtype);
  if (node.isOutputUsed(1))
    KERF_CHECK(f.set(node, 1, logSoftmax(f, scores, 1)));
  if (node.hasInput(2)) // weights of classes
    return setLikelihoodLoss(node, logSoftmax(f, scores, 1), reduction);
  KERF_TRY(logits, classesLast(node.b, scores));
  std::optional<int64_t> ignored;
  if (node.has("ignore_index"))
    ignored = node.integer("ignore_index", 0);
  return node.set(0, crossEntropy(node.b, logits, labels, ignored, reduction));
}

} // namespace kerf::frontend
