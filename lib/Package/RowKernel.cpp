// SPDX-License-Identifier: Apache-2.0
#include "kerf/Package/RowKernel.h"
#include "KernelSpace.h"
#include "kerf/Package/HostCopies.h"
#include "kerf/Package/Native.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::package {

namespace {
bool isPacking(const Instruction &instruction) { return instruction.op == "pack" || instruction.op == "unpack"; }

class RowReader {
public:
  explicit RowReader(const Function &kernel) : kernel(kernel) {}

  Result<RowRoles> run() {
    if (Status status = findSizes(); !status)
      return status.error();
    for (size_t value = 0; value < kernel.values.size(); ++value) {
      auto role = roleOf(kernel.values[value].shape);
      if (!role)
        return wrong(fmt::format("value {} has shape {}, which is none of [], [{}], [{}, {}] and packed rows", value,
                                 shapeText(kernel.values[value].shape), roles.rows, roles.rows, roles.columns));
      roles.roles.push_back(*role);
    }
    for (const Instruction &instruction : kernel.body)
      if (Status status = check(instruction); !status)
        return status.error();
    for (int result : kernel.results)
      if (roleOfValue(result) == RowRole::One || isGiven(result))
        return wrong(fmt::format("result {} is not computed for each row", result));
    return std::move(roles);
  }

private:
  Error wrong(const std::string &what) const { return Error{fmt::format("kernel '{}': {}", kernel.name, what)}; }
  RowRole roleOfValue(int value) const { return roles.roles[size_t(value)]; }
  DType dtypeOf(int value) const { return kernel.values[size_t(value)].dtype; }
  bool isGiven(int value) const {
    return std::none_of(kernel.body.begin(), kernel.body.end(), [&](const Instruction &instruction) {
      return instruction.op != "constant" && instruction.op != "broadcast_in_dim" && !instruction.results.empty() &&
             instruction.results[0] == value;
    });
  }

  /// Finds rows and columns by the first op that can only have one shape.
  Status findSizes() {
    for (const Instruction &instruction : kernel.body) {
      const bool unpacks = instruction.op == "unpack";
      if (!isPacking(instruction) && instruction.op != "reduce")
        continue;
      const std::vector<int> &list = unpacks ? instruction.results : instruction.operands;
      if (list.size() != 1)
        return wrong(fmt::format("{} has {} operands and {} results", instruction.op, instruction.operands.size(),
                                 instruction.results.size()));
      const Shape &shape = kernel.values[size_t(list[0])].shape;
      if (shape.size() != 2 || !isRowSpace(shape[0], shape[1]))
        return wrong(fmt::format("{} has rows of shape {}; they need a multiple of {} columns, at most {}",
                                 instruction.op, shapeText(shape), kReductionLanes, kLongestPackedRow));
      roles.rows = shape[0];
      roles.columns = shape[1];
      return ok();
    }
    return wrong("no op says what its rows are");
  }

  std::optional<RowRole> roleOf(const Shape &shape) const {
    if (shape.empty())
      return RowRole::One;
    if (shape[0] != roles.rows || shape.size() > 2)
      return std::nullopt;
    if (shape.size() == 1)
      return RowRole::PerRow;
    if (shape[1] == roles.columns)
      return RowRole::Row;
    return shape[1] > 0 && shape[1] < roles.columns && shape[1] % kReductionLanes == 0 ? std::optional(RowRole::Packed)
                                                                                       : std::nullopt;
  }

  Status check(const Instruction &instruction) const {
    auto misfit = [&] { return wrong(fmt::format("{} does not fit rows of a kernel", instruction.op)); };
    if (instruction.results.size() != 1 || instruction.op == "call" || instruction.op == "wait" ||
        isAsynchronous(instruction.op))
      return misfit();
    const RowRole made = roleOfValue(instruction.results[0]);
    const std::vector<int> &operands = instruction.operands;
    if (instruction.op == "constant")
      return made == RowRole::Packed ? Status(misfit()) : ok();
    if (instruction.op == "broadcast_in_dim") {
      if (operands.size() != 1)
        return misfit();
      RowRole from = roleOfValue(operands[0]);
      std::vector<int64_t> dimensions = dimensionsOf(instruction, "broadcast_dimensions");
      bool fits = (from == RowRole::One && dimensions.empty() && made != RowRole::Packed) ||
                  (from == RowRole::PerRow && dimensions == std::vector<int64_t>{0} && made == RowRole::Row);
      return fits ? ok() : Status(misfit());
    }
    if (instruction.op == "reduce") {
      auto kind = instruction.attrs.find("kind");
      bool known = kind != instruction.attrs.end() && (*kind == "sum" || *kind == "max" || *kind == "min");
      bool fits = operands.size() == 1 && roleOfValue(operands[0]) == RowRole::Row && made == RowRole::PerRow &&
                  dimensionsOf(instruction, "dimensions") == std::vector<int64_t>{1} &&
                  dtypeOf(operands[0]) == DType::F32 && dtypeOf(instruction.results[0]) == DType::F32;
      return known && fits ? ok() : Status(misfit());
    }
    if (isPacking(instruction)) {
      auto bits = instruction.attrs.find("bits");
      bool packs = instruction.op == "pack";
      if (operands.size() != 1 || bits == instruction.attrs.end() || !(*bits == 1 || *bits == 2 || *bits == 4))
        return misfit();
      int codes = packs ? operands[0] : instruction.results[0], packed = packs ? instruction.results[0] : operands[0];
      bool fits = roleOfValue(codes) == RowRole::Row && dtypeOf(codes) == DType::I8 && dtypeOf(packed) == DType::I8 &&
                  kernel.values[size_t(packed)].shape == Shape{roles.rows, roles.columns * bits->get<int64_t>() / 8};
      return fits ? ok() : Status(misfit());
    }
    bool fits = made == RowRole::Row || made == RowRole::PerRow;
    for (int operand : operands)
      fits &= roleOfValue(operand) == made;
    return fits ? ok() : Status(misfit());
  }

  const Function &kernel;
  RowRoles roles;
};
} // namespace

bool isRowSpace(int64_t rows, int64_t columns) {
  return rows > 0 && columns > 0 && columns <= kLongestPackedRow && columns % kReductionLanes == 0;
}

bool isRowKernel(const Function &kernel) {
  return std::any_of(kernel.body.begin(), kernel.body.end(), [&](const Instruction &instruction) {
    return isPacking(instruction) || std::any_of(instruction.operands.begin(), instruction.operands.end(),
                                                 [&](int operand) { return reductionOf(kernel, operand) != nullptr; });
  });
}

Result<RowRoles> rowRoles(const Function &kernel) { return RowReader(kernel).run(); }

} // namespace kerf::package
