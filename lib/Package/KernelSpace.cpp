// SPDX-License-Identifier: Apache-2.0
// How the elements of a kernel lie, for the compiler that makes its code and for the runtime that calls it.
#include "Readers.h"
#include "kerf/Package/Native.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::package {

namespace {
/// Strides of a broadcast's operand along the dimensions of `shape`: 0 where it is repeated.
std::optional<std::vector<int64_t>> stridesOf(const Shape &shape, const BroadcastOf &broadcast) {
  std::vector<int64_t> strides(shape.size(), 0);
  if (broadcast.dimensions.size() != broadcast.shape.size())
    return std::nullopt;
  int64_t stride = 1;
  for (size_t d = broadcast.shape.size(); d-- > 0;) {
    int64_t to = broadcast.dimensions[d], size = broadcast.shape[d];
    if (to < 0 || to >= int64_t(shape.size()) || (size != 1 && size != shape[size_t(to)]))
      return std::nullopt;
    if (size != 1)
      strides[size_t(to)] = stride;
    stride *= size;
  }
  return strides;
}

std::vector<int64_t> dimensionsOf(const Instruction &broadcast) {
  auto found = broadcast.attrs.find("broadcast_dimensions");
  std::vector<int64_t> dimensions;
  if (found != broadcast.attrs.end() && found->is_array())
    for (const auto &dimension : *found)
      dimensions.push_back(dimension.is_number_integer() ? dimension.get<int64_t>() : -1);
  return dimensions;
}
constexpr std::string_view kInline[] = {
    "add",     "subtract", "multiply", "divide", "maximum", "minimum", "negate",
    "abs",     "sign",     "sqrt",     "rsqrt",  "floor",   "ceil",    "round_nearest_even",
    "compare", "select",   "and",      "or",     "not",     "convert", "is_nan"};
constexpr std::string_view kRoutines[] = {"exponential", "log",    "tanh",  "logistic", "erf",
                                          "sine",        "cosine", "power", "gelu",     "gelu_backward"};
} // namespace

KernelOp kernelOp(std::string_view op) {
  auto in = [&](const auto &ops) { return std::find(std::begin(ops), std::end(ops), op) != std::end(ops); };
  return in(kInline) ? KernelOp::Inline : in(kRoutines) ? KernelOp::Routine : KernelOp::None;
}

int64_t KernelSpace::units() const {
  int64_t units = 1;
  for (size_t d = 0; d + 1 < sizes.size(); ++d)
    units *= sizes[d];
  return sizes.size() > 1 ? units : sizes[0];
}

std::optional<KernelSpace> kernelSpace(const Shape &shape, const std::vector<BroadcastOf> &broadcasts) {
  std::vector<std::vector<int64_t>> all;
  for (const BroadcastOf &broadcast : broadcasts) {
    auto strides = stridesOf(shape, broadcast);
    if (!strides)
      return std::nullopt;
    all.push_back(std::move(*strides));
  }
  KernelSpace space{{}, std::vector<std::vector<int64_t>>(all.size())};
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1)
      continue;
    bool joins = !space.sizes.empty();
    for (size_t b = 0; joins && b < all.size(); ++b)
      joins = space.broadcasts[b].back() == all[b][d] * shape[d];
    if (!joins)
      space.sizes.push_back(1);
    space.sizes.back() *= shape[d];
    for (size_t b = 0; b < all.size(); ++b) {
      if (!joins)
        space.broadcasts[b].push_back(0);
      space.broadcasts[b].back() = all[b][d];
    }
  }
  if (space.sizes.empty()) {
    space.sizes = {1};
    for (std::vector<int64_t> &strides : space.broadcasts)
      strides = {0};
  }
  for (const std::vector<int64_t> &strides : space.broadcasts)
    if (strides.back() != 0 && strides.back() != 1)
      return std::nullopt;
  if (space.sizes.size() > 1 && space.sizes.back() < kShortestRow)
    return std::nullopt;
  return space;
}

Result<KernelSpace> kernelSpace(const Function &function) {
  auto wrong = [&](const std::string &what) { return Error{fmt::format("kernel '{}': {}", function.name, what)}; };
  if (function.results.empty())
    return wrong("it has no results");
  const Shape &shape = function.values[size_t(function.results[0])].shape;
  std::vector<BroadcastOf> broadcasts;
  for (const Instruction &instruction : function.body) {
    if (instruction.results.size() != 1)
      return wrong(
          fmt::format("{} gives {} results, ops of kernels give one", instruction.op, instruction.results.size()));
    if (instruction.op == "constant")
      continue;
    if (instruction.op != "broadcast_in_dim" && kernelOp(instruction.op) == KernelOp::None)
      return wrong(fmt::format("{} is no op of kernels", instruction.op));
    if (const Value &made = function.values[size_t(instruction.results[0])]; made.shape != shape)
      return wrong(
          fmt::format("{} gives {}, the kernel is over {}", instruction.op, shapeText(made.shape), shapeText(shape)));
    for (int operand : instruction.operands) {
      const Shape &read = function.values[size_t(operand)].shape;
      if (instruction.op == "broadcast_in_dim")
        broadcasts.push_back({read, dimensionsOf(instruction)});
      else if (read != shape)
        return wrong(
            fmt::format("{} reads {}, the kernel is over {}", instruction.op, shapeText(read), shapeText(shape)));
    }
  }
  for (int result : function.results)
    if (function.values[size_t(result)].shape != shape)
      return wrong(
          fmt::format("it gives {} beside {}", shapeText(function.values[size_t(result)].shape), shapeText(shape)));
  auto space = kernelSpace(shape, broadcasts);
  if (!space)
    return wrong("its broadcasts lie otherwise than kernels read them");
  return std::move(*space);
}

bool mayOverwrite(const Function &kernel, int argument) {
  int value = kernel.args[size_t(argument)];
  return std::none_of(kernel.body.begin(), kernel.body.end(), [&](const Instruction &instruction) {
    return instruction.op == "broadcast_in_dim" &&
           std::count(instruction.operands.begin(), instruction.operands.end(), value) > 0;
  });
}

} // namespace kerf::package
