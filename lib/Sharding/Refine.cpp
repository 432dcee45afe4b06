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

/// One mesh, taken apart from its innermost axis on.
struct Rest {
  std::vector<int64_t> sizes; // what is left of each axis

  /// The innermost axis of which `factor` can be taken, or -1.
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
  std::vector<std::vector<int>> owners; // of each atom, innermost first: its axis in each mesh
  while (!rests.empty() && rests.front().innermost(1) >= 0) {
    // What all innermost axes have in common; else a factor of the first one's, that the others have somewhere.
    int64_t atom = 0;
    for (const Rest &rest : rests)
      atom = std::gcd(atom, rest.sizes[rest.innermost(1)]);
    if (atom == 1)
      atom = smallestFactor(rests.front().sizes[rests.front().innermost(1)]);
    std::vector<int> &its = owners.emplace_back();
    for (Rest &rest : rests) {
      int axis = rest.innermost(atom);
      rest.sizes[axis] /= atom;
      its.push_back(axis);
    }
    made.atoms.push_back(atom);
  }
  std::reverse(made.atoms.begin(), made.atoms.end());
  std::reverse(owners.begin(), owners.end());
  for (size_t atom = 0; atom < owners.size(); ++atom)
    for (size_t mesh = 0; mesh < meshes.size(); ++mesh)
      made.axes[mesh][owners[atom][mesh]].push_back(static_cast<int>(atom));
  return made;
}

} // namespace kerf
