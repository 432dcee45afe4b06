// SPDX-License-Identifier: Apache-2.0
// Operations on single elements. The operation is a parameter, which is the same for all threads; the compiler of fused
// kernels (lib/Codegen) makes code for each expression instead.
#include "ElementCode.h"

namespace kerf::runtime::cuda {

// Integers wrap around, as unsigned numbers do in C++.
template <typename X> using Wrapping = std::conditional_t<sizeof(X) == 8, uint64_t, uint32_t>;

template <typename X> KERF_DEVICE X ofInteger(UnaryOp op, X x) {
  constexpr bool isBool = std::is_same_v<T, Bool>;
  switch (op) {
  case UnaryOp::Negate:
    return isBool ? x : X(Wrapping<X>(0) - Wrapping<X>(x));
  case UnaryOp::Abs:
    return x < X(0) ? X(Wrapping<X>(0) - Wrapping<X>(x)) : x;
  case UnaryOp::Sign:
    return X((x > X(0)) - (x < X(0)));
  case UnaryOp::Not:
    return isBool ? X(!x) : X(~x);
  default:
    return x;
  }
}

KERF_KERNEL void unary(UnaryParameters p) {
  for (int64_t i = firstElement(); i < p.n; i += elementStep())
    if constexpr (isFloat<T>)
      put(p.y, i, ofFloat(p.op, at(p.x, i)));
    else
      put(p.y, i, ofInteger(p.op, at(p.x, i)));
}

/// Division by zero gives all ones, and the lowest number divided by -1 wraps around, as on the CPU.
template <typename X> KERF_DEVICE X quotient(X x, X y) {
  if (y == X(0))
    return X(~Wrapping<X>(0));
  if constexpr (std::is_signed_v<X>)
    if (y == X(-1))
      return X(Wrapping<X>(0) - Wrapping<X>(x));
  return X(x / y);
}

template <typename X> KERF_DEVICE X ofIntegers(BinaryOp op, X x, X y) {
  using W = Wrapping<X>;
  switch (op) {
  case BinaryOp::Add:
    return X(W(x) + W(y));
  case BinaryOp::Subtract:
    return X(W(x) - W(y));
  case BinaryOp::Multiply:
    return X(W(x) * W(y));
  case BinaryOp::Divide:
    return quotient(x, y);
  case BinaryOp::Maximum:
    return x > y ? x : y;
  case BinaryOp::Minimum:
    return x < y ? x : y;
  case BinaryOp::And:
    return X(x & y);
  case BinaryOp::Or:
    return X(x | y);
  default:
    return x;
  }
}

KERF_KERNEL void binary(BinaryParameters p) {
  for (int64_t i = firstElement(); i < p.n; i += elementStep())
    if constexpr (isFloat<T>)
      put(p.z, i, ofFloats(p.op, at(p.x, i), at(p.y, i)));
    else
      put(p.z, i, ofIntegers(p.op, at(p.x, i), at(p.y, i)));
}

template <typename X> KERF_DEVICE bool holds(Order order, X x, X y) {
  switch (order) {
  case Order::Equal:
    return x == y;
  case Order::NotEqual:
    return x != y;
  case Order::Less:
    return x < y;
  case Order::LessOrEqual:
    return x <= y;
  case Order::Greater:
    return x > y;
  default:
    return x >= y;
  }
}

KERF_KERNEL void compare(CompareParameters p) {
  for (int64_t i = firstElement(); i < p.n; i += elementStep())
    p.z[i] = holds(p.order, at(p.x, i), at(p.y, i));
}

KERF_KERNEL void choose(SelectParameters p) {
  const T *x = static_cast<const T *>(p.x), *y = static_cast<const T *>(p.y);
  for (int64_t i = firstElement(); i < p.n; i += elementStep())
    static_cast<T *>(p.z)[i] = p.predicate[i] ? x[i] : y[i];
}

/// Converts x to an element of type Out. Floats out of an integer type's range saturate, and NaN becomes 0.
template <typename Out> KERF_DEVICE void convertTo(void *y, int64_t i, N x) {
  using To = Number<Out>;
  if constexpr (std::is_integral_v<To> && std::is_floating_point_v<N> && !std::is_same_v<Out, Bool>) {
    constexpr N past = N(To(std::is_signed_v<To> ? To(1) << (8 * sizeof(To) - 2) : To(1) << (8 * sizeof(To) - 1))) * 2;
    To to = x >= past ? highest<To>() : x <= N(lowest<To>()) ? lowest<To>() : x == x ? To(x) : To(0);
    put<Out>(y, i, to);
  } else if constexpr (std::is_same_v<Out, Bool>)
    put<Out>(y, i, x != N(0));
  else
    put<Out>(y, i, To(x));
}

KERF_KERNEL void convert(ConvertParameters p) {
  for (int64_t i = firstElement(); i < p.n; i += elementStep()) {
    N x = at(p.x, i);
    switch (p.to) { // numbers of DType
    case 0:
      convertTo<F64>(p.y, i, x);
      break;
    case 1:
      convertTo<F32>(p.y, i, x);
      break;
    case 2:
      convertTo<BF16>(p.y, i, x);
      break;
    case 3:
      convertTo<F16>(p.y, i, x);
      break;
    case 4:
      convertTo<I64>(p.y, i, x);
      break;
    case 5:
      convertTo<I32>(p.y, i, x);
      break;
    case 6:
      convertTo<I16>(p.y, i, x);
      break;
    case 7:
      convertTo<I8>(p.y, i, x);
      break;
    case 8:
      convertTo<U64>(p.y, i, x);
      break;
    case 9:
      convertTo<U32>(p.y, i, x);
      break;
    case 10:
      convertTo<U16>(p.y, i, x);
      break;
    case 11:
      convertTo<U8>(p.y, i, x);
      break;
    default:
      convertTo<Bool>(p.y, i, x);
    }
  }
}

#ifdef KERF_FLOATING
KERF_KERNEL void accumulate(AccumulateParameters p) {
  for (int64_t i = firstElement(); i < p.n; i += elementStep()) {
    N x = p.from == 0   ? N(at<F64>(p.x, i))
          : p.from == 1 ? N(at<F32>(p.x, i))
          : p.from == 2 ? N(at<BF16>(p.x, i))
                        : N(at<F16>(p.x, i));
    put(p.after, i, at(p.before, i) + x);
  }
}

KERF_KERNEL void reducePrecision(ReducePrecisionParameters<N> p) {
  for (int64_t i = firstElement(); i < p.n; i += elementStep())
    put(p.y, i, p.precision(at(p.x, i)));
}

KERF_KERNEL void isNan(IsNanParameters p) {
  for (int64_t i = firstElement(); i < p.n; i += elementStep()) {
    N x = at(p.x, i);
    p.y[i] = x != x;
  }
}
#endif

} // namespace kerf::runtime::cuda
