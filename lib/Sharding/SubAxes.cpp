// SPDX-License-Identifier: Apache-2.0
#include "SubAxes.h"

#include <algorithm>

namespace kerf {

void addBoundaries(Boundaries &boundaries, std::span<const AxisRef> refs) {
  for (const AxisRef &ref : refs) {
    std::vector<int64_t> &places = boundaries[ref.axis];
    places.insert(places.end(), {ref.before, ref.before * ref.size});
  }
}

static void makeSet(std::vector<int64_t> &places) {
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
}

bool isChain(const std::vector<int64_t> &places) {
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i] % places[i - 1] != 0)
      return false;
  return true;
}

std::vector<AxisRef> split(std::span<const AxisRef> refs, const Boundaries &boundaries) {
  std::vector<AxisRef> subAxes;
  for (const AxisRef &ref : refs) {
    int64_t before = ref.before;
    const int64_t end = ref.before * ref.size;
    for (int64_t place : boundaries[ref.axis]) {
      if (place <= before || place > end)
        continue;
      subAxes.push_back({ref.axis, before, place / before});
      before = place;
    }
  }
  return subAxes;
}

static Boundaries boundariesOf(const Mesh &mesh, const Sharding &sharding) {
  Boundaries boundaries(mesh.axes.size());
  for (const DimSharding &dim : sharding.dims)
    addBoundaries(boundaries, dim.axes);
  addBoundaries(boundaries, sharding.partial);
  return boundaries;
}

CommonBoundaries commonBoundaries(const Mesh &mesh, const Sharding &from, const Sharding &to) {
  CommonBoundaries common{boundariesOf(mesh, from), boundariesOf(mesh, to), {}};
  // Axes that stay partial must consist of sub-axes of both shardings.
  addBoundaries(common.source, to.partial);
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    std::vector<int64_t> all = common.source[a];
    all.insert(all.end(), common.target[a].begin(), common.target[a].end());
    makeSet(all);
    makeSet(common.source[a]);
    makeSet(common.target[a]);
    common.isCommon.push_back(isChain(all));
    if (common.isCommon.back())
      common.source[a] = common.target[a] = all;
  }
  return common;
}

void appendMerged(std::vector<AxisRef> &merged, const AxisRef &ref) {
  if (!merged.empty() && merged.back().axis == ref.axis && merged.back().before * merged.back().size == ref.before)
    merged.back().size *= ref.size;
  else
    merged.push_back(ref);
}

bool overlap(const AxisRef &a, const AxisRef &b) {
  return a.axis == b.axis && b.before % (a.before * a.size) != 0 && a.before % (b.before * b.size) != 0;
}

} // namespace kerf
