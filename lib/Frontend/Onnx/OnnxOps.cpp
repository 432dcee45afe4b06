// SPDX-License-Identifier: Apache-2.0
// The table of supported ONNX operators, and the handlers of operators that are one formula.
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

/// Imports Min, Max and Sum, which have one or more operands.
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
  return Error{fmt::format("an operand has the type {}, but an integer type is needed", toString(x.dtype))};
}

template <Binary op> Status bitwise(OnnxNode &node) {
  KERF_CHECK(checkInteger(node.input(0)));
  return binary<op>(node);
}

Status bitwiseNot(OnnxNode &node) {
  KERF_CHECK(checkInteger(node.input(0)));
  return unary<Unary::Not>(node);
}

/// Imports Xor of integers as (x | y) - (x & y).
Status bitwiseXor(OnnxNode &node) {
  KERF_CHECK(checkInteger(node.input(0)));
  Formula f(node.b, node.input(0).dtype);
  Term either = f.unwrap(node.b.binary(Binary::Or, node.input(0), node.input(1)));
  Term both = f.unwrap(node.b.binary(Binary::And, node.input(0), node.input(1)));
  return f.set(node, 0, f.subtract(either, both));
}

Status exclusiveOr(OnnxNode &node) {
  if (node.input(0).dtype != DType::Bool)
    return Error{fmt::format("an operand has the type {}, but bool is needed", toString(node.input(0).dtype))};
  return node.set(0, node.b.compare(Order::NotEqual, node.input(0), node.input(1)));
}

template <Order order> Status compare(OnnxNode &node) {
  return node.set(0, node.b.compare(order, node.input(0), node.input(1)));
}

/// Imports Identity. PyTorch's newer exporter also writes x.detach() as Identity, which stops the gradient.
Status identity(OnnxNode &node) {
  if (node.isCallOf("aten.detach.default") && node.value(0).isTensor())
    if (const Term &x = node.input(0); !x.isConstant() && isFloat(x.dtype) && !x.narrow)
      return node.set(0, node.b.unary(Unary::StopGradient, x));
  return node.setValue(0, node.value(0));
}

/// Returns the probability with which Dropout sets elements to zero; 0 outside of training mode, which exists since
/// operator set 12.
Result<double> dropoutRate(const OnnxNode &node) {
  constexpr double kRateUnlessGiven = 0.5;
  bool given = node.hasInput(1), isConstant = given && node.input(1).isConstant();
  if (!node.hasInput(2) || (isConstant && allElementsEqual(*node.input(1).literal, 0)))
    return 0.0;
  if (!node.input(2).isConstant())
    return Error{"training_mode is computed, but a constant is needed"};
  if (allElementsEqual(*node.input(2).literal, 0))
    return 0.0;
  if (!given)
    return kRateUnlessGiven;
  if (!isConstant)
    return Error{"ratio is computed, but a constant is needed"};
  KERF_TRY(rate, numberOf(*node.input(1).literal));
  if (!(rate >= 0 && rate < 1))
    return Error{fmt::format("ratio is {}, but a number in [0, 1) is needed", rate)};
  return rate;
}

Status dropout(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(rate, dropoutRate(node));
  if (rate == 0) { // all elements are kept
    KERF_CHECK(node.set(0, x));
    return node.isOutputUsed(1) ? node.set(1, node.b.broadcast(node.b.integer(DType::Bool, 1), x.shape)) : ok();
  }
  KERF_CHECK(checkFloat(x));
  Term stream = node.b.newStream();
  KERF_CHECK(node.set(0, node.b.dropout(x, rate, stream)));
  if (!node.isOutputUsed(1))
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

/// Imports Pow. The exponent may have another type than the base; the result has the type of the base.
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

constexpr int kNewest = 25; // the newest operator set with which the handlers were compared

constexpr std::array kOperators = {
    OnnxOperator{"Abs", 6, kNewest, 1, 1, OperandKinds::Any, unary<Unary::Abs>},
    OnnxOperator{"Acos", 7, kNewest, 1, 1, OperandKinds::Any, inverseOf<arcCosine>},
    OnnxOperator{"Acosh", 9, kNewest, 1, 1, OperandKinds::Any, importInverseHyperbolic},
    OnnxOperator{"Add", 7, kNewest, 2, 2, OperandKinds::Any, binary<Binary::Add>},
    OnnxOperator{"AffineGrid", 20, kNewest, 2, 2, OperandKinds::Any, importAffineGrid},
    OnnxOperator{"And", 7, kNewest, 2, 2, OperandKinds::Any, binary<Binary::And>},
    OnnxOperator{"ArgMax", 11, kNewest, 1, 1, OperandKinds::Any, importArgExtreme},
    OnnxOperator{"ArgMin", 11, kNewest, 1, 1, OperandKinds::Any, importArgExtreme},
    OnnxOperator{"Asin", 7, kNewest, 1, 1, OperandKinds::Any, inverseOf<arcSine>},
    OnnxOperator{"Asinh", 9, kNewest, 1, 1, OperandKinds::Any, importInverseHyperbolic},
    OnnxOperator{"Atan", 7, kNewest, 1, 1, OperandKinds::Any, unary<Unary::Atan>},
    OnnxOperator{"Atanh", 9, kNewest, 1, 1, OperandKinds::Any, importInverseHyperbolic},
    OnnxOperator{"Attention", 23, kNewest, 3, 7, OperandKinds::Any, importAttention},
    OnnxOperator{"AveragePool", 7, kNewest, 1, 1, OperandKinds::Any, importAveragePool},
    OnnxOperator{"BatchNormalization", 9, kNewest, 5, 5, OperandKinds::Any, importBatchNormalization},
    OnnxOperator{"BitwiseAnd", 18, kNewest, 2, 2, OperandKinds::Any, bitwise<Binary::And>},
    OnnxOperator{"BitwiseNot", 18, kNewest, 1, 1, OperandKinds::Any, bitwiseNot},
    OnnxOperator{"BitwiseOr", 18, kNewest, 2, 2, OperandKinds::Any, bitwise<Binary::Or>},
    OnnxOperator{"BitwiseXor", 18, kNewest, 2, 2, OperandKinds::Any, bitwiseXor},
    OnnxOperator{"Cast", 6, kNewest, 1, 1, OperandKinds::Narrow, cast},
    OnnxOperator{"CastLike", 15, kNewest, 2, 2, OperandKinds::Narrow, castLike},
    OnnxOperator{"Ceil", 6, kNewest, 1, 1, OperandKinds::Any, unary<Unary::Ceil>},
    OnnxOperator{"Celu", 12, kNewest, 1, 1, OperandKinds::Any, importCelu},
    OnnxOperator{"CenterCropPad", 18, kNewest, 2, 2, OperandKinds::Any, importCenterCropPad},
    OnnxOperator{"Clip", 11, kNewest, 1, 3, OperandKinds::Any, clip},
    OnnxOperator{"Compress", 9, kNewest, 2, 2, OperandKinds::Any, importCompress},
    OnnxOperator{"Concat", 4, kNewest, 1, 1 << 20, OperandKinds::Any, importConcat},
    OnnxOperator{"ConcatFromSequence", 11, kNewest, 1, 1, OperandKinds::FirstSequence, importConcatFromSequence},
    OnnxOperator{"Constant", 1, kNewest, 0, 0, OperandKinds::Any, importConstant},
    OnnxOperator{"ConstantOfShape", 9, kNewest, 1, 1, OperandKinds::Constant, importConstantOfShape},
    OnnxOperator{"Conv", 1, kNewest, 2, 3, OperandKinds::Any, importConv},
    OnnxOperator{"ConvTranspose", 1, kNewest, 2, 3, OperandKinds::Any, importConvTranspose},
    OnnxOperator{"Cos", 7, kNewest, 1, 1, OperandKinds::Any, unary<Unary::Cosine>},
    OnnxOperator{"Cosh", 9, kNewest, 1, 1, OperandKinds::Any, importHyperbolic},
    OnnxOperator{"CumSum", 11, kNewest, 2, 2, OperandKinds::Any, importCumSum},
    OnnxOperator{"DFT", 17, kNewest, 1, 3, OperandKinds::Any, importDft},
    OnnxOperator{"DepthToSpace", 1, kNewest, 1, 1, OperandKinds::Any, importDepthToSpace},
    OnnxOperator{"Div", 7, kNewest, 2, 2, OperandKinds::Any, binary<Binary::Divide>},
    OnnxOperator{"Dropout", 7, kNewest, 1, 3, OperandKinds::Any, dropout},
    OnnxOperator{"Einsum", 12, kNewest, 1, 1 << 20, OperandKinds::Any, importEinsum},
    OnnxOperator{"Elu", 6, kNewest, 1, 1, OperandKinds::Any, importElu},
    OnnxOperator{"Equal", 7, kNewest, 2, 2, OperandKinds::Entries, importEqual},
    OnnxOperator{"Erf", 9, kNewest, 1, 1, OperandKinds::Any, unary<Unary::Erf>},
    OnnxOperator{"Exp", 6, kNewest, 1, 1, OperandKinds::Any, unary<Unary::Exponential>},
    OnnxOperator{"Expand", 8, kNewest, 2, 2, OperandKinds::Any, importExpand},
    OnnxOperator{"EyeLike", 9, kNewest, 1, 1, OperandKinds::Any, importEyeLike},
    OnnxOperator{"Flatten", 1, kNewest, 1, 1, OperandKinds::Any, importFlatten},
    OnnxOperator{"Floor", 6, kNewest, 1, 1, OperandKinds::Any, unary<Unary::Floor>},
    OnnxOperator{"GRU", 7, kNewest, 3, 6, OperandKinds::Any, importRecurrent},
    OnnxOperator{"Gather", 1, kNewest, 2, 2, OperandKinds::Any, importGather},
    OnnxOperator{"GatherElements", 11, kNewest, 2, 2, OperandKinds::Any, importGatherElements},
    OnnxOperator{"GatherND", 11, kNewest, 2, 2, OperandKinds::Any, importGatherNd},
    OnnxOperator{"Gelu", 20, kNewest, 1, 1, OperandKinds::Any, importGelu},
    OnnxOperator{"Gemm", 7, kNewest, 2, 3, OperandKinds::Any, importGemm},
    OnnxOperator{"GlobalAveragePool", 1, kNewest, 1, 1, OperandKinds::Any, importGlobalPool},
    OnnxOperator{"GlobalMaxPool", 1, kNewest, 1, 1, OperandKinds::Any, importGlobalPool},
    OnnxOperator{"Greater", 7, kNewest, 2, 2, OperandKinds::Any, compare<Order::Greater>},
    OnnxOperator{"GreaterOrEqual", 12, kNewest, 2, 2, OperandKinds::Any, compare<Order::GreaterOrEqual>},
    OnnxOperator{"GridSample", 16, kNewest, 2, 2, OperandKinds::Any, importGridSample},
    OnnxOperator{"GroupNormalization", 18, kNewest, 3, 3, OperandKinds::Any, importGroupNormalization},
    OnnxOperator{"HardSigmoid", 6, kNewest, 1, 1, OperandKinds::Any, importHardSigmoid},
    OnnxOperator{"HardSwish", 14, kNewest, 1, 1, OperandKinds::Any, importHardSwish},
    OnnxOperator{"Hardmax", 13, kNewest, 1, 1, OperandKinds::Any, importHardmax},
    OnnxOperator{"Identity", 1, kNewest, 1, 1, OperandKinds::Every, identity},
    OnnxOperator{"If", 1, kNewest, 1, 1, OperandKinds::Any, importIf},
    OnnxOperator{"InstanceNormalization", 6, kNewest, 3, 3, OperandKinds::Any, importInstanceNormalization},
    OnnxOperator{"IsInf", 10, kNewest, 1, 1, OperandKinds::Any, importIsInf},
    OnnxOperator{"IsNaN", 9, kNewest, 1, 1, OperandKinds::Any, isNan},
    OnnxOperator{"LRN", 1, kNewest, 1, 1, OperandKinds::Any, importLrn},
    OnnxOperator{"LSTM", 7, kNewest, 3, 8, OperandKinds::Any, importRecurrent},
    OnnxOperator{"LayerNormalization", 17, kNewest, 2, 3, OperandKinds::Any, importLayerNormalization},
    OnnxOperator{"LeakyRelu", 6, kNewest, 1, 1, OperandKinds::Any, importLeakyRelu},
    OnnxOperator{"Less", 7, kNewest, 2, 2, OperandKinds::Any, compare<Order::Less>},
    OnnxOperator{"LessOrEqual", 12, kNewest, 2, 2, OperandKinds::Any, compare<Order::LessOrEqual>},
    OnnxOperator{"Log", 6, kNewest, 1, 1, OperandKinds::Any, unary<Unary::Log>},
    OnnxOperator{"LogSoftmax", 13, kNewest, 1, 1, OperandKinds::Any, importLogSoftmax},
    OnnxOperator{"Loop", 1, kNewest, 0, 1 << 20, OperandKinds::Entries, importLoop},
    OnnxOperator{"LpNormalization", 1, kNewest, 1, 1, OperandKinds::Any, importLpNormalization},
    OnnxOperator{"LpPool", 2, kNewest, 1, 1, OperandKinds::Any, importLpPool},
    OnnxOperator{"MatMul", 1, kNewest, 2, 2, OperandKinds::Any, importMatMul},
    OnnxOperator{"Max", 8, kNewest, 1, 1 << 20, OperandKinds::Any, variadic<Binary::Maximum>},
    OnnxOperator{"MaxPool", 1, kNewest, 1, 1, OperandKinds::Any, importMaxPool},
    OnnxOperator{"Mean", 8, kNewest, 1, 1 << 20, OperandKinds::Any, mean},
    OnnxOperator{"MeanVarianceNormalization", 9, kNewest, 1, 1, OperandKinds::Any, importMeanVarianceNormalization},
    OnnxOperator{"Min", 8, kNewest, 1, 1 << 20, OperandKinds::Any, variadic<Binary::Minimum>},
    OnnxOperator{"Mish", 18, kNewest, 1, 1, OperandKinds::Any, importMish},
    OnnxOperator{"Mod", 10, kNewest, 2, 2, OperandKinds::Any, importMod},
    OnnxOperator{"Mul", 7, kNewest, 2, 2, OperandKinds::Any, binary<Binary::Multiply>},
    OnnxOperator{"Neg", 6, kNewest, 1, 1, OperandKinds::Any, unary<Unary::Negate>},
    OnnxOperator{"NegativeLogLikelihoodLoss", 12, kNewest, 2, 3, OperandKinds::Any, importLikelihoodLoss},
    OnnxOperator{"NonZero", 9, kNewest, 1, 1, OperandKinds::Constant, importNonZero},
    OnnxOperator{"Not", 1, kNewest, 1, 1, OperandKinds::Any, unary<Unary::Not>},
    OnnxOperator{"OneHot", 9, kNewest, 3, 3, OperandKinds::Any, importOneHot},
    OnnxOperator{"Optional", 15, kNewest, 0, 1, OperandKinds::Entries, importOptional},
    OnnxOperator{"OptionalGetElement", 15, kNewest, 1, 1, OperandKinds::Entries, importOptionalGetElement},
    OnnxOperator{"OptionalHasElement", 15, kNewest, 0, 1, OperandKinds::Entries, importOptionalHasElement},
    OnnxOperator{"Or", 7, kNewest, 2, 2, OperandKinds::Any, binary<Binary::Or>},
    OnnxOperator{"PRelu", 7, kNewest, 2, 2, OperandKinds::Any, importPRelu},
    OnnxOperator{"Pad", 11, kNewest, 2, 4, OperandKinds::Any, importPad},
    OnnxOperator{"Pow", 7, kNewest, 2, 2, OperandKinds::Any, power},
    OnnxOperator{"RMSNormalization", 23, kNewest, 2, 2, OperandKinds::Any, importRmsNormalization},
    OnnxOperator{"RNN", 7, kNewest, 3, 6, OperandKinds::Any, importRecurrent},
    OnnxOperator{"Range", 11, kNewest, 3, 3, OperandKinds::Constant, importRange},
    OnnxOperator{"Reciprocal", 6, kNewest, 1, 1, OperandKinds::Any, reciprocal},
    OnnxOperator{"ReduceL1", 1, kNewest, 1, 2, OperandKinds::Any, importReduce},
    OnnxOperator{"ReduceL2", 1, kNewest, 1, 2, OperandKinds::Any, importReduce},
    OnnxOperator{"ReduceLogSum", 1, kNewest, 1, 2, OperandKinds::Any, importReduce},
    OnnxOperator{"ReduceLogSumExp", 1, kNewest, 1, 2, OperandKinds::Any, importReduce},
    OnnxOperator{"ReduceMax", 1, kNewest, 1, 2, OperandKinds::Any, importReduce},
    OnnxOperator{"ReduceMean", 1, kNewest, 1, 2, OperandKinds::Any, importReduce},
    OnnxOperator{"ReduceMin", 1, kNewest, 1, 2, OperandKinds::Any, importReduce},
    OnnxOperator{"ReduceProd", 1, kNewest, 1, 2, OperandKinds::Any, importReduce},
    OnnxOperator{"ReduceSum", 1, kNewest, 1, 2, OperandKinds::Any, importReduce},
    OnnxOperator{"ReduceSumSquare", 1, kNewest, 1, 2, OperandKinds::Any, importReduce},
    OnnxOperator{"Relu", 6, kNewest, 1, 1, OperandKinds::Any, relu},
    OnnxOperator{"Reshape", 5, kNewest, 2, 2, OperandKinds::Any, importReshape},
    OnnxOperator{"Resize", 10, kNewest, 1, 4, OperandKinds::Any, importResize},
    OnnxOperator{"RotaryEmbedding", 23, kNewest, 3, 4, OperandKinds::Any, importRotaryEmbedding},
    OnnxOperator{"ReverseSequence", 10, kNewest, 2, 2, OperandKinds::Any, importReverseSequence},
    OnnxOperator{"Round", 11, kNewest, 1, 1, OperandKinds::Any, unary<Unary::Round>},
    OnnxOperator{"Scan", 9, kNewest, 1, 1 << 20, OperandKinds::Any, importScan},
    OnnxOperator{"ScatterElements", 11, kNewest, 3, 3, OperandKinds::Any, importScatterElements},
    OnnxOperator{"ScatterND", 11, kNewest, 3, 3, OperandKinds::Any, importScatterNd},
    OnnxOperator{"Selu", 6, kNewest, 1, 1, OperandKinds::Any, importSelu},
    OnnxOperator{"SequenceAt", 11, kNewest, 2, 2, OperandKinds::FirstSequence, importSequenceAt},
    OnnxOperator{"SequenceConstruct", 11, kNewest, 1, 1 << 20, OperandKinds::Any, importSequenceConstruct},
    OnnxOperator{"SequenceEmpty", 11, kNewest, 0, 0, OperandKinds::Any, importSequenceConstruct},
    OnnxOperator{"SequenceErase", 11, kNewest, 1, 2, OperandKinds::FirstSequence, importSequenceErase},
    OnnxOperator{"SequenceInsert", 11, kNewest, 2, 3, OperandKinds::FirstSequence, importSequenceInsert},
    OnnxOperator{"SequenceLength", 11, kNewest, 1, 1, OperandKinds::FirstSequence, importSequenceLength},
    OnnxOperator{"SequenceMap", 17, kNewest, 1, 1 << 20, OperandKinds::Entries, importSequenceMap},
    OnnxOperator{"Shape", 1, kNewest, 1, 1, OperandKinds::Any, importShape},
    OnnxOperator{"Shrink", 9, kNewest, 1, 1, OperandKinds::Any, importShrink},
    OnnxOperator{"Sigmoid", 6, kNewest, 1, 1, OperandKinds::Any, unary<Unary::Logistic>},
    OnnxOperator{"Sign", 9, kNewest, 1, 1, OperandKinds::Any, unary<Unary::Sign>},
    OnnxOperator{"Sin", 7, kNewest, 1, 1, OperandKinds::Any, unary<Unary::Sine>},
    OnnxOperator{"Sinh", 9, kNewest, 1, 1, OperandKinds::Any, importHyperbolic},
    OnnxOperator{"Size", 1, kNewest, 1, 1, OperandKinds::Any, importSize},
    OnnxOperator{"Slice", 10, kNewest, 3, 5, OperandKinds::Any, importSlice},
    OnnxOperator{"Softmax", 13, kNewest, 1, 1, OperandKinds::Any, importSoftmax},
    OnnxOperator{"SoftmaxCrossEntropyLoss", 12, kNewest, 2, 3, OperandKinds::Any, importCrossEntropyLoss},
    OnnxOperator{"Softplus", 1, kNewest, 1, 1, OperandKinds::Any, importSoftplus},
    OnnxOperator{"Softsign", 1, kNewest, 1, 1, OperandKinds::Any, importSoftsign},
    OnnxOperator{"SpaceToDepth", 1, kNewest, 1, 1, OperandKinds::Any, importDepthToSpace},
    OnnxOperator{"Split", 2, kNewest, 1, 2, OperandKinds::Any, importSplit},
    OnnxOperator{"SplitToSequence", 11, kNewest, 1, 2, OperandKinds::Any, importSplitToSequence},
    OnnxOperator{"Sqrt", 6, kNewest, 1, 1, OperandKinds::Any, unary<Unary::Sqrt>},
    OnnxOperator{"Squeeze", 1, kNewest, 1, 2, OperandKinds::Any, importSqueeze},
    OnnxOperator{"Sub", 7, kNewest, 2, 2, OperandKinds::Any, binary<Binary::Subtract>},
    OnnxOperator{"Sum", 8, kNewest, 1, 1 << 20, OperandKinds::Any, variadic<Binary::Add>},
    OnnxOperator{"Swish", 24, kNewest, 1, 1, OperandKinds::Any, importSwish},
    OnnxOperator{"Tan", 7, kNewest, 1, 1, OperandKinds::Any, importTan},
    OnnxOperator{"Tanh", 6, kNewest, 1, 1, OperandKinds::Any, unary<Unary::Tanh>},
    OnnxOperator{"ThresholdedRelu", 10, kNewest, 1, 1, OperandKinds::Any, importThresholdedRelu},
    OnnxOperator{"Tile", 6, kNewest, 2, 2, OperandKinds::Any, importTile},
    OnnxOperator{"TopK", 10, kNewest, 2, 2, OperandKinds::Any, importTopK},
    OnnxOperator{"Transpose", 1, kNewest, 1, 1, OperandKinds::Any, importTranspose},
    OnnxOperator{"Trilu", 14, kNewest, 1, 2, OperandKinds::Any, importTrilu},
    OnnxOperator{"Unsqueeze", 1, kNewest, 1, 2, OperandKinds::Any, importUnsqueeze},
    OnnxOperator{"Upsample", 9, kNewest, 2, 2, OperandKinds::Any, importResize},
    OnnxOperator{"Where", 9, kNewest, 3, 3, OperandKinds::Any, where},
    OnnxOperator{"Xor", 7, kNewest, 2, 2, OperandKinds::Any, exclusiveOr},
};

} // namespace

const OnnxOperator *findOperator(std::string_view name) {
  auto row =
      std::find_if(kOperators.begin(), kOperators.end(), [&](const OnnxOperator &op) { return op.name == name; });
  return row == kOperators.end() ? nullptr : &*row;
}

} // namespace kerf::frontend
