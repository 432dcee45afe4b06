// SPDX-License-Identifier: Apache-2.0
// Parameter updates, in place where the memory plan says so, and the check that may hold them back. The formulas are
// PyTorch's (docs of torch.optim.SGD and AdamW); scalars are computed in double.
#include "Families.h"
#include "Simd.h"

#include <cmath>
#include <cstring>

namespace kerf::runtime::kernels {

namespace {
/// Parameter, states, gradient and the new parameter and states are of one type, lr a float scalar at operand `lr`.
bool isUpdate(Checker &check, const BindRequest &request, size_t lr) {
  for (size_t i = 1; i < lr; ++i)
    check.sameType(request.operands[i], "an operand", request.operands[0], "the parameter");
  for (const TensorView &result : request.results)
    check.sameType(result, "a result", request.operands[0], "the parameter");
  check.scalar(request.operands[lr], "the learning rate");
  DType dtype = request.operands[lr].dtype;
  check.require(dtype == DType::F64 || dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16,
                "the learning rate is {}, not a floating type", toString(dtype));
  return !check.failed();
}

/// The optional last operand, at `skip`: where it is true, results are the operands of their numbers. Null without it.
const Bool8 *skipOf(Checker &check, const BindRequest &request, size_t skip) {
  if (request.operands.size() == skip)
    return nullptr;
  check.scalar(request.operands[skip], "what skips the update");
  check.dtype(request.operands[skip], "what skips the update", DType::Bool);
  return dataOf<Bool8>(request.operands[skip]);
}

/// `update`, but that everything stays as it was where `skip` is there and true.
template <typename F> Kernel unlessSkipped(const BindRequest &request, const Bool8 *skip, F update) {
  if (!skip)
    return update;
  return [update, skip, operands = request.operands, results = request.results]() -> Status {
    if (!skip->byte)
      return update();
    for (size_t i = 0; i < results.size(); ++i)
      if (int64_t bytes = results[i].bytes(); bytes > 0)
        std::memmove(results[i].data, operands[i].data, bytes);
    return ok();
  };
}
} // namespace

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

Result<Planned> planSgd(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(4, 5, 2))
    return check.error();
  double momentum = check.number("momentum"), weightDecay = check.number("weight_decay");
  const Bool8 *skip = skipOf(check, request, 4);
  if (!isUpdate(check, request, 3))
    return check.error();
  return forFloat(request, request.operands[0].dtype, [&](auto type) -> Result<Planned> {
    using T = typename decltype(type)::type;
    const T *p = dataOf<T>(request.operands[0]), *v = dataOf<T>(request.operands[1]),
            *g = dataOf<T>(request.operands[2]);
    T *newP = mutableDataOf<T>(request.results[0]), *newV = mutableDataOf<T>(request.results[1]);
    auto loop = [](auto, const T *p, const T *v, const T *g, T *newP, T *newV, int64_t n, T lr, T momentum,
                   T weightDecay) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        T velocity = momentum * v[i] + (g[i] + weightDecay * p[i]);
        newP[i] = p[i] - lr * velocity;
        newV[i] = velocity;
      }
    };
    auto update = [=, lr = request.operands[3], n = request.results[0].elements(), team = request.team] {
      T rate = T(readScalar(lr));
      forElements(team, n, [&](int64_t i, int64_t end) {
        dispatch(loop, p + i, v + i, g + i, newP + i, newV + i, end - i, rate, T(momentum), T(weightDecay));
      });
      return ok();
    };
    return Planned{unlessSkipped(request, skip, update)};
  });
}

Result<Planned> planAdamw(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(6, 7, 3))
    return check.error();
  double beta1 = check.number("beta1"), beta2 = check.number("beta2"), epsilon = check.number("epsilon");
  double weightDecay = check.number("weight_decay");
  check.scalar(request.operands[5], "the step");
  check.indices(request.operands[5], "the step");
  const Bool8 *skip = skipOf(check, request, 6);
  if (!isUpdate(check, request, 4))
    return check.error();
  return forFloat(request, request.operands[0].dtype, [&](auto type) -> Result<Planned> {
    using T = typename decltype(type)::type;
    struct Factors {
      T decay, beta1, beta2, rest1, rest2, stepSize, inverseRootCorrection2, epsilon;
    };
    const T *p = dataOf<T>(request.operands[0]), *m = dataOf<T>(request.operands[1]),
            *v = dataOf<T>(request.operands[2]);
    const T *g = dataOf<T>(request.operands[3]);
    T *newP = mutableDataOf<T>(request.results[0]), *newM = mutableDataOf<T>(request.results[1]);
    T *newV = mutableDataOf<T>(request.results[2]);
    auto loop = [](auto, const T *p, const T *m, const T *v, const T *g, T *newP, T *newM, T *newV, int64_t n,
                   Factors f) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        T mean = f.beta1 * m[i] + f.rest1 * g[i];
        T square = f.beta2 * v[i] + f.rest2 * g[i] * g[i];
        T updated = f.decay * p[i] - f.stepSize * mean / (std::sqrt(square) * f.inverseRootCorrection2 + f.epsilon);
        newM[i] = mean;
        newV[i] = square;
        newP[i] = updated;
      }
    };
    auto update = [=, lrView = request.operands[4], stepView = request.operands[5], n = request.results[0].elements(),
                   team = request.team] {
      double lr = readScalar(lrView), t = readScalar(stepView) + 1;
      Factors factors = {T(1 - lr * weightDecay),
                         T(beta1),
                         T(beta2),
                         T(1 - beta1),
                         T(1 - beta2),
                         T(lr / (1 - std::pow(beta1, t))),
                         T(1 / std::sqrt(1 - std::pow(beta2, t))),
                         T(epsilon)};
      forElements(team, n, [&](int64_t i, int64_t end) {
        dispatch(loop, p + i, m + i, v + i, g + i, newP + i, newM + i, newV + i, end - i, factors);
      });
      return ok();
    };
    return Planned{unlessSkipped(request, skip, update)};
  });
}

} // namespace kerf::runtime::kernels
