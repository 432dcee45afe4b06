// SPDX-License-Identifier: Apache-2.0
// Sums, maxima and minima over dimensions. One block computes one result, in an order that depends only on the sizes.
#include "DeviceCode.h"

namespace kerf::runtime::cuda {

/// Sums of floats are accumulated in double, those of integers wrap around.
using Sum = std::conditional_t<isFloat<T>, double, std::conditional_t<sizeof(N) == 8, uint64_t, uint32_t>>;

KERF_DEVICE N narrow(Sum sum) { return std::is_same_v<T, Bool> ? N(sum != 0) : N(sum); }

template <typename X, typename Load, typename Combine>
KERF_DEVICE X reduced(const ReduceParameters &p, int64_t start, X neutral, Load load, Combine combine) {
  X value = neutral;
  for (int64_t i = threadInBlock(); i < p.count; i += threadsOfBlock())
    value = combine(value, load(start + placeOf(p.reduced, i)));
  return combineBlock(value, combine);
}

KERF_KERNEL void reduce(ReduceParameters p) {
  using Wide = std::conditional_t<sizeof(N) >= 4, N, int32_t>; // shuffles move 4 or 8 bytes
  for (int64_t r = block(); r < p.results; r += blocks()) {
    int64_t start = placeOf(p.kept, r);
    N result;
    auto element = [&](int64_t i) { return Wide(at(p.x, i)); };
    if (p.kind == Reduction::Sum)
      result = narrow(
          reduced(p, start, Sum(0), [&](int64_t i) { return Sum(at(p.x, i)); }, [](Sum a, Sum b) { return a + b; }));
    else if (p.kind == Reduction::Max)
      result = N(reduced(p, start, Wide(lowest<N>()), element, larger<Wide>));
    else
      result = N(reduced(p, start, Wide(highest<N>()), element, smaller<Wide>));
    if (threadInBlock() == 0)
      put(p.y, r, result);
  }
}

/// For booleans, sums and maxima are "or", and minima are "and".
template <typename X> KERF_DEVICE X combined(Reduction kind, X x, X y) {
  if (kind == Reduction::Max)
    return larger(x, y);
  if (kind == Reduction::Min)
    return smaller(x, y);
  if constexpr (std::is_same_v<T, Bool>)
    return X(x | y);
  else if constexpr (std::is_integral_v<X>)
    return X(std::make_unsigned_t<X>(x) + std::make_unsigned_t<X>(y)); // wraps around
  else
    return x + y;
}

KERF_KERNEL void addInOrder(OrderedReduceParameters p) {
  auto array = [&](int32_t k) {
    return k == p.own ? p.mine : static_cast<const void *>(static_cast<const char *>(p.received) + k * p.apart);
  };
  for (int64_t i = firstElement(); i < p.n; i += elementStep()) {
    N value = at(array(0), i);
    for (int32_t k = 1; k < p.count; ++k)
      value = combined(p.kind, value, at(array(k), i));
    put(p.y, i, value);
  }
}

} // namespace kerf::runtime::cuda
