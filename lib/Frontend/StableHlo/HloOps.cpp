// SPDX-License-Identifier: Apache-2.0
// The table of operations, and the elementwise operations.
#include "StableHlo/HloOps.h"
#include "Common/Formula.h"
#include "Common/InverseFunctions.h"
#include "Common/Narrow.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>

namespace kerf::frontend::hlo {

Result<TensorType> tensorType(const Type &type, DType floatType) {
  if (type.element.empty())
    return Error{fmt::format("a value has the type {}, but only tensors are supported", type.text)};
  if (const NarrowFormat *narrow = narrowFormat(type.element))
    return TensorType{floatType, type.shape, narrow};
  KERF_TRY(stored, storedType(type.element));
  return TensorType{isFloat(stored) ? floatType : stored, type.shape};
}

Result<std::vector<int64_t>> integersOf(const Attribute &attribute, std::string_view name) {
  if (attribute.kind == Attribute::Kind::Constant)
    return frontend::integersOf(*attribute.constant);
  std::vector<int64_t> values;
  for (const Attribute &one : attribute.list)
    if (one.kind == Attribute::Kind::Integer)
      values.push_back(one.integer);
  if (attribute.kind != Attribute::Kind::List || values.size() != attribute.list.size())
    return Error{fmt::format("its attribute '{}' is not a list of integers", name)};
  return values;
}

Result<std::vector<int64_t>> Node::integers(std::string_view name) const {
  const Attribute *attribute = op.find(name);
  if (!attribute)
    return Error{fmt::format("its attribute '{}' is missing", name)};
  return integersOf(*attribute, name);
}

Result<int64_t> Node::integer(std::string_view name) const {
  const Attribute *attribute = op.find(name);
  if (!attribute || attribute->kind != Attribute::Kind::Integer)
    return Error{fmt::format("its attribute '{}' is {}", name, attribute ? "no integer" : "missing")};
  return attribute->integer;
}

Status checkDims(const std::vector<int64_t> &dims, int64_t rank, std::string_view name) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= rank)
      return Error{fmt::format("{} has dimension {}, but the tensor has {} dimensions", name, dims[i], rank)};
    if (std::find(dims.begin(), dims.begin() + i, dims[i]) != dims.begin() + i)
      return Error{fmt::format("{} has dimension {} twice", name, dims[i])};
  }
  return ok();
}

Result<Terms> one(Result<Term> term) {
  if (!term)
    return term.error();
  return Terms{std::move(*term)};
}

namespace {

template <Unary op> Result<Terms> unary(Node &node) { return one(node.b.unary(op, node.input(0))); }

/// Returns the operation on i1: a sum is an or, a product is an and.
Binary onBooleans(Binary op) {
  switch (op) {
  case Binary::Add:
  case Binary::Maximum:
    return Binary::Or;
  case Binary::Multiply:
  case Binary::Minimum:
    return Binary::And;
  default:
    return op;
  }
}

Status checkSameShape(const Term &x, const Term &y) {
  if (x.shape != y.shape)
    return Error{fmt::format("its operands have the shapes {} and {}, which must be equal", shapeText(x.shape),
                             shapeText(y.shape))};
  return ok();
}

Result<Term> combined(TermBuilder &b, Binary op, const Term &x, const Term &y) {
  KERF_CHECK(checkSameShape(x, y));
  return b.binary(x.dtype == DType::Bool ? onBooleans(op) : op, x, y);
}

template <Binary op> Result<Terms> binary(Node &node) {
  return one(combined(node.b, op, node.input(0), node.input(1)));
}

/// Returns the remainder x - trunc(x / y) * y.
Result<Terms> remainder(Node &node) {
  const Term &x = node.input(0), &y = node.input(1);
  KERF_CHECK(checkSameShape(x, y));
  if (isFloat(x.dtype))
    return one(node.b.binary(Binary::Remainder, x, y));
  KERF_TRY(quotient, node.b.binary(Binary::Divide, x, y));
  KERF_TRY(product, node.b.binary(Binary::Multiply, quotient, y));
  return one(node.b.binary(Binary::Subtract, x, product));
}

Result<Terms> exclusiveOr(Node &node) {
  const Term &x = node.input(0), &y = node.input(1);
  KERF_CHECK(checkSameShape(x, y));
  if (x.dtype == DType::Bool)
    return one(node.b.compare(Order::NotEqual, x, y));
  KERF_TRY(either, node.b.binary(Binary::Or, x, y));
  KERF_TRY(both, node.b.binary(Binary::And, x, y));
  KERF_TRY(notBoth, node.b.unary(Unary::Not, both));
  return one(node.b.binary(Binary::And, either, notBoth));
}

Result<Terms> square(Node &node) { return one(node.b.binary(Binary::Multiply, node.input(0), node.input(0))); }

Result<Term> plus(TermBuilder &b, const Term &x, double number) {
  return b.binary(Binary::Add, x, b.scalar(x.dtype, number));
}

Result<Terms> exponentialMinusOne(Node &node) {
  KERF_TRY(power, node.b.unary(Unary::Exponential, node.input(0)));
  return one(plus(node.b, power, -1));
}

Result<Terms> logPlusOne(Node &node) {
  KERF_TRY(sum, plus(node.b, node.input(0), 1));
  return one(node.b.unary(Unary::Log, sum));
}

Result<Terms> reciprocalRoot(Node &node) {
  TermBuilder &b = node.b;
  const Term &x = node.input(0);
  if (!isFloat(x.dtype))
    return Error{fmt::format("it is not defined on {}", toString(x.dtype))};
  if (!x.isConstant())
    return Terms{b.fromValue(ir::RsqrtOp::create(b.builder, b.loc, x.value.getType(), x.value))};
  KERF_TRY(root, b.unary(Unary::Sqrt, x));
  return one(b.binary(Binary::Divide, b.scalar(x.dtype, 1.0), root));
}

Result<Terms> erfc(Node &node) {
  KERF_TRY(error, node.b.unary(Unary::Erf, node.input(0)));
  return one(node.b.binary(Binary::Subtract, node.b.scalar(error.dtype, 1.0), error));
}

Result<Terms> tangent(Node &node) {
  KERF_TRY(sine, node.b.unary(Unary::Sine, node.input(0)));
  KERF_TRY(cosine, node.b.unary(Unary::Cosine, node.input(0)));
  return one(node.b.binary(Binary::Divide, sine, cosine));
}

template <auto inverse> Result<Terms> inverseOf(Node &node) { return one(inverse(node.b, node.input(0))); }

Result<Terms> arcTangent2(Node &node) {
  KERF_CHECK(checkSameShape(node.input(0), node.input(1)));
  return one(arcTangentOfRatio(node.b, node.input(0), node.input(1)));
}

/// Returns whether each element is finite, |x| < inf, which is false for NaN.
Result<Terms> isFinite(Node &node) {
  KERF_TRY(size, node.b.unary(Unary::Abs, node.input(0)));
  return one(node.b.compare(Order::Less, size, node.b.scalar(size.dtype, std::numeric_limits<double>::infinity())));
}

Result<Terms> compare(Node &node) {
  const Attribute *direction = node.op.find("comparison_direction");
  const Term &x = node.input(0), &y = node.input(1);
  KERF_CHECK(checkSameShape(x, y));
  constexpr std::pair<const char *, Order> kOrders[] = {{"EQ", Order::Equal},   {"NE", Order::NotEqual},
                                                        {"LT", Order::Less},    {"LE", Order::LessOrEqual},
                                                        {"GT", Order::Greater}, {"GE", Order::GreaterOrEqual}};
  for (const auto &[name, order] : kOrders)
    if (direction && direction->text == name)
      return one(node.b.compare(order, x, y));
  return Error{fmt::format("its direction is '{}', but only EQ, NE, LT, LE, GT and GE are defined",
                           direction ? direction->text : "")};
}

Result<Terms> select(Node &node) {
  const Term &predicate = node.input(0);
  KERF_CHECK(checkSameShape(node.input(1), node.input(2)));
  if (predicate.rank() > 0)
    KERF_CHECK(checkSameShape(predicate, node.input(1)));
  return one(node.b.select(predicate, node.input(1), node.input(2)));
}

/// Clamps the operand; min and max may be scalars.
Result<Terms> clamp(Node &node) {
  const Term &low = node.input(0), &x = node.input(1), &high = node.input(2);
  for (const Term *bound : {&low, &high})
    if (bound->rank() > 0)
      KERF_CHECK(checkSameShape(*bound, x));
  KERF_TRY(raised, node.b.binary(Binary::Maximum, low, x));
  return one(node.b.binary(Binary::Minimum, raised, high));
}

Result<Terms> convert(Node &node) {
  const TensorType &to = node.results.front();
  if (to.narrow)
    return one(toNarrow(node.b, *to.narrow, node.input(0), Saturate::No));
  Term x = node.input(0);
  x.narrow = nullptr;
  return one(node.b.convert(x, to.dtype));
}

/// Returns the exponent and mantissa bits of reduce_precision, from a text such as "e5m2" or from two attributes.
Result<std::pair<int64_t, int64_t>> formatOf(const Node &node) {
  const Attribute *format = node.op.find("format");
  if (!format) {
    KERF_TRY(exponent, node.integer("exponent_bits"));
    KERF_TRY(mantissa, node.integer("mantissa_bits"));
    return std::pair(exponent, mantissa);
  }
  int exponent = 0, mantissa = 0, end = 0;
  if (std::sscanf(format->text.c_str(), "e%2dm%2d%n", &exponent, &mantissa, &end) != 2 ||
      size_t(end) != format->text.size())
    return Error{fmt::format("its format is '{}', but a format such as 'e5m10' is needed", format->text)};
  return std::pair(int64_t(exponent), int64_t(mantissa));
}

/// Rounds to a format of fewer bits (reduce_precision). A value that is not a normal number of the format after
/// rounding becomes infinite or 0.
Result<Terms> reducePrecision(Node &node) {
  KERF_TRY(format, formatOf(node));
  auto [exponentBits, mantissaBits] = format;
  const Term &x = node.input(0);
  if (!isFloat(x.dtype))
    return Error{fmt::format("it is not defined on {}", toString(x.dtype))};
  constexpr std::pair<int64_t, int64_t> kComputedIn[] = {{11, 52}, {8, 23}, {5, 10}, {8, 7}};
  if (std::find(std::begin(kComputedIn), std::end(kComputedIn), std::pair(exponentBits, mantissaBits)) !=
      std::end(kComputedIn))
    return Terms{x}; // the preceding conversion to the type has rounded
  constexpr int64_t kFewestExponentBits = 2, kMostExponentBits = 8, kMostBits = 23;
  if (exponentBits < kFewestExponentBits || exponentBits > kMostExponentBits || mantissaBits < 0 ||
      mantissaBits > kMostBits)
    return Error{
        fmt::format("its format has {} exponent bits and {} mantissa bits, but only {} to {} and 0 to {} are supported",
                    exponentBits, mantissaBits, kFewestExponentBits, kMostExponentBits, kMostBits)};
  constexpr int64_t kLowestOfFloat = -126;
  const int bias = (1 << (exponentBits - 1)) - 1;
  const double smallest = std::ldexp(1.0, 1 - bias),
               largest = std::ldexp(2 - std::ldexp(1.0, int(-mantissaBits)), bias);
  Formula f(node.b, x.dtype);
  Term y = f.unwrap(node.b.reducePrecision(x, mantissaBits, kLowestOfFloat));
  Term zero = f.multiply(y, f.number(0)); // a zero with the sign of the operand
  y = f.select(f.compare(Order::Less, f.unary(Unary::Abs, y), f.number(smallest)), zero, y);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  y = f.select(f.compare(Order::Greater, y, f.number(largest)), f.number(kInfinity), y);
  y = f.select(f.compare(Order::Less, y, f.number(-largest)), f.number(-kInfinity), y);
  if (f.fault)
    return *f.fault;
  return Terms{y};
}

Result<Terms> constant(Node &node) {
  const Attribute *value = node.op.find("value");
  if (!value || !value->constant)
    return Error{"it has no value"};
  const Literal &literal = *value->constant;
  if (!isFloat(literal.dtype()))
    return Terms{node.b.fromLiteral(literal)};
  KERF_TRY(converted, foldConvert(literal, node.b.floatType()));
  return Terms{node.b.fromLiteral(converted)};
}

Result<Terms> identity(Node &node) { return node.operands; }

/// Returns the largest elements of each row and their indices, which chlo.top_k has in i32.
Result<Terms> topK(Node &node) {
  TermBuilder &b = node.b;
  const Term &x = node.input(0);
  if (node.results.size() != 2 || x.rank() < 1 || !isFloat(x.dtype))
    return Error{"its operand must be a floating-point tensor, and its results are values and indices"};
  Shape shape = x.shape;
  const Attribute *k = node.op.find("k");
  shape.back() = k ? k->integer : -1;
  if (shape.back() < 1 || shape.back() > x.shape.back())
    return Error{fmt::format("its k is {}, but a row has {} elements", shape.back(), x.shape.back())};
  mlir::Value scores = b.emit(x);
  auto made = ir::TopKOp::create(b.builder, b.loc, b.type(x.dtype, shape), b.type(DType::I64, shape), scores);
  KERF_TRY(indices, b.convert(b.fromValue(made.getIndices()), node.results[1].dtype));
  return Terms{b.fromValue(made.getValues()), indices};
}

constexpr int kMany = 1 << 20;

constexpr OpHandler kHandlers[] = {
    {"chlo.acos", 1, 1, inverseOf<arcCosine>},
    {"chlo.asin", 1, 1, inverseOf<arcSine>},
    {"chlo.atan", 1, 1, unary<Unary::Atan>},
    {"chlo.erf", 1, 1, unary<Unary::Erf>},
    {"chlo.erfc", 1, 1, erfc},
    {"chlo.square", 1, 1, square},
    {"chlo.tan", 1, 1, tangent},
    {"chlo.top_k", 1, 1, topK},
    {"sdy.sharding_constraint", 1, 1, identity},
    {"stablehlo.abs", 1, 1, unary<Unary::Abs>},
    {"stablehlo.add", 2, 2, binary<Binary::Add>},
    {"stablehlo.and", 2, 2, binary<Binary::And>},
    {"stablehlo.atan2", 2, 2, arcTangent2},
    {"stablehlo.broadcast_in_dim", 1, 1, evaluateBroadcastInDim},
    {"stablehlo.clamp", 3, 3, clamp},
    {"stablehlo.compare", 2, 2, compare},
    {"stablehlo.concatenate", 1, kMany, evaluateConcatenate},
    {"stablehlo.constant", 0, 0, constant},
    {"stablehlo.convert", 1, 1, convert},
    {"stablehlo.convolution", 2, 2, evaluateConvolution},
    {"stablehlo.cosine", 1, 1, unary<Unary::Cosine>},
    {"stablehlo.divide", 2, 2, binary<Binary::Divide>},
    {"stablehlo.dot", 2, 2, evaluateDot},
    {"stablehlo.dot_general", 2, 2, evaluateDotGeneral},
    {"stablehlo.dynamic_slice", 1, kMany, evaluateDynamicSlice},
    {"stablehlo.dynamic_update_slice", 2, kMany, evaluateDynamicUpdateSlice},
    {"stablehlo.exponential", 1, 1, unary<Unary::Exponential>},
    {"stablehlo.exponential_minus_one", 1, 1, exponentialMinusOne},
    {"stablehlo.gather", 2, 2, evaluateGather},
    {"stablehlo.iota", 0, 0, evaluateIota},
    {"stablehlo.is_finite", 1, 1, isFinite},
    {"stablehlo.log", 1, 1, unary<Unary::Log>},
    {"stablehlo.log_plus_one", 1, 1, logPlusOne},
    {"stablehlo.logistic", 1, 1, unary<Unary::Logistic>},
    {"stablehlo.maximum", 2, 2, binary<Binary::Maximum>},
    {"stablehlo.minimum", 2, 2, binary<Binary::Minimum>},
    {"stablehlo.multiply", 2, 2, binary<Binary::Multiply>},
    {"stablehlo.negate", 1, 1, unary<Unary::Negate>},
    {"stablehlo.not", 1, 1, unary<Unary::Not>},
    {"stablehlo.optimization_barrier", 0, kMany, identity},
    {"stablehlo.or", 2, 2, binary<Binary::Or>},
    {"stablehlo.pad", 2, 2, evaluatePad},
    {"stablehlo.power", 2, 2, binary<Binary::Power>},
    {"stablehlo.reduce", 2, kMany, evaluateReduce},
    {"stablehlo.reduce_precision", 1, 1, reducePrecision},
    {"stablehlo.reduce_window", 2, kMany, evaluateReduceWindow},
    {"stablehlo.remainder", 2, 2, remainder},
    {"stablehlo.reshape", 1, 1, evaluateReshape},
    {"stablehlo.reverse", 1, 1, evaluateReverse},
    {"stablehlo.rsqrt", 1, 1, reciprocalRoot},
    {"stablehlo.scatter", 3, 3, evaluateScatter},
    {"stablehlo.select", 3, 3, select},
    {"stablehlo.select_and_scatter", 3, 3, evaluateSelectAndScatter},
    {"stablehlo.sign", 1, 1, unary<Unary::Sign>},
    {"stablehlo.sine", 1, 1, unary<Unary::Sine>},
    {"stablehlo.slice", 1, 1, evaluateSlice},
    {"stablehlo.sqrt", 1, 1, unary<Unary::Sqrt>},
    {"stablehlo.subtract", 2, 2, binary<Binary::Subtract>},
    {"stablehlo.tan", 1, 1, tangent},
    {"stablehlo.tanh", 1, 1, unary<Unary::Tanh>},
    {"stablehlo.transpose", 1, 1, evaluateTranspose},
    {"stablehlo.xor", 2, 2, exclusiveOr},
};

struct WayOut {
  const char *name, *text;
};
constexpr WayOut kWaysOut[] = {
    {"stablehlo.custom_call", "it calls a library; write the computation in JAX, or remove the call from the loss"},
    {"stablehlo.rng", "pass random numbers as an input, or lower the model in evaluation mode"},
    {"stablehlo.rng_bit_generator", "pass random numbers as an input, or lower the model in evaluation mode"},
    {"stablehlo.sort", "use jax.lax.top_k for the largest elements"},
};

} // namespace

Result<Term> applyBinary(TermBuilder &b, std::string_view name, const Term &x, const Term &y) {
  constexpr std::pair<const char *, Binary> kOps[] = {
      {"stablehlo.add", Binary::Add},         {"stablehlo.multiply", Binary::Multiply},
      {"stablehlo.maximum", Binary::Maximum}, {"stablehlo.minimum", Binary::Minimum},
      {"stablehlo.and", Binary::And},         {"stablehlo.or", Binary::Or}};
  for (const auto &[op, binary] : kOps)
    if (name == op)
      return combined(b, binary, x, y);
  return Error{fmt::format("a combination by '{}'", name), ExitStatus::InternalCheck};
}

const OpHandler *findHandler(std::string_view name) {
  auto row = std::find_if(std::begin(kHandlers), std::end(kHandlers),
                          [&](const OpHandler &handler) { return handler.name == name; });
  return row == std::end(kHandlers) ? nullptr : row;
}

std::string_view unsupportedHint(std::string_view name) {
  for (const WayOut &row : kWaysOut)
    if (row.name == name)
      return row.text;
  return "";
}

} // namespace kerf::frontend::hlo
