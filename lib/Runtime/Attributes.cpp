// SPDX-License-Identifier: Apache-2.0
#include "Attributes.h"

#include <fmt/format.h>

namespace kerf::runtime {

namespace {
Error bad(const package::Instruction &instruction, const char *key, const std::string &what) {
  return {fmt::format("{}: attribute {} {}; compile the package again", instruction.op, key, what)};
}

Result<std::vector<int64_t>> integersAttribute(const package::Instruction &instruction, const char *key) {
  auto found = instruction.attrs.find(key);
  if (found == instruction.attrs.end() || !found->is_array())
    return bad(instruction, key, "must be a list of integers");
  std::vector<int64_t> numbers;
  for (const auto &number : *found) {
    if (!number.is_number_integer())
      return bad(instruction, key, fmt::format("holds {}, which is no integer", number.dump()));
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

/// Returns the sub-axes that a list of triples (axis, before, size) names.
Result<std::vector<AxisRef>> triples(const package::Instruction &instruction, const char *key, const Mesh &mesh,
                                     std::span<const int64_t> numbers) {
  if (numbers.size() % 3 != 0)
    return bad(instruction, key, fmt::format("has {} numbers: not triples (axis, before, size)", numbers.size()));
  std::vector<AxisRef> refs;
  for (size_t i = 0; i < numbers.size(); i += 3) {
    int64_t axis = numbers[i], before = numbers[i + 1], size = numbers[i + 2];
    if (axis < 0 || size_t(axis) >= mesh.axes.size())
      return bad(instruction, key,
                 fmt::format("names axis {} of a mesh of {} axes, numbered from 0", axis, mesh.axes.size()));
    int64_t whole = mesh.axes[size_t(axis)].size;
    if (before < 1 || size < 1 || before > whole || size > whole || whole % (before * size) != 0)
      return bad(instruction, key,
                 fmt::format("names the sub-axis ({}){} of axis '{}', which does not divide its size {}", before, size,
                             mesh.axes[size_t(axis)].name, whole));
    for (const AxisRef &other : refs)
      if (other.axis == axis && size > 1 && other.size > 1 && before < other.before * other.size &&
          other.before < before * size)
        return bad(instruction, key, fmt::format("names a part of axis '{}' twice", mesh.axes[size_t(axis)].name));
    refs.push_back({int(axis), before, size});
  }
  return refs;
}
} // namespace

Result<int64_t> integerAttribute(const package::Instruction &instruction, const char *key) {
  auto found = instruction.attrs.find(key);
  if (found == instruction.attrs.end() || !found->is_number_integer())
    return bad(instruction, key, "must be an integer");
  return found->get<int64_t>();
}

Result<std::vector<AxisRef>> axesAttribute(const package::Instruction &instruction, const char *key, const Mesh &mesh) {
  auto numbers = integersAttribute(instruction, key);
  if (!numbers)
    return numbers.error();
  return triples(instruction, key, mesh, *numbers);
}

Result<std::vector<std::vector<AxisRef>>> layoutAttribute(const package::Instruction &instruction, const char *key,
                                                          const Mesh &mesh) {
  auto numbers = integersAttribute(instruction, key);
  if (!numbers)
    return numbers.error();
  std::span<const int64_t> rest(*numbers);
  if (rest.empty() || rest[0] < 0 || size_t(rest[0]) > rest.size())
    return bad(instruction, key, "must begin with the number of dimensions");
  std::vector<std::vector<AxisRef>> layout(static_cast<size_t>(rest[0]));
  rest = rest.subspan(1);
  for (std::vector<AxisRef> &axes : layout) {
    if (rest.empty() || rest[0] < 0 || size_t(rest[0]) > rest.size() / 3)
      return bad(instruction, key, "ends before its last dimension");
    size_t count = size_t(rest[0]) * 3;
    auto refs = triples(instruction, key, mesh, rest.subspan(1, count));
    if (!refs)
      return refs.error();
    axes = std::move(*refs);
    rest = rest.subspan(1 + count);
  }
  if (!rest.empty())
    return bad(instruction, key, fmt::format("has {} numbers after its last dimension", rest.size()));
  return layout;
}

} // namespace kerf::runtime
