// SPDX-License-Identifier: Apache-2.0
// Recomputation ladders: sequences of activation checkpointing choices for one pipeline stage. Each rung recomputes
// everything that the rung before does, and more. It therefore needs less memory and takes longer, so that the first
// rung that fits is the best one of its ladder.
//
//   a stage with two parts, of 2 and of 3 layers, rung by rung (n none, p pointwise, e except-attention, f full)
//     PointwiseFirst   nn nnn   pn pnn   pp ppn   pp ppp   fp fpp   ff ffp   ff fff
//     AttentionLast    nn nnn   pn pnn   pp ppn   pp ppp   ep epp   ee eep   ee eee   fe fee   ff ffe   ff fff
//     Full             nn nnn   fn fnn   ff ffn   ff fff
//   SelectiveFirst is as PointwiseFirst, with selective in place of pointwise.
#pragma once

#include "kerf/CostModel/Recompute.h"

#include <span>

namespace kerf::plansearch {

/// A ladder, named by the modes that it gives to layers. Its rungs bring one more layer of each part, from the first
/// layer on, from one mode to the next one. Once all layers have a mode, the following rungs bring them to the mode
/// after it.
enum class RecomputationLadder : int8_t {
  SelectiveFirst, // none, selective, full
  PointwiseFirst, // none, pointwise, full
  AttentionLast,  // none, pointwise, except-attention, full
  Full,           // none, full
};
inline constexpr RecomputationLadder kRecomputationLadders[] = {
    RecomputationLadder::SelectiveFirst, RecomputationLadder::PointwiseFirst, RecomputationLadder::AttentionLast,
    RecomputationLadder::Full};

/// Returns the modes of a ladder, from None to Full.
std::span<const Recompute> modesOf(RecomputationLadder ladder);
/// Returns the ladders that use only `modes`, which hold None and Full. All begin and end with the same rung.
std::vector<RecomputationLadder> laddersOf(std::span<const Recompute> modes);

/// Returns the last rung of a ladder, on which all layers are recomputed in full. `most` is the number of layers of the
/// stage's largest part.
int64_t lastRung(RecomputationLadder ladder, int64_t most);
/// Returns the first rung that no ladder before it in kRecomputationLadders has: rung 1, and the rung after the last
/// one on which AttentionLast is as PointwiseFirst.
int64_t firstNewRung(RecomputationLadder ladder, int64_t most);
/// The recomputation modes of the layers of one part.
struct PartModes {
  int64_t first = 0;                     // number of layers at the part's beginning that have `firstMode`
  Recompute firstMode = Recompute::Full; // recomputes more than `otherMode`
  Recompute otherMode = Recompute::None; // of the other layers
};
/// Returns the modes of a part of `layers` layers on a rung. `most` is the number of layers of the stage's largest
/// part.
PartModes partModesAt(RecomputationLadder ladder, int64_t rung, int64_t layers, int64_t most);
/// Returns the mode of each layer of a part of `layers` layers, as runs of equal modes.
LayerModes layerModes(const PartModes &modes, int64_t layers);

/// The recomputation of a whole plan: a ladder, and the rung of each stage. A single rung applies to all stages.
struct Recomputation {
  RecomputationLadder ladder = RecomputationLadder::SelectiveFirst;
  std::vector<int64_t> rungs = {0}; // indexed by stage; one entry: the same rung for all stages
  auto operator<=>(const Recomputation &) const = default;
  /// Returns the rung of a stage.
  int64_t at(int64_t stage) const { return rungs.size() == 1 ? rungs.front() : rungs[stage]; }
};

} // namespace kerf::plansearch
