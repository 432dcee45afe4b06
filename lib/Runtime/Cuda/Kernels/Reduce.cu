// SPDX-License-Identifier: Apache-2.0
// Sums, maxima and minima over dimensions. One block computes one result, in an order that depends only on the sizes.
#include "ReduceCode.h"

namespace kerf::runtime::cuda {

KERF_KERNEL void reduce(ReduceParameters p) {
  withReduction(p.kind, [&](auto reduction) {
    using R = decltype(reduction);
    using Value = typename R::Value;
    for (int64_t r = block(); r < p.results; r += blocks()) {
      int64_t start = placeOf(p.kept, r);
      Value value = R::neutral();
      for (int64_t i = threadInBlock(); i < p.count; i += threadsOfBlock())
        value = R::combine(value, Value(at(p.x, start + placeOf(p.reduced, i))));
      value = combineBlock(value, [](Value a, Value b) { return R::combine(a, b); });
      if (threadInBlock() == 0)
        put(p.y, r, R::result(value));
    }
  });
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
