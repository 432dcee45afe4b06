// SPDX-License-Identifier: Apache-2.0
#include "kerf/Sharding/Refine.h"

#include <algorithm>
#include <numeric>

namespace kerf {

namespace {

int64_t smallestFactor(int64_t n) {
  for (int64_t factor = 2; factor * factor <= n; ++factor)
    if (n % factor == 0)
      return factor;
  return n;
}

/// The axes of one mesh that are not yet split into sub-axes; splitting proceeds from the innermost axis outwards.
struct Rest {
  std::vector<int64_t> sizes; // remaining size of each axis

  /// Returns the innermost axis whose remaining size is a multiple of `factor`, or -1 if there is none.
  int innermost(int64_t factor) const {
    for (int axis = static_cast<int>(sizes.size()) - 1; axis >= 0; --axis)
      if (sizes[axis] > 1 && sizes[axis] % factor == 0)
        return axis;
    return -1;
  }
};

} // namespace

Refinement refine(std::span<const Mesh> meshes) {
  Refinement made;
  std::vector<Rest> rests;
  for (const Mesh &mesh : meshes) {
    made.axes.emplace_back(mesh.axes.size());
    Rest &rest = rests.emplace_back();
    for (const MeshAxis &axis : mesh.axes)
      rest.sizes.push_back(axis.size);
  }
  std::vector<std::vector<int>> owners; // for each sub-axis, innermost first: its axis in each mesh
  while (!rests.empty() && rests.front().innermost(1) >= 0) {
    // The next sub-axis is the common divisor of all innermost axes. If they have none, it is a prime factor of the
    // first mesh's innermost axis, which the other meshes have in some other axis.
    int64_t subAxis = 0;
    for (const Rest &rest : rests)
      subAxis = std::gcd(subAxis, rest.sizes[rest.innermost(1)]);
    if (subAxis == 1)
      subAxis = smallestFactor(rests.front().sizes[rests.front().innermost(1)]);
    std::vector<int> &its = owners.emplace_back();
    for (Rest &rest : rests) {
      int axis = rest.innermost(subAxis);
      rest.sizes[axis] /= subAxis;
      its.push_back(axis);
    }
    made.subAxes.push_back(subAxis);
  }
  std::reverse(made.subAxes.begin(), made.subAxes.end());
  std::reverse(owners.begin(), owners.end());
  for (size_t subAxis = 0; subAxis < owners.size(); ++subAxis)
    for (size_t mesh = 0; mesh < meshes.size(); ++mesh)
      made.axes[mesh][owners[subAxis][mesh]].push_back(static_cast<int>(subAxis));
  return made;
}

} // namespace kerf
