// SPDX-License-Identifier: Apache-2.0
// StableHLO's reductions and products.
#include "StableHlo/HloOps.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

namespace kerf::frontend::hlo {

//===-- reductions -------------------------------------------------------===//

Result<std::string> combinerOf(const Region &region) {
  const std::vector<Operation> &ops = region.operations;
  Error other{"it combines elements by more than one operation, but only one of add, multiply, maximum, minimum, and, "
              "or is supported"};
  if (region.arguments.size() != 2 || ops.empty() || ops.size() > 2 || ops.back().operands.size() != 1)
    return other;
  const std::string &first = region.arguments[0].first, &second = region.arguments[1].first;
  if (ops.size() == 1)
    return ops[0].operands[0] == second ? Result<std::string>(std::string()) : Result<std::string>(other);
  const Operation &op = ops[0];
  bool both = op.operands == std::vector{first, second} || op.operands == std::vector{second, first};
  constexpr const char *kKnown[] = {"stablehlo.add",     "stablehlo.multiply", "stablehlo.maximum",
                                    "stablehlo.minimum", "stablehlo.and",      "stablehlo.or"};
  bool known = std::any_of(std::begin(kKnown), std::end(kKnown), [&](const char *name) { return op.name == name; });
  if (!both || !known || op.results.size() != 1 || op.results[0].first != ops[1].operands[0])
    return other;
  return op.name;
}

std::optional<double> neutralOf(const std::string &name, DType dtype) {
  bool boolean = dtype == DType::Bool;
  if (name == "stablehlo.add")
    return 0;
  if (name == "stablehlo.multiply")
    return 1;
  if (name == "stablehlo.or")
    return 0;
  if (name == "stablehlo.and")
    return boolean ? 1 : -1;
  double limits[2];
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr bool floating = std::is_floating_point_v<T>;
    limits[0] = floating ? -std::numeric_limits<double>::infinity() : double(std::numeric_limits<T>::lowest());
    limits[1] = floating ? std::numeric_limits<double>::infinity() : double(std::numeric_limits<T>::max());
  });
  if (boolean) {
    limits[0] = 0;
    limits[1] = 1;
  }
  return name == "stablehlo.maximum" ? limits[0] : limits[1];
}

namespace {

/// Multiplies by halves: ((x0 x4) (x2 x6)) ((x1 x5) (x3 x7)).
Result<Term> reducedByHalves(TermBuilder &b, const std::string &name, Term x, int64_t dim) {
  while (x.shape[dim] > 1) {
    int64_t size = x.shape[dim], half = size / 2;
    KERF_TRY(low, b.slice(x, dim, 0, half));
    KERF_TRY(high, b.slice(x, dim, half, 2 * half));
    KERF_TRY(both, applyBinary(b, name, low, high));
    if (size % 2) {
      KERF_TRY(last, b.slice(x, dim, size - 1, size));
      KERF_TRY(joined, b.concatenate({both, last}, dim));
      both = joined;
    }
    x = both;
  }
  Shape shape = x.shape;
  shape.erase(shape.begin() + dim);
  return b.reshape(x, shape);
}

Result<Term> reduced(TermBuilder &b, const std::string &name, const Term &x, const std::vector<int64_t> &dims) {
  Shape shape;
  bool units = true;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end())
      shape.push_back(x.shape[d]);
    else
      units &= x.shape[d] == 1;
  if (units)
    return reshaped(b, x, shape);
  if (x.dtype == DType::Bool && name != "stablehlo.multiply") {
    bool any = name == "stablehlo.or" || name == "stablehlo.add" || name == "stablehlo.maximum";
    KERF_TRY(number, b.convert(x, DType::I32));
    KERF_TRY(extreme, b.reduce(any ? Reduction::Maximum : Reduction::Minimum, number, dims));
    return b.convert(extreme, DType::Bool);
  }
  if (name == "stablehlo.add")
    return b.reduce(Reduction::Sum, x, dims);
  if (name == "stablehlo.maximum")
    return b.reduce(Reduction::Maximum, x, dims);
  if (name == "stablehlo.minimum")
    return b.reduce(Reduction::Minimum, x, dims);
  Term result = x;
  for (size_t i = dims.size(); i-- > 0;) {
    KERF_TRY(less, reducedByHalves(b, name, result, dims[i]));
    result = less;
  }
  return result;
}

/// Returns the result of a region as a text over the arguments `names`: "select(or(GT(a, b), NE(a, a)), a, b)".
std::vector<std::string> returnedBy(const Region &region, const std::vector<std::string> &names) {
  constexpr size_t kMost = 512; // characters; the texts to be recognized are shorter
  std::map<std::string, std::string> values;
  for (size_t i = 0; i < names.size(); ++i)
    values[region.arguments[i].first] = names[i];
  std::vector<std::string> operands;
  for (const Operation &op : region.operations) {
    operands.clear();
    for (const std::string &operand : op.operands)
      operands.push_back(values[operand].substr(0, kMost));
    const Attribute *direction = op.find("comparison_direction");
    std::string_view name = std::string_view(op.name).substr(op.name.find('.') + 1);
    for (const auto &[result, count] : op.results)
      values[result] =
          fmt::format("{}({})", direction ? std::string_view(direction->text) : name, fmt::join(operands, ", "));
  }
  return operands; // the operands of the last operation, the return
}

/// Recognizes JAX's argmax and argmin: the largest (smallest) element along one dimension and its index, of equal
/// elements the first, or the first NaN.
Result<Terms> reduceToPlace(Node &node, const std::vector<int64_t> &dims) {
  TermBuilder &b = node.b;
  const Term &x = node.input(0), &places = node.input(1);
  const Region *region = node.op.regions.size() == 1 ? &node.op.regions[0] : nullptr;
  std::vector<std::string> made;
  if (region && region->arguments.size() == 4)
    made = returnedBy(*region, {"a", "i", "b", "j"});
  bool isKnown = false, isLargest = false;
  for (const char *comparison : {"GT", "LT"}) {
    std::string wins = fmt::format("or({}(a, b), NE(a, a))", comparison);
    std::string comes = fmt::format("or({}, and(EQ(a, b), LT(i, j)))", wins);
    if (made != std::vector{fmt::format("select({}, a, b)", wins), fmt::format("select({}, i, j)", comes)})
      continue;
    isKnown = true;
    isLargest = std::string_view(comparison) == "GT";
  }
  const char *name = isLargest ? "stablehlo.maximum" : "stablehlo.minimum";
  const Term &init = node.input(2), &first = node.input(3);
  isKnown = isKnown && dims.size() == 1 && x.dtype != DType::Bool && init.dtype == x.dtype && init.rank() == 0 &&
            init.isConstant() && allElementsEqual(*init.literal, *neutralOf(name, x.dtype)) && first.isConstant() &&
            first.rank() == 0 && allElementsEqual(*first.literal, 0) && places.isConstant() &&
            places.shape == x.shape && places.dtype == first.dtype &&
            (places.dtype == DType::I32 || places.dtype == DType::I64);
  if (isKnown) {
    KERF_TRY(counted, indexAlong(b, places.dtype, x.shape, dims[0]));
    isKnown = x.shape[size_t(dims[0])] > 0 && sameValue(*places.literal, *counted.literal);
  }
  if (!isKnown)
    return Error{"a reduction of 2 tensors at once is supported only for JAX's argmax and argmin along one dimension"};
  KERF_TRY(most, b.reduce(isLargest ? Reduction::Maximum : Reduction::Minimum, x, dims));
  Shape kept = x.shape;
  kept[size_t(dims[0])] = 1;
  KERF_TRY(column, b.reshape(most, kept));
  KERF_TRY(isIt, b.compare(Order::Equal, x, column));
  if (isFloat(x.dtype)) {
    KERF_TRY(isNan, b.isNan(x));
    KERF_TRY(either, b.binary(Binary::Or, isIt, isNan));
    isIt = either;
  }
  KERF_TRY(found, b.select(isIt, places, b.integer(places.dtype, x.shape[size_t(dims[0])])));
  KERF_TRY(place, b.reduce(Reduction::Minimum, found, dims));
  return Terms{most, place};
}

} // namespace

Result<Terms> evaluateReduce(Node &node) {
  TermBuilder &b = node.b;
  if (node.operands.size() % 2 != 0 || node.operands.size() > 4)
    return Error{fmt::format(
        "a reduction of {} operands is not supported; supported are reductions of one tensor, argmax and argmin",
        node.operands.size())};
  const Term &x = node.input(0), &init = node.input(1);
  KERF_TRY(dims, node.integers("dimensions"));
  KERF_CHECK(checkDims(dims, x.rank(), "dimensions"));
  std::sort(dims.begin(), dims.end());
  if (node.operands.size() == 4)
    return reduceToPlace(node, dims);
  std::string name;
  if (const Attribute *applies = node.op.find("applies")) {
    name = applies->text;
    Region region;
    region.arguments = {{"%0", {}}, {"%1", {}}};
    Operation combine, result;
    combine.name = name;
    combine.operands = {"%0", "%1"};
    combine.results = {{"%2", 1}};
    result.operands = {"%2"};
    region.operations = {combine, result};
    KERF_TRY(known, combinerOf(region));
    name = known;
  } else {
    if (node.op.regions.size() != 1)
      return Error{"it has no region that says how elements are combined"};
    KERF_TRY(combiner, combinerOf(node.op.regions[0]));
    if (combiner.empty())
      return Error{"it keeps the last element, but only add, multiply, maximum, minimum, and, or are supported"};
    name = combiner;
  }
  if (init.dtype != x.dtype || init.rank() != 0)
    return Error{fmt::format("its initial value is {} {}, but the operand is {}", toString(init.dtype),
                             shapeText(init.shape), toString(x.dtype))};
  bool empty = std::any_of(dims.begin(), dims.end(), [&](int64_t d) { return x.shape[d] == 0; });
  if (empty)
    return one(b.broadcast(init, node.resultShape()));
  KERF_TRY(result, reduced(b, name, x, dims));
  std::optional<double> neutral = neutralOf(name, x.dtype);
  if (init.isConstant() && neutral && allElementsEqual(*init.literal, *neutral))
    return Terms{result};
  KERF_TRY(everywhere, b.broadcast(init, result.shape));
  return one(applyBinary(b, name, result, everywhere));
}

//===-- products ---------------------------------------------------------===//

Result<Terms> evaluateDotGeneral(Node &node) {
  const Term &x = node.input(0), &y = node.input(1);
  const Attribute *numbers = node.op.find("dot_dimension_numbers");
  if (!numbers)
    return Error{"its attribute 'dot_dimension_numbers' is missing"};
  std::vector<int64_t> dims[4];
  constexpr const char *kNames[] = {"lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
                                    "rhs_contracting_dimensions"};
  for (int i = 0; i < 4; ++i)
    if (const Attribute *list = numbers->find(kNames[i])) {
      KERF_TRY(values, integersOf(*list, kNames[i]));
      dims[i] = values;
    }
  for (int side = 0; side < 2; ++side) {
    std::vector<int64_t> all = dims[side];
    all.insert(all.end(), dims[2 + side].begin(), dims[2 + side].end());
    KERF_CHECK(checkDims(all, side ? y.rank() : x.rank(), side ? "the right operand" : "the left operand"));
  }
  for (int kind = 0; kind < 4; kind += 2)
    if (dims[kind].size() != dims[kind + 1].size())
      return Error{fmt::format("{} has {} dimensions, but {} has {}", kNames[kind], dims[kind].size(), kNames[kind + 1],
                               dims[kind + 1].size())};
  return one(node.b.dot(x, {dims[0], dims[2]}, y, {dims[1], dims[3]}));
}

/// Evaluates `dot`, a product of vectors or matrices: contracts the last dimension of the left operand with the first
/// dimension of the right operand.
Result<Terms> evaluateDot(Node &node) {
  const Term &x = node.input(0), &y = node.input(1);
  if (x.rank() < 1 || y.rank() < 1)
    return Error{fmt::format("its operands have the shapes {} and {}, which do not fit together", shapeText(x.shape),
                             shapeText(y.shape))};
  return one(node.b.dot(x, {{}, {x.rank() - 1}}, y, {{}, {0}}));
}

} // namespace kerf::frontend::hlo
