// SPDX-License-Identifier: Apache-2.0
// Attributes of the collectives of coded gradients: the batches in which they run, where a training sums in codes in
// some batches only, and the gradients for which their payloads stand.
#pragma once

#include "kerf/Package/Package.h"
#include "kerf/Support/Batches.h"

namespace kerf::package {

/// The attribute of a collective that gives the batches in which it runs, as numbers of the argument of kind `step`
/// (flatBatches). In all other batches, no rank sends anything, and the result is zeros.
inline constexpr const char *kBatches = "batches";
/// Returns the batches in which a collective runs: all of them if it has no attribute kBatches. Fails where the
/// attribute is no list of ranges, four integers each.
Result<BatchSet> batchesOf(const Instruction &collective);

/// The attribute of a collective that sends the payload of a gradient: the bytes of the gradient before it is encoded.
inline constexpr const char *kGradientBytes = "gradient_bytes";

} // namespace kerf::package
