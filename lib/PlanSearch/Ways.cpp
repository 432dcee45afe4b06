// SPDX-License-Identifier: Apache-2.0
#include "Ways.h"

#include <algorithm>

namespace kerf::plansearch {

int64_t lastStep(Way way, int64_t most) { return way == Way::Full ? most : 2 * most; }

RecomputedLayers layersOf(Way way, int64_t step, int64_t layers, int64_t most) {
  if (way == Way::Full)
    return {std::min(step, layers), 0};
  if (step <= most)
    return {0, std::min(step, layers)};
  int64_t full = std::min(step - most, layers);
  return {full, layers - full};
}

LayerModes modesOf(const RecomputedLayers &recomputed, int64_t layers) {
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
