// SPDX-License-Identifier: Apache-2.0
// The operations by which reductions combine elements: their neutral elements and the types in which they accumulate.
#pragma once

#include "Families.h"

namespace kerf::runtime::kernels {

/// Returns an element as a number of the type that it is combined in.
template <typename A, typename T> [[gnu::always_inline]] inline A widened(T x) {
  if constexpr (std::is_same_v<T, Bool8> && !std::is_same_v<A, Bool8>)
    return A(int(x)); // a sum of booleans is a count, which becomes their logical or when converted back
  else
    return A(x);
}

/// The sum: floats are accumulated in double, integers modulo 2^64.
struct SumOf {
  template <typename T> using Accumulator = std::conditional_t<isFloat<T>, double, uint64_t>; // integers wrap around
  template <typename T> static Accumulator<T> first() { return 0; }
  template <typename A> static A combine(A x, A y) { return x + y; }
};
/// The maximum; NaN if any element is NaN.
struct MaxOf {
  template <typename T> using Accumulator = T;
  template <typename T> static T first() { return lowestOf<T>(); }
  template <typename T> static T combine(T x, T y) { return x > y || x != x ? x : y; }
};
/// The minimum; NaN if any element is NaN.
struct MinOf {
  template <typename T> using Accumulator = T;
  template <typename T> static T first() { return highestOf<T>(); }
  template <typename T> static T combine(T x, T y) { return x < y || x != x ? x : y; }
};

} // namespace kerf::runtime::kernels
