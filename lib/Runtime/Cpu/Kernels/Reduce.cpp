// SPDX-License-Identifier: Apache-2.0
// Sum, maximum and minimum over dimensions. Sums of floats are accumulated in double, in an order that depends only
// on the shape.
#include "Families.h"
#include "Reduction.h"

#include <algorithm>

namespace kerf::runtime::kernels {

namespace {
PlannedKernel planned(const BindRequest &request, ReduceKind kind, Shape sizes, std::vector<int64_t> strides) {
  const TensorView &operand = request.operands[0], &result = request.results[0];
  int64_t threads = threadsOf(request.team);
  ReductionPlan plan(std::move(sizes), std::move(strides), threads);
  TypedReduction steps = typedReduction(kind, operand.dtype, result.dtype);
  ScratchLayout layout;
  int64_t bytesOfThread = (plan.resultsOfTask() * steps.runningBytes + 63) / 64 * 64;
  auto *scratch = scratchAt<std::byte>(request.scratch, layout.take(threads * bytesOfThread));
  bool nothingToDo = result.elements() == 0;
  return {
      [=, plan = std::move(plan), team = request.team, elementBytes = bytesOf(operand.dtype), to = result.data,
       x = static_cast<const std::byte *>(operand.data)] {
        if (nothingToDo)
          return ok();
        forReducedTasks(
            plan, team,
            [&](int64_t thread, int64_t, int64_t results) { steps.begin(scratch + thread * bytesOfThread, results); },
            [&](int64_t thread, const ReducedRegion &region) {
              steps.add(plan, scratch + thread * bytesOfThread,
                        x + (region.row * plan.columns() + region.column) * elementBytes, region);
            },
            [&](int64_t thread, int64_t first, int64_t results) {
              steps.end(scratch + thread * bytesOfThread, results, to, first);
            });
        return ok();
      },
      layout.bytes()};
}
} // namespace

Result<PlannedKernel> planReduce(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(1, 1, 1))
    return check.error();
  const TensorView &operand = request.operands[0], &result = request.results[0];
  size_t kind = check.choice("kind", {"sum", "max", "min"});
  std::vector<int64_t> reduced = check.dimensions("dimensions", operand.shape.size());
  Shape expected;
  for (size_t d = 0; d < operand.shape.size(); ++d)
    if (std::find(reduced.begin(), reduced.end(), int64_t(d)) == reduced.end())
      expected.push_back(operand.shape[d]);
  check.shape(result, "the result", expected);
  check.dtype(result, "the result", operand.dtype);
  if (check.failed())
    return check.error();

  // Neighbouring dimensions that are all kept or all reduced are merged, because they are contiguous in the operand
  // and, if kept, in the result.
  Shape sizes;
  std::vector<int64_t> strides;
  int64_t elements = elementsOf(expected);
  for (size_t d = 0; d < operand.shape.size(); ++d) {
    int64_t size = operand.shape[d];
    if (size == 1)
      continue;
    bool keeps = std::find(reduced.begin(), reduced.end(), int64_t(d)) == reduced.end();
    if (keeps)
      elements = size ? elements / size : 0;
    if (strides.empty() || (strides.back() != 0) != keeps) {
      sizes.push_back(1);
      strides.push_back(0);
    }
    sizes.back() *= size;
    strides.back() = keeps ? elements : 0;
  }
  if (sizes.empty()) {
    sizes = {1};
    strides = {0};
  }
  return planned(request, ReduceKind(kind), std::move(sizes), std::move(strides));
}

} // namespace kerf::runtime::kernels
