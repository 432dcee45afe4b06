// SPDX-License-Identifier: Apache-2.0
// The table of ONNX operators that Kerf reads, and the handlers of those that are one formula.
#include "Common/Formula.h"
#include "Common/InverseFunctions.h"
#include "Common/Narrow.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace kerf::frontend {

namespace {

template <Unary op> Status unary(OnnxNode &node) { return node.set(0, node.b.unary(op, node.input(0))); }

template <auto inverse> Status inverseOf(OnnxNode &node) { return node.set(0, inverse(node.b, node.input(0))); }

template <Binary op> Status binary(OnnxNode &node) {
  return node.set(0, node.b.binary(op, node.input(0), node.input(1)));
}

/// Min, Max, Sum: of one operand or more.
template <Binary op> Status variadic(OnnxNode &node) {
  Term result = node.input(0);
  for (int i = 1; i < node.inputCount(); ++i) {
    KERF_TRY(next, node.b.binary(op, result, node.input(i)));
    result = next;
  }
  return node.set(0, result);
}

Status mean(OnnxNode &node) {
  Formula f(node.b, node.input(0).dtype);
  Term sum = node.input(0);
  for (int i = 1; i < node.inputCount(); ++i)
    sum = f.add(sum, node.input(i));
  return f.set(node, 0, f.divide(sum, f.number(double(node.inputCount()))));
}

Status checkInteger(const Term &x) {
  if (!isFloat(x.dtype) && x.dtype != DType::Bool)
    return ok();
  return Error{fmt::format("an operand of {}, an integer type is needed", toString(x.dtype))};
}

template <Binary op> Status bitwise(OnnxNode &node) {
  KERF_CHECK(checkInteger(node.input(0)));
  return binary<op>(node);
}

Status bitwiseNot(OnnxNode &node) {
  KERF_CHECK(checkInteger(node.input(0)));
  return unary<Unary::Not>(node);
}

/// The bits of one that the other has not: (x | y) - (x & y).
Status bitwiseXor(OnnxNode &node) {
  KERF_CHECK(checkInteger(node.input(0)));
  Formula f(node.b, node.input(0).dtype);
  Term either = f.taken(node.b.binary(Binary::Or, node.input(0), node.input(1)));
  Term both = f.taken(node.b.binary(Binary::And, node.input(0), node.input(1)));
  return f.set(node, 0, f.subtract(either, both));
}

Status exclusiveOr(OnnxNode &node) {
  if (node.input(0).dtype != DType::Bool)
    return Error{fmt::format("an operand of {}, bool is needed", toString(node.input(0).dtype))};
  return node.set(0, node.b.compare(Order::NotEqual, node.input(0), node.input(1)));
}

template <Order order> Status compare(OnnxNode &node) {
  return node.set(0, node.b.compare(order, node.input(0), node.input(1)));
}

/// Copies the operand. PyTorch's newer exporter also writes x.detach() as Identity; its copy stops the gradient.
Status identity(OnnxNode &node) {
  if (node.isCallOf("aten.detach.default") && node.entry(0).isTensor())
    if (const Term &x = node.input(0); !x.isConstant() && isFloat(x.dtype) && !x.narrow)
      return node.set(0, node.b.unary(Unary::StopGradient, x));
  return node.setEntry(0, node.entry(0));
}

/// The probability with which elements become zero: 0 but in training mode, which opset 12 brought.
Result<double> dropoutRate(const OnnxNode &node) {
  constexpr double kRateUnlessGiven = 0.5;
  bool given = node.hasInput(1), isConstant = given && node.input(1).isConstant();
  if (!node.hasInput(2) || (isConstant && isAll(*node.input(1).literal, 0)))
    return 0.0;
  if (!node.input(2).isConstant())
    return Error{"training_mode is computed, a constant is needed"};
  if (isAll(*node.input(2).literal, 0))
    return 0.0;
  if (!given)
    return kRateUnlessGiven;
  if (!isConstant)
    return Error{"ratio is computed, a constant is needed"};
  KERF_TRY(rate, numberOf(*node.input(1).literal));
  if (!(rate >= 0 && rate < 1))
    return Error{fmt::format("ratio is {}, a number in [0, 1) is needed", rate)};
  return rate;
}

Status dropout(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(rate, dropoutRate(node));
  if (rate == 0) { // all are kept
    KERF_CHECK(node.set(0, x));
    return node.wants(1) ? node.set(1, node.b.broadcast(node.b.integer(DType::Bool, 1), x.shape)) : ok();
  }
  KERF_CHECK(checkFloat(x));
  Term stream = node.b.newStream();
  KERF_CHECK(node.set(0, node.b.dropout(x, rate, stream)));
  if (!node.wants(1))
    return ok();
  Formula f(node.b, x.dtype);
  Term kept = node.b.dropout(f.broadcast(f.number(1), x.shape), rate, stream);
  return f.set(node, 1, f.compare(Order::NotEqual, kept, f.number(0)));
}

Status where(OnnxNode &node) { return node.set(0, node.b.select(node.input(0), node.input(1), node.input(2))); }

Status isNan(OnnxNode &node) { return node.set(0, node.b.isNan(node.input(0))); }

Status relu(OnnxNode &node) {
  const Term &x = node.input(0);
  return node.set(0, node.b.binary(Binary::Maximum, x, node.b.integer(x.dtype, 0)));
}

Status reciprocal(OnnxNode &node) {
  const Term &x = node.input(0);
  return node.set(0, node.b.binary(Binary::Divide, node.b.integer(x.dtype, 1), x));
}

Status clip(OnnxNode &node) {
  Term x = node.input(0);
  if (node.hasInput(1)) {
    KERF_TRY(bounded, node.b.binary(Binary::Maximum, x, node.input(1)));
    x = bounded;
  }
  if (node.hasInput(2)) {
    KERF_TRY(bounded, node.b.binary(Binary::Minimum, x, node.input(2)));
    x = bounded;
  }
  return node.set(0, x);
}

/// The exponent may have another type than the base, whose type the result has.
Status power(OnnxNode &node) {
  const Term &base = node.input(0);
  KERF_TRY(exponent, node.b.convert(node.input(1), base.dtype));
  return node.set(0, node.b.binary(Binary::Power, base, exponent));
}

Status castTo(OnnxNode &node, DType dtype) {
  Term x = node.input(0);
  x.narrow = nullptr;
  return node.set(0, node.b.convert(x, isFloat(dtype) ? node.b.floatType() : dtype));
}

Status castTo(OnnxNode &node, const NarrowFormat &format) {
  Saturate saturate = node.integer("saturate", 1) ? Saturate::Yes : Saturate::No;
  return node.set(0, toNarrow(node.b, format, node.input(0), saturate));
}

Status cast(OnnxNode &node) {
  auto to = int32_t(node.integer("to", 0));
  if (const NarrowFormat *format = narrowFormat(to))
    return castTo(node, *format);
  KERF_TRY(dtype, dtypeFromOnnx(to));
  return castTo(node, dtype);
}

Status castLike(OnnxNode &node) {
  const Term &like = node.input(1);
  return like.narrow ? castTo(node, *like.narrow) : castTo(node, like.dtype);
}

constexpr int kNewest = 25; // the newest opset whose operators were compared with these handlers

constexpr std::array kOperators = {
    OnnxOperator{"Abs", 6, kNewest, 1, 1, Operands::Any, unary<Unary::Abs>},
    OnnxOperator{"Acos", 7, kNewest, 1, 1, Operands::Any, inverseOf<arcCosine>},
    OnnxOperator{"Acosh", 9, kNewest, 1, 1, Operands::Any, importInverseHyperbolic},
    OnnxOperator{"Add", 7, kNewest, 2, 2, Operands::Any, binary<Binary::Add>},
    OnnxOperator{"AffineGrid", 20, kNewest, 2, 2, Operands::Any, importAffineGrid},
    OnnxOperator{"And", 7, kNewest, 2, 2, Operands::Any, binary<Binary::And>},
    OnnxOperator{"ArgMax", 11, kNewest, 1, 1, Operands::Any, importArgExtreme},
    OnnxOperator{"ArgMin", 11, kNewest, 1, 1, Operands::Any, importArgExtreme},
    OnnxOperator{"Asin", 7, kNewest, 1, 1, Operands::Any, inverseOf<arcSine>},
    OnnxOperator{"Asinh", 9, kNewest, 1, 1, Operands::Any, importInverseHyperbolic},
    OnnxOperator{"Atan", 7, kNewest, 1, 1, Operands::Any, unary<Unary::Atan>},
    OnnxOperator{"Atanh", 9, kNewest, 1, 1, Operands::Any, importInverseHyperbolic},
    OnnxOperator{"Attention", 23, kNewest, 3, 7, Operands::Any, importAttention},
    OnnxOperator{"AveragePool", 7, kNewest, 1, 1, Operands::Any, importAveragePool},
    OnnxOperator{"BatchNormalization", 9, kNewest, 5, 5, Operands::Any, importBatchNormalization},
    OnnxOperator{"BitwiseAnd", 18, kNewest, 2, 2, Operands::Any, bitwise<Binary::And>},
    OnnxOperator{"BitwiseNot", 18, kNewest, 1, 1, Operands::Any, bitwiseNot},
    OnnxOperator{"BitwiseOr", 18, kNewest, 2, 2, Operands::Any, bitwise<Binary::Or>},
    OnnxOperator{"BitwiseXor", 18, kNewest, 2, 2, Operands::Any, bitwiseXor},
    OnnxOperator{"Cast", 6, kNewest, 1, 1, Operands::Narrow, cast},
    OnnxOperator{"CastLike", 15, kNewest, 2, 2, Operands::Narrow, castLike},
    OnnxOperator{"Ceil", 6, kNewest, 1, 1, Operands::Any, unary<Unary::Ceil>},
    OnnxOperator{"Celu", 12, kNewest, 1, 1, Operands::Any, importCelu},
    OnnxOperator{"CenterCropPad", 18, kNewest, 2, 2, Operands::Any, importCenterCropPad},
    OnnxOperator{"Clip", 11, kNewest, 1, 3, Operands::Any, clip},
    OnnxOperator{"Compress", 9, kNewest, 2, 2, Operands::Any, importCompress},
    OnnxOperator{"Concat", 4, kNewest, 1, 1 << 20, Operands::Any, importConcat},
    OnnxOperator{"ConcatFromSequence", 11, kNewest, 1, 1, Operands::FirstSequence, importConcatFromSequence},
    OnnxOperator{"Constant", 1, kNewest, 0, 0, Operands::Any, importConstant},
    OnnxOperator{"ConstantOfShape", 9, kNewest, 1, 1, Operands::Constant, importConstantOfShape},
    OnnxOperator{"Conv", 1, kNewest, 2, 3, Operands::Any, importConv},
    OnnxOperator{"ConvTranspose", 1, kNewest, 2, 3, Operands::Any, importConvTranspose},
    OnnxOperator{"Cos", 7, kNewest, 1, 1, Operands::Any, unary<Unary::Cosine>},
    OnnxOperator{"Cosh", 9, kNewest, 1, 1, Operands::Any, importHyperbolic},
    OnnxOperator{"CumSum", 11, kNewest, 2, 2, Operands::Any, importCumSum},
    OnnxOperator{"DFT", 17, kNewest, 1, 3, Operands::Any, importDft},
    OnnxOperator{"DepthToSpace", 1, kNewest, 1, 1, Operands::Any, importDepthToSpace},
    OnnxOperator{"Div", 7, kNewest, 2, 2, Operands::Any, binary<Binary::Divide>},
    OnnxOperator{"Dropout", 7, kNewest, 1, 3, Operands::Any, dropout},
    OnnxOperator{"Einsum", 12, kNewest, 1, 1 << 20, Operands::Any, importEinsum},
    OnnxOperator{"Elu", 6, kNewest, 1, 1, Operands::Any, importElu},
    OnnxOperator{"Equal", 7, kNewest, 2, 2, Operands::Entries, importEqual},
    OnnxOperator{"Erf", 9, kNewest, 1, 1, Operands::Any, unary<Unary::Erf>},
    OnnxOperator{"Exp", 6, kNewest, 1, 1, Operands::Any, unary<Unary::Exponential>},
    OnnxOperator{"Expand", 8, kNewest, 2, 2, Operands::Any, importExpand},
    OnnxOperator{"EyeLike", 9, kNewest, 1, 1, Operands::Any, importEyeLike},
    OnnxOperator{"Flatten", 1, kNewest, 1, 1, Operands::Any, importFlatten},
    OnnxOperator{"Floor", 6, kNewest, 1, 1, Operands::Any, unary<Unary::Floor>},
    OnnxOperator{"GRU", 7, kNewest, 3, 6, Operands::Any, importRecurrent},
    OnnxOperator{"Gather", 1, kNewest, 2, 2, Operands::Any, importGather},
    OnnxOperator{"GatherElements", 11, kNewest, 2, 2, Operands::Any, importGatherElements},
    OnnxOperator{"GatherND", 11, kNewest, 2, 2, Operands::Any, importGatherNd},
    OnnxOperator{"Gelu", 20, kNewest, 1, 1, Operands::Any, importGelu},
    OnnxOperator{"Gemm", 7, kNewest, 2, 3, Operands::Any, importGemm},
    OnnxOperator{"GlobalAveragePool", 1, kNewest, 1, 1, Operands::Any, importGlobalPool},
    OnnxOperator{"GlobalMaxPool", 1, kNewest, 1, 1, Operands::Any, importGlobalPool},
    OnnxOperator{"Greater", 7, kNewest, 2, 2, Operands::Any, compare<Order::Greater>},
    OnnxOperator{"GreaterOrEqual", 12, kNewest, 2, 2, Operands::Any, compare<Order::GreaterOrEqual>},
    OnnxOperator{"GridSample", 16, kNewest, 2, 2, Operands::Any, importGridSample},
    OnnxOperator{"GroupNormalization", 18, kNewest, 3, 3, Operands::Any, importGroupNormalization},
    OnnxOperator{"HardSigmoid", 6, kNewest, 1, 1, Operands::Any, importHardSigmoid},
    OnnxOperator{"HardSwish", 14, kNewest, 1, 1, Operands::Any, importHardSwish},
    OnnxOperator{"Hardmax", 13, kNewest, 1, 1, Operands::Any, importHardmax},
    OnnxOperator{"Identity", 1, kNewest, 1, 1, Operands::Every, identity},
    OnnxOperator{"If", 1, kNewest, 1, 1, Operands::Any, importIf},
    OnnxOperator{"InstanceNormalization", 6, kNewest, 3, 3, Operands::Any, importInstanceNormalization},
    OnnxOperator{"IsInf", 10, kNewest, 1, 1, Operands::Any, importIsInf},
    OnnxOperator{"IsNaN", 9, kNewest, 1, 1, Operands::Any, isNan},
    OnnxOperator{"LRN", 1, kNewest, 1, 1, Operands::Any, importLrn},
    OnnxOperator{"LSTM", 7, kNewest, 3, 8, Operands::Any, importRecurrent},
    OnnxOperator{"LayerNormalization", 17, kNewest, 2, 3, Operands::Any, importLayerNormalization},
    OnnxOperator{"LeakyRelu", 6, kNewest, 1, 1, Operands::Any, importLeakyRelu},
    OnnxOperator{"Less", 7, kNewest, 2, 2, Operands::Any, compare<Order::Less>},
    OnnxOperator{"LessOrEqual", 12, kNewest, 2, 2, Operands::Any, compare<Order::LessOrEqual>},
    OnnxOperator{"Log", 6, kNewest, 1, 1, Operands::Any, unary<Unary::Log>},
    OnnxOperator{"LogSoftmax", 13, kNewest, 1, 1, Operands::Any, importLogSoftmax},
    OnnxOperator{"Loop", 1, kNewest, 0, 1 << 20, Operands::Entries, importLoop},
    OnnxOperator{"LpNormalization", 1, kNewest, 1, 1, Operands::Any, importLpNormalization},
    OnnxOperator{"LpPool", 2, kNewest, 1, 1, Operands::Any, importLpPool},
    OnnxOperator{"MatMul", 1, kNewest, 2, 2, Operands::Any, importMatMul},
    OnnxOperator{"Max", 8, kNewest, 1, 1 << 20, Operands::Any, variadic<Binary::Maximum>},
    OnnxOperator{"MaxPool", 1, kNewest, 1, 1, Operands::Any, importMaxPool},
    OnnxOperator{"Mean", 8, kNewest, 1, 1 << 20, Operands::Any, mean},
    OnnxOperator{"MeanVarianceNormalization", 9, kNewest, 1, 1, Operands::Any, importMeanVarianceNormalization},
    OnnxOperator{"Min", 8, kNewest, 1, 1 << 20, Operands::Any, variadic<Binary::Minimum>},
    OnnxOperator{"Mish", 18, kNewest, 1, 1, Operands::Any, importMish},
    OnnxOperator{"Mod", 10, kNewest, 2, 2, Operands::Any, importMod},
    OnnxOperator{"Mul", 7, kNewest, 2, 2, Operands::Any, binary<Binary::Multiply>},
    OnnxOperator{"Neg", 6, kNewest, 1, 1, Operands::Any, unary<Unary::Negate>},
    OnnxOperator{"NegativeLogLikelihoodLoss", 12, kNewest, 2, 3, Operands::Any, importLikelihoodLoss},
    OnnxOperator{"NonZero", 9, kNewest, 1, 1, Operands::Constant, importNonZero},
    OnnxOperator{"Not", 1, kNewest, 1, 1, Operands::Any, unary<Unary::Not>},
    OnnxOperator{"OneHot", 9, kNewest, 3, 3, Operands::Any, importOneHot},
    OnnxOperator{"Optional", 15, kNewest, 0, 1, Operands::Entries, importOptional},
    OnnxOperator{"OptionalGetElement", 15, kNewest, 1, 1, Operands::Entries, importOptionalGetElement},
    OnnxOperator{"OptionalHasElement", 15, kNewest, 0, 1, Operands::Entries, importOptionalHasElement},
    OnnxOperator{"Or", 7, kNewest, 2, 2, Operands::Any, binary<Binary::Or>},
    OnnxOperator{"PRelu", 7, kNewest, 2, 2, Operands::Any, importPRelu},
    OnnxOperator{"Pad", 11, kNewest, 2, 4, Operands::Any, importPad},
    OnnxOperator{"Pow", 7, kNewest, 2, 2, Operands::Any, power},
    OnnxOperator{"RMSNormalization", 23, kNewest, 2, 2, Operands::Any, importRmsNormalization},
    OnnxOperator{"RNN", 7, kNewest, 3, 6, Operands::Any, importRecurrent},
    OnnxOperator{"Range", 11, kNewest, 3, 3, Operands::Constant, importRange},
    OnnxOperator{"Reciprocal", 6, kNewest, 1, 1, Operands::Any, reciprocal},
    OnnxOperator{"ReduceL1", 1, kNewest, 1, 2, Operands::Any, importReduce},
    OnnxOperator{"ReduceL2", 1, kNewest, 1, 2, Operands::Any, importReduce},
    OnnxOperator{"ReduceLogSum", 1, kNewest, 1, 2, Operands::Any, importReduce},
    OnnxOperator{"ReduceLogSumExp", 1, kNewest, 1, 2, Operands::Any, importReduce},
    OnnxOperator{"ReduceMax", 1, kNewest, 1, 2, Operands::Any, importReduce},
    OnnxOperator{"ReduceMean", 1, kNewest, 1, 2, Operands::Any, importReduce},
    OnnxOperator{"ReduceMin", 1, kNewest, 1, 2, Operands::Any, importReduce},
    OnnxOperator{"ReduceProd", 1, kNewest, 1, 2, Operands::Any, importReduce},
    OnnxOperator{"ReduceSum", 1, kNewest, 1, 2, Operands::Any, importReduce},
    OnnxOperator{"ReduceSumSquare", 1, kNewest, 1, 2, Operands::Any, importReduce},
    OnnxOperator{"Relu", 6, kNewest, 1, 1, Operands::Any, relu},
    OnnxOperator{"Reshape", 5, kNewest, 2, 2, Operands::Any, importReshape},
    OnnxOperator{"Resize", 10, kNewest, 1, 4, Operands::Any, importResize},
    OnnxOperator{"RotaryEmbedding", 23, kNewest, 3, 4, Operands::Any, importRotaryEmbedding},
    OnnxOperator{"ReverseSequence", 10, kNewest, 2, 2, Operands::Any, importReverseSequence},
    OnnxOperator{"Round", 11, kNewest, 1, 1, Operands::Any, unary<Unary::Round>},
    OnnxOperator{"Scan", 9, kNewest, 1, 1 << 20, Operands::Any, importScan},
    OnnxOperator{"ScatterElements", 11, kNewest, 3, 3, Operands::Any, importScatterElements},
    OnnxOperator{"ScatterND", 11, kNewest, 3, 3, Operands::Any, importScatterNd},
    OnnxOperator{"Selu", 6, kNewest, 1, 1, Operands::Any, importSelu},
    OnnxOperator{"SequenceAt", 11, kNewest, 2, 2, Operands::FirstSequence, importSequenceAt},
    OnnxOperator{"SequenceConstruct", 11, kNewest, 1, 1 << 20, Operands::Any, importSequenceConstruct},
    OnnxOperator{"SequenceEmpty", 11, kNewest, 0, 0, Operands::Any, importSequenceConstruct},
    OnnxOperator{"SequenceErase", 11, kNewest, 1, 2, Operands::FirstSequence, importSequenceErase},
    OnnxOperator{"SequenceInsert", 11, kNewest, 2, 3, Operands::FirstSequence, importSequenceInsert},
    OnnxOperator{"SequenceLength", 11, kNewest, 1, 1, Operands::FirstSequence, importSequenceLength},
    OnnxOperator{"SequenceMap", 17, kNewest, 1, 1 << 20, Operands::Entries, importSequenceMap},
    OnnxOperator{"Shape", 1, kNewest, 1, 1, Operands::Any, importShape},
    OnnxOperator{"Shrink", 9, kNewest, 1, 1, Operands::Any, importShrink},
    OnnxOperator{"Sigmoid", 6, kNewest, 1, 1, Operands::Any, unary<Unary::Logistic>},
    OnnxOperator{"Sign", 9, kNewest, 1, 1, Operands::Any, unary<Unary::Sign>},
    OnnxOperator{"Sin", 7, kNewest, 1, 1, Operands::Any, unary<Unary::Sine>},
    OnnxOperator{"Sinh", 9, kNewest, 1, 1, Operands::Any, importHyperbolic},
    OnnxOperator{"Size", 1, kNewest, 1, 1, Operands::Any, importSize},
    OnnxOperator{"Slice", 10, kNewest, 3, 5, Operands::Any, importSlice},
    OnnxOperator{"Softmax", 13, kNewest, 1, 1, Operands::Any, importSoftmax},
    OnnxOperator{"SoftmaxCrossEntropyLoss", 12, kNewest, 2, 3, Operands::Any, importCrossEntropyLoss},
    OnnxOperator{"Softplus", 1, kNewest, 1, 1, Operands::Any, importSoftplus},
    OnnxOperator{"Softsign", 1, kNewest, 1, 1, Operands::Any, importSoftsign},
    OnnxOperator{"SpaceToDepth", 1, kNewest, 1, 1, Operands::Any, importDepthToSpace},
    OnnxOperator{"Split", 2, kNewest, 1, 2, Operands::Any, importSplit},
    OnnxOperator{"SplitToSequence", 11, kNewest, 1, 2, Operands::Any, importSplitToSequence},
    OnnxOperator{"Sqrt", 6, kNewest, 1, 1, Operands::Any, unary<Unary::Sqrt>},
    OnnxOperator{"Squeeze", 1, kNewest, 1, 2, Operands::Any, importSqueeze},
    OnnxOperator{"Sub", 7, kNewest, 2, 2, Operands::Any, binary<Binary::Subtract>},
    OnnxOperator{"Sum", 8, kNewest, 1, 1 << 20, Operands::Any, variadic<Binary::Add>},
    OnnxOperator{"Swish", 24, kNewest, 1, 1, Operands::Any, importSwish},
    OnnxOperator{"Tan", 7, kNewest, 1, 1, Operands::Any, importTan},
    OnnxOperator{"Tanh", 6, kNewest, 1, 1, Operands::Any, unary<Unary::Tanh>},
    OnnxOperator{"ThresholdedRelu", 10, kNewest, 1, 1, Operands::Any, importThresholdedRelu},
    OnnxOperator{"Tile", 6, kNewest, 2, 2, Operands::Any, importTile},
    OnnxOperator{"TopK", 10, kNewest, 2, 2, Operands::Any, importTopK},
    OnnxOperator{"Transpose", 1, kNewest, 1, 1, Operands::Any, importTranspose},
    OnnxOperator{"Trilu", 14, kNewest, 1, 2, Operands::Any, importTrilu},
    OnnxOperator{"Unsqueeze", 1, kNewest, 1, 2, Operands::Any, importUnsqueeze},
    OnnxOperator{"Upsample", 9, kNewest, 2, 2, Operands::Any, importResize},
    OnnxOperator{"Where", 9, kNewest, 3, 3, Operands::Any, where},
    OnnxOperator{"Xor", 7, kNewest, 2, 2, Operands::Any, exclusiveOr},
};

} // namespace

const OnnxOperator *findOperator(std::string_view name) {
  auto row =
      std::find_if(kOperators.begin(), kOperators.end(), [&](const OnnxOperator &op) { return op.name == name; });
  return row == kOperators.end() ? nullptr : &*row;
}

} // namespace kerf::frontend
