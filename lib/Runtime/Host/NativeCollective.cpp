// SPDX-License-Identifier: Apache-2.0
#include "NativeCollective.h"
#include "../Attributes.h"

#include <algorithm>

namespace kerf::runtime {

namespace {
/// Returns whether the rank at position p of the group has the p-th of equal, contiguous parts of the whole tensor,
/// which is cut along the dimension that the attribute `dim` names.
bool isCutEvenly(const package::Instruction &instruction, const Shape &whole, const Shape &part, int64_t ranks) {
  auto dim = integerAttribute(instruction, "dim");
  return dim && whole[size_t(*dim)] == ranks * part[size_t(*dim)] &&
         std::all_of(whole.begin(), whole.begin() + *dim, [](int64_t size) { return size == 1; });
}

/// Fills in the element type and the way to combine. Returns false if the library's result would be another.
bool setReduction(NativeCollective &native, const package::Instruction &instruction, DType dtype,
                  const LibraryNumbers &numbers, bool ordered) {
  auto kind = instruction.attrs.find("kind");
  auto type = std::ranges::find(numbers.types, dtype, &LibraryNumbers::Type::dtype);
  if (type == numbers.types.end() || kind == instruction.attrs.end() || !kind->is_string())
    return false;
  auto combine = std::ranges::find(numbers.combines, kind->get<std::string>(), &LibraryNumbers::Combine::kind);
  if (combine == numbers.combines.end() || (type->isFloating && (ordered || combine->kind != "sum")))
    return false;
  native.type = type->number;
  native.combine = combine->number;
  return true;
}
} // namespace

std::optional<NativeCollective> nativeCollective(const CheckedCollective &collective, const LibraryNumbers &numbers,
                                                 bool ordered) {
  const auto &[instruction, operand, result, ranks] = collective;
  if (ranks < 2 || operand.elements() == 0)
    return std::nullopt;
  using Kind = NativeCollective::Kind;
  NativeCollective native{Kind::AllReduce, operand.data, result.data, uint64_t(result.elements())};
  if (instruction.op == "all_gather" && isCutEvenly(instruction, result.shape, operand.shape, ranks)) {
    native.kind = Kind::AllGather;
    native.count = uint64_t(operand.bytes());
    native.type = numbers.bytes;
    return native;
  }
  if (instruction.op == "reduce_scatter" && isCutEvenly(instruction, operand.shape, result.shape, ranks))
    native.kind = Kind::ReduceScatter;
  else if (instruction.op != "all_reduce")
    return std::nullopt;
  return setReduction(native, instruction, operand.dtype, numbers, ordered) ? std::optional(native) : std::nullopt;
}

} // namespace kerf::runtime
