// SPDX-License-Identifier: Apache-2.0
// Several meshes of the same ranks as one: axes that all of them are made of.
//
//   data 4 x model 2  and  data 2 x model 4      atoms 2 x 2 x 2: data {0, 1}, model {2}  and  data {0}, model {1, 2}
//   data 2 x model 3  and  data 3 x model 2      atoms 2 x 3:     data {0}, model {1}     and  data {1}, model {0}
#pragma once

#include "kerf/Sharding/Sharding.h"

namespace kerf {

struct Refinement {
  std::vector<int64_t> atoms; // sizes, outermost first; the product is the number of ranks
  /// axes[m][a]: the atoms of axis a of mesh m, major first. Each atom belongs to one axis of each mesh.
  std::vector<std::vector<std::vector<int>>> axes;
};

/// Where boundaries of axes nest, ranks keep their coordinates in every mesh. Where they don't (the second line above),
/// an axis takes atoms that are not next to each other. All meshes have the same number of ranks, so there always is a
/// refinement. Axes of size 1 have no atoms.
Refinement refine(std::span<const Mesh> meshes);

} // namespace kerf
