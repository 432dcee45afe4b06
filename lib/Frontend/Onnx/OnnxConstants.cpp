// SPDX-License-Identifier: Apache-2.0
// Imports operators that create constants, and operators that Kerf computes on constants only.
#include "Common/Formula.h"
#include "Common/Narrow.h"

#include <fmt/format.h>
#include <map>

namespace kerf::frontend {

Result<Term> termFromProto(TermBuilder &b, const onnx::TensorProto &proto) {
  Result<Tensor> tensor =
      tensorFromProto(proto, nullptr); // the protobuf outlives the import; data that are used after it are copied below
  if (!tensor)
    return tensor.error();
  if (!tensor->owner && tensor->bytes() > 0) {
    auto [copy, memory] = allocateTensor(tensor->dtype, tensor->shape);
    std::copy(tensor->data, tensor->data + tensor->bytes(), memory);
    tensor = copy;
  }
  KERF_TRY(literal, literalFromTensor(*tensor, b.floatType()));
  Term term = b.fromLiteral(std::move(literal));
  term.narrow = narrowFormat(proto.data_type());
  return term;
}

static Result<GraphValue> textEntry(Shape shape, std::vector<std::string> texts) {
  KERF_CHECK(checkShape(shape));
  if (elementsOf(shape) != int64_t(texts.size()))
    return Error{fmt::format("{} texts do not fit a tensor of shape {}", texts.size(), shapeText(shape))};
  return GraphValue{{}, GraphValueKind::Texts, std::move(shape), std::move(texts)};
}

Result<GraphValue> textsFromProto(const onnx::TensorProto &proto) {
  Result<GraphValue> entry =
      textEntry({proto.dims().begin(), proto.dims().end()}, {proto.string_data().begin(), proto.string_data().end()});
  return entry ? entry : Error{fmt::format("tensor '{}': {}", proto.name(), entry.error().message)};
}

/// Compares constant texts by mapping each different text to a number.
Status importEqual(OnnxNode &node) {
  const GraphValue &x = node.value(0), &y = node.value(1);
  if (x.isTensor() && y.isTensor())
    return node.set(0, node.b.compare(Order::Equal, node.input(0), node.input(1)));
  if (x.kind != GraphValueKind::Texts || y.kind != GraphValueKind::Texts)
    return Error{fmt::format("comparing {} with {} is not supported", toString(x.kind), toString(y.kind))};
  std::map<std::string, int64_t> numbers;
  auto numbered = [&](const GraphValue &entry) {
    std::vector<int64_t> each;
    for (const std::string &text : entry.texts)
      each.push_back(numbers.emplace(text, int64_t(numbers.size())).first->second);
    return node.b.reshape(node.b.fromLiteral(indexLiteral(each)), entry.textShape);
  };
  KERF_TRY(left, numbered(x));
  KERF_TRY(right, numbered(y));
  return node.set(0, node.b.compare(Order::Equal, left, right));
}

Status importConstant(OnnxNode &node) {
  DType floatType = node.b.floatType();
  auto set = [&](Literal literal) { return node.set(0, node.b.fromLiteral(std::move(literal))); };
  if (const onnx::AttributeProto *value = node.find("value")) {
    if (value->t().data_type() != onnx::TensorProto::STRING)
      return node.set(0, termFromProto(node.b, value->t()));
    KERF_TRY(texts, textsFromProto(value->t()));
    return node.setValue(0, texts);
  }
  if (const onnx::AttributeProto *value = node.find("value_int"))
    return set(scalarLiteral(DType::I64, value->i()));
  if (const onnx::AttributeProto *value = node.find("value_float"))
    return set(scalarLiteral(floatType, double(value->f())));
  if (const onnx::AttributeProto *value = node.find("value_ints"))
    return set(indexLiteral({value->ints().begin(), value->ints().end()}));
  if (const onnx::AttributeProto *value = node.find("value_floats")) {
    auto [tensor, memory] = allocateTensor(DType::F32, {value->floats_size()});
    std::copy(value->floats().begin(), value->floats().end(), reinterpret_cast<float *>(memory));
    KERF_TRY(literal, literalFromTensor(tensor, floatType));
    return set(literal);
  }
  if (const onnx::AttributeProto *value = node.find("value_string")) {
    KERF_TRY(text, textEntry({}, {value->s()}));
    return node.setValue(0, text);
  }
  if (const onnx::AttributeProto *value = node.find("value_strings")) {
    KERF_TRY(texts, textEntry({value->strings_size()}, {value->strings().begin(), value->strings().end()}));
    return node.setValue(0, texts);
  }
  return Error{"the constant's value is a sparse tensor or absent; numbers and texts are supported"};
}

Status importConstantOfShape(OnnxNode &node) {
  KERF_TRY(shape, node.constantInput(0));
  Term value = node.b.scalar(node.b.floatType(), 0.0);
  if (const onnx::AttributeProto *attribute = node.find("value")) {
    KERF_TRY(given, termFromProto(node.b, attribute->t()));
    if (elementsOf(given.shape) != 1)
      return Error{fmt::format("its value has the shape {}, but one number is needed", shapeText(given.shape))};
    value = given;
  }
  auto set = [&](Literal literal) {
    Term made = node.b.fromLiteral(std::move(literal));
    made.narrow = value.narrow;
    return node.set(0, std::move(made));
  };
  KERF_CHECK(checkShape(shape));
  if (elementsOf(shape) == 0) {
    KERF_TRY(empty, allocateLiteral(value.dtype, shape));
    return set(empty.literal);
  }
  KERF_TRY(scalar, foldReshape(*value.literal, {}));
  KERF_TRY(literal, broadcastLiteral(scalar, shape));
  return set(literal);
}

Status importShape(OnnxNode &node) {
  const Shape &shape = node.input(0).shape;
  int64_t rank = shape.size(), start = node.integer("start", 0), end = node.integer("end", rank);
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  start = clamp(start);
  end = std::max(clamp(end), start);
  return node.set(0, node.b.fromLiteral(indexLiteral(Shape(shape.begin() + start, shape.begin() + end))));
}

Status importSize(OnnxNode &node) { return node.set(0, node.b.integer(DType::I64, elementsOf(node.input(0).shape))); }

static Status setFolded(OnnxNode &node, Result<Literal> literal) {
  if (!literal)
    return literal.error();
  return node.set(0, node.b.fromLiteral(std::move(*literal)));
}

Status importRange(OnnxNode &node) {
  const Term &start = node.input(0), &limit = node.input(1), &delta = node.input(2);
  if (start.dtype != limit.dtype || start.dtype != delta.dtype)
    return Error{fmt::format("its operands have the types {}, {} and {}, which must be equal", toString(start.dtype),
                             toString(limit.dtype), toString(delta.dtype))};
  return setFolded(node, foldRange(*start.literal, *limit.literal, *delta.literal));
}

/// Returns the cumulative sum of computed values, as a windowed sum that ends (in reverse: begins) at each element.
static Status runningSum(OnnxNode &node, int64_t axis) {
  const Term &x = node.input(0);
  TermBuilder &b = node.b;
  int64_t size = x.shape[axis];
  bool isReverse = node.integer("reverse", 0) != 0, excludes = node.integer("exclusive", 0) != 0;
  if (size == 0)
    return node.set(0, x);
  Shape window(x.rank(), 1), ones(x.rank(), 1), low(x.rank(), 0), high(x.rank(), 0);
  window[axis] = size;
  (isReverse ? high : low)[axis] = size - 1;
  Term from = x;
  if (excludes) { // an exclusive sum is shifted by one element
    Shape before(x.rank(), 0), behind(x.rank(), 0);
    (isReverse ? behind : before)[axis] = 1;
    KERF_TRY(padded, b.pad(x, b.integer(x.dtype, 0), before, behind));
    KERF_TRY(kept, b.slice(padded, axis, isReverse ? 1 : 0, isReverse ? size + 1 : size));
    from = kept;
  }
  mlir::Value operand = b.emit(from);
  return node.set(0, b.fromValue(ir::ReduceWindowOp::create(b.builder, b.loc, operand.getType(), operand,
                                                            ir::ReduceKindIR::sum, window, ones, ones, low, high)));
}

Status importCumSum(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(axes, node.constantInput(1));
  if (axes.size() != 1)
    return Error{fmt::format("its axis is {}, but one number is needed", shapeText(axes))};
  KERF_TRY(axis, normalizeAxis(axes[0], x.rank()));
  if (!x.isConstant())
    return runningSum(node, axis);
  return setFolded(node, foldCumulativeSum(*x.literal, axis,
                                           node.integer("exclusive", 0) ? CumulativeSumKind::Exclusive
                                                                        : CumulativeSumKind::Inclusive,
                                           node.integer("reverse", 0) ? Direction::Backward : Direction::Forward));
}

Status importTrilu(OnnxNode &node) {
  const Term &x = node.input(0);
  if (x.rank() < 2)
    return Error{fmt::format("its operand has the shape {}, but a matrix is needed", shapeText(x.shape))};
  int64_t diagonal = 0;
  if (node.hasInput(1)) {
    KERF_TRY(k, node.constantInput(1));
    if (k.size() != 1)
      return Error{fmt::format("its diagonal is {}, but one number is needed", shapeText(k))};
    diagonal = k[0];
  }
  Triangle kept = node.integer("upper", 1) ? Triangle::Upper : Triangle::Lower;
  if (x.isConstant())
    return setFolded(node, foldTriangle(*x.literal, diagonal, kept));
  constexpr int64_t kMost = int64_t(1) << 30; // limit of the elements of the triangular mask
  int64_t rows = x.shape[size_t(x.rank() - 2)], columns = x.shape.back();
  if (columns > 0 && rows > kMost / columns)
    return Error{
        fmt::format("a triangle of {} x {} elements is too large; at most {} are supported", rows, columns, kMost)};
  KERF_TRY(ones, broadcastLiteral(scalarLiteral(DType::Bool, int64_t(1)), Shape(x.shape.end() - 2, x.shape.end())));
  KERF_TRY(mask, foldTriangle(ones, diagonal, kept));
  return node.set(0, node.b.select(node.b.fromLiteral(mask), x, node.b.integer(x.dtype, 0)));
}

/// Imports Mod. x - x / y * y has the sign of the dividend; without the attribute fmod the result has the sign of the
/// divisor.
static Status computedMod(OnnxNode &node, const Term &x, const Term &y) {
  if (isFloat(x.dtype))
    return Error{"the remainder of floating-point numbers is supported for constants only, not for computed values"};
  Formula f(node.b, x.dtype);
  Term rest = f.subtract(x, f.multiply(f.divide(x, y), y)), zero = node.b.integer(x.dtype, 0);
  if (node.integer("fmod", 0))
    return f.set(node, 0, rest);
  Term isOther = f.compare(Order::NotEqual, f.compare(Order::Less, rest, zero), f.compare(Order::Less, y, zero));
  Term moves = f.unwrap(node.b.binary(Binary::And, isOther, f.compare(Order::NotEqual, rest, zero)));
  return f.set(node, 0, f.select(moves, f.add(rest, y), rest));
}

Status importMod(OnnxNode &node) {
  const Term &x = node.input(0);
  if (!x.isConstant() || !node.input(1).isConstant())
    return computedMod(node, x, node.input(1));
  if (node.integer("fmod", 0) && !isFloat(x.dtype)) {
    // With fmod the result has the sign of the dividend: x - trunc(x / y) * y.
    KERF_TRY(quotient, node.b.binary(Binary::Divide, x, node.input(1)));
    KERF_TRY(whole, node.b.binary(Binary::Multiply, quotient, node.input(1)));
    return node.set(0, node.b.binary(Binary::Subtract, x, whole));
  }
  KERF_TRY(rest, node.b.binary(Binary::Remainder, x, node.input(1)));
  if (!isFloat(x.dtype) || node.integer("fmod", 0))
    return node.set(0, rest);
  // For floating-point numbers without fmod, the result has the sign of the divisor, as in Python.
  Formula f(node.b, x.dtype);
  const Term &divisor = node.input(1);
  Term zero = f.number(0),
       isOther = f.compare(Order::NotEqual, f.compare(Order::Less, rest, zero), f.compare(Order::Less, divisor, zero));
  Term moves = f.unwrap(node.b.binary(Binary::And, isOther, f.compare(Order::NotEqual, rest, zero)));
  return f.set(node, 0, f.select(moves, f.add(rest, divisor), rest));
}

/// Imports NonZero of a constant: one column of indices for each element that is not 0, in row-major order.
Status importNonZero(OnnxNode &node) {
  KERF_TRY(isThere, foldConvert(*node.input(0).literal, DType::Bool));
  KERF_TRY(flags, integersOf(isThere));
  const Shape &shape = node.input(0).shape;
  std::vector<int64_t> found;
  for (int64_t i = 0; i < int64_t(flags.size()); ++i)
    if (flags[i])
      found.push_back(i);
  int64_t rank = int64_t(shape.size()), count = int64_t(found.size()), step = elementsOf(shape);
  std::vector<int64_t> places;
  for (int64_t d = 0; d < rank; ++d) {
    step /= std::max<int64_t>(shape[d], 1);
    for (int64_t i : found)
      places.push_back(i / step % shape[d]);
  }
  return node.set(0, node.b.reshape(node.b.fromLiteral(indexLiteral(places)), {rank, count}));
}

Status importEyeLike(OnnxNode &node) {
  const Term &x = node.input(0);
  if (x.rank() != 2)
    return Error{fmt::format("its operand has the shape {}, but a matrix is needed", shapeText(x.shape))};
  DType dtype = x.dtype;
  if (node.has("dtype")) {
    KERF_TRY(wanted, dtypeFromOnnx(int32_t(node.integer("dtype", 0))));
    dtype = isFloat(wanted) ? node.b.floatType() : wanted;
  }
  int64_t k = node.integer("k", 0);
  KERF_TRY(ones, broadcastLiteral(scalarLiteral(DType::I64, int64_t(1)), x.shape));
  KERF_TRY(upper, foldTriangle(ones, k, Triangle::Upper));
  KERF_TRY(both, foldTriangle(upper, k, Triangle::Lower));
  return node.set(0, node.b.convert(node.b.fromLiteral(both), dtype));
}

} // namespace kerf::frontend
