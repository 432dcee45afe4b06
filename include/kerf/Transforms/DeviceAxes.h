// SPDX-License-Identifier: Apache-2.0
// Conversion between lists of mesh axes and the flat lists of triples (axis, before, size) that the `axes` attributes
// of device ops hold.
#pragma once

#include "kerf/Sharding/Sharding.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace kerf {

/// Returns the axes that a flat list of triples (axis, before, size) stands for.
inline std::vector<AxisRef> axesFromFlat(llvm::ArrayRef<int64_t> flat) {
  std::vector<AxisRef> axes;
  for (size_t i = 0; i + 2 < flat.size(); i += 3)
    axes.push_back({static_cast<int>(flat[i]), flat[i + 1], flat[i + 2]});
  return axes;
}

/// Returns the flat list of triples (axis, before, size) for `axes`, in the same order.
inline llvm::SmallVector<int64_t> flatAxes(const std::vector<AxisRef> &axes) {
  llvm::SmallVector<int64_t> flat;
  for (const AxisRef &axis : axes)
    flat.append({axis.axis, axis.before, axis.size});
  return flat;
}

} // namespace kerf
