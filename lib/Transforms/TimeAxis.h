// SPDX-License-Identifier: Apache-2.0
// The two mesh axes along which no collective runs: "microbatch", which is an axis in time, and "stage"
// (docs/pipelines.md).
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"

namespace kerf {

/// Returns the index of the mesh axis "microbatch", or -1 where the mesh has none.
inline int microbatchAxis(const Mesh &mesh) { return mesh.find(ir::KerfDialect::kMicrobatchAxis.str()); }
/// Returns the index of the mesh axis "stage", or -1 where the mesh has none.
inline int stageAxis(const Mesh &mesh) { return mesh.find(ir::KerfDialect::kStageAxis.str()); }
/// Returns whether a step on this mesh has a schedule, because it runs in microbatches, in pipeline stages, or both.
inline bool isScheduled(const Mesh &mesh) { return microbatchAxis(mesh) >= 0 || stageAxis(mesh) >= 0; }

/// Returns whether `axes` contains a part of mesh axis `axis`; false where `axis` is -1.
inline bool containsAxis(llvm::ArrayRef<AxisRef> axes, int axis) {
  return axis >= 0 && llvm::any_of(axes, [&](const AxisRef &ref) { return ref.axis == axis; });
}
/// Returns whether a dimension or a partial sum of `sharding` uses mesh axis `axis`; false where `axis` is -1.
inline bool usesAxis(const Sharding &sharding, int axis) {
  return containsAxis(sharding.partial, axis) ||
         llvm::any_of(sharding.dims, [&](const DimSharding &dim) { return containsAxis(dim.axes, axis); });
}

/// Returns the sharding of a value after the last microbatch, when partial sums over microbatches have been added up.
inline Sharding summedOverMicrobatches(Sharding sharding, const Mesh &mesh) {
  llvm::erase_if(sharding.partial, [time = microbatchAxis(mesh)](const AxisRef &axis) { return axis.axis == time; });
  return sharding;
}

} // namespace kerf
