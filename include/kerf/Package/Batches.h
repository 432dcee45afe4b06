// SPDX-License-Identifier: Apache-2.0
// Attributes of the collectives of coded gradients: the batches in which they run, where a training compresses from
// some step on, and the gradients for which their payloads stand.
#pragma once

#include "kerf/Package/Package.h"
#include <limits>

namespace kerf::package {

/// The batches in which a collective runs, from `begin` to before `end`, in numbers of the argument of kind `step`. In
/// all other batches, no rank sends anything, and the result is zeros.
struct BatchRange {
  int64_t begin = 0, end = std::numeric_limits<int64_t>::max();
  bool contains(int64_t batch) const { return begin <= batch && batch < end; }
};
/// The attribute of a collective that gives its BatchRange, as the list [begin, end].
inline constexpr const char *kBatches = "batches";
/// Returns the batches in which a collective runs: all of them if it has no attribute kBatches. Fails where the
/// attribute is no list of two integers from 0 on, the second of which is above the first.
Result<BatchRange> batchesOf(const Instruction &collective);

/// The attribute of a collective that sends the payload of a gradient: the bytes of the gradient before it is encoded.
inline constexpr const char *kGradientBytes = "gradient_bytes";

} // namespace kerf::package
