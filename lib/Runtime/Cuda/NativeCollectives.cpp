// SPDX-License-Identifier: Apache-2.0
#include "NativeCollectives.h"
#include "../Attributes.h"

#include <algorithm>

namespace kerf::runtime::cuda {

namespace {
/// An element type that NCCL can add.
struct TypeRow {
  DType dtype;
  int number; // ncclDataType_t
  bool isFloating;
};
constexpr TypeRow kTypes[] = {
    {DType::I8, 0, false},  {DType::U8, 1, false},  {DType::I32, 2, false}, {DType::U32, 3, false},
    {DType::I64, 4, false}, {DType::U64, 5, false}, {DType::F16, 6, true},  {DType::F32, 7, true},
    {DType::F64, 8, true},  {DType::BF16, 9, true},
};

/// A way to combine elements.
struct CombineRow {
  std::string_view kind;
  int number; // ncclRedOp_t
};
constexpr CombineRow kCombines[] = {{"sum", 0}, {"max", 2}, {"min", 3}};

/// Returns whether the rank at position p of the group has the p-th of equal, contiguous parts of the whole tensor,
/// which is cut along the dimension that the attribute `dim` names.
bool isCutEvenly(const package::Instruction &instruction, const Shape &whole, const Shape &part, int64_t ranks) {
  auto dim = integerAttribute(instruction, "dim");
  return dim && whole[size_t(*dim)] == ranks * part[size_t(*dim)] &&
         std::all_of(whole.begin(), whole.begin() + *dim, [](int64_t size) { return size == 1; });
}

/// Fills in the element type and the way to combine. Returns false if NCCL's result would be another.
bool setReduction(NativeCollective &native, const package::Instruction &instruction, DType dtype, bool ordered) {
  auto kind = instruction.attrs.find("kind");
  auto type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow &row) { return row.dtype == dtype; });
  if (type == std::end(kTypes) || kind == instruction.attrs.end() || !kind->is_string())
    return false;
  auto combine = std::find_if(std::begin(kCombines), std::end(kCombines),
                              [&](const CombineRow &row) { return row.kind == kind->get<std::string>(); });
  if (combine == std::end(kCombines) || (type->isFloating && (ordered || combine->kind != "sum")))
    return false;
  native.type = type->number;
  native.combine = combine->number;
  return true;
}
} // namespace

std::optional<NativeCollective> nativeCollective(const CheckedCollective &collective, bool ordered) {
  const auto &[instruction, operand, result, ranks] = collective;
  if (ranks < 2 || operand.elements() == 0)
    return std::nullopt;
  using Kind = NativeCollective::Kind;
  NativeCollective native{Kind::AllReduce, operand.data, result.data, size_t(result.elements())};
  if (instruction.op == "all_gather" && isCutEvenly(instruction, result.shape, operand.shape, ranks)) {
    native.kind = Kind::AllGather;
    native.count = size_t(operand.bytes());
    native.type = kNcclBytes;
    return native;
  }
  if (instruction.op == "reduce_scatter" && isCutEvenly(instruction, operand.shape, result.shape, ranks))
    native.kind = Kind::ReduceScatter;
  else if (instruction.op != "all_reduce")
    return std::nullopt;
  return setReduction(native, instruction, operand.dtype, ordered) ? std::optional(native) : std::nullopt;
}

NcclResult enqueue(const Nccl &nccl, const NativeCollective &native, void *communicator, DriverStream stream) {
  switch (native.kind) {
  case NativeCollective::Kind::AllReduce:
    return nccl.allReduce(native.from, native.to, native.count, native.type, native.combine, communicator, stream);
  case NativeCollective::Kind::ReduceScatter:
    return nccl.reduceScatter(native.from, native.to, native.count, native.type, native.combine, communicator, stream);
  case NativeCollective::Kind::AllGather:
    break;
  }
  return nccl.allGather(native.from, native.to, native.count, native.type, communicator, stream);
}

} // namespace kerf::runtime::cuda
