// SPDX-License-Identifier: Apache-2.0
// The arithmetic of reductions, for the kernels of Reduce.cu and ReduceRows.cu.
#pragma once

#include "DeviceCode.h"

namespace kerf::runtime::cuda {

/// Sums of floats are accumulated in double, those of integers wrap around.
using Sum = std::conditional_t<isFloat<T>, double, std::conditional_t<sizeof(N) == 8, uint64_t, uint32_t>>;
/// The type in which maxima and minima are found: shuffles move 4 or 8 bytes.
using Wide = std::conditional_t<sizeof(N) >= 4, N, int32_t>;

KERF_DEVICE N narrow(Sum sum) { return std::is_same_v<T, Bool> ? N(sum != 0) : N(sum); }

/// A reduction: the type of its values, the value of no elements, the combination of two, and the result of a value.
struct SumOf {
  using Value = Sum;
  KERF_DEVICE static Value neutral() { return Value(0); }
  KERF_DEVICE static Value combine(Value a, Value b) { return a + b; }
  KERF_DEVICE static N result(Value value) { return narrow(value); }
};
struct MaxOf {
  using Value = Wide;
  KERF_DEVICE static Value neutral() { return Value(lowest<N>()); }
  KERF_DEVICE static Value combine(Value a, Value b) { return larger(a, b); }
  KERF_DEVICE static N result(Value value) { return N(value); }
};
struct MinOf {
  using Value = Wide;
  KERF_DEVICE static Value neutral() { return Value(highest<N>()); }
  KERF_DEVICE static Value combine(Value a, Value b) { return smaller(a, b); }
  KERF_DEVICE static N result(Value value) { return N(value); }
};

/// Calls f with the reduction of a kind.
template <typename F> KERF_DEVICE void withReduction(Reduction kind, F f) {
  if (kind == Reduction::Sum)
    f(SumOf());
  else if (kind == Reduction::Max)
    f(MaxOf());
  else
    f(MinOf());
}

} // namespace kerf::runtime::cuda
