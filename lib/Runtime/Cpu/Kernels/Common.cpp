// SPDX-License-Identifier: Apache-2.0
// Checks of instructions that all families of kernels share. Their messages say what was found and what is expected.
#include "Common.h"

#include "../../Scalar.h"
#include <algorithm>

namespace kerf::runtime::kernels {

int64_t product(const Shape &shape, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t d = begin; d < end; ++d)
    n *= shape[d];
  return n;
}

std::string typeText(const TensorView &view) {
  return fmt::format("{}[{}]", toString(view.dtype), fmt::join(view.shape, ", "));
}

double readScalar(const TensorView &view) { return runtime::readScalar(view.dtype, view.data); }

Error wrongDType(const BindRequest &request, DType dtype, std::string_view takes) {
  return {fmt::format("{}: takes {}, but was given {}; compile the package again", request.instruction.op, takes,
                      toString(dtype))};
}

void Checker::fail(const std::string &text) {
  if (!fault)
    fault = Error{fmt::format("{}: {}; compile the package again", request.instruction.op, text)};
}

bool Checker::counts(size_t fewestOperands, size_t mostOperands, size_t results) {
  size_t operands = request.operands.size();
  require(operands >= fewestOperands && operands <= mostOperands, "takes {} operands, but has {}",
          fewestOperands == mostOperands ? fmt::to_string(fewestOperands)
                                         : fmt::format("{} to {}", fewestOperands, mostOperands),
          operands);
  require(request.results.size() == results, "gives {} results, but has {}", results, request.results.size());
  return !failed();
}

const nlohmann::ordered_json *Checker::find(std::string_view attribute) {
  const nlohmann::ordered_json &attrs = request.instruction.attrs;
  if (attrs.is_object())
    if (auto it = attrs.find(std::string(attribute)); it != attrs.end())
      return &*it;
  fail(fmt::format("attribute '{}' is missing", attribute));
  return nullptr;
}

int64_t Checker::integer(std::string_view attribute) {
  const nlohmann::ordered_json *json = find(attribute);
  if (!json)
    return 0;
  require(json->is_number_integer(), "attribute '{}' is {}, not an integer", attribute, json->dump());
  return json->is_number_integer() ? json->get<int64_t>() : 0;
}

int64_t Checker::integerOr(std::string_view attribute, int64_t missing) {
  const nlohmann::ordered_json &attrs = request.instruction.attrs;
  return attrs.is_object() && attrs.contains(std::string(attribute)) ? integer(attribute) : missing;
}

std::vector<int64_t> Checker::integers(std::string_view attribute) {
  const nlohmann::ordered_json *json = find(attribute);
  if (!json)
    return {};
  bool good =
      json->is_array() && std::all_of(json->begin(), json->end(), [](const auto &e) { return e.is_number_integer(); });
  require(good, "attribute '{}' is {}, not an array of integers", attribute, json->dump());
  return good ? json->get<std::vector<int64_t>>() : std::vector<int64_t>();
}

double Checker::number(std::string_view attribute) {
  const nlohmann::ordered_json *json = find(attribute);
  if (!json)
    return 0;
  std::optional<double> value = package::parseNumber(*json);
  require(value.has_value(), "attribute '{}' is {}, not a number", attribute, json->dump());
  return value.value_or(0);
}

bool Checker::flag(std::string_view attribute) {
  const nlohmann::ordered_json &attrs = request.instruction.attrs;
  auto it = attrs.is_object() ? attrs.find(std::string(attribute)) : attrs.end();
  if (it == attrs.end())
    return false;
  require(it->is_boolean(), "attribute '{}' is {}, not true or false", attribute, it->dump());
  return it->is_boolean() && it->get<bool>();
}

size_t Checker::choice(std::string_view attribute, std::initializer_list<std::string_view> choices) {
  const nlohmann::ordered_json *json = find(attribute);
  if (!json)
    return 0;
  if (json->is_string())
    if (auto it = std::find(choices.begin(), choices.end(), json->get_ref<const std::string &>()); it != choices.end())
      return it - choices.begin();
  fail(fmt::format("attribute '{}' is {}, not one of {}", attribute, json->dump(), fmt::join(choices, ", ")));
  return 0;
}

std::vector<AxisRef> Checker::axes(std::string_view attribute) {
  std::vector<int64_t> flat = integers(attribute);
  require(flat.size() % 3 == 0, "attribute '{}' has {} numbers, not triples of axis, before, size", attribute,
          flat.size());
  std::vector<AxisRef> refs;
  for (size_t i = 0; i + 2 < flat.size() && !failed(); i += 3) {
    auto [axis, before, size] = std::tuple(flat[i], flat[i + 1], flat[i + 2]);
    require(axis >= 0 && axis < int64_t(request.mesh.axes.size()), "attribute '{}' names axis {} of a mesh of {} axes",
            attribute, axis, request.mesh.axes.size());
    if (failed())
      break;
    int64_t whole = request.mesh.axes[axis].size;
    // Divisions are used instead of products, because products of a damaged file's numbers could overflow.
    require(before >= 1 && size >= 1 && before <= whole && whole % before == 0 && (whole / before) % size == 0,
            "attribute '{}' has the part ({}){} of axis '{}' of size {}", attribute, before, size,
            request.mesh.axes[axis].name, whole);
    refs.push_back({int(axis), before, size});
  }
  return refs;
}

int64_t Checker::dimension(std::string_view attribute, size_t rank) {
  int64_t d = integer(attribute);
  require(d >= 0 && d < int64_t(rank), "attribute '{}' is {}, but the tensor has {} dimensions", attribute, d, rank);
  return failed() ? 0 : d;
}

std::vector<int64_t> Checker::dimensions(std::string_view attribute, size_t rank) {
  std::vector<int64_t> dims = integers(attribute);
  for (size_t i = 0; i < dims.size(); ++i) {
    require(dims[i] >= 0 && dims[i] < int64_t(rank), "attribute '{}' names dimension {}, but the tensor has {}",
            attribute, dims[i], rank);
    require(std::count(dims.begin(), dims.end(), dims[i]) == 1, "attribute '{}' names dimension {} twice", attribute,
            dims[i]);
  }
  return failed() ? std::vector<int64_t>() : dims;
}

void Checker::sameType(const TensorView &a, std::string_view nameA, const TensorView &b, std::string_view nameB) {
  require(a.dtype == b.dtype && a.shape == b.shape, "{} is {}, but {} is {}", nameA, typeText(a), nameB, typeText(b));
}

void Checker::shape(const TensorView &a, std::string_view name, const Shape &expected) {
  require(a.shape == expected, "{} has shape [{}], not [{}]", name, fmt::join(a.shape, ", "),
          fmt::join(expected, ", "));
}

void Checker::dtype(const TensorView &a, std::string_view name, DType expected) {
  require(a.dtype == expected, "{} is {}, not {}", name, toString(a.dtype), toString(expected));
}

void Checker::indices(const TensorView &a, std::string_view name) {
  require(a.dtype == DType::I64 || a.dtype == DType::I32, "{} is {}, not i64 or i32", name, toString(a.dtype));
}

void Checker::scalar(const TensorView &a, std::string_view name) {
  require(a.elements() == 1, "{} is {}, not a scalar", name, typeText(a));
}

} // namespace kerf::runtime::kernels
