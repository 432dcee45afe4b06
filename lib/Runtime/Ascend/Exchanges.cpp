// SPDX-License-Identifier: Apache-2.0
#include "Exchanges.h"

#include <algorithm>

namespace kerf::runtime::ascend {

namespace {
constexpr LibraryNumbers kHcclNumbers{kHcclTypes, kHcclCombines, kHcclBytes};

/// Adds the copy of a part of a box, in the widest integers that all its offsets and strides allow.
void addCopy(Builder &b, const CopyStep &copy) {
  const std::vector<BoxCopy::Loop> &loops = copy.part.loops;
  const int64_t unit = widestUnit(copy.part);
  const DType dtype = unit == 8 ? DType::I64 : unit == 4 ? DType::I32 : unit == 2 ? DType::I16 : DType::U8;
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

Result<NpuExchanges> npuExchanges(const CollectiveRequest &request, const CollectiveOptions &options) {
  NpuExchanges made;
  auto plan = planExchanges(request, options, kTensorAlignment, [&](size_t, const CheckedCollective &collective) {
    made.native.push_back(nativeCollective(collective, kHcclNumbers, options.ordered));
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
