// SPDX-License-Identifier: Apache-2.0
// Reshapes as splits and merges of dimensions. Dimensions of size 1 stay where they are, or are inserted and dropped in
// a separate step.
//
//   8x32x1x64 -> 8x32x4x16      split 8x32x1x(4x16), then drop the 1
//   8x32x4x16 -> 256x64         merge (8x32)x(4x16)
//   256x192 -> 8x32x192         split (8x32)x192
//   2x3 -> 3x2                  neither split nor merge: the parts share no border
#pragma once

#include "kerf/Sharding/Sharding.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>

namespace kerf {

/// A split of a shape: parts[d] are the sizes into which dimension d is split, major first. A dimension that is not
/// split has one part, of its own size.
using Parts = std::vector<Shape>;

/// Returns whether no dimension is split.
bool isTrivial(const Parts &parts);
/// Returns the shape after the split: all parts in order.
Shape splitShape(const Parts &parts);
/// Returns, for each dimension, the index that its first part has after the split.
std::vector<int64_t> firstPart(const Parts &parts);
/// Returns the split of `shape` that splits no dimension.
Parts wholeParts(llvm::ArrayRef<int64_t> shape);

/// Returns how a reshape from `from` to `to` splits each dimension, or nothing where it is not a split.
std::optional<Parts> splitParts(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

/// Returns the shapes through which a reshape from `from` to `to` passes if it first splits dimensions, then inserts or
/// drops dimensions of size 1, and then merges dimensions. Steps that change nothing are left out; the last shape is
/// `to`. Returns nothing where the reshape cannot be composed in this way.
std::optional<std::vector<Shape>> reshapeSteps(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

} // namespace kerf
