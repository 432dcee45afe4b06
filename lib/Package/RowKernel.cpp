// SPDX-License-Identifier: Apache-2.0
#include "kerf/Package/RowKernel.h"
#include "KernelSpace.h"
#include "kerf/Package/HostCopies.h"
#include "kerf/Package/Native.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace kerf::package {

namespace {
bool isPacking(const Instruction &instruction) { return instruction.op == "pack" || instruction.op == "unpack"; }

/// Returns an integer attribute of an instruction, or -1 where it has none of that name.
int64_t integerOf(const Instruction &instruction, std::string_view attribute) {
  auto found = instruction.attrs.find(attribute);
  return found != instruction.attrs.end() && found->is_number_integer() ? found->get<int64_t>() : -1;
}

class RowReader {
public:
  explicit RowReader(const Function &kernel) : kernel(kernel) {}

  Result<RowRoles> run() {
    for (const Value &value : kernel.values)
      if (value.shape.size() == 2 && value.shape[1] > roles.columns) {
        roles.rows = value.shape[0];
        roles.columns = value.shape[1];
      }
    if (!isRowSpace(roles.rows, roles.columns))
      return wrong(fmt::format("it has {} rows of {} elements; they need a multiple of {} columns, at most {}",
                               roles.rows, roles.columns, kReductionLanes, kLongestRow));
    for (size_t value = 0; value < kernel.values.size(); ++value) {
      auto role = roleOf(int(value));
      if (!role)
        return wrong(fmt::format("value {} has shape {}, which is none of [], [{}], [{}, {}] and parts of rows", value,
                                 shapeText(kernel.values[value].shape), roles.rows, roles.rows, roles.columns));
      roles.roles.push_back(*role);
    }
    for (const Instruction &instruction : kernel.body)
      if (!fits(instruction))
        return wrong(fmt::format("{} does not fit rows of a kernel", instruction.op));
    for (int result : kernel.results)
      if (roleOfValue(result) == RowRole::One || roleOfValue(result) == RowRole::Shared || isGiven(result))
        return wrong(fmt::format("result {} is not computed for each row", result));
    return std::move(roles);
  }

private:
  Error wrong(const std::string &what) const { return Error{fmt::format("kernel '{}': {}", kernel.name, what)}; }
  RowRole roleOfValue(int value) const { return roles.roles[size_t(value)]; }
  DType dtypeOf(int value) const { return kernel.values[size_t(value)].dtype; }
  const Shape &shapeOf(int value) const { return kernel.values[size_t(value)].shape; }
  bool hasRow(int value) const { return roleOfValue(value) == RowRole::Row || roleOfValue(value) == RowRole::Part; }
  bool isGiven(int value) const {
    return std::none_of(kernel.body.begin(), kernel.body.end(), [&](const Instruction &instruction) {
      return instruction.op != "constant" && instruction.op != "broadcast_in_dim" &&
             std::count(instruction.results.begin(), instruction.results.end(), value) > 0;
    });
  }

  std::optional<RowRole> roleOf(int value) const {
    const Shape &shape = shapeOf(value);
    if (shape.empty())
      return RowRole::One;
    if (shape.size() == 1 && std::any_of(kernel.body.begin(), kernel.body.end(), [&](const Instruction &instruction) {
          return repeatsRow(kernel, instruction) && instruction.operands[0] == value;
        }))
      return isGiven(value) ? std::optional(RowRole::Shared) : std::nullopt;
    if (shape[0] != roles.rows || shape.size() > 2)
      return std::nullopt;
    if (shape.size() == 1)
      return RowRole::PerRow;
    return shape[1] == roles.columns ? std::optional(RowRole::Row)
           : shape[1] > 0            ? std::optional(RowRole::Part)
                                     : std::nullopt;
  }

  bool fits(const Instruction &instruction) const {
    const std::vector<int> &operands = instruction.operands, &results = instruction.results;
    if (results.size() != (instruction.op == "top_k" ? 2u : 1u) || instruction.op == "call" ||
        instruction.op == "wait" || isAsynchronous(instruction.op))
      return false;
    if (isRowOp(instruction))
      return fitsRow(instruction);
    const RowRole made = roleOfValue(results[0]);
    if (instruction.op == "constant")
      return made != RowRole::Shared;
    if (instruction.op == "broadcast_in_dim")
      return operands.size() == 1 && fitsBroadcast(instruction);
    if (instruction.op == "reduce") {
      auto kind = instruction.attrs.find("kind");
      bool known = kind != instruction.attrs.end() && (*kind == "sum" || *kind == "max" || *kind == "min");
      return known && operands.size() == 1 && roleOfValue(operands[0]) == RowRole::Row && made == RowRole::PerRow &&
             dimensionsOf(instruction, "dimensions") == std::vector<int64_t>{1} && dtypeOf(operands[0]) == DType::F32 &&
             dtypeOf(results[0]) == DType::F32;
    }
    return (hasRow(results[0]) || made == RowRole::PerRow) &&
           std::all_of(operands.begin(), operands.end(), [&](int operand) {
             return roleOfValue(operand) == made && shapeOf(operand) == shapeOf(results[0]);
           });
  }

  bool fitsBroadcast(const Instruction &broadcast) const {
    const int from = broadcast.operands[0], to = broadcast.results[0];
    std::vector<int64_t> dimensions = dimensionsOf(broadcast, "broadcast_dimensions");
    switch (roleOfValue(from)) {
    case RowRole::One:
      return dimensions.empty() && (hasRow(to) || roleOfValue(to) == RowRole::PerRow);
    case RowRole::PerRow:
      return dimensions == std::vector<int64_t>{0} && hasRow(to);
    case RowRole::Shared:
      return hasRow(to) && shapeOf(from)[0] == shapeOf(to)[1];
    default:
      return false;
    }
  }

  bool fitsRow(const Instruction &instruction) const {
    const std::vector<int> &operands = instruction.operands, &results = instruction.results;
    auto is = [&](int value, DType dtype) { return hasRow(value) && dtypeOf(value) == dtype; };
    const bool spreads = instruction.op == "take_along_backward", takes = instruction.op == "take_along" || spreads;
    if (operands.size() != (takes ? 2u : 1u) ||
        !std::all_of(operands.begin(), operands.end(), [&](int operand) { return hasRow(operand); }))
      return false;
    const int from = operands[0], to = results[0];
    if (takes) {
      const int table = spreads ? to : from, slices = spreads ? operands[1] : to, places = operands[spreads ? 0 : 1];
      return is(table, DType::F32) && is(slices, DType::F32) && is(places, DType::I32) &&
             shapeOf(slices) == shapeOf(places) && integerOf(instruction, "batch_dims") == 1 &&
             integerOf(instruction, "size") == shapeOf(table)[1];
    }
    if (instruction.op == "top_k")
      return is(from, DType::F32) && is(to, DType::F32) && is(results[1], DType::I32) &&
             shapeOf(to) == shapeOf(results[1]) && shapeOf(to)[1] <= shapeOf(from)[1];
    if (instruction.op == "slice") {
      std::vector<int64_t> start = dimensionsOf(instruction, "start"), strides = dimensionsOf(instruction, "strides");
      return hasRow(to) && dtypeOf(to) == dtypeOf(from) && start.size() == 2 && strides.size() == 2 && start[0] == 0 &&
             strides[0] == 1 && start[1] >= 0 && strides[1] >= 1 &&
             start[1] + (shapeOf(to)[1] - 1) * strides[1] < shapeOf(from)[1];
    }
    if (instruction.op == "reshape")
      return roleOfValue(to) == RowRole::PerRow && shapeOf(from)[1] == 1 && dtypeOf(to) == dtypeOf(from);
    const int64_t bits = integerOf(instruction, "bits");
    const bool packs = instruction.op == "pack";
    const int codes = packs ? from : to, packed = packs ? to : from;
    return (bits == 1 || bits == 2 || bits == 4) && is(codes, DType::I8) && is(packed, DType::I8) &&
           shapeOf(packed)[1] % kReductionLanes == 0 && roleOfValue(codes) == RowRole::Row &&
           shapeOf(packed) == Shape{roles.rows, roles.columns * bits / 8};
  }

  const Function &kernel;
  RowRoles roles;
};
} // namespace

bool isRowSpace(int64_t rows, int64_t columns) {
  return rows > 0 && columns > 0 && columns <= kLongestRow && columns % kReductionLanes == 0;
}

bool isRowOp(const Instruction &instruction) {
  constexpr std::string_view kRowOps[] = {"slice", "reshape", "top_k", "take_along", "take_along_backward"};
  return isPacking(instruction) ||
         std::find(std::begin(kRowOps), std::end(kRowOps), instruction.op) != std::end(kRowOps);
}

bool isRowKernel(const Function &kernel) {
  return std::any_of(kernel.body.begin(), kernel.body.end(), [&](const Instruction &instruction) {
    return isRowOp(instruction) || std::any_of(instruction.operands.begin(), instruction.operands.end(),
                                               [&](int operand) { return reductionOf(kernel, operand) != nullptr; });
  });
}

bool repeatsRow(const Function &kernel, const Instruction &instruction) {
  return instruction.op == "broadcast_in_dim" && instruction.operands.size() == 1 && instruction.results.size() == 1 &&
         kernel.values[size_t(instruction.operands[0])].shape.size() == 1 &&
         kernel.values[size_t(instruction.results[0])].shape.size() == 2 &&
         dimensionsOf(instruction, "broadcast_dimensions") == std::vector<int64_t>{1};
}

Result<RowRoles> rowRoles(const Function &kernel) { return RowReader(kernel).run(); }

} // namespace kerf::package
