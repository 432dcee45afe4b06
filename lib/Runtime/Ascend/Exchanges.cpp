// SPDX-License-Identifier: Apache-2.0
#include "Exchanges.h"
#include "../Attributes.h"

#include <algorithm>

namespace kerf::runtime::ascend {

namespace {
/// An element type that HCCL adds on all NPUs.
struct TypeRow {
  DType dtype;
  int number; // HcclDataType
  bool isFloating;
};
constexpr TypeRow kTypes[] = {
    {DType::I8, 0, false}, {DType::I32, 2, false}, {DType::F16, 3, true},
    {DType::F32, 4, true}, {DType::I64, 5, false}, {DType::BF16, 11, true},
};

/// A way to combine elements.
struct CombineRow {
  std::string_view kind;
  int number; // HcclReduceOp
};
constexpr CombineRow kCombines[] = {{"sum", 0}, {"max", 2}, {"min", 3}};

/// Returns whether the rank at position p of the group has the p-th of equal, contiguous parts of the whole tensor,
/// which is cut along the dimension that the attribute `dim` names.
bool isCutEvenly(const package::Instruction &instruction, const Shape &whole, const Shape &part, int64_t ranks) {
  auto dim = integerAttribute(instruction, "dim");
  return dim && whole[size_t(*dim)] == ranks * part[size_t(*dim)] &&
         std::all_of(whole.begin(), whole.begin() + *dim, [](int64_t size) { return size == 1; });
}

/// Fills in the element type and the way to combine. Returns false if HCCL's result would be another.
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

/// Adds the copy of a part of a box, in the widest integers that all its offsets and strides allow.
void addCopy(Builder &b, const CopyStep &copy) {
  const std::vector<BoxCopy::Loop> &loops = copy.part.loops;
  constexpr std::pair<int64_t, DType> kUnits[] = {{8, DType::I64}, {4, DType::I32}, {2, DType::I16}, {1, DType::U8}};
  auto fits = [&](const auto &unit) {
    auto divides = [&](int64_t number) { return number % unit.first == 0; };
    return divides(copy.part.fromOffset) && divides(copy.part.toOffset) && divides(loops.back().count) &&
           std::all_of(loops.begin(), loops.end() - 1,
                       [&](const BoxCopy::Loop &loop) { return divides(loop.fromStride) && divides(loop.toStride); });
  };
  const auto &[unit, dtype] = *std::find_if(std::begin(kUnits), std::end(kUnits), fits);
  View from{const_cast<std::byte *>(copy.from), dtype, {}, {}, copy.part.fromOffset / unit}, to = from;
  to.data = copy.to;
  to.offset = copy.part.toOffset / unit;
  for (size_t l = 0; l < loops.size(); ++l) {
    bool isRun = l + 1 == loops.size();
    from.sizes.push_back(isRun ? loops[l].count / unit : loops[l].count);
    from.strides.push_back(isRun ? 1 : loops[l].fromStride / unit);
    to.strides.push_back(isRun ? 1 : loops[l].toStride / unit);
  }
  to.sizes = from.sizes;
  b.copy(from, to);
}

/// Adds arrays in their order. 16-bit numbers are added in float32 and rounded once.
void addInOrder(Builder &b, const AddStep &add) {
  bool isHalf = add.dtype == DType::BF16 || add.dtype == DType::F16;
  View sum = b.temporary(isHalf ? DType::F32 : add.dtype, {add.elements});
  auto combine = [&](const View &next) {
    if (add.kind != ReduceKind::Sum)
      b.call(add.kind == ReduceKind::Max ? op::Maximum : op::Minimum, sum, next, sum);
    else if (add.dtype == DType::Bool)
      b.call(op::LogicalOr, sum, next, sum);
    else
      b.add(sum, next, sum);
  };
  for (int32_t i = 0; i < add.count; ++i) {
    auto *data = const_cast<std::byte *>(i == add.own || !add.received ? add.mine : add.received + i * add.apart);
    View next{data, add.dtype, {add.elements}, {1}};
    if (i == 0)
      b.copy(next, sum);
    else
      combine(b.as(sum.dtype, next));
  }
  b.copy(sum, {add.to, add.dtype, {add.elements}, {1}});
}

/// Returns the calls of a round's steps. The scratch memory that they need lies in `request`.
Result<Calls> callsOf(const KernelRequest &request, const std::vector<ExchangeStep> &steps) {
  Target target;
  Builder b(request, target);
  for (const ExchangeStep &step : steps) {
    int64_t before = b.mark();
    if (const auto *copy = std::get_if<CopyStep>(&step))
      addCopy(b, *copy);
    else if (const auto *add = std::get_if<AddStep>(&step))
      addInOrder(b, *add);
    else if (const TensorView &zeros = std::get<ZeroStep>(step).tensor; zeros.bytes() > 0)
      b.add(ClearCall{zeros.data, zeros.bytes()});
    b.release(before);
  }
  return b.finish();
}
} // namespace

std::optional<NativeCollective> nativeCollective(const CheckedCollective &collective, bool ordered) {
  const auto &[instruction, operand, result, ranks] = collective;
  if (ranks < 2 || operand.elements() == 0)
    return std::nullopt;
  using Kind = NativeCollective::Kind;
  NativeCollective native{Kind::AllReduce, operand.data, result.data, uint64_t(result.elements())};
  if (instruction.op == "all_gather" && isCutEvenly(instruction, result.shape, operand.shape, ranks)) {
    native.kind = Kind::AllGather;
    native.count = uint64_t(operand.bytes());
    native.type = kHcclBytes;
    return native;
  }
  if (instruction.op == "reduce_scatter" && isCutEvenly(instruction, operand.shape, result.shape, ranks))
    native.kind = Kind::ReduceScatter;
  else if (instruction.op != "all_reduce")
    return std::nullopt;
  return setReduction(native, instruction, operand.dtype, ordered) ? std::optional(native) : std::nullopt;
}

Result<NpuExchanges> npuExchanges(const CollectiveRequest &request, const CollectiveOptions &options) {
  NpuExchanges made;
  auto plan = planExchanges(request, options, kTensorAlignment, [&](size_t, const CheckedCollective &collective) {
    made.native.push_back(nativeCollective(collective, options.ordered));
    return made.native.back().has_value();
  });
  if (!plan)
    return plan.error();
  // The sums use scratch memory behind that of the plan.
  KernelRequest behind{request.bind.instruction, {}, {}, request.bind.mesh};
  if (request.bind.scratch)
    behind.scratch = static_cast<std::byte *>(request.bind.scratch) + alignedBytes(plan->scratchBytes);
  int64_t most = 0;
  for (ExchangeRound &round : plan->rounds) {
    auto before = callsOf(behind, round.before), after = callsOf(behind, round.after);
    if (!before || !after)
      return before ? after.error() : before.error();
    most = std::max({most, before->scratchBytes, after->scratchBytes});
    made.rounds.push_back(
        {std::move(before->calls), std::move(after->calls), std::move(round.sends), std::move(round.receives)});
  }
  made.groups = std::move(plan->groups);
  made.scratchBytes = alignedBytes(plan->scratchBytes) + most;
  return made;
}

} // namespace kerf::runtime::ascend
