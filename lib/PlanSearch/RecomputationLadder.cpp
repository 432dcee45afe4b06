// SPDX-License-Identifier: Apache-2.0
#include "RecomputationLadder.h"

#include <algorithm>

namespace kerf::plansearch {

std::span<const Recompute> modesOf(RecomputationLadder ladder) {
  static constexpr Recompute kSelective[] = {Recompute::None, Recompute::Selective, Recompute::Full};
  static constexpr Recompute kPointwise[] = {Recompute::None, Recompute::Pointwise, Recompute::Full};
  static constexpr Recompute kAttention[] = {Recompute::None, Recompute::Pointwise, Recompute::ExceptAttention,
                                             Recompute::Full};
  static constexpr Recompute kFull[] = {Recompute::None, Recompute::Full};
  switch (ladder) {
  case RecomputationLadder::SelectiveFirst:
    return kSelective;
  case RecomputationLadder::PointwiseFirst:
    return kPointwise;
  case RecomputationLadder::AttentionLast:
    return kAttention;
  case RecomputationLadder::Full:
    break;
  }
  return kFull;
}

std::vector<RecomputationLadder> laddersOf(std::span<const Recompute> modes) {
  std::vector<RecomputationLadder> ladders;
  for (RecomputationLadder ladder : kRecomputationLadders)
    if (std::ranges::all_of(modesOf(ladder),
                            [&](Recompute mode) { return std::ranges::find(modes, mode) != modes.end(); }))
      ladders.push_back(ladder);
  return ladders;
}

int64_t lastRung(RecomputationLadder ladder, int64_t most) {
  return static_cast<int64_t>(modesOf(ladder).size() - 1) * most;
}

int64_t firstNewRung(RecomputationLadder ladder, int64_t most) {
  return ladder == RecomputationLadder::AttentionLast ? most + 1 : 1;
}

PartModes partModesAt(RecomputationLadder ladder, int64_t rung, int64_t layers, int64_t most) {
  std::span<const Recompute> modes = modesOf(ladder);
  const int64_t before = rung > 0 ? (rung - 1) / most : 0; // index of the mode that some layers still have
  return {std::min(rung - before * most, layers), modes[before + 1], modes[before]};
}

LayerModes layerModes(const PartModes &modes, int64_t layers) {
  LayerModes runs;
  for (auto [mode, count] : {std::pair(modes.firstMode, modes.first), {modes.otherMode, layers - modes.first}})
    if (count > 0)
      runs.push_back({mode, count});
  return runs;
}

} // namespace kerf::plansearch
