// SPDX-License-Identifier: Apache-2.0
#include "LayoutSpace.h"
#include "SubAxes.h"

#include <array>
#include <numeric>
#include <utility>

namespace kerf::reshard {

bool LayoutSpace::toDigits(const std::vector<AxisRef> &refs, Digits &digits) {
  for (const AxisRef &ref : refs) {
    const size_t id = std::find(subAxes.begin(), subAxes.end(), ref) - subAxes.begin();
    if (id == subAxes.size())
      subAxes.push_back(ref);
    if (id >= kMaxSubAxes)
      return false;
    digits.append(static_cast<uint8_t>(id));
  }
  return true;
}

bool LayoutSpace::build() {
  const CommonBoundaries boundaries = commonBoundaries(mesh, from, to);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (from.dims[d].axes.empty() && to.dims[d].axes.empty()) {
      uncutElements *= shape[d];
      continue;
    }
    const size_t slot = cutDims.size();
    if (slot == kMaxCutDims || !toDigits(split(from.dims[d].axes, boundaries.source), start.dims[slot]) ||
        !toDigits(split(to.dims[d].axes, boundaries.target), goal.dims[slot]))
      return false;
    start.chunk[slot] = from.dims[d].chunk;
    goal.chunk[slot] = to.dims[d].chunk;
    cutDims.push_back(d);
  }
  Digits fromPartial, toPartial;
  if (!toDigits(split(from.partial, boundaries.source), fromPartial) ||
      !toDigits(split(to.partial, boundaries.target), toPartial))
    return false;
  start.partial = fromPartial.mask();
  goal.partial = toPartial.mask();
  inOrder.resize(subAxes.size());
  std::iota(inOrder.begin(), inOrder.end(), 0);
  std::sort(inOrder.begin(), inOrder.end(), [&](uint8_t a, uint8_t b) { return subAxes[a] < subAxes[b]; });
  overlaps.assign(subAxes.size(), 0);
  for (size_t i = 0; i < subAxes.size(); ++i)
    for (size_t j = 0; j < subAxes.size(); ++j)
      if (i != j && overlap(subAxes[i], subAxes[j]))
        overlaps[i] |= 1u << j, anyOverlap = true;
  return true;
}

std::vector<AxisRef> LayoutSpace::refsOf(const Digits &digits) const {
  std::vector<AxisRef> refs;
  for (size_t i = 0; i < digits.count(); ++i)
    refs.push_back(subAxes[digits[i]]);
  return mergeParts(refs);
}

Sharding LayoutSpace::shardingOf(const Layout &layout) const {
  if (layout == goal)
    return to;
  Sharding sharding = Sharding::replicated(shape.size());
  for (size_t d = 0; d < cutDims.size(); ++d)
    sharding.dims[cutDims[d]] = {refsOf(layout.dims[d]), layout.chunk[d]};
  if (layout.partial == 0)
    return sharding;
  for (size_t a = 0; a < subAxes.size(); ++a)
    if (layout.partial >> a & 1)
      sharding.partial.push_back(subAxes[a]);
  std::sort(sharding.partial.begin(), sharding.partial.end());
  sharding.partial = mergeParts(sharding.partial);
  sharding.partialKind = from.partialKind;
  return sharding;
}

/// Returns the sub-axes that cut another dimension or position in `after` than in `before`. Equals permuteAxes() as
/// long as no sub-axes overlap.
Digits LayoutSpace::permuted(const Layout &before, const Layout &after) const {
  // The dimension + 1, and the distance in positions of that dimension between neighbours along the sub-axis.
  using Place = std::pair<size_t, int64_t>;
  std::array<Place, kMaxSubAxes> held{}, needed{};
  auto note = [&](const Layout &layout, std::array<Place, kMaxSubAxes> &places) {
    for (size_t d = 0; d < cutDims.size(); ++d) {
      int64_t worth = 1;
      for (size_t i = layout.dims[d].count(); i-- > 0; worth *= subAxes[layout.dims[d][i]].size)
        places[layout.dims[d][i]] = {d + 1, worth};
    }
  };
  note(before, held);
  note(after, needed);
  Digits moved;
  for (uint8_t a : inOrder)
    if (held[a] != needed[a])
      moved.append(a);
  return moved;
}

void LayoutSpace::writeStep(ReshardStep &step, const Layout &before, const Layout &after, const Move &move) const {
  step.kind = move.kind;
  step.dim = move.d < 0 ? -1 : static_cast<int>(cutDims[move.d]);
  step.otherDim = move.other < 0 ? -1 : static_cast<int>(cutDims[move.other]);
  if (move.kind == ReshardStepKind::CollectivePermute && anyOverlap) {
    step.axes = permuteAxes(mesh, shardingOf(before), shardingOf(after));
    return;
  }
  const Digits axes = move.kind == ReshardStepKind::CollectivePermute ? permuted(before, after) : move.axes;
  step.axes.clear();
  for (size_t i = 0; i < axes.count(); ++i)
    appendMerged(step.axes, subAxes[axes[i]]);
}

ReshardStep LayoutSpace::makeStep(const Layout &before, const Layout &after, const Move &move) const {
  ReshardStep step;
  writeStep(step, before, after, move);
  step.after = shardingOf(after);
  return step;
}

} // namespace kerf::reshard
