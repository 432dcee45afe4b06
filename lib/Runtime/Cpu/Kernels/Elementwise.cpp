// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels of several operands. Integers wrap around, and integer division by zero is defined, because
// padding may hold any values and must not end a run.
#include "Families.h"
#include "Simd.h"

namespace kerf::runtime::kernels {

namespace {
template <typename In, typename Out, typename F> void combineAll(const In *x, const In *y, Out *z, int64_t n) {
  dispatch(
      [](auto, const In *x, const In *y, Out *z, int64_t n) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i)
          z[i] = F()(x[i], y[i]);
      },
      x, y, z, n);
}
template <typename In, typename Out, typename F> PlannedKernel combined(const BindRequest &request, F) {
  const In *x = dataOf<In>(request.operands[0]), *y = dataOf<In>(request.operands[1]);
  Out *z = mutableDataOf<Out>(request.results[0]);
  int64_t n = request.results[0].elements();
  return {[=, team = request.team] {
    forElements(team, n, [&](int64_t i, int64_t end) { combineAll<In, Out, F>(x + i, y + i, z + i, end - i); });
    return ok();
  }};
}

constexpr auto kPower = [](auto x, auto y) { return std::pow(x, y); };

/// Converts x to a type in which sums and products are defined for all values: an unsigned type for integers, the type
/// itself for floats.
template <typename T> auto wrapping(T x) {
  if constexpr (isFloat<T>)
    return x;
  else if constexpr (std::is_same_v<T, Bool8>)
    return unsigned(int(x));
  else
    return std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>(x);
}

template <typename T> T quotient(T x, T y) {
  if constexpr (isFloat<T>)
    return x / y;
  else if constexpr (std::is_same_v<T, Bool8>)
    return x;
  else {
    if (y == 0)
      return T(-1); // as in XLA
    if constexpr (std::is_signed_v<T>)
      if (y == -1)
        return T(0 - wrapping(x));
    return T(x / y);
  }
}

template <typename T> Result<PlannedKernel> planArithmetic(const BindRequest &request) {
  const std::string &op = request.instruction.op;
  if (op == "add")
    return combined<T, T>(request, [](T x, T y) { return T(wrapping(x) + wrapping(y)); });
  if (op == "subtract")
    return combined<T, T>(request, [](T x, T y) { return T(wrapping(x) - wrapping(y)); });
  if (op == "multiply")
    return combined<T, T>(request, [](T x, T y) { return T(wrapping(x) * wrapping(y)); });
  if (op == "divide")
    return combined<T, T>(request, [](T x, T y) { return quotient(x, y); });
  // The result is NaN if either operand is: comparisons with NaN are false, which selects y, and x != x selects x.
  if (op == "maximum")
    return combined<T, T>(request, [](T x, T y) { return x > y || x != x ? x : y; });
  return combined<T, T>(request, [](T x, T y) { return x < y || x != x ? x : y; });
}
} // namespace

Result<PlannedKernel> planBinary(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 1))
    return check.error();
  check.sameType(request.operands[1], "the second operand", request.operands[0], "the first operand");
  check.sameType(request.results[0], "the result", request.operands[0], "the first operand");
  if (check.failed())
    return check.error();
  const std::string &op = request.instruction.op;
  DType dtype = request.operands[0].dtype;
  if (op == "power")
    return withFloatType(request, dtype, [&](auto type) -> Result<PlannedKernel> {
      using T = typename decltype(type)::type;
      return combined<T, T>(request, kPower);
    });
  if (op == "and" || op == "or")
    return withIntegerType(request, dtype, [&](auto type) -> Result<PlannedKernel> {
      using T = typename decltype(type)::type;
      if (op == "and")
        return combined<T, T>(request, [](T x, T y) { return T(wrapping(x) & wrapping(y)); });
      return combined<T, T>(request, [](T x, T y) { return T(wrapping(x) | wrapping(y)); });
    });
  return withElementType(request, dtype,
                         [&](auto type) { return planArithmetic<typename decltype(type)::type>(request); });
}

void *binaryRoutine(std::string_view op, DType dtype) {
  if (op != "power")
    return nullptr;
  return dtype == DType::F64 ? reinterpret_cast<void *>(&combineAll<double, double, decltype(kPower)>)
                             : reinterpret_cast<void *>(&combineAll<float, float, decltype(kPower)>);
}

Result<PlannedKernel> planCompare(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 1))
    return check.error();
  check.sameType(request.operands[1], "the second operand", request.operands[0], "the first operand");
  check.shape(request.results[0], "the result", request.operands[0].shape);
  check.dtype(request.results[0], "the result", DType::Bool);
  size_t direction = check.choice("direction", {"EQ", "NE", "LT", "LE", "GT", "GE"});
  if (check.failed())
    return check.error();
  return withElementType(request, request.operands[0].dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    switch (direction) {
    case 0:
      return combined<T, Bool8>(request, [](T x, T y) { return Bool8(x == y); });
    case 1:
      return combined<T, Bool8>(request, [](T x, T y) { return Bool8(x != y); });
    case 2:
      return combined<T, Bool8>(request, [](T x, T y) { return Bool8(x < y); });
    case 3:
      return combined<T, Bool8>(request, [](T x, T y) { return Bool8(x <= y); });
    case 4:
      return combined<T, Bool8>(request, [](T x, T y) { return Bool8(x > y); });
    default:
      return combined<T, Bool8>(request, [](T x, T y) { return Bool8(x >= y); });
    }
  });
}

Result<PlannedKernel> planSelect(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(3, 3, 1))
    return check.error();
  check.dtype(request.operands[0], "the predicate", DType::Bool);
  check.shape(request.operands[0], "the predicate", request.results[0].shape);
  check.sameType(request.operands[1], "the first choice", request.results[0], "the result");
  check.sameType(request.operands[2], "the second choice", request.results[0], "the result");
  if (check.failed())
    return check.error();
  return withElementType(request, request.results[0].dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    const Bool8 *predicate = dataOf<Bool8>(request.operands[0]);
    const T *x = dataOf<T>(request.operands[1]), *y = dataOf<T>(request.operands[2]);
    T *z = mutableDataOf<T>(request.results[0]);
    int64_t n = request.results[0].elements();
    auto loop = [](auto, const Bool8 *predicate, const T *x, const T *y, T *z, int64_t n) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i)
        z[i] = predicate[i].byte ? x[i] : y[i];
    };
    return PlannedKernel{[=, team = request.team] {
      forElements(team, n,
                  [&](int64_t i, int64_t end) { dispatch(loop, predicate + i, x + i, y + i, z + i, end - i); });
      return ok();
    }};
  });
}

} // namespace kerf::runtime::kernels
