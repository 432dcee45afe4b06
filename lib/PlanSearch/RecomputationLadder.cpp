// SPDX-License-Identifier: Apache-2.0
#include "RecomputationLadder.h"

#include <algorithm>

namespace kerf::plansearch {

Recompute firstMode(RecomputationLadder ladder) {
  switch (ladder) {
  case RecomputationLadder::SelectiveFirst:
    return Recompute::Selective;
  case RecomputationLadder::PointwiseFirst:
    return Recompute::Pointwise;
  case RecomputationLadder::Full:
    break;
  }
  return Recompute::Full;
}

std::vector<RecomputationLadder> laddersOf(std::span<const Recompute> modes) {
  std::vector<RecomputationLadder> ladders;
  for (RecomputationLadder ladder : kRecomputationLadders)
    if (std::ranges::find(modes, firstMode(ladder)) != modes.end())
      ladders.push_back(ladder);
  return ladders;
}

int64_t lastRung(RecomputationLadder ladder, int64_t most) {
  return ladder == RecomputationLadder::Full ? most : 2 * most;
}

RecomputedLayers recomputedLayersAt(RecomputationLadder ladder, int64_t rung, int64_t layers, int64_t most) {
  if (ladder == RecomputationLadder::Full)
    return {std::min(rung, layers), 0};
  if (rung <= most)
    return {0, std::min(rung, layers), firstMode(ladder)};
  int64_t full = std::min(rung - most, layers);
  return {full, layers - full, firstMode(ladder)};
}

LayerModes layerModes(const RecomputedLayers &recomputed, int64_t layers) {
  LayerModes modes;
  auto add = [&](Recompute mode, int64_t count) {
    if (count > 0)
      modes.push_back({mode, count});
  };
  add(Recompute::Full, recomputed.full);
  add(recomputed.mode, recomputed.lighter);
  add(Recompute::None, layers - recomputed.full - recomputed.lighter);
  return modes;
}

} // namespace kerf::plansearch
