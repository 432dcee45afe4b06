// SPDX-License-Identifier: Apache-2.0
// Common refinement of several meshes over the same ranks: one finer mesh from whose axes ("sub-axes") the axes of
// every given mesh are composed.
//
//   data 4 x model 2  and  data 2 x model 4   sub-axes 2 x 2 x 2: data {0, 1}, model {2}  and  data {0}, model {1, 2}
//   data 2 x model 3  and  data 3 x model 2   sub-axes 2 x 3:     data {0}, model {1}     and  data {1}, model {0}
#pragma once

#include "kerf/Sharding/Sharding.h"

namespace kerf {

/// The common refinement of several meshes.
struct Refinement {
  /// Size of each sub-axis, the outermost sub-axis first. The product of the sizes is the number of ranks.
  std::vector<int64_t> subAxes;
  /// axes[m][a] lists the sub-axes, by index into `subAxes`, that axis a of mesh m consists of, the most significant
  /// first. In each mesh every sub-axis belongs to exactly one axis.
  std::vector<std::vector<std::vector<int>>> axes;
};

/// Returns the common refinement of `meshes`, which must all have the same number of ranks; a refinement always exists.
/// If the boundaries of the axes nest, every rank keeps its coordinates in each mesh. If they do not (the second
/// example above), an axis may consist of sub-axes that are not adjacent. Axes of size 1 consist of no sub-axes.
Refinement refine(std::span<const Mesh> meshes);

} // namespace kerf
