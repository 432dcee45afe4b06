// SPDX-License-Identifier: Apache-2.0
// Kernels that move elements without looking at them. KERF_TYPE is the type of the elements of iota; the others copy
// elements by their size.
#include "DeviceCode.h"

namespace kerf::runtime::cuda {

template <typename E> KERF_DEVICE void copyElements(const CopyParameters &p) {
  const E *from = static_cast<const E *>(p.from) + p.fromStart;
  E *to = static_cast<E *>(p.to) + p.toStart;
  for (int64_t i = firstElement(); i < p.n; i += elementStep()) {
    int64_t rest = i, read = 0, written = 0;
    for (int d = p.rank - 1; d >= 0; --d) {
      int64_t index = d > 0 ? rest % p.sizes[d] : rest;
      rest = d > 0 ? rest / p.sizes[d] : 0;
      read += index * p.fromStrides[d];
      written += index * p.toStrides[d];
    }
    to[written] = from[read];
  }
}

KERF_KERNEL void copy(CopyParameters p) {
  switch (p.bytes) {
  case 1:
    return copyElements<uint8_t>(p);
  case 2:
    return copyElements<uint16_t>(p);
  case 4:
    return copyElements<uint32_t>(p);
  default:
    return copyElements<uint64_t>(p);
  }
}

template <typename E> KERF_DEVICE void fillElements(const FillParameters &p) {
  E value = p.value ? *static_cast<const E *>(p.value) : E(p.bits);
  for (int64_t i = firstElement(); i < p.n; i += elementStep())
    static_cast<E *>(p.to)[i] = value;
}

KERF_KERNEL void fill(FillParameters p) {
  switch (p.bytes) {
  case 1:
    return fillElements<uint8_t>(p);
  case 2:
    return fillElements<uint16_t>(p);
  case 4:
    return fillElements<uint32_t>(p);
  default:
    return fillElements<uint64_t>(p);
  }
}

KERF_KERNEL void iota(IotaParameters p) {
  uint64_t first = p.offset ? uint64_t(at(p.offset, 0)) : 0;
  for (int64_t i = firstElement(); i < p.n; i += elementStep())
    put(p.y, i, N(first + uint64_t(i / p.inner % p.size)));
}

} // namespace kerf::runtime::cuda
