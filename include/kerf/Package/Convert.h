// SPDX-License-Identifier: Apache-2.0
// Conversion of tensor elements into memory that is already there.
#pragma once

#include "kerf/Package/TensorFile.h"

namespace kerf {

/// Converts `elements` numbers at `data` from one type to another and writes them to `out`, without an allocation.
/// Floating types convert into floating types, integers into integers; an integer that the new type cannot hold is an
/// error. `data` and `out` need no alignment and must not overlap.
Status convertElements(DType from, const std::byte *data, int64_t elements, DType to, std::byte *out);

} // namespace kerf
