// SPDX-License-Identifier: Apache-2.0
// The operations by which reductions combine elements: their neutral elements and the types in which they accumulate.
#pragma once

#include "Families.h"

namespace kerf::runtime::kernels {

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
