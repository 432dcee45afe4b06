// SPDX-License-Identifier: Apache-2.0
#include "RecomputationLadder.h"

#include <algorithm>

namespace kerf::plansearch {

int64_t lastRung(RecomputationLadder ladder, int64_t most) {
  return ladder == RecomputationLadder::Full ? most : 2 * most;
}

RecomputedLayers recomputedLayersAt(RecomputationLadder ladder, int64_t rung, int64_t layers, int64_t most) {
  if (ladder == RecomputationLadder::Full)
    return {std::min(rung, layers), 0};
  if (rung <= most)
    return {0, std::min(rung, layers)};
  int64_t full = std::min(rung - most, layers);
  return {full, layers - full};
}

LayerModes layerModes(const RecomputedLayers &recomputed, int64_t layers) {
  LayerModes modes;
  auto add = [&](Recompute mode, int64_t count) {
    if (count > 0)
      modes.push_back({mode, count});
  };
  add(Recompute::Full, recomputed.full);
  add(Recompute::Selective, recomputed.selective);
  add(Recompute::None, layers - recomputed.full - recomputed.selective);
  return modes;
}

} // namespace kerf::plansearch
