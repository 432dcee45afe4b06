// SPDX-License-Identifier: Apache-2.0
// The iteration space of a kernel. The compiler that generates the kernel's code and the runtime that calls it compute
// it with the same functions.
#include "KernelSpace.h"
#include "Readers.h"
#include "kerf/Package/HostCopies.h"
#include "kerf/Package/Native.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::package {

std::vector<int64_t> dimensionsOf(const Instruction &instruction, std::string_view attribute) {
  auto found = instruction.attrs.find(attribute);
  std::vector<int64_t> dimensions;
  if (found != instruction.attrs.end() && found->is_array())
    for (const auto &dimension : *found)
      dimensions.push_back(dimension.is_number_integer() ? dimension.get<int64_t>() : -1);
  return dimensions;
}

namespace {
constexpr std::string_view kReduce = "reduce";

/// Returns the strides, in elements, of a broadcast's operand along the dimensions of `shape`; 0 where the operand is
/// repeated. Returns nothing if the operand does not fit `shape`.
std::optional<std::vector<int64_t>> stridesOf(const Shape &shape, const BroadcastView &broadcast) {
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

/// Returns the shape of the result of reducing `shape`, and the dimensions that the reduction keeps. Returns nothing if
/// the attributes are not those of a reduction.
std::optional<BroadcastView> keptBy(const Instruction &reduce, const Shape &shape) {
  std::vector<int64_t> gone = dimensionsOf(reduce, "dimensions");
  auto kind = reduce.attrs.find("kind");
  if (kind == reduce.attrs.end() || (*kind != "sum" && *kind != "max" && *kind != "min"))
    return std::nullopt;
  for (size_t i = 0; i < gone.size(); ++i)
    if (gone[i] < (i ? gone[i - 1] + 1 : 0) || gone[i] >= int64_t(shape.size()))
      return std::nullopt;
  BroadcastView kept;
  for (size_t d = 0; d < shape.size(); ++d)
    if (std::find(gone.begin(), gone.end(), int64_t(d)) == gone.end()) {
      kept.shape.push_back(shape[d]);
      kept.dimensions.push_back(int64_t(d));
    }
  return kept;
}

bool isHalf(DType dtype) { return dtype == DType::BF16 || dtype == DType::F16; }
/// Returns true if a kernel can reduce elements of type `from` to type `to`: the same floating type, or f32 for
/// 16-bit types.
bool mayReduceTo(DType from, DType to) {
  return (from == DType::F64 || from == DType::F32 || isHalf(from)) &&
         (to == from || (isHalf(from) && to == DType::F32));
}
} // namespace

int64_t KernelSpace::rows() const {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < sizes.size(); ++d)
    rows *= sizes[d];
  return rows;
}

std::optional<KernelSpace> kernelSpace(const Shape &shape, const std::vector<BroadcastView> &broadcasts,
                                       const std::optional<BroadcastView> &reduction) {
  std::vector<BroadcastView> views = broadcasts;
  if (reduction)
    views.push_back(*reduction);
  std::vector<std::vector<int64_t>> all;
  for (const BroadcastView &view : views) {
    auto strides = stridesOf(shape, view);
    if (!strides)
      return std::nullopt;
    all.push_back(std::move(*strides));
  }
  KernelSpace space{{}, std::vector<std::vector<int64_t>>(all.size()), {}, {}};
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
  if (reduction) {
    space.reduced = std::move(space.broadcasts.back());
    space.broadcasts.pop_back();
    size_t last = space.sizes.size() - 1;
    if (last > 0 && space.reduced[last] == 0 && space.reduced[last - 1] == 0 &&
        space.sizes[last] % kReductionLanes != 0)
      return std::nullopt;
  }
  return space;
}

Result<KernelSpace> kernelSpace(const Function &function) {
  auto wrong = [&](const std::string &what) { return Error{fmt::format("kernel '{}': {}", function.name, what)}; };
  auto valueOf = [&](int value) -> const Value & { return function.values[size_t(value)]; };
  if (function.results.empty())
    return wrong("it has no results");
  if (isRowKernel(function)) {
    auto rows = rowRoles(function);
    return rows ? Result<KernelSpace>(KernelSpace{{rows->rows, rows->columns}, {}, {}, std::move(rows->roles)})
                : Result<KernelSpace>(rows.error());
  }
  const Instruction *reduces = reductionOf(function, function.results[0]);
  const Shape &shape =
      valueOf(reduces && reduces->operands.size() == 1 ? reduces->operands[0] : function.results[0]).shape;
  std::vector<BroadcastView> broadcasts;
  std::optional<BroadcastView> reduction;
  for (const Instruction &instruction : function.body) {
    if (instruction.results.size() != 1)
      return wrong(
          fmt::format("{} gives {} results, but ops of kernels give one", instruction.op, instruction.results.size()));
    if (instruction.op == "constant")
      continue;
    bool reduce = instruction.op == kReduce;
    if (instruction.op == "call" || instruction.op == "wait" || isAsynchronous(instruction.op))
      return wrong(fmt::format("{} is no op that a kernel can contain", instruction.op));
    const Value &made = valueOf(instruction.results[0]);
    if (!reduce && made.shape != shape)
      return wrong(fmt::format("the result of {} has shape {}, but the kernel has shape {}", instruction.op,
                               shapeText(made.shape), shapeText(shape)));
    for (int operand : instruction.operands) {
      const Shape &read = valueOf(operand).shape;
      if (reductionOf(function, operand))
        return wrong(fmt::format("{} reads the result of {}, which is complete only when the kernel has ended",
                                 instruction.op, kReduce));
      if (instruction.op == "broadcast_in_dim")
        broadcasts.push_back({read, dimensionsOf(instruction, "broadcast_dimensions")});
      else if (read != shape)
        return wrong(fmt::format("an operand of {} has shape {}, but the kernel has shape {}", instruction.op,
                                 shapeText(read), shapeText(shape)));
    }
    if (!reduce)
      continue;
    auto kept = keptBy(instruction, shape);
    if (!kept || instruction.operands.size() != 1 || made.shape != kept->shape ||
        !mayReduceTo(valueOf(instruction.operands[0]).dtype, made.dtype))
      return wrong(fmt::format("{} of {} does not give {}{}", kReduce, shapeText(shape), toString(made.dtype),
                               shapeText(made.shape)));
    if (reduction && reduction->dimensions != kept->dimensions)
      return wrong("its reductions are over different dimensions");
    reduction = std::move(kept);
  }
  for (int result : function.results)
    if (valueOf(result).shape != shape && !reductionOf(function, result))
      return wrong(fmt::format("it has a result of shape {}, but the kernel has shape {}",
                               shapeText(valueOf(result).shape), shapeText(shape)));
  auto space = kernelSpace(shape, broadcasts, reduction);
  if (!space)
    return wrong(
        fmt::format("its rows have fewer than {} elements, or a broadcast or reduction does not fit its shape or "
                    "is not contiguous along the rows",
                    kShortestRow));
  return std::move(*space);
}

const Instruction *reductionOf(const Function &kernel, int value) {
  for (const Instruction &instruction : kernel.body)
    if (instruction.op == kReduce && !instruction.results.empty() && instruction.results[0] == value)
      return &instruction;
  return nullptr;
}

bool mayOverwrite(const Function &kernel, int argument, int result) {
  int value = kernel.args[size_t(argument)];
  if (isRowKernel(kernel)) { // the last loop over a row stores whole rows, element by element
    auto rows = rowRoles(kernel);
    return rows && rows->roles[size_t(value)] == RowRole::Row &&
           rows->roles[size_t(kernel.results[size_t(result)])] == RowRole::Row;
  }
  return !reductionOf(kernel, kernel.results[size_t(result)]) &&
         std::none_of(kernel.body.begin(), kernel.body.end(), [&](const Instruction &instruction) {
           return instruction.op == "broadcast_in_dim" &&
                  std::count(instruction.operands.begin(), instruction.operands.end(), value) > 0;
         });
}

} // namespace kerf::package
