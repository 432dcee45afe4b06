// SPDX-License-Identifier: Apache-2.0
// Kernels between gradients and their optimizer: they prepare the whole gradient of a parameter, and check whether the
// update must be held back.
#include "Families.h"
#include "Simd.h"

#include <cmath>
#include <cstring>

namespace kerf::runtime::kernels {

Result<Planned> planSyncGradient(const BindRequest &request) {
  Checker check(request);
  if (check.counts(1, 1, 1))
    check.sameType(request.operands[0], "the operand", request.results[0], "the result");
  if (check.failed())
    return check.error();
  return Planned{[from = dataOf<std::byte>(request.operands[0]), to = mutableDataOf<std::byte>(request.results[0]),
                  bytes = request.results[0].bytes(), team = request.team] {
    if (from != to)
      forElements(team, bytes, [&](int64_t i, int64_t end) { std::memcpy(to + i, from + i, size_t(end - i)); });
    return ok();
  }};
}

Result<Planned> planCountNonfinite(const BindRequest &request) {
  Checker check(request);
  if (check.counts(1, 1, 1)) {
    check.shape(request.results[0], "the result", {});
    check.dtype(request.results[0], "the result", DType::I64);
  }
  if (check.failed())
    return check.error();
  return forFloat(request, request.operands[0].dtype, [&](auto type) -> Result<Planned> {
    using T = typename decltype(type)::type;
    auto loop = [](auto, const T *x, int64_t n, int64_t *total) {
      int64_t sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < n; ++i)
        sum += !(std::fabs(x[i]) <= std::numeric_limits<T>::max()); // a NaN compares with nothing
      *total = sum;
    };
    return Planned{[=, x = dataOf<T>(request.operands[0]), n = request.operands[0].elements(),
                    total = mutableDataOf<int64_t>(request.results[0])] {
      dispatch(loop, x, n, total);
      return ok();
    }};
  });
}

} // namespace kerf::runtime::kernels
