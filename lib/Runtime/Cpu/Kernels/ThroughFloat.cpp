// SPDX-License-Identifier: Apache-2.0
#include "ThroughFloat.h"
#include "kerf/Package/Half.h"

namespace kerf::runtime::kernels {

namespace {
/// A 16-bit tensor and its float32 copy in scratch memory.
struct HalfCopy {
  uint16_t *half;
  float *wide;
  int64_t elements;
  DType dtype;

  void widen(ThreadTeam *team) const {
    forElements(team, elements, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        wide[i] = dtype == DType::BF16 ? floatFromBf16(half[i]) : floatFromF16(half[i]);
    });
  }
  void narrow(ThreadTeam *team) const {
    forElements(team, elements, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        half[i] = dtype == DType::BF16 ? bf16FromFloat(wide[i]) : f16FromFloat(wide[i]);
    });
  }
};
} // namespace

bool hasHalf(const BindRequest &request) {
  auto any = [](const std::vector<TensorView> &views) {
    return std::any_of(views.begin(), views.end(), [](const TensorView &view) { return isHalf(view.dtype); });
  };
  return any(request.operands) || any(request.results);
}

Result<PlannedKernel> planThroughFloat(const BindRequest &request, PlanFunction plan) {
  ScratchLayout layout;
  auto widened = [&](const std::vector<TensorView> &views, std::vector<HalfCopy> &copies) {
    std::vector<TensorView> wide = views;
    for (TensorView &view : wide) {
      if (!isHalf(view.dtype))
        continue;
      int64_t n = view.elements();
      float *copy = scratchAt<float>(request.scratch, layout.take(n * int64_t(sizeof(float))));
      copies.push_back({static_cast<uint16_t *>(view.data), copy, n, view.dtype});
      view.data = copy;
      view.dtype = DType::F32;
    }
    return wide;
  };
  std::vector<HalfCopy> operandCopies, resultCopies;
  std::vector<TensorView> operands = widened(request.operands, operandCopies),
                          results = widened(request.results, resultCopies);
  void *rest = scratchAt<void>(request.scratch, layout.bytes());
  Result<PlannedKernel> inner = plan(
      {request.instruction, std::move(operands), std::move(results), request.mesh, request.rank, rest, request.team});
  if (!inner)
    return inner;
  return PlannedKernel{[operandCopies, resultCopies, kernel = std::move(inner->kernel), team = request.team] {
                         for (const HalfCopy &copy : operandCopies)
                           copy.widen(team);
                         Status status = kernel();
                         for (const HalfCopy &copy : resultCopies)
                           copy.narrow(team);
                         return status;
                       },
                       layout.bytes() + inner->scratchBytes};
}

} // namespace kerf::runtime::kernels
