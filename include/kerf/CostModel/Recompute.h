// SPDX-License-Identifier: Apache-2.0
// Activation checkpointing: which layers of a part of the pipeline recompute their forward pass in the backward pass.
#pragma once

#include "kerf/CostModel/StepWork.h"

namespace kerf {

/// The modes that keep nothing in the host's memory, in the order of Recompute.
inline constexpr Recompute kDeviceModes[] = {Recompute::None, Recompute::Selective, Recompute::Pointwise,
                                             Recompute::ExceptAttention, Recompute::Full};

/// A number of consecutive layers with the same recomputation mode.
struct RecomputeRun {
  Recompute mode = Recompute::None; // recomputation mode of each of the layers
  int64_t layers = 1;               // number of consecutive layers
  auto operator<=>(const RecomputeRun &) const = default;
};
/// The recomputation modes of a part's layers, in forward order. Layers beyond the last run recompute nothing.
using LayerModes = std::vector<RecomputeRun>;
/// Returns whether some layers copy activations to the host's memory (Recompute::Offload). These copies cost time in
/// the forward pass too, whereas recomputation costs time only in the backward pass.
bool offloadsActivations(const LayerModes &modes);

/// Consecutive layers of one segment with the same recomputation mode.
struct SegmentRun {
  const Segment *segment = nullptr; // segment that the layers belong to; never null
  Recompute mode = Recompute::None; // recomputation mode of each of the layers
  int64_t repeat = 1;               // number of layers
};
/// Returns the segments of a part in forward order, each split into runs of layers that have the
/// same recomputation mode.
std::vector<SegmentRun> segmentRuns(const Part &part, const LayerModes &modes);

} // namespace kerf
