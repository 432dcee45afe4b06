// SPDX-License-Identifier: Apache-2.0

// Conversion of tensor elements from one type to another, into memory that the caller provides.
#pragma once

#include "kerf/Package/TensorFile.h"

namespace kerf {

/// Converts `elements` elements at `data` from type `from` to type `to` and writes them to `out`, without allocating.
/// Fails if one type is floating and the other integer, or if an integer is out of the range of `to`. The buffers need
/// no alignment and must not overlap.
Status convertElements(DType from, const std::byte *data, int64_t elements, DType to, std::byte *out);

} // namespace kerf
