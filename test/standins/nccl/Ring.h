// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the stand-in's collectives. Like NCCL's rings, it adds each element in an order that begins at
// another rank for each part of the tensor, and rounds 16-bit floats after every addition.
#pragma once

#include <cstddef>
#include <vector>

namespace kerf::standin::nccl {

/// Returns the bytes of an element of the type ncclDataType_t `type`; 0 for an unknown type.
size_t bytesOf(int type);
/// Combines the ranks' arrays of `count` elements into `out`. `combine` is ncclSum (0), ncclProd (1), ncclMax (2) or
/// ncclMin (3). The order begins at rank `first`.
void combineFrom(int first, const std::vector<const std::byte *> &inputs, std::byte *out, size_t count, int type,
                 int combine);

} // namespace kerf::standin::nccl
