// SPDX-License-Identifier: Apache-2.0
// The two axes of a mesh along which no collective runs: microbatches, an axis in time, and stages (docs/pipelines.md).
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"

namespace kerf {

/// Index of the axis of microbatches, or -1.
inline int timeAxis(const Mesh &mesh) { return mesh.find(ir::KerfDialect::kMicrobatchAxis.str()); }
/// Index of the axis of stages, or -1.
inline int stageAxis(const Mesh &mesh) { return mesh.find(ir::KerfDialect::kStageAxis.str()); }
/// The step has a schedule: it is done in microbatches, by stages, or both.
inline bool isScheduled(const Mesh &mesh) { return timeAxis(mesh) >= 0 || stageAxis(mesh) >= 0; }

inline bool cutBy(llvm::ArrayRef<AxisRef> axes, int axis) {
  return axis >= 0 && llvm::any_of(axes, [&](const AxisRef &ref) { return ref.axis == axis; });
}
inline bool involves(const Sharding &sharding, int axis) {
  return cutBy(sharding.partial, axis) ||
         llvm::any_of(sharding.dims, [&](const DimSharding &dim) { return cutBy(dim.axes, axis); });
}

/// The value when all microbatches are done: what is partial over them is summed.
inline Sharding withoutTime(Sharding sharding, const Mesh &mesh) {
  llvm::erase_if(sharding.partial, [time = timeAxis(mesh)](const AxisRef &axis) { return axis.axis == time; });
  return sharding;
}

} // namespace kerf
