// SPDX-License-Identifier: Apache-2.0
// Reshapes as splits and merges of dimensions. Dimensions of size 1 are left where they are, or put in and dropped
// apart from the rest.
//
//   8x32x1x64 -> 8x32x4x16      split 8x32x1x(4x16), then drop the 1
//   8x32x4x16 -> 256x64         merge (8x32)x(4x16)
//   256x192 -> 8x32x192         split (8x32)x192
//   2x3 -> 3x2                  neither: the parts share no border
#pragma once

#include "kerf/Sharding/Sharding.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>

namespace kerf {

/// parts[d]: the sizes into which dimension d is split, major first; {size} where it isn't.
using Parts = std::vector<Shape>;

bool isTrivial(const Parts &parts);
/// All parts in a row: the shape after the split.
Shape splitShape(const Parts &parts);
/// The first dimension that each dimension's parts have after the split.
std::vector<int64_t> firstPart(const Parts &parts);
/// No dimension split.
Parts wholeParts(llvm::ArrayRef<int64_t> shape);

/// How each dimension of `from` is split in `to`; nothing where the reshape does something else.
std::optional<Parts> splitParts(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

/// The shapes between `from` and `to` when the splits come first, then the dimensions of size 1, then the merges;
/// without repeats, ending in `to`. Nothing where the reshape is not made of those.
std::optional<std::vector<Shape>> reshapeSteps(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

} // namespace kerf
