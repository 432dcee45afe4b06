// SPDX-License-Identifier: Apache-2.0
// Folds elementwise operations. Loops run over stored elements only: along a dimension in which all operands store one
// slice, the result stores one slice too.
#include "Common/Fold.h"
#include "kerf/Package/Precision.h"

#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <limits>

namespace kerf::frontend {

namespace {

/// The loop over the result: its shape and stored shape, and for each operand the step in elements along each dimension
/// (0: the operand stores one slice).
struct Broadcast {
  Shape shape, stored;
  std::vector<std::vector<int64_t>> steps;
};

// With more elements in the result, searching the operands for equal slices first saves time.
constexpr int64_t kWorthCompressing = 4096;

Result<Broadcast> planBroadcast(std::vector<Literal> &operands) {
  Broadcast plan;
  for (const Literal &operand : operands) {
    Result<Shape> shape = broadcastShapes(plan.shape, operand.shape);
    if (!shape)
      return shape.error();
    plan.shape = *shape;
  }
  if (elementsOf(plan.shape) > kWorthCompressing)
    for (Literal &operand : operands)
      operand = compress(operand);
  size_t rank = plan.shape.size();
  plan.stored.assign(rank, 1);
  for (const Literal &operand : operands)
    for (size_t d = 0, missing = rank - operand.shape.size(); d < operand.shape.size(); ++d)
      if (operand.stored.shape[d] != 1)
        plan.stored[missing + d] = operand.stored.shape[d];
  for (const Literal &operand : operands) {
    std::vector<int64_t> steps(rank, 0);
    int64_t step = 1;
    for (size_t d = operand.shape.size(), missing = rank - d; d-- > 0;) {
      if (operand.stored.shape[d] != 1)
        steps[missing + d] = step;
      step *= operand.stored.shape[d];
    }
    plan.steps.push_back(std::move(steps));
  }
  return plan;
}

/// Calls row(result offset, operand offsets) for the start of each run along the last stored dimension.
void forEachRow(const Broadcast &plan, const std::function<void(int64_t, const std::vector<int64_t> &)> &row) {
  size_t rank = plan.stored.size();
  int64_t elements = elementsOf(plan.stored);
  if (elements == 0)
    return;
  int64_t length = rank ? plan.stored.back() : 1;
  std::vector<int64_t> at(rank, 0), offsets(plan.steps.size(), 0);
  for (int64_t out = 0; out < elements; out += length) {
    row(out, offsets);
    for (size_t d = rank - 1; rank > 1 && d-- > 0;) {
      for (size_t i = 0; i < offsets.size(); ++i)
        offsets[i] += plan.steps[i][d];
      if (++at[d] < plan.stored[d])
        break;
      for (size_t i = 0; i < offsets.size(); ++i)
        offsets[i] -= plan.steps[i][d] * plan.stored[d];
      at[d] = 0;
    }
  }
}

template <typename In, typename Out, typename F> Result<Literal> map1(const Literal &x, DType result, F f) {
  Result<FreshLiteral> fresh = allocateLiteral(result, x.stored.shape);
  if (!fresh)
    return fresh.error();
  const In *in = x.as<In>();
  Out *out = fresh->as<Out>();
  for (int64_t i = 0, n = x.storedElements(); i < n; ++i)
    out[i] = f(in[i]);
  fresh->literal.shape = x.shape;
  return fresh->literal;
}

/// The loop of a binary operation, and the memory that it reads and writes.
struct BinaryLoop {
  std::vector<Literal> operands;
  Broadcast plan;
  FreshLiteral fresh;
};

Result<BinaryLoop> planBinary(const Literal &x, const Literal &y, DType result) {
  BinaryLoop loop{{x, y}, {}, {}};
  Result<Broadcast> plan = planBroadcast(loop.operands);
  if (!plan)
    return plan.error();
  loop.plan = *plan;
  Result<FreshLiteral> fresh = allocateLiteral(result, plan->stored);
  if (!fresh)
    return fresh.error();
  loop.fresh = *fresh;
  loop.fresh.literal.shape = plan->shape;
  return loop;
}

// The template holds only the loops over elements: it is compiled for each operation and type.
template <typename In, typename Out, typename F>
Result<Literal> map2(const Literal &x, const Literal &y, DType result, F f) {
  Result<BinaryLoop> loop = planBinary(x, y, result);
  if (!loop)
    return loop.error();
  const Broadcast &plan = loop->plan;
  const In *a = loop->operands[0].as<In>(), *b = loop->operands[1].as<In>();
  Out *out = loop->fresh.as<Out>();
  bool scalar = plan.stored.empty();
  int64_t length = scalar ? 1 : plan.stored.back(), stepA = scalar ? 0 : plan.steps[0].back(),
          stepB = scalar ? 0 : plan.steps[1].back();
  forEachRow(plan, [&](int64_t o, const std::vector<int64_t> &at) {
    const In *p = a + at[0], *q = b + at[1];
    // The steps are 0 or 1. With a loop for the usual case, the C++ compiler vectorizes it.
    if (stepA && stepB)
      for (int64_t i = 0; i < length; ++i)
        out[o + i] = f(p[i], q[i]);
    else
      for (int64_t i = 0; i < length; ++i)
        out[o + i] = f(p[i * stepA], q[i * stepB]);
  });
  return loop->fresh.literal;
}

template <typename T> T applyFloat(Unary op, T x) {
  switch (op) {
  case Unary::Negate:
    return -x;
  case Unary::Abs:
    return std::abs(x);
  case Unary::Sign:
    return T(x > 0) - T(x < 0);
  case Unary::Exponential:
    return std::exp(x);
  case Unary::Log:
    return std::log(x);
  case Unary::Sqrt:
    return std::sqrt(x);
  case Unary::Tanh:
    return std::tanh(x);
  case Unary::Logistic:
    return T(1) / (T(1) + std::exp(-x));
  case Unary::Erf:
    return std::erf(x);
  case Unary::Sine:
    return std::sin(x);
  case Unary::Cosine:
    return std::cos(x);
  case Unary::Atan:
    return std::atan(x);
  case Unary::Floor:
    return std::floor(x);
  case Unary::Ceil:
    return std::ceil(x);
  case Unary::Round:
    return std::nearbyint(x);
  case Unary::StopGradient:
  case Unary::Not:
    break;
  }
  return x;
}

/// Computes integer arithmetic that wraps around as in NumPy, by unsigned arithmetic, for which C++ defines overflow.
template <typename T, typename F> T wrap(T x, T y, F f) {
  using U = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;
  return T(f(U(x), U(y)));
}

template <typename T> T integerPower(T base, T exponent) {
  T result = 1;
  for (uint64_t left = uint64_t(exponent); left; left >>= 1) {
    if (left & 1)
      result = wrap(result, base, [](auto a, auto b) { return a * b; });
    base = wrap(base, base, [](auto a, auto b) { return a * b; });
  }
  return result;
}

template <typename T> Result<Literal> integerDivision(Binary op, const Literal &x, const Literal &y) {
  const T *divisors = y.as<T>();
  for (int64_t i = 0, n = y.storedElements(); i < n; ++i)
    if (divisors[i] == 0)
      return Error{"an integer constant is divided by zero"};
  if (op == Binary::Divide)
    return map2<T, T>(x, y, x.dtype(), [](T a, T b) {
      return b == T(-1) ? wrap(T(0), a, [](auto p, auto q) { return p - q; }) : T(a / b);
    });
  return map2<T, T>(x, y, x.dtype(), [](T a, T b) {
    if (b == T(-1))
      return T(0);
    T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r;
  });
}

template <typename T> Result<Literal> foldInteger(Binary op, const Literal &x, const Literal &y) {
  DType dtype = x.dtype();
  switch (op) {
  case Binary::Add:
    return map2<T, T>(x, y, dtype, [](T a, T b) { return wrap(a, b, [](auto p, auto q) { return p + q; }); });
  case Binary::Subtract:
    return map2<T, T>(x, y, dtype, [](T a, T b) { return wrap(a, b, [](auto p, auto q) { return p - q; }); });
  case Binary::Multiply:
    return map2<T, T>(x, y, dtype, [](T a, T b) { return wrap(a, b, [](auto p, auto q) { return p * q; }); });
  case Binary::Divide:
  case Binary::Remainder:
    return integerDivision<T>(op, x, y);
  case Binary::Power: {
    const T *exponents = y.as<T>();
    for (int64_t i = 0, n = y.storedElements(); i < n; ++i)
      if (std::is_signed_v<T> && exponents[i] < 0)
        return Error{fmt::format("an integer constant has the negative exponent {}", int64_t(exponents[i]))};
    return map2<T, T>(x, y, dtype, integerPower<T>);
  }
  case Binary::Maximum:
    return map2<T, T>(x, y, dtype, [](T a, T b) { return a > b ? a : b; });
  case Binary::Minimum:
    return map2<T, T>(x, y, dtype, [](T a, T b) { return a < b ? a : b; });
  case Binary::And:
    return map2<T, T>(x, y, dtype, [](T a, T b) { return T(a & b); });
  case Binary::Or:
    return map2<T, T>(x, y, dtype, [](T a, T b) { return T(a | b); });
  }
  return Error{"unreachable", ExitStatus::InternalCheck};
}

template <typename T> Result<Literal> foldFloat(Binary op, const Literal &x, const Literal &y) {
  DType dtype = x.dtype();
  switch (op) {
  case Binary::Add:
    return map2<T, T>(x, y, dtype, [](T a, T b) { return a + b; });
  case Binary::Subtract:
    return map2<T, T>(x, y, dtype, [](T a, T b) { return a - b; });
  case Binary::Multiply:
    return map2<T, T>(x, y, dtype, [](T a, T b) { return a * b; });
  case Binary::Divide:
    return map2<T, T>(x, y, dtype, [](T a, T b) { return a / b; });
  case Binary::Remainder:
    return map2<T, T>(x, y, dtype, [](T a, T b) { return std::fmod(a, b); });
  case Binary::Power:
    return map2<T, T>(x, y, dtype, [](T a, T b) { return std::pow(a, b); });
  // The result is NaN if an operand is NaN, as both comparisons with NaN are false.
  case Binary::Maximum:
    return map2<T, T>(x, y, dtype, [](T a, T b) { return a > b || a != a ? a : b; });
  case Binary::Minimum:
    return map2<T, T>(x, y, dtype, [](T a, T b) { return a < b || a != a ? a : b; });
  default:
    return Error{fmt::format("a logical operation is not defined on constants of {}", toString(dtype))};
  }
}

template <typename T> Result<Literal> compareAs(Order order, const Literal &x, const Literal &y) {
  switch (order) {
  case Order::Equal:
    return map2<T, uint8_t>(x, y, DType::Bool, [](T a, T b) { return uint8_t(a == b); });
  case Order::NotEqual:
    return map2<T, uint8_t>(x, y, DType::Bool, [](T a, T b) { return uint8_t(a != b); });
  case Order::Less:
    return map2<T, uint8_t>(x, y, DType::Bool, [](T a, T b) { return uint8_t(a < b); });
  case Order::LessOrEqual:
    return map2<T, uint8_t>(x, y, DType::Bool, [](T a, T b) { return uint8_t(a <= b); });
  case Order::Greater:
    return map2<T, uint8_t>(x, y, DType::Bool, [](T a, T b) { return uint8_t(a > b); });
  case Order::GreaterOrEqual:
    return map2<T, uint8_t>(x, y, DType::Bool, [](T a, T b) { return uint8_t(a >= b); });
  }
  return Error{"unreachable", ExitStatus::InternalCheck};
}

/// Converts floating-point numbers to integers: truncated, clamped to the range of the type, and NaN as 0, cases that
/// C++ leaves undefined.
template <typename To, typename From> To convertNumber(From x) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (x != x)
      return 0;
    if (x >= From(std::numeric_limits<To>::max()))
      return std::numeric_limits<To>::max();
    if (x <= From(std::numeric_limits<To>::min()))
      return std::numeric_limits<To>::min();
  }
  return To(x);
}

} // namespace

Result<Literal> foldUnary(Unary op, const Literal &x) {
  if (x.dtype() == DType::Bool && op == Unary::Not)
    return map1<uint8_t, uint8_t>(x, DType::Bool, [](uint8_t a) { return uint8_t(!a); });
  return dispatch(x.dtype(), [&](auto zero) -> Result<Literal> {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      return map1<T, T>(x, x.dtype(), [op](T a) { return applyFloat(op, a); });
    } else {
      switch (op) {
      case Unary::Negate:
        return map1<T, T>(x, x.dtype(), [](T a) { return wrap(T(0), a, [](auto p, auto q) { return p - q; }); });
      case Unary::Abs:
        return map1<T, T>(x, x.dtype(),
                          [](T a) { return a < T(0) ? wrap(T(0), a, [](auto p, auto q) { return p - q; }) : a; });
      case Unary::Sign:
        return map1<T, T>(x, x.dtype(), [](T a) { return T(T(a > 0) - T(a < 0)); });
      case Unary::Not:
        return map1<T, T>(x, x.dtype(), [](T a) { return T(~a); });
      default:
        return Error{fmt::format("a floating-point function is not defined on constants of {}", toString(x.dtype()))};
      }
    }
  });
}

Result<Literal> foldBinary(Binary op, const Literal &x, const Literal &y) {
  return dispatch(x.dtype(), [&](auto zero) -> Result<Literal> {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>)
      return foldFloat<T>(op, x, y);
    else
      return foldInteger<T>(op, x, y);
  });
}

Result<Literal> foldCompare(Order order, const Literal &x, const Literal &y) {
  return dispatch(x.dtype(), [&](auto zero) { return compareAs<decltype(zero)>(order, x, y); });
}

Result<Literal> foldSelect(const Literal &predicate, const Literal &x, const Literal &y) {
  std::vector<Literal> operands{predicate, x, y};
  Result<Broadcast> plan = planBroadcast(operands);
  if (!plan)
    return plan.error();
  Result<FreshLiteral> fresh = allocateLiteral(x.dtype(), plan->stored);
  if (!fresh)
    return fresh.error();
  dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const uint8_t *p = operands[0].as<uint8_t>();
    const T *a = operands[1].as<T>(), *b = operands[2].as<T>();
    T *out = fresh->as<T>();
    bool scalar = plan->stored.empty();
    int64_t length = scalar ? 1 : plan->stored.back(), s0 = scalar ? 0 : plan->steps[0].back(),
            s1 = scalar ? 0 : plan->steps[1].back(), s2 = scalar ? 0 : plan->steps[2].back();
    forEachRow(*plan, [&](int64_t o, const std::vector<int64_t> &at) {
      for (int64_t i = 0; i < length; ++i)
        out[o + i] = p[at[0] + i * s0] ? a[at[1] + i * s1] : b[at[2] + i * s2];
    });
  });
  fresh->literal.shape = plan->shape;
  return fresh->literal;
}

Result<Literal> foldConvert(const Literal &x, DType dtype) {
  if (x.dtype() == dtype)
    return x;
  return dispatch(x.dtype(), [&](auto from) -> Result<Literal> {
    using From = decltype(from);
    if (dtype == DType::Bool)
      return map1<From, uint8_t>(x, dtype, [](From a) { return uint8_t(a != From(0)); });
    return dispatch(dtype, [&](auto to) -> Result<Literal> {
      using To = decltype(to);
      return map1<From, To>(x, dtype, [](From a) { return convertNumber<To>(a); });
    });
  });
}

Result<Literal> foldReducePrecision(const Literal &x, int64_t mantissaBits, int64_t minExponent) {
  auto rounded = [&](auto zero) {
    using T = decltype(zero);
    return map1<T, T>(x, x.dtype(), Precision<T>(mantissaBits, minExponent));
  };
  return x.dtype() == DType::F64 ? rounded(double{}) : rounded(float{});
}

Result<Literal> foldIsNan(const Literal &x) {
  return dispatch(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return map1<T, uint8_t>(x, DType::Bool, [](T a) { return uint8_t(a != a); });
  });
}

} // namespace kerf::frontend
