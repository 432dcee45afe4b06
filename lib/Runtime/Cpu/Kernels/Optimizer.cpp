// SPDX-License-Identifier: Apache-2.0
// Kernels between the gradients and the optimizer: sync_gradient passes on the complete gradient of a parameter, and
// count_nonfinite finds out whether the update must be skipped.
#include "Families.h"
#include "Simd.h"

#include <cmath>
#include <cstring>

namespace kerf::runtime::kernels {

Result<PlannedKernel> planSyncGradient(const BindRequest &request) {
  Checker check(request);
  if (check.counts(1, 1, 1))
    check.sameType(request.operands[0], "the operand", request.results[0], "the result");
  if (check.failed())
    return check.error();
  return PlannedKernel{[from = dataOf<std::byte>(request.operands[0]),
                        to = mutableDataOf<std::byte>(request.results[0]), bytes = request.results[0].bytes(),
                        team = request.team] {
    if (from != to)
      forElements(team, bytes, [&](int64_t i, int64_t end) { std::memcpy(to + i, from + i, size_t(end - i)); });
    return ok();
  }};
}

Result<PlannedKernel> planCountNonfinite(const BindRequest &request) {
  Checker check(request);
  if (check.counts(1, 1, 1)) {
    check.shape(request.results[0], "the result", {});
    check.dtype(request.results[0], "the result", DType::I64);
  }
  if (check.failed())
    return check.error();
  return withFloatType(request, request.operands[0].dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    auto loop = [](auto, const T *x, int64_t n, int64_t *total) {
      int64_t sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < n; ++i)
        sum += !(std::fabs(x[i]) <= std::numeric_limits<T>::max()); // comparisons with NaN are false
      *total = sum;
    };
    return PlannedKernel{[=, x = dataOf<T>(request.operands[0]), n = request.operands[0].elements(),
                          total = mutableDataOf<int64_t>(request.results[0])] {
      dispatch(loop, x, n, total);
      return ok();
    }};
  });
}

} // namespace kerf::runtime::kernels
