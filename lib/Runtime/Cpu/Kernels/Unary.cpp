// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels of one operand. All of them may write over their operand, so the loops promise the compiler only
// that no element depends on another one, and not that the memory is distinct.
#include "Families.h"
#include "Simd.h"

#include "kerf/Package/Half.h"
#include "kerf/Package/Precision.h"
#include <algorithm>
#include <iterator>
#include <numbers>

namespace kerf::runtime::kernels {

namespace {
/// Number of elements in a vector of the loops below, which process only full vectors. The elements left at the end are
/// copied to a full vector. A scalar loop for them could use other fused multiply-adds, but an element's bits must not
/// depend on its position.
constexpr int64_t kVector = 16;

template <typename In, typename Out, typename F>
[[gnu::always_inline]] inline void mapVectors(const In *x, Out *y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    y[i] = F()(x[i]);
}
template <typename In, typename Out, typename F> void mapAll(const In *x, Out *y, int64_t n) {
  // Integers are rare in models: one version of their loops is enough, and it has no fused multiply-adds that could
  // differ.
  if constexpr (!isFloat<In>)
    return mapVectors<In, Out, F>(x, y, n);
  dispatch(
      [](auto, const In *x, Out *y, int64_t n) {
        int64_t whole = n / kVector * kVector;
        mapVectors<In, Out, F>(x, y, whole);
        if (whole == n)
          return;
        In from[kVector] = {};
        Out to[kVector];
        std::copy(x + whole, x + n, from);
        mapVectors<In, Out, F>(from, to, kVector);
        std::copy(to, to + (n - whole), y + whole);
      },
      x, y, n);
}
template <typename In, typename Out, typename F> PlannedKernel mapped(const BindRequest &request, F) {
  const In *x = dataOf<In>(request.operands[0]);
  Out *y = mutableDataOf<Out>(request.results[0]);
  int64_t n = request.results[0].elements();
  return {[=, team = request.team] {
    forElements(team, n, [&](int64_t begin, int64_t end) { mapAll<In, Out, F>(x + begin, y + begin, end - begin); });
    return ok();
  }};
}

/// Returns -x, where integers wrap around.
template <typename T> T wrappedNegation(T x) {
  if constexpr (isFloat<T>)
    return -x;
  else if constexpr (std::is_same_v<T, Bool8>)
    return x;
  else
    return T(std::make_unsigned_t<T>(0) - std::make_unsigned_t<T>(x));
}

// Constants of GELU (Hendrycks and Gimpel, Gaussian Error Linear Units, 2016), by erf and by the
// approximation with tanh.
constexpr double kTanhInner = 0.7978845608028654; // sqrt(2 / pi)
constexpr double kTanhCubic = 0.044715;
constexpr double kInverseSqrt2 = 0.7071067811865476;
constexpr double kInverseSqrt2Pi = 0.3989422804014327;

template <typename T> [[gnu::always_inline]] inline T geluByTanh(T x) {
  T inner = T(kTanhInner) * (x + T(kTanhCubic) * x * x * x);
  return T(0.5) * x * (T(1) + fastTanh(inner));
}
template <typename T> [[gnu::always_inline]] inline T geluSlopeByTanh(T x) {
  T t = fastTanh(T(kTanhInner) * (x + T(kTanhCubic) * x * x * x));
  T inner = T(kTanhInner) * (T(1) + T(3 * kTanhCubic) * x * x);
  // The slope of tanh is 0 where |tanh| is 1, even if `inner` overflows.
  T slope = T(1) - t * t;
  return T(0.5) * (T(1) + t) + (slope == 0 ? T(0) : T(0.5) * x * slope * inner);
}
template <typename T> [[gnu::always_inline]] inline T geluByErf(T x) {
  return T(0.5) * x * (T(1) + fastErf(x * T(kInverseSqrt2)));
}
template <typename T> [[gnu::always_inline]] inline T geluSlopeByErf(T x) {
  T density = T(kInverseSqrt2Pi) * fastExp(T(-0.5) * x * x);
  return T(0.5) * (T(1) + fastErf(x * T(kInverseSqrt2))) + (density == 0 ? T(0) : x * density);
}

// The functions that compiled kernels of packages call as routines, for float and double. The op's own kernels use
// the same loops.
constexpr auto kExponential = [](auto x) { return fastExp(x); };
constexpr auto kLog = [](auto x) { return std::log(x); };
constexpr auto kTanh = [](auto x) { return fastTanh(x); };
constexpr auto kLogistic = [](auto x) { return fastLogistic(x); };
constexpr auto kErf = [](auto x) { return fastErf(x); };
constexpr auto kSine = [](auto x) { return std::sin(x); };
constexpr auto kCosine = [](auto x) { return std::cos(x); };
constexpr auto kAtan = [](auto x) { return std::atan(x); };
constexpr auto kGelu = [](auto x) { return geluByErf(x); };
constexpr auto kGeluByTanh = [](auto x) { return geluByTanh(x); };
constexpr auto kGeluSlope = [](auto x) { return geluSlopeByErf(x); };
constexpr auto kGeluSlopeByTanh = [](auto x) { return geluSlopeByTanh(x); };

template <typename T, typename Slope>
[[gnu::always_inline]] inline void geluBackwardVectors(const T *x, const T *dy, T *dx, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    dx[i] = dy[i] * Slope()(x[i]);
}
template <typename T, typename Slope> void geluBackwardAll(const T *x, const T *dy, T *dx, int64_t n) {
  dispatch(
      [](auto, const T *x, const T *dy, T *dx, int64_t n) {
        int64_t whole = n / kVector * kVector;
        geluBackwardVectors<T, Slope>(x, dy, dx, whole);
        if (whole == n)
          return;
        T fromX[kVector] = {}, fromDy[kVector] = {}, to[kVector];
        std::copy(x + whole, x + n, fromX);
        std::copy(dy + whole, dy + n, fromDy);
        geluBackwardVectors<T, Slope>(fromX, fromDy, to, kVector);
        std::copy(to, to + (n - whole), dx + whole);
      },
      x, dy, dx, n);
}

template <typename F> Result<PlannedKernel> planMap(const BindRequest &request) {
  return withFloatType(request, request.operands[0].dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    return mapped<T, T>(request, F());
  });
}
template <typename F> void *mapOf(DType dtype) {
  return dtype == DType::F64 ? reinterpret_cast<void *>(&mapAll<double, double, F>)
                             : reinterpret_cast<void *>(&mapAll<float, float, F>);
}

/// An op that maps each floating-point element to one of the same type: its plan function, and the routine that
/// compiled kernels call.
struct MapRow {
  std::string_view op;
  Result<PlannedKernel> (*plan)(const BindRequest &request);
  void *(*routine)(DType dtype);
};
template <typename F> constexpr MapRow mapRow(std::string_view op, F) { return {op, planMap<F>, mapOf<F>}; }

constexpr MapRow kMaps[] = {
    mapRow("exponential", kExponential),
    mapRow("log", kLog),
    mapRow("sqrt", [](auto x) { return std::sqrt(x); }),
    mapRow("rsqrt", [](auto x) { return decltype(x)(1) / std::sqrt(x); }),
    mapRow("tanh", kTanh),
    mapRow("logistic", kLogistic),
    mapRow("erf", kErf),
    mapRow("sine", kSine),
    mapRow("cosine", kCosine),
    mapRow("atan", kAtan),
    mapRow("floor", [](auto x) { return std::floor(x); }),
    mapRow("ceil", [](auto x) { return std::ceil(x); }),
    mapRow("round_nearest_even", [](auto x) { return std::nearbyint(x); }),
    mapRow("stop_gradient", [](auto x) { return x; }),
};
const MapRow *findMap(std::string_view op) {
  auto row = std::find_if(std::begin(kMaps), std::end(kMaps), [&](const MapRow &r) { return r.op == op; });
  return row == std::end(kMaps) ? nullptr : row;
}

bool isSameTypeUnary(Checker &check, const BindRequest &request) {
  if (check.counts(1, 1, 1))
    check.sameType(request.operands[0], "the operand", request.results[0], "the result");
  return !check.failed();
}

// 16-bit storage types whose arithmetic is done in float.
struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

template <typename In> auto loaded(In x) {
  if constexpr (std::is_same_v<In, Bf16>)
    return floatFromBf16(x.bits);
  else if constexpr (std::is_same_v<In, F16>)
    return floatFromF16(x.bits);
  else if constexpr (std::is_same_v<In, Bool8>)
    return uint8_t(int(x));
  else
    return x;
}

template <typename Out, typename Number> Out stored(Number x) {
  if constexpr (std::is_same_v<Out, Bf16>)
    return Bf16{bf16FromFloat(float(x))};
  else if constexpr (std::is_same_v<Out, F16>)
    return F16{f16FromFloat(float(x))};
  else if constexpr (std::is_integral_v<Out> && isFloat<Number>) {
    // C++ leaves the conversion of numbers out of range undefined. Here they saturate, and NaN becomes 0. Both bounds
    // are powers of two, which every floating type represents exactly.
    constexpr Number kPastHighest = Number(std::numeric_limits<Out>::max() / 2 + 1) * 2;
    if (x >= kPastHighest)
      return std::numeric_limits<Out>::max();
    if (x <= Number(std::numeric_limits<Out>::lowest()))
      return std::numeric_limits<Out>::lowest();
    return x == x ? Out(x) : Out(0);
  } else
    return Out(x);
}

template <typename In, typename Out> void convertRange(const void *x, void *y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<Out *>(y)[i] = stored<Out>(loaded(static_cast<const In *>(x)[i]));
}
// Only the loop is compiled for each pair of types.
PlannedKernel converted(const BindRequest &request, void (*range)(const void *, void *, int64_t, int64_t),
                        const void *x, void *y) {
  return {[=, n = request.results[0].elements(), team = request.team] {
    forElements(team, n, [&](int64_t begin, int64_t end) { range(x, y, begin, end); });
    return ok();
  }};
}

/// Calls f with the 16-bit storage type of `dtype`, or otherwise() for any other type.
template <typename F, typename Otherwise>
Result<PlannedKernel> forHalfOr(DType dtype, const F &f, const Otherwise &otherwise) {
  return dtype == DType::BF16 ? f(Type<Bf16>{}) : dtype == DType::F16 ? f(Type<F16>{}) : otherwise();
}
template <typename F> Result<PlannedKernel> forStored(const BindRequest &request, DType dtype, const F &f) {
  return forHalfOr(dtype, f, [&] { return withElementType(request, dtype, f); });
}
template <typename F> Result<PlannedKernel> forStoredFloat(const BindRequest &request, DType dtype, const F &f) {
  return forHalfOr(dtype, f, [&] { return withFloatType(request, dtype, f); });
}

} // namespace

bool isUnary(std::string_view op) {
  return op == "negate" || op == "abs" || op == "sign" || op == "not" || findMap(op);
}

Result<PlannedKernel> planUnary(const BindRequest &request) {
  Checker check(request);
  if (!isSameTypeUnary(check, request))
    return check.error();
  const std::string &op = request.instruction.op;
  DType dtype = request.operands[0].dtype;
  if (op == "negate" || op == "abs" || op == "sign")
    return withElementType(request, dtype, [&](auto type) -> Result<PlannedKernel> {
      using T = typename decltype(type)::type;
      if (op == "negate")
        return mapped<T, T>(request, [](T x) { return wrappedNegation(x); });
      if (op == "abs")
        return mapped<T, T>(request, [](T x) {
          if constexpr (isFloat<T>)
            return std::fabs(x);
          else
            return x < T(0) ? wrappedNegation(x) : x;
        });
      return mapped<T, T>(request, [](T x) {
        if constexpr (isFloat<T>)
          return x > 0 ? T(1) : x < 0 ? T(-1) : x; // keeps NaN and the sign of zero
        else
          return T((x > T(0)) - (x < T(0)));
      });
    });
  if (op == "not")
    return withIntegerType(request, dtype, [&](auto type) -> Result<PlannedKernel> {
      using T = typename decltype(type)::type;
      return mapped<T, T>(request, [](T x) {
        if constexpr (std::is_same_v<T, Bool8>)
          return Bool8(!int(x));
        else
          return T(~x);
      });
    });
  return findMap(op)->plan(request);
}

Result<PlannedKernel> planConvert(const BindRequest &request) {
  Checker check(request);
  if (check.counts(1, 1, 1))
    check.shape(request.results[0], "the result", request.operands[0].shape);
  if (check.failed())
    return check.error();
  return forStored(request, request.operands[0].dtype, [&](auto in) {
    using In = typename decltype(in)::type;
    return forStored(request, request.results[0].dtype, [&](auto out) -> Result<PlannedKernel> {
      using Out = typename decltype(out)::type;
      return converted(request, convertRange<In, Out>, dataOf<In>(request.operands[0]),
                       mutableDataOf<Out>(request.results[0]));
    });
  });
}

template <typename Sum, typename In> static Result<PlannedKernel> accumulated(const BindRequest &request) {
  const Sum *before = dataOf<Sum>(request.operands[0]);
  const In *x = dataOf<In>(request.operands[1]);
  Sum *after = mutableDataOf<Sum>(request.results[0]);
  return PlannedKernel{[before, x, after, n = request.results[0].elements(), team = request.team] {
    forElements(team, n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        after[i] = stored<Sum>(loaded(before[i]) + loaded(x[i]));
    });
    return ok();
  }};
}

Result<PlannedKernel> planAccumulate(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(1, 2, 1))
    return check.error();
  if (request.operands.size() == 1)
    return planConvert(request); // the first summand only starts the sum
  DType sumType = request.results[0].dtype, type = request.operands[1].dtype;
  check.sameType(request.operands[0], "the sum so far", request.results[0], "the result");
  check.shape(request.operands[1], "the value", request.results[0].shape);
  if (check.failed())
    return check.error();
  if (sumType == type) // also integers
    return forStored(request, type, [&](auto both) {
      using T = typename decltype(both)::type;
      return accumulated<T, T>(request);
    });
  return forStoredFloat(request, sumType, [&](auto sum) {
    return forStoredFloat(request, type, [&](auto in) {
      return accumulated<typename decltype(sum)::type, typename decltype(in)::type>(request);
    });
  });
}

Result<PlannedKernel> planReducePrecision(const BindRequest &request) {
  Checker check(request);
  if (!isSameTypeUnary(check, request))
    return check.error();
  int64_t bits = check.integer("mantissa_bits"), exponent = check.integer("min_exponent");
  return withFloatType(request, request.operands[0].dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    check.require(bits >= 0 && bits <= kMostMantissaBits<T>, "mantissa_bits is {}, 0 to {} are possible", bits,
                  kMostMantissaBits<T>);
    check.require(exponent >= kLowestExponent<T> && exponent <= 0, "min_exponent is {}, {} to 0 are possible", exponent,
                  kLowestExponent<T>);
    if (check.failed())
      return check.error();
    const T *x = dataOf<T>(request.operands[0]);
    T *y = mutableDataOf<T>(request.results[0]);
    int64_t n = request.results[0].elements();
    return PlannedKernel{[x, y, n, precision = Precision<T>(bits, exponent), team = request.team] {
      forElements(team, n, [&](int64_t begin, int64_t end) {
        dispatch(
            [](auto, const T *x, T *y, int64_t n, Precision<T> precision) {
#pragma omp simd
              for (int64_t i = 0; i < n; ++i)
                y[i] = precision(x[i]);
            },
            x + begin, y + begin, end - begin, precision);
      });
      return ok();
    }};
  });
}

Result<PlannedKernel> planIsNan(const BindRequest &request) {
  Checker check(request);
  if (check.counts(1, 1, 1)) {
    check.shape(request.results[0], "the result", request.operands[0].shape);
    check.dtype(request.results[0], "the result", DType::Bool);
  }
  if (check.failed())
    return check.error();
  return withFloatType(request, request.operands[0].dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    return mapped<T, Bool8>(request, [](T x) { return Bool8(x != x); });
  });
}

Result<PlannedKernel> planGelu(const BindRequest &request) {
  Checker check(request);
  bool approximate = isSameTypeUnary(check, request) && check.flag("approximate");
  if (check.failed())
    return check.error();
  return withFloatType(request, request.operands[0].dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    if (approximate)
      return mapped<T, T>(request, kGeluByTanh);
    return mapped<T, T>(request, kGelu);
  });
}

Result<PlannedKernel> planGeluBackward(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 1))
    return check.error();
  check.sameType(request.operands[1], "the gradient", request.operands[0], "the operand");
  check.sameType(request.results[0], "the result", request.operands[0], "the operand");
  bool approximate = check.flag("approximate");
  if (check.failed())
    return check.error();
  return withFloatType(request, request.operands[0].dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    const T *x = dataOf<T>(request.operands[0]), *dy = dataOf<T>(request.operands[1]);
    T *dx = mutableDataOf<T>(request.results[0]);
    int64_t n = request.results[0].elements();
    return PlannedKernel{[=, team = request.team] {
      forElements(team, n, [&](int64_t i, int64_t end) {
        if (approximate)
          geluBackwardAll<T, decltype(kGeluSlopeByTanh)>(x + i, dy + i, dx + i, end - i);
        else
          geluBackwardAll<T, decltype(kGeluSlope)>(x + i, dy + i, dx + i, end - i);
      });
      return ok();
    }};
  });
}

namespace {
template <typename F> void *geluBackwardOf(DType dtype) {
  return dtype == DType::F64 ? reinterpret_cast<void *>(&geluBackwardAll<double, F>)
                             : reinterpret_cast<void *>(&geluBackwardAll<float, F>);
}
} // namespace

void *unaryRoutine(std::string_view op, DType dtype) {
  if (op == "gelu")
    return mapOf<decltype(kGelu)>(dtype);
  if (op == "gelu.tanh")
    return mapOf<decltype(kGeluByTanh)>(dtype);
  if (op == "gelu_backward")
    return geluBackwardOf<decltype(kGeluSlope)>(dtype);
  if (op == "gelu_backward.tanh")
    return geluBackwardOf<decltype(kGeluSlopeByTanh)>(dtype);
  const MapRow *row = findMap(op);
  return row ? row->routine(dtype) : nullptr;
}

} // namespace kerf::runtime::kernels
