// SPDX-License-Identifier: Apache-2.0
// Device code of lookups by index, for the kernels of Lookup.cu and Routing.cu.
#pragma once

#include "DeviceCode.h"
#pragma clang force_cuda_host_device begin
#include "ParametersLookup.h"
#pragma clang force_cuda_host_device end

namespace kerf::runtime::cuda {

KERF_DEVICE int64_t integerAt(const Integers &integers, int64_t i) {
  if (!integers.data)
    return 0;
  return integers.isWide ? static_cast<const int64_t *>(integers.data)[i]
                         : static_cast<const int32_t *>(integers.data)[i];
}

KERF_DEVICE bool isRight(const RowLookup &lookup, int64_t index) {
  return index >= lookup.lowest && index < lookup.whole;
}

/// Reports the wrong indices.
KERF_DEVICE void checkIndices(const RowLookup &lookup) {
  for (int64_t i = firstElement(); i < lookup.count; i += elementStep())
    if (int64_t index = integerAt(lookup.indices, i); !isRight(lookup, index))
      fault(lookup.faults, index, i);
}

/// Returns the row of index i among the rows of all batch entries on this rank; -1 if the rank has no such row, or if
/// the index is wrong. `first` is the number of this rank's first row.
KERF_DEVICE int64_t rowOf(const RowLookup &lookup, int64_t first, int64_t i) {
  int64_t index = integerAt(lookup.indices, i);
  if (!isRight(lookup, index))
    return -1;
  int64_t row = (index < 0 ? index + lookup.whole : index) - first;
  return row >= 0 && row < lookup.local ? i / lookup.countEach * lookup.local + row : -1;
}

} // namespace kerf::runtime::cuda
