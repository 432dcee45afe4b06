// SPDX-License-Identifier: Apache-2.0
// Which layers of a part compute their forward again before their backward.
#pragma once

#include "kerf/CostModel/StepWork.h"

namespace kerf {

/// So many layers, one after the other.
struct RecomputeRun {
  Recompute mode = Recompute::None;
  int64_t layers = 1;
  auto operator<=>(const RecomputeRun &) const = default;
};
/// Of a part's layers in forward order; what the runs leave over is not recomputed.
using LayerModes = std::vector<RecomputeRun>;
/// What some layers keep passes the link to the host in every pass, not only where something is computed again.
bool usesHost(const LayerModes &modes);

/// Layers of a segment that recompute alike.
struct SegmentRun {
  const Segment *segment = nullptr;
  Recompute mode = Recompute::None;
  int64_t repeat = 1;
};
/// The part's segments in forward order, those whose layers differ in several runs.
std::vector<SegmentRun> segmentRuns(const Part &part, const LayerModes &modes);

} // namespace kerf
