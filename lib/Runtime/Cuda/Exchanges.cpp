// SPDX-License-Identifier: Apache-2.0
#include "Exchanges.h"
#include "Calls.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::runtime::cuda {

namespace {

Status addPartCopy(std::vector<Call> &calls, const BoxPart &part, const std::byte *from, std::byte *to) {
  const std::vector<BoxCopy::Loop> &loops = part.loops;
  if (loops.size() > size_t(kMostDims))
    return Error{fmt::format("the GPU's kernels walk over up to {} dimensions that cannot be merged, and a collective "
                             "asks for {}; reshape the tensor in the model",
                             kMostDims, loops.size())};
  const int64_t unit = widestUnit(part);
  int64_t bytes = 1;
  for (const BoxCopy::Loop &loop : loops)
    bytes *= loop.count;
  CopyParameters p{from, to, part.fromOffset / unit, part.toOffset / unit, bytes / unit, int32_t(unit), 0, {}, {}, {}};
  for (size_t l = 0; l < loops.size(); ++l, ++p.rank) {
    bool isRun = l + 1 == loops.size();
    p.sizes[l] = isRun ? loops[l].count / unit : loops[l].count;
    p.fromStrides[l] = isRun ? 1 : loops[l].fromStride / unit;
    p.toStrides[l] = isRun ? 1 : loops[l].toStride / unit;
  }
  calls.push_back(elementCall("Shape", DType::I64, "copy", p.n, p));
  return ok();
}

Status addStep(std::vector<Call> &calls, const ExchangeStep &step) {
  if (const auto *copy = std::get_if<CopyStep>(&step))
    return addPartCopy(calls, copy->part, copy->from, copy->to);
  if (const auto *add = std::get_if<AddStep>(&step)) {
    OrderedReduceParameters p{Reduction(add->kind), add->count, add->own, add->mine,
                              add->received,        add->apart, add->to,  add->elements};
    calls.push_back(elementCall("Reduce", add->dtype, "addInOrder", p.n, p));
    return ok();
  }
  const TensorView &zeros = std::get<ZeroStep>(step).tensor;
  calls.push_back(elementCall("Shape", DType::I64, "fill", zeros.bytes(),
                              FillParameters{nullptr, 0, zeros.data, zeros.bytes(), 1}));
  return ok();
}

Status addSteps(std::vector<Call> &calls, const std::vector<ExchangeStep> &steps) {
  for (const ExchangeStep &step : steps)
    if (Status status = addStep(calls, step); !status)
      return status;
  return ok();
}
} // namespace

Result<GpuExchanges> gpuExchanges(const CollectiveRequest &request, const CollectiveOptions &options) {
  GpuExchanges made;
  auto plan = planExchanges(request, options, kScratchAlignment, [&](size_t, const CheckedCollective &collective) {
    made.native.push_back(nativeCollective(collective, ncclNumbers(), options.ordered));
    return made.native.back().has_value();
  });
  if (!plan)
    return plan.error();
  for (ExchangeRound &round : plan->rounds) {
    Round &calls = made.rounds.emplace_back();
    if (Status status = addSteps(calls.before, round.before); !status)
      return status.error();
    if (Status status = addSteps(calls.after, round.after); !status)
      return status.error();
    calls.sends = std::move(round.sends);
    calls.receives = std::move(round.receives);
  }
  made.groups = std::move(plan->groups);
  made.scratchBytes = plan->scratchBytes;
  return made;
}

} // namespace kerf::runtime::cuda
