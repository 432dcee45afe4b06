// SPDX-License-Identifier: Apache-2.0
// How reductions combine elements: what they begin with, and in what type they add.
#pragma once

#include "Families.h"

namespace kerf::runtime::kernels {

struct SumOf {
  template <typename T> using Accumulator = std::conditional_t<isFloat<T>, double, uint64_t>; // integers wrap around
  template <typename T> static Accumulator<T> first() { return 0; }
  template <typename A> static A combine(A x, A y) { return x + y; }
};
struct MaxOf {
  template <typename T> using Accumulator = T;
  template <typename T> static T first() { return lowestOf<T>(); }
  template <typename T> static T combine(T x, T y) { return x > y || x != x ? x : y; }
};
struct MinOf {
  template <typename T> using Accumulator = T;
  template <typename T> static T first() { return highestOf<T>(); }
  template <typename T> static T combine(T x, T y) { return x < y || x != x ? x : y; }
};

} // namespace kerf::runtime::kernels
