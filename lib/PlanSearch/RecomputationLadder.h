// SPDX-License-Identifier: Apache-2.0
// Recomputation ladders: sequences of activation checkpointing choices for one pipeline stage. Each rung recomputes
// everything that the rung before does, and more. It therefore needs less memory and takes longer, so that the first
// rung that fits is the best one of its ladder.
//
//   a stage with two parts, of 2 and of 3 layers, rung by rung (n none, s selective, p pointwise, f full)
//     SelectiveFirst   nn nnn   sn snn   ss ssn   ss sss   fs fss   ff ffs   ff fff
//     PointwiseFirst   nn nnn   pn pnn   pp ppn   pp ppp   fp fpp   ff ffp   ff fff
//     Full             nn nnn   fn fnn   ff ffn   ff fff
#pragma once

#include "kerf/CostModel/Recompute.h"

#include <span>

namespace kerf::plansearch {

/// The ladders of the picture above.
enum class RecomputationLadder : int8_t {
  SelectiveFirst, // one more layer of each part selectively; once all are selective, one more in full
  PointwiseFirst, // the same with pointwise recomputation
  Full,           // one more layer of each part in full
};
inline constexpr RecomputationLadder kRecomputationLadders[] = {
    RecomputationLadder::SelectiveFirst, RecomputationLadder::PointwiseFirst, RecomputationLadder::Full};

/// Returns the mode that the first rungs of a ladder give to layers.
Recompute firstMode(RecomputationLadder ladder);
/// Returns the ladders that use only `modes`, which hold None and Full. All begin and end with the same rung.
std::vector<RecomputationLadder> laddersOf(std::span<const Recompute> modes);

/// Returns the last rung of a ladder, on which all layers are recomputed in full. `most` is the number of layers of the
/// stage's largest part.
int64_t lastRung(RecomputationLadder ladder, int64_t most);
/// The number of layers of one part that are recomputed: the first `full` layers in full, the next `lighter` ones with
/// `mode`, the others not at all.
struct RecomputedLayers {
  int64_t full = 0, lighter = 0;
  Recompute mode = Recompute::Selective;
};
/// Returns what a part of `layers` layers recomputes on a rung. `most` is the number of layers of
/// the stage's largest part.
RecomputedLayers recomputedLayersAt(RecomputationLadder ladder, int64_t rung, int64_t layers, int64_t most);
/// Returns the mode of each layer of a part of `layers` layers, as runs of equal modes.
LayerModes layerModes(const RecomputedLayers &recomputed, int64_t layers);

/// The recomputation of a whole plan: a ladder, and the rung of each stage. A single rung applies to all stages.
struct Recomputation {
  RecomputationLadder ladder = RecomputationLadder::SelectiveFirst;
  std::vector<int64_t> rungs = {0}; // indexed by stage; one entry: the same rung for all stages
  auto operator<=>(const Recomputation &) const = default;
  /// Returns the rung of a stage.
  int64_t at(int64_t stage) const { return rungs.size() == 1 ? rungs.front() : rungs[stage]; }
};

} // namespace kerf::plansearch
