// SPDX-License-Identifier: Apache-2.0
// Operations on single elements. The operation is a parameter, which is the same for all threads; the compiler of fused
// kernels (lib/Codegen) makes code for each expression instead. Where addresses allow it, a thread takes as many
// neighbouring elements as the widest tensor has in 16 bytes.
#include "ElementCode.h"
#include "PackCode.h"

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

/// Removes the first number of a pack, and adds one behind the last. A loop that does so for each number of a pack has
/// the code of an operation once, and yet keeps the pack in registers.
template <int W> KERF_DEVICE void moveUp(Pack<W> &pack, N last) {
#pragma unroll
  for (int k = 0; k + 1 < W; ++k)
    pack[k] = pack[k + 1];
  pack[W - 1] = last;
}

/// Packs of the n elements of tensors, of which the last may have fewer. The tensors lie at multiples of 16 bytes if
/// `aligned`.
struct Packs {
  int64_t n;
  bool aligned;

  /// Calls f(i) for the first element of each pack, shared by the threads of the grid.
  template <typename F> KERF_DEVICE void each(F f) const {
#pragma unroll 1
    for (int64_t i = firstElement() * kWidth; i < n; i += elementStep() * kWidth)
      f(i);
  }
  KERF_DEVICE bool isWhole(int64_t i) const { return aligned && n - i >= kWidth; }
  KERF_DEVICE Pack<kWidth> load(const void *x, int64_t i) const {
    if (isWhole(i))
      return loadPack<kWidth, T, Access::Whole>(x, i);
    Pack<kWidth> pack = {};
#pragma unroll 1
    for (int64_t k = i; k < i + kWidth; ++k)
      moveUp<kWidth>(pack, k < n ? at(x, k) : N(0));
    return pack;
  }
  KERF_DEVICE void store(void *y, int64_t i, Pack<kWidth> pack) const {
    if (isWhole(i))
      return storePack<kWidth>(y, i, pack);
#pragma unroll 1
    for (int64_t k = i; k < i + kWidth && k < n; ++k) {
      put(y, k, pack[0]);
      moveUp<kWidth>(pack, N(0));
    }
  }
};

KERF_KERNEL void unary(UnaryParameters p) {
  Packs packs{p.n, areAligned(p.x, p.y)};
  packs.each([&](int64_t i) {
    Pack<kWidth> x = packs.load(p.x, i);
#pragma unroll 1
    for (int k = 0; k < kWidth; ++k)
      if constexpr (isFloat<T>)
        moveUp<kWidth>(x, ofFloat(p.op, x[0]));
      else
        moveUp<kWidth>(x, ofInteger(p.op, x[0]));
    packs.store(p.y, i, x);
  });
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
  Packs packs{p.n, areAligned(p.x, p.y, p.z)};
  packs.each([&](int64_t i) {
    Pack<kWidth> x = packs.load(p.x, i), y = packs.load(p.y, i);
#pragma unroll 1
    for (int k = 0; k < kWidth; ++k) {
      if constexpr (isFloat<T>)
        moveUp<kWidth>(x, ofFloats(p.op, x[0], y[0]));
      else
        moveUp<kWidth>(x, ofIntegers(p.op, x[0], y[0]));
      moveUp<kWidth>(y, y[0]);
    }
    packs.store(p.z, i, x);
  });
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
  eachOfGrid<kWidth>(p.n, areAligned(p.x, p.y, p.z), [&](auto width, int64_t i) {
    Pack<width> x = loadPack<width, T, Access::Whole>(p.x, i), y = loadPack<width, T, Access::Whole>(p.y, i);
    std::array<U8, width> z;
#pragma unroll
    for (int k = 0; k < width; ++k)
      z[k] = holds(p.order, x[k], y[k]);
    storeElements<width, U8>(p.z, i, z);
  });
}

KERF_KERNEL_SHARING(1024, 1) void choose(SelectParameters p) {
  eachOfGrid<kWidth>(p.n, areAligned(p.predicate, p.x, p.y, p.z), [&](auto width, int64_t i) {
    auto predicate = loadElements<width, U8, Access::Whole>(p.predicate, i);
    auto x = loadElements<width, T, Access::Whole>(p.x, i), y = loadElements<width, T, Access::Whole>(p.y, i);
#pragma unroll
    for (int k = 0; k < width; ++k)
      if (!predicate[k])
        x[k] = y[k];
    storeElements<width>(p.z, i, x);
  });
}

/// Converts x to an element of type Out. Floats out of an integer type's range saturate, and NaN becomes 0.
template <typename Out> KERF_DEVICE Number<Out> converted(N x) {
  using To = Number<Out>;
  if constexpr (std::is_integral_v<To> && std::is_floating_point_v<N> && !std::is_same_v<Out, Bool>) {
    constexpr N past = N(To(std::is_signed_v<To> ? To(1) << (8 * sizeof(To) - 2) : To(1) << (8 * sizeof(To) - 1))) * 2;
    return x >= past ? highest<To>() : x <= N(lowest<To>()) ? lowest<To>() : x == x ? To(x) : To(0);
  } else if constexpr (std::is_same_v<Out, Bool>) {
    return x != N(0);
  } else {
    return To(x);
  }
}

template <typename Out> KERF_DEVICE void convertTo(const ConvertParameters &p) {
  constexpr int kElements = 16 / (sizeof(T) > sizeof(Out) ? sizeof(T) : sizeof(Out));
  eachOfGrid<kElements>(p.n, areAligned(p.x, p.y), [&](auto width, int64_t i) {
    Pack<width> x = loadPack<width, T, Access::Whole>(p.x, i);
    Pack<width, Number<Out>> y;
#pragma unroll
    for (int k = 0; k < width; ++k)
      y[k] = converted<Out>(x[k]);
    storePack<width, Out>(p.y, i, y);
  });
}

KERF_KERNEL void convert(ConvertParameters p) {
  switch (p.to) { // numbers of DType
  case 0:
    return convertTo<F64>(p);
  case 1:
    return convertTo<F32>(p);
  case 2:
    return convertTo<BF16>(p);
  case 3:
    return convertTo<F16>(p);
  case 4:
    return convertTo<I64>(p);
  case 5:
    return convertTo<I32>(p);
  case 6:
    return convertTo<I16>(p);
  case 7:
    return convertTo<I8>(p);
  case 8:
    return convertTo<U64>(p);
  case 9:
    return convertTo<U32>(p);
  case 10:
    return convertTo<U16>(p);
  case 11:
    return convertTo<U8>(p);
  default:
    return convertTo<Bool>(p);
  }
}

#ifdef KERF_FLOATING
template <typename From> KERF_DEVICE void accumulateFrom(const AccumulateParameters &p) {
  constexpr int kElements = 16 / (sizeof(T) > sizeof(From) ? sizeof(T) : sizeof(From));
  eachOfGrid<kElements>(p.n, areAligned(p.before, p.x, p.after), [&](auto width, int64_t i) {
    Pack<width> sum = loadPack<width, T, Access::Whole>(p.before, i);
    auto x = loadPack<width, From, Access::Whole>(p.x, i);
#pragma unroll
    for (int k = 0; k < width; ++k)
      sum[k] += N(x[k]);
    storePack<width>(p.after, i, sum);
  });
}

KERF_KERNEL void accumulate(AccumulateParameters p) {
  switch (p.from) { // numbers of DType
  case 0:
    return accumulateFrom<F64>(p);
  case 1:
    return accumulateFrom<F32>(p);
  case 2:
    return accumulateFrom<BF16>(p);
  default:
    return accumulateFrom<F16>(p);
  }
}

KERF_KERNEL void reducePrecision(ReducePrecisionParameters<N> p) {
  Packs packs{p.n, areAligned(p.x, p.y)};
  packs.each([&](int64_t i) {
    Pack<kWidth> x = packs.load(p.x, i);
#pragma unroll 1
    for (int k = 0; k < kWidth; ++k)
      moveUp<kWidth>(x, p.precision(x[0]));
    packs.store(p.y, i, x);
  });
}

KERF_KERNEL void isNan(IsNanParameters p) {
  eachOfGrid<kWidth>(p.n, areAligned(p.x, p.y), [&](auto width, int64_t i) {
    Pack<width> x = loadPack<width, T, Access::Whole>(p.x, i);
    std::array<U8, width> y;
#pragma unroll
    for (int k = 0; k < width; ++k)
      y[k] = x[k] != x[k];
    storeElements<width, U8>(p.y, i, y);
  });
}
#endif

} // namespace kerf::runtime::cuda
