// SPDX-License-Identifier: Apache-2.0
#include "Common/Half.h"
#include "Common/Formula.h"

#include <algorithm>
#include <limits>

namespace kerf::frontend {

namespace {

constexpr NarrowFormat kFloat16{
    "FLOAT16", "f16", 10, 16, NarrowFormat::Kind::Floating, 10, -14, 65504, NarrowFormat::Special::Infinities};
constexpr NarrowFormat kBFloat16{
    "BFLOAT16", "bf16", 16, 16, NarrowFormat::Kind::Floating, 7, -126, 0x1.FEp127, NarrowFormat::Special::Infinities};

/// The operators whose results contain only elements of their operands, so that no rounding is necessary.
constexpr std::string_view kMoving[] = {
    "Abs",
    "Compress",
    "Concat",
    "ConcatFromSequence",
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "GlobalMaxPool",
    "Identity",
    "Max",
    "MaxPool",
    "Min",
    "Neg",
    "Pad",
    "ReduceMax",
    "ReduceMin",
    "Relu",
    "Reshape",
    "ReverseSequence",
    "SequenceAt",
    "SequenceConstruct",
    "Sign",
    "Slice",
    "SpaceToDepth",
    "Split",
    "SplitToSequence",
    "Squeeze",
    "Tile",
    "TopK",
    "Transpose",
    "Trilu",
    "Unsqueeze",
    "Where",
    "SequenceErase",
    "SequenceInsert",
};
/// The operators that set the types of their results themselves, or whose results were computed by other nodes.
constexpr std::string_view kOwnType[] = {"Cast", "CastLike", "If", "Loop", "Scan", "SequenceMap"};

template <size_t n> bool isAmong(const std::string_view (&names)[n], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

} // namespace

const NarrowFormat *halfFormat(int32_t onnxNumber) {
  return onnxNumber == kFloat16.number ? &kFloat16 : onnxNumber == kBFloat16.number ? &kBFloat16 : nullptr;
}

const NarrowFormat *halfFormat(DType stored) {
  return stored == DType::F16 ? &kFloat16 : stored == DType::BF16 ? &kBFloat16 : nullptr;
}

bool isHalf(const NarrowFormat *format) { return format && (format == &kFloat16 || format == &kBFloat16); }

Result<Term> toHalf(TermBuilder &b, const NarrowFormat &format, Term x) {
  if (x.narrow == &format)
    return x;
  x.narrow = nullptr;
  Formula f(b, b.floatType());
  Term y = f.unwrap(b.reducePrecision(f.convert(x, f.dtype), format.mantissaBits, format.minExponent));
  // In f32, rounding alone makes values beyond the largest bfloat16 infinite, because both formats have the same
  // exponents.
  if (&format == &kFloat16 || f.dtype == DType::F64) {
    double infinity = std::numeric_limits<double>::infinity();
    y = f.select(f.compare(Order::Greater, y, f.number(format.largest)), f.number(infinity), y);
    y = f.select(f.compare(Order::Less, y, f.number(-format.largest)), f.number(-infinity), y);
  }
  if (f.fault)
    return *f.fault;
  y.narrow = &format;
  return y;
}

const NarrowFormat *halfOfCast(const OnnxNode &node) {
  if (node.opType() == "Cast")
    return halfFormat(int32_t(node.integer("to", 0)));
  bool isLikeHalf = node.opType() == "CastLike" && isHalf(node.input(1).narrow);
  return isLikeHalf ? node.input(1).narrow : nullptr;
}

const NarrowFormat *halfOfResults(const OnnxNode &node) {
  if (isAmong(kOwnType, node.opType()))
    return nullptr;
  if (node.opType() == "Constant" || node.opType() == "ConstantOfShape") {
    const onnx::AttributeProto *value = node.find("value");
    return value ? halfFormat(value->t().data_type()) : nullptr;
  }
  int read = node.opType() == "Pow" ? 1 : node.inputCount(); // the exponent has a type of its own
  for (int i = 0; i < read; ++i)
    if (node.hasInput(i) && !node.value(i).terms.empty() && isHalf(node.value(i).terms.front().narrow))
      return node.value(i).terms.front().narrow;
  return nullptr;
}

Status roundResult(OnnxNode &node, const NarrowFormat &format, Term &result) {
  if (!isFloat(result.dtype) || result.narrow)
    return ok();
  if (isAmong(kMoving, node.opType()) || node.opType() == "Constant" || node.opType() == "ConstantOfShape") {
    result.narrow = &format;
    return ok();
  }
  KERF_TRY(rounded, toHalf(node.b, format, result));
  rounded.name = result.name;
  result = rounded;
  return ok();
}

} // namespace kerf::frontend
