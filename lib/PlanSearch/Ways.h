// SPDX-License-Identifier: Apache-2.0
// How the stages of a plan recompute, as chains: on each way every step runs again what the step before does and some
// more, so that a stage is best off with the first step that fits.
//
//   a stage of two parts, of 2 and of 3 layers (n none, s selective, f full)
//     SelectiveFirst   nn nnn   sn snn   ss ssn   ss sss   fs fss   ff ffs   ff fff
//     Full             nn nnn   fn fnn   ff ffn   ff fff
#pragma once

#include "kerf/CostModel/Recompute.h"

namespace kerf::plansearch {

enum class Way : int8_t { SelectiveFirst, Full };
inline constexpr Way kWays[] = {Way::SelectiveFirst, Way::Full};

/// `most`: layers of the stage's largest part.
int64_t lastStep(Way way, int64_t most);
/// Layers of a part of `layers` layers that are recomputed, from the first on: in full, then selectively.
struct RecomputedLayers {
  int64_t full = 0, selective = 0;
};
RecomputedLayers layersOf(Way way, int64_t step, int64_t layers, int64_t most);
LayerModes modesOf(const RecomputedLayers &recomputed, int64_t layers);

/// What a plan recomputes: each stage so many steps on one way. A single entry: all stages alike.
struct Recomputation {
  Way way = Way::SelectiveFirst;
  std::vector<int64_t> steps = {0};
  auto operator<=>(const Recomputation &) const = default;
  int64_t at(int64_t stage) const { return steps.size() == 1 ? steps.front() : steps[stage]; }
};

} // namespace kerf::plansearch
