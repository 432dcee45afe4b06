// SPDX-License-Identifier: Apache-2.0
// The meaning and the bytes of single steps, and the gather-then-slice reshard.
#include "ReshardSteps.h"
#include "SubAxes.h"

#include <algorithm>
#include <map>

namespace kerf {

const CollectiveOp *collectiveOf(ReshardStepKind kind) {
  switch (kind) {
  case ReshardStepKind::AllReduce:
    return findCollective(Collective::AllReduce);
  case ReshardStepKind::ReduceScatter:
    return findCollective(Collective::ReduceScatter);
  case ReshardStepKind::AllGather:
    return findCollective(Collective::AllGather);
  case ReshardStepKind::AllToAll:
    return findCollective(Collective::AllToAll);
  case ReshardStepKind::CollectivePermute:
    return findCollective(Collective::Permute);
  case ReshardStepKind::LocalSlice:
    break;
  }
  return nullptr;
}

std::string_view toString(ReshardStepKind kind) {
  const CollectiveOp *op = collectiveOf(kind);
  return op ? op->name : "local_slice";
}

double bytesReceived(const ReshardStep &step, int64_t bytesIn, int64_t bytesOut) {
  const double n = static_cast<double>(shardCount(step.axes));
  const double others = (n - 1) / n;
  switch (step.kind) {
  case ReshardStepKind::AllReduce:
    return 2.0 * bytesIn * others;
  case ReshardStepKind::ReduceScatter:
  case ReshardStepKind::AllToAll:
    return bytesIn * others;
  case ReshardStepKind::AllGather:
    return bytesOut * others;
  case ReshardStepKind::CollectivePermute:
    return static_cast<double>(bytesIn);
  case ReshardStepKind::LocalSlice:
    return 0;
  }
  return 0;
}

/// Returns whether one of the sub-axes `outer`, after merging adjacent ones, contains `ref`.
static bool covers(const std::vector<AxisRef> &outer, const AxisRef &ref) {
  return std::any_of(outer.begin(), outer.end(), [&](const AxisRef &o) {
    return o.axis == ref.axis && ref.before % o.before == 0 && (o.before * o.size) % (ref.before * ref.size) == 0;
  });
}

bool canReshard(const Sharding &from, const Sharding &to) {
  if (to.partial.empty())
    return true;
  const std::vector<AxisRef> have = canonical(from).partial;
  const std::vector<AxisRef> want = canonical(to).partial;
  return from.partialKind == to.partialKind &&
         std::all_of(want.begin(), want.end(), [&](const AxisRef &ref) { return covers(have, ref); });
}

/// For each sub-axis: the dimension that it cuts, and the distance between neighbours along it in positions
/// of the dimension.
using SubAxisPlaces = std::map<AxisRef, std::pair<size_t, int64_t>>;

static SubAxisPlaces placesOf(const Sharding &sharding, const Boundaries &boundaries) {
  SubAxisPlaces places;
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    const std::vector<AxisRef> subAxes = split(sharding.dims[d].axes, boundaries);
    int64_t worth = 1;
    for (size_t i = subAxes.size(); i-- > 0; worth *= subAxes[i].size)
      places[subAxes[i]] = {d, worth};
  }
  return places;
}

std::vector<AxisRef> permuteAxes(const Mesh &mesh, const Sharding &before, const Sharding &after) {
  Sharding from = canonical(before), to = canonical(after);
  from.partial.clear();
  to.partial.clear();
  const CommonBoundaries boundaries = commonBoundaries(mesh, from, to);
  const SubAxisPlaces held = placesOf(from, boundaries.source), needed = placesOf(to, boundaries.target);
  std::vector<AxisRef> moved;
  auto addMoved = [&](const SubAxisPlaces &some, const SubAxisPlaces &others) {
    for (const auto &[subAxis, place] : some)
      if (auto other = others.find(subAxis); other == others.end() || other->second != place)
        moved.push_back(boundaries.isCommon[subAxis.axis] ? subAxis : wholeAxis(mesh, subAxis.axis));
  };
  addMoved(held, needed);
  addMoved(needed, held);
  std::sort(moved.begin(), moved.end());
  moved.erase(std::unique(moved.begin(), moved.end()), moved.end());
  return mergeParts(moved);
}

int64_t permuteSource(const Mesh &mesh, const Sharding &before, const Sharding &after, int64_t rank) {
  auto chunkOf = [&](const Sharding &sharding, int64_t r) {
    std::vector<int64_t> positions;
    for (const DimSharding &dim : sharding.dims)
      positions.push_back(position(mesh, dim.axes, r));
    return positions;
  };
  const std::vector<int64_t> wanted = chunkOf(after, rank);
  if (chunkOf(before, rank) == wanted)
    return rank;
  // The group has as many ranks that need the chunk as ranks that have it, because both shardings cut the tensor into
  // equally many chunks.
  std::vector<int64_t> holders;
  size_t turn = 0;
  const std::vector<AxisRef> axes = permuteAxes(mesh, before, after);
  const int64_t mine = position(mesh, axes, rank);
  for (int64_t p = 0; p < shardCount(axes); ++p) {
    const int64_t other = rankAt(mesh, axes, rank, p);
    const bool holds = chunkOf(before, other) == wanted, needs = chunkOf(after, other) == wanted;
    if (holds && !needs)
      holders.push_back(other);
    if (needs && !holds && p < mine)
      ++turn;
  }
  return turn < holders.size() ? holders[turn] : rank;
}

std::vector<ReshardStep> gatherThenSlice(const Mesh &mesh, const Sharding &from, const Sharding &to) {
  std::vector<ReshardStep> steps;
  Sharding now = from;
  auto add = [&](ReshardStepKind kind, std::vector<AxisRef> axes, int dim) {
    steps.push_back({kind, std::move(axes), dim, -1, now});
  };

  const CommonBoundaries boundaries = commonBoundaries(mesh, from, to);
  const std::vector<AxisRef> kept = split(to.partial, boundaries.target);
  std::vector<AxisRef> reduced = split(from.partial, boundaries.source);
  std::erase_if(reduced, [&](const AxisRef &ref) { return std::find(kept.begin(), kept.end(), ref) != kept.end(); });
  now.partial = to.partial;
  now.partialKind = to.partialKind;
  if (!reduced.empty())
    add(ReshardStepKind::AllReduce, mergeParts(reduced), -1);

  for (size_t d = 0; d < from.dims.size(); ++d) {
    if (from.dims[d] == to.dims[d] || from.dims[d].axes.empty())
      continue;
    now.dims[d] = {};
    add(ReshardStepKind::AllGather, from.dims[d].axes, static_cast<int>(d));
  }
  for (size_t d = 0; d < to.dims.size(); ++d) {
    if (from.dims[d] == to.dims[d] || to.dims[d].axes.empty())
      continue;
    now.dims[d] = to.dims[d];
    add(ReshardStepKind::LocalSlice, to.dims[d].axes, static_cast<int>(d));
  }
  return steps;
}

} // namespace kerf
